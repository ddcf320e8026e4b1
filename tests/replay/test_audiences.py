"""Two publications of one audience are one series: by the command line, and against a recipient who holds both."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from connectors import read_log, write_log
from models.errors import InputError, RefusedError
from models.eventlog import EventLog
from stream.commands import execute
from stream.config.settings import Settings
from stream.ledger.entries import SealEntry, read_entry, write_entry
from stream.run.replay import Replay, ReplayOutcome
from tests.conftest import ROOT

K = 4
HOUR = 3_600_000_000_000


def source(cases: int = 100, seed: int = 0) -> EventLog:
    """Short cases one after the other, of four activities, half of them with each value."""
    rng = np.random.default_rng(seed)
    names, labels, times = [], [], []
    for case in range(cases):
        trace = "".join(rng.choice(list("abcd"), size=rng.integers(2, 5)))
        names += [f"c{case}"] * len(trace)
        labels += list(trace)
        times += [case * HOUR + place * 60_000_000_000 for place in range(len(trace))]
    values = {"S": {f"c{case}": "pq"[case % 2] for case in range(cases)}}
    return EventLog.from_events(names, labels, np.asarray(times), case_attributes=values, unit="ns")


def configuration(windows: tuple[int, int], kind: str = "tlkc-cohorts", more: str = "") -> str:
    parts = [
        f'[[publication]]\nname = "{name}"\nwindow = {{ new_cases = {window} }}\n'
        f'mechanism = {{ kind = "{kind}", L = 1, K = {K}, C = 1.0 }}\naudit = {{ bk_length = 1, n = [0] }}\n'
        f'release_attributes = ["S"]\n{more}'
        for name, window in zip(("monthly", "weekly"), windows, strict=True)
    ]
    return '[process]\nname = "ward"\nsensitive = ["S"]\ncompletion = "log_end"\n' + "".join(parts)


def bags(folder: Path) -> list[Counter[tuple[Any, ...]]]:
    """Return everything that a recipient of all releases has: each release as a bag of (trace, value)."""
    found = []
    for path in sorted(folder.glob("public/*/release-*/log.xes.gz")):
        log = read_log(path)
        found.append(Counter(zip(log.traces(), log.case_values("S").decode(), strict=True)))
    return found


def alone(releases: list[Counter[tuple[Any, ...]]]) -> int:
    """The fewest cases that are alone between two releases: for one known activity, those that match in the one and
    are not in the other (cases keep their form, so a difference of bags is a difference of cases)."""
    least = 10**9
    for one, two in itertools.permutations(releases, 2):
        for activity in "abcd":
            left = sum((Counter({key: n for key, n in one.items() if activity in key[0]}) - two).values())
            least = min(least, left) if left else least
    return least


def cli(folder: Path, log: EventLog, text: str) -> tuple[int, Any, str]:
    write_log(log, folder / "log.xes.gz")
    (folder / "conf.toml").write_text(text)
    found = subprocess.run(
        [sys.executable, "-m", "stream.commands", "replay", str(folder / "log.xes.gz"), "-c", str(folder / "conf.toml"),
         "-o", str(folder / "out"), "--json"],
        capture_output=True, text=True, cwd=ROOT, timeout=900, check=False,
    )  # fmt: skip
    return found.returncode, json.loads(found.stdout) if found.stdout else None, found.stderr


def test_two_publications_of_cohorts_give_no_case_away(tmp_path: Path) -> None:
    """Windows of 20 and 21 cases: between any two of all releases, none or K cases match what one knows.

    Each publication alone keeps that promise; without the shared registry single cases are alone between the two.
    """
    code, found, error = cli(tmp_path, source(), configuration((20, 21)))
    assert code in (0, 3), error
    assert {one["publication"] for one in found["releases"]} == {"monthly", "weekly"}
    assert len(found["releases"]) >= 5
    assert alone(bags(tmp_path / "out")) >= K


def run(folder: Path, text: str, log: EventLog | None = None) -> tuple[ReplayOutcome, Replay]:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "conf.toml").write_text(text)
    from stream.config.sources import load

    replay = Replay(load(folder / "conf.toml"), folder / "out")
    return replay.run(log or source()), replay


@pytest.mark.parametrize(("windows", "seed"), [((10, 11), 1), ((7, 30), 2), ((25, 25), 3)])
def test_other_windows_do_not_either(tmp_path: Path, windows: tuple[int, int], seed: int) -> None:
    """The oracle counts on the published files; no case is released twice in two forms."""
    run(tmp_path, configuration(windows), source(90, seed))
    assert alone(bags(tmp_path / "out")) >= K


def test_a_publication_takes_over_the_cohorts_of_the_other(tmp_path: Path) -> None:
    """The registry is shared: the one that cuts later shows what the other one published, as it was."""
    outcome, replay = run(tmp_path, configuration((20, 40)))
    forms: dict[str, tuple[Any, ...]] = {}
    for record in replay.service.pipelines["weekly"].earlier:
        for case, trace in zip(record.log.case_ids, record.log.traces(), strict=True):
            assert forms.setdefault(case, trace) == trace
    last = {name: decision.audit["cohorts"] for name, decision in outcome.decisions if decision.status == "sealed"}
    assert len(last["weekly"]) > 2  # its own windows are too few for so many


def test_different_audiences_are_different_series(tmp_path: Path) -> None:
    """Releases to two audiences are not combined: each publication has cohorts of its own, as if it were alone."""
    text = configuration((20, 21)).replace('name = "weekly"', 'name = "weekly"\naudience = "press"')
    apart, _ = run(tmp_path / "apart", text)
    for name, window in (("monthly", 20), ("weekly", 21)):
        own = "[process]\n" + text.split("[process]\n")[1].split("[[publication]]")[0]
        part = next(one for one in text.split("[[publication]]")[1:] if f'"{name}"' in one)
        alone_, _ = run(tmp_path / name, own + "[[publication]]" + part)
        found = [decision.audit["counts"]["released"] for other, decision in apart.decisions if other == name]
        assert found == [decision.audit["counts"]["released"] for _, decision in alone_.decisions], window


def test_the_gate_of_plain_tlkc_looks_at_the_whole_audience(tmp_path: Path) -> None:
    """Windows of 20 and 21 cases, re-anonymized: the one case more is a B-attack, found across publications."""
    bound = f"gate = {{ min_ka = {K}, min_ba = {K} }}\n"
    outcome, replay = run(tmp_path, configuration((20, 21), "tlkc", bound))
    others = [
        row
        for _, decision in outcome.decisions
        for row in (decision.audit.get("anonymity") or {}).get("true_linker") or ()
        if "publication" in row
    ]
    assert any(row["ba"] and row["ba"] < K for row in others)
    assert any("ba: " in reason for decision in outcome.withheld for reason in decision.reasons)
    records = list(replay.service.pipelines["weekly"].earlier)
    assert [one.key for one in records] == [one.key for one in replay.service.pipelines["monthly"].earlier]
    for one, two in itertools.permutations(records, 2):
        for activity in "abcd":
            mine = {case for case, trace in zip(one.log.case_ids, one.log.traces(), strict=True) if activity in trace}
            other = set(two.log.case_ids)
            assert not 0 < len(mine - other) < K


def test_the_manifest_names_the_audience(tmp_path: Path) -> None:
    """In a key of its own and in the promise, whose words are about that audience."""
    text = configuration((20, 21)).replace('name = "weekly"', 'name = "weekly"\naudience = "press"')
    run(tmp_path, text)
    for name, audience in (("monthly", "everyone"), ("weekly", "press")):
        path = tmp_path / "out" / "public" / name / "release-000001" / "manifest.json"
        manifest = json.loads(path.read_bytes())
        assert (manifest["audience"], manifest["promise"]["audience"]) == (audience, audience)
        assert "all releases to this audience" in manifest["promise"]["against_whom"]


MECHANISM = '{ kind = "tlkc-cohorts", L = 1, K = 4, C = 1.0 }'


@pytest.mark.parametrize(
    ("one", "two", "why"),
    [
        (MECHANISM, MECHANISM.replace("K = 4", "K = 5"), "differ in K"),
        (MECHANISM, '{ kind = "identity" }', "does not hold together with identity"),
        (MECHANISM, '{ kind = "tlkc", L = 1, K = 4, C = 1.0 }', "does not hold together with tlkc"),
        ('{ kind = "lcs-start" }', '{ kind = "lcs-start" }', "does not hold together with lcs-start"),
        (MECHANISM, '{ kind = "amun", delta = 0.2 }', "cannot be counted"),
        ('{ kind = "tlkc", K = 4 }', '{ kind = "tlkc", K = 4, attribute = "ar" }', "cannot be counted"),
        ('{ kind = "tlkc", knowledge = "rel" }', '{ kind = "identity", knowledge = "rel", T = "days" }', "be counted"),
    ],
)  # fmt: skip
def test_what_one_audience_cannot_hold_is_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], one: str, two: str, why: str
) -> None:
    """One line that names both publications and the way out; with another audience the same file is accepted."""
    window = "window = { new_cases = 20 }\n"
    text = (
        f'[[publication]]\nname = "first"\n{window}mechanism = {one}\n'
        f'[[publication]]\nname = "second"\n{window.replace("new_cases = 20", "manual = true")}mechanism = {two}\n'
    )
    path = tmp_path / "conf.toml"
    for text_, code in ((text, 2), (text + 'audience = "press"\n', 0)):
        path.write_text(text_)
        assert execute(["check-config", str(path)]) == code
        said = capfd.readouterr().err
        if code:
            assert why in said
            assert "'first'" in said
            assert "another audience" in said


def test_differential_privacy_is_no_part_of_the_series(tmp_path: Path) -> None:
    """A dp publication next to cohorts is accepted as before, and no audit compares its records with cases."""
    text = configuration((20, 40)).split("[[publication]]")
    dp = (
        '\nname = "numbers"\nstart = "1970-01-01T00:00:00Z"\nwindow = { every = "1d", time = "event" }\n'
        'mechanism = { kind = "dp-variants", epsilon = 1.0, delta_dp = 1e-6 }\n'
    )
    outcome, replay = run(tmp_path, "[[publication]]".join([text[0], text[1], dp]))
    assert {name for name, decision in outcome.decisions if decision.status == "sealed"} == {"monthly", "numbers"}
    assert {record.publication for record in replay.service.pipelines["monthly"].earlier} == {"monthly"}
    assert {record.publication for record in replay.service.pipelines["numbers"].earlier} == {"numbers"}


def settings(text: str, folder: Path) -> Settings:
    from stream.config.sources import load

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "conf.toml").write_text(text)
    return load(folder / "conf.toml")


def test_a_renamed_publication_is_still_in_the_series(tmp_path: Path) -> None:
    """Releases that went to the audience under the former name are compared, and their cohorts are continued."""
    from stream.run.service import ReleaseService

    run(tmp_path, configuration((20, 40)))
    renamed = configuration((20, 40)).replace('"monthly"', '"quarterly"')
    service = ReleaseService(settings(renamed, tmp_path), tmp_path / "out")
    try:
        held = [record.publication for record in service.pipelines["quarterly"].earlier]
        assert "monthly" in held
        found = service.pipelines["quarterly"].audience.memory(None)
        assert found is not None
        assert len(found.state["cohorts"]) > 2
    finally:
        service.close()


def test_a_publication_does_not_change_its_audience(tmp_path: Path) -> None:
    """Its releases are in one folder: everybody who gets the later ones holds the earlier ones too."""
    from stream.run.service import ReleaseService

    run(tmp_path, configuration((20, 40)))
    moved = configuration((20, 40)).replace('name = "weekly"', 'name = "weekly"\naudience = "press"')
    with pytest.raises(RefusedError, match="release 1 went to audience everyone"):
        ReleaseService(settings(moved, tmp_path), tmp_path / "out")


def test_two_registries_from_before_are_refused(tmp_path: Path) -> None:
    """Two publications of cohorts that released apart, under a version without audiences: one case may be out in two
    forms. One such publication alone continues, and so do two under different audiences."""
    from stream.run.service import ReleaseService

    press = configuration((20, 21)).replace('name = "weekly"', 'name = "weekly"\naudience = "press"')
    _, replay = run(tmp_path, press)
    ledger = tmp_path / "out" / "operator" / "ledger.sqlite"
    _forget_audiences(ledger)
    assert replay is not None
    with pytest.raises(RefusedError, match="without knowing of each other"):
        ReleaseService(settings(configuration((20, 21)), tmp_path), tmp_path / "out")
    service = ReleaseService(settings(press, tmp_path), tmp_path / "out")
    assert {record.publication for record in service.pipelines["weekly"].earlier} == {"weekly"}
    service.close()


def _forget_audiences(ledger: Path) -> None:
    """The seals of a ledger as a version without audiences wrote them."""
    import sqlite3
    from contextlib import closing

    import msgspec

    with closing(sqlite3.connect(ledger)) as db, db:
        for number, body in db.execute("SELECT id, body FROM entries").fetchall():
            entry = read_entry(body)
            if isinstance(entry, SealEntry):
                rest = msgspec.structs.replace(entry.body, audience=None)
                entry = msgspec.structs.replace(entry, body=rest)
            db.execute("UPDATE entries SET body = ? WHERE id = ?", (write_entry(entry), number))


def test_an_erased_case_leaves_every_memory_of_the_audience(tmp_path: Path) -> None:
    """Also that of a publication that does not show its cohort."""
    from stream.fold.fold import Fold
    from stream.run.log_source import log_facts
    from stream.run.service import ReleaseService

    text = configuration((20, 40))
    run(tmp_path, text)
    service = ReleaseService(settings(text, tmp_path), tmp_path / "out")
    try:
        operator = tmp_path / "out" / "operator"
        name = service.pipelines["monthly"].earlier[0].log.case_ids[0]
        assert any(name in path.read_text() for path in operator.glob("weekly/*/memory.json"))
        fold = Fold(service.rules(embedded=True), log_facts(source()))
        report = service.erase(fold, [name])
        assert 1 in report["releases"]["monthly"]
        assert not any(name in path.read_text() for path in operator.glob("*/*/memory.json"))
        assert all(name not in record.log.case_ids for record in service.pipelines["weekly"].earlier)
    finally:
        service.close()


def test_min_series_needs_an_audience_of_its_own(tmp_path: Path) -> None:
    """A bound over the series is not counted over releases with other windows."""
    with pytest.raises(InputError, match="min_series"):
        settings(configuration((20, 40), "tlkc", "gate = { min_series = 2 }\n"), tmp_path)
