"""Attacks by hand on releases of the default: no program code counts here (tests/oracles/series.py)."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from connectors import read_log
from models.eventlog import Column, EventLog
from stream.config.settings import Publication, Settings
from stream.run import presets
from stream.run.replay import Replay
from tests.conftest import random_inputs
from tests.oracles.series import Release, largest_share, matches, smallest

K, C = 20, 0.5
STREAMS, FULL = 200, 50
"""Random streams, and how many of them get the default's whole search; the others one proposal of it, which is what
most of the time goes into. The promise must hold whatever the search finds."""
SECOND = 1_000_000_000
NOTHING_ELSE = {"risk": False, "utility": False, "leakage": False}
"""Audits that decide nothing: without them a stream takes a third of the time."""


def stream(seed: int) -> EventLog:
    """20 to 110 cases of 1 to 5 events that overlap in time; some activities are rare; a sensitive attribute S."""
    generator = np.random.default_rng(seed)
    cases, letters = int(generator.integers(20, 111)), "abcdef"[: int(generator.integers(2, 7))]
    often = generator.dirichlet(np.full(len(letters), 0.6))
    owner, names, times = [], [], []
    for case in range(cases):
        clock = int(generator.integers(cases))
        for _ in range(int(generator.integers(1, 6))):
            owner.append(f"c{case}")
            names.append(letters[int(generator.choice(len(letters), p=often))])
            times.append(clock * SECOND)
            clock += int(generator.integers(0, 12))
    values = {"S": {f"c{case}": "pqrs"[int(generator.integers(4))] for case in range(cases)}}
    return EventLog.from_events(owner, names, np.asarray(times), case_attributes=values, unit="ns")


def defaults(log: EventLog, *sensitive: str) -> Settings:
    """Return the settings of `veilstream replay` without a configuration."""
    settings = Settings.model_validate({"process": {"name": "process", "sensitive": list(sensitive)}})
    return presets.with_default(settings, log)


def changed(settings: Settings, **table: object) -> Settings:
    """The same with another table of the publication."""
    (publication,) = settings.publication
    body = {**publication.model_dump(), **table}
    return settings.model_copy(update={"publication": (Publication.model_validate(body),)})


def releases(settings: Settings, log: EventLog, folder: Path) -> tuple[list[Release], dict[str, object]]:
    """The releases of a replay by case, and the sensitive value of each case. Each public file holds the same traces,
    and no trace that its case does not have."""
    replay = Replay(settings, folder)
    replay.run(log, final=True)
    name = replay.service.pseudonyms.case
    true = {name(case): trace for case, trace in zip(log.case_ids, log.traces(), strict=True)}
    series: list[Release] = []
    for record in replay.service.pipelines["research"].earlier:
        known = dict(zip(record.log.case_ids, record.log.traces(), strict=True))
        assert all(matches(true[case], trace, 0) for case, trace in known.items())
        public = read_log(folder / "public" / "research" / f"release-{record.sequence:06d}" / "log.xes.gz")
        assert Counter(public.traces()) == Counter(known.values())
        series.append(known)
    sensitive = settings.process.sensitive
    values = log.case_values(sensitive[0]).decode() if sensitive else [None] * log.n_cases
    return series, dict(zip(map(name, log.case_ids), values, strict=True))


def withstands(series: list[Release]) -> None:
    """None below K but 0, for knowledge of two activities and as many more as may be missing."""
    for n in (0, 1):
        for measure, value in smallest(series, 2 + n, n).items():
            assert value is None or value >= K, (measure, n, value)


@pytest.mark.slow
def test_the_default_withstands_every_attack_on_random_streams(tmp_path: Path) -> None:
    """200 streams, all pairs of releases, n = 0 and 1: none below K but 0, and no value has more than half of the
    cases that match. Enough of them publish several releases, so that there is something to attack."""
    pairs = 0
    for seed in range(STREAMS):
        log = stream(seed)
        settings = changed(defaults(log, "S"), audit={**presets.AUDIT, **NOTHING_ELSE})
        if seed >= FULL:
            settings = changed(settings, mechanism={**settings.publication[0].mechanism, "effort": 1})
        with tempfile.TemporaryDirectory(dir=tmp_path) as folder:
            series, value = releases(settings, log, Path(folder))
        withstands(series)
        assert all(largest_share(one, value, 2) <= C for one in series), seed
        pairs += len(series) * (len(series) - 1) // 2
    assert pairs >= 150


def test_the_attacks_find_single_cases_if_every_release_is_independent(tmp_path: Path) -> None:
    """The same streams by plain TLKC, each release gated on its own: most series give away fewer than K cases."""
    broken, streams = 0, max(random_inputs(10), 6)
    for seed in range(streams):
        log = stream(seed)
        plain = {"kind": "tlkc", **presets.bounds(log, ["S"]), "suppression": "local"}
        settings = changed(defaults(log, "S"), mechanism=plain, gate={"min_ka": K}, audit=NOTHING_ELSE)
        with tempfile.TemporaryDirectory(dir=tmp_path) as folder:
            series, _ = releases(settings, log, Path(folder))
        least = smallest(series, 2, 0)
        assert least["ka"] is None or least["ka"] >= K
        broken += any((least[name] or K) < K for name in ("fa", "ca", "ba"))
    assert broken >= streams / 2


@pytest.mark.parametrize(("bound", "holds"), [(C, True), (1.0, False)])
def test_values_that_go_with_activities_are_bounded(tmp_path: Path, bound: float, holds: bool) -> None:
    """Two cases in three have the value of their first activity: with the default's C no value has more than half of
    the cases that match, in whatever order they are known; without a bound some value does."""
    found = []
    for seed in range(max(random_inputs(8), 4)):
        log = stream(seed)
        first = {case: trace[0] for case, trace in zip(log.case_ids, log.traces(), strict=True)}
        values = {case: letter if place % 3 else "z" for place, (case, letter) in enumerate(first.items())}
        column = Column.encode([values[case] for case in log.case_ids])
        log = replace(log, case_attributes={"S": column})
        settings = changed(defaults(log, "S"), audit={**presets.AUDIT, **NOTHING_ELSE})
        mechanism = {**settings.publication[0].mechanism, "C": bound, "effort": 1}
        with tempfile.TemporaryDirectory(dir=tmp_path) as folder:
            series, value = releases(changed(settings, mechanism=mechanism), log, Path(folder))
        found += [largest_share(one, value, 2) for one in series]
    assert found
    assert (max(found) <= C) is holds


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "sensitive", "released"),
    [("sepsis", ("Diagnose",), 11), ("sepsis", (), 11), ("urineweginfectie", (), 10)],
)
def test_the_default_withstands_every_attack_on_real_logs(
    logs: Path, tmp_path: Path, file: str, sensitive: tuple[str, ...], released: int
) -> None:
    """Ten windows and a last cut, which waits where too few cases are left: every pair of releases.

    The last release shows every activity of at least 5 % of the cases. The other shared logs are attacked by
    `python -m benchmarks.defaults --attacks`.
    """
    log = read_log(logs / f"{file}.xes.gz")
    settings = changed(defaults(log, *sensitive), audit={**presets.AUDIT, **NOTHING_ELSE})
    series, value = releases(settings, log, tmp_path)
    assert len(series) == released
    cases = Counter(activity for trace in log.traces() for activity in set(trace))
    shown = {activity for trace in series[-1].values() for activity in trace}
    assert {activity for activity, count in cases.items() if count >= log.n_cases / 20} <= shown
    withstands(series)
    assert all(largest_share(one, value, 2) <= C for one in series if sensitive)
