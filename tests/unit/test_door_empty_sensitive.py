"""A sensitive attribute that no case has: a misspelt key, or a field that the source renamed. C is held by nothing."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from stream.config import sources
from stream.fold.fold import Fold
from stream.fold.records import Command, Delta, Row
from stream.run.service import ReleaseService

DAY = 20_000 * 86_400 * 10**9
DAEMON = """
[process]
name = "clinic"
sensitive = ["diag"]
[[publication]]
name = "p"
window = {{ manual = true }}
mechanism = {{ kind = "tlkc", K = 4, L = 1, C = {C} }}
"""
EMPTY = "cases has a value of the sensitive attribute 'diag', so C bounds nothing of it"


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
    path = tmp_path / "veilstream.toml"
    path.write_text(DAEMON.format(C=C), encoding="utf-8")
    with closing(ReleaseService(sources.load(path), tmp_path / "out")) as service:
        fold = Fold(service.rules(embedded=False))
        rows = [
            Row(number, f"c{number}", "a", DAY, attributes={level: {field: "flu" if number % 2 else "cold"}})
            for number in range(n_cases)
        ]
        delta = Delta(src="t", p=0, prev=-1, last=n_cases - 1, n=n_cases, key=service.pseudonyms.id, rows=rows)
        assert not list(fold.apply(0, delta))
        for position in (1, 2):
            for cut in fold.apply(position, Command(name="release")):
                service.attempt(fold, cut)
                fold.decided(cut, released=False)
    assert caplog.text.count(EMPTY) == n_warnings
