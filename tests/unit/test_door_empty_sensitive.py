"""A sensitive attribute that no case has: a misspelt key, or a field that the source renamed. C is held by nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest

from stream.config import sources
from stream.fold.fold import Fold
from stream.fold.records import Command, Cut, Delta, Row
from stream.run.service import ReleaseService
from tests.sensitive_daemon import DAY, daemon

EMPTY = "cases has a value of the sensitive attribute 'diag', so C bounds nothing of it"


def service_of(folder: Path, C: float) -> ReleaseService:
    path = folder / "veilstream.toml"
    path.write_text(daemon(K=4, C=C), encoding="utf-8")
    return ReleaseService(sources.load(path), folder / "out")


def folded(service: ReleaseService, field_of_level: Mapping[str, str], n_cases: int) -> tuple[Fold, Iterator[Cut]]:
    """Fold cases that have the attribute under a given name, and return two cuts that are ordered one by one."""
    fold = Fold(service.rules(embedded=False))
    rows = []
    for number in range(n_cases):
        diagnosis = "flu" if number % 2 else "cold"
        attributes = {level: {field: diagnosis} for level, field in field_of_level.items()}
        rows.append(Row(number, f"c{number}", "a", DAY, attributes=attributes))
    delta = Delta(src="t", p=0, prev=-1, last=n_cases - 1, n=n_cases, key=service.pseudonyms.id, rows=rows)
    assert not list(fold.apply(0, delta))
    return fold, (cut for position in (1, 2) for cut in fold.apply(position, Command(name="release")))


@pytest.mark.parametrize(
    ("field", "C", "n_cases", "n_warnings"),
    [("diagnosis", 0.9, 4, 1), ("diag", 0.9, 4, 0), ("diagnosis", 1.0, 4, 0), ("diagnosis", 0.9, 2, 0)],
    ids=["renamed", "present", "no-bound", "fewer-than-K"],
)
@pytest.mark.parametrize("level", ["case", "event"])
def test_a_daemon_logs_it_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, level: str, field: str, C: float, n_cases: int, n_warnings: int
) -> None:
    """The manifest promises that no value has more than C of a group, and nothing said that none was read."""
    with closing(service_of(tmp_path, C)) as service:
        fold, cuts = folded(service, {level: field}, n_cases)
        for cut in cuts:
            service.attempt(fold, cut)
            fold.decided(cut, released=False)
    assert caplog.text.count(EMPTY) == n_warnings


@pytest.mark.parametrize(("field", "n_doubts"), [("diagnosis", 1), ("diag", 0)])
def test_the_audit_of_a_release_states_it(tmp_path: Path, field: str, n_doubts: int) -> None:
    with closing(service_of(tmp_path, 0.9)) as service:
        fold, cuts = folded(service, {"case": field}, 4)
        decision = service.decide(fold, next(cuts))
    assert decision.status == "sealed"
    assert [EMPTY in doubt for doubt in decision.audit.get("doubts", [])] == [True] * n_doubts
