"""Proposals of `advise` on a shared log are replayed once more, and compared with the default."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest

from connectors import read_log
from stream.config.settings import Settings
from stream.release.gate import worst_anonymity
from stream.run import advise, presets
from stream.run.advise import as_toml, nearest, propose
from stream.run.presets import with_completion
from stream.run.replay import Replay

K = 20
LOGS: list[tuple[str, tuple[str, ...], int]] = [
    ("urineweginfectie", (), 1_000),
    ("sepsis", ("Diagnose",), 300),
    ("bpic2012-app", (), 300),
    ("bpic2012", (), 300),
    ("bpic2013-incidents", (), 300),
]
"""Each setting is replayed, so of the large logs it is the first cases only: the smallest log is whole.
`python -m benchmarks.advise` does the same with all of them whole."""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "sensitive", "cases"), LOGS, ids=[name for name, *_ in LOGS])
def test_what_is_proposed_holds_and_is_no_worse_than_the_default(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, sensitive: tuple[str, ...], cases: int
) -> None:
    """Replayed from its own configuration, each release has KA, FA, CA, BA of K at least or none; if nothing keeps
    more, it is the default."""
    monkeypatch.setattr(advise, "LEAST", ())  # settings below the K asked for are also shown, and never proposed
    log = read_log(logs / f"{name}.xes.gz")
    log = log.select_cases(np.arange(min(cases, log.n_cases)))
    settings = Settings.model_validate({"process": {"name": "process", "sensitive": list(sensitive)}})
    settings = settings.model_copy(update={"process": with_completion(settings.process)})
    trials, chosen = propose(log, settings, K, tmp_path / "trials")
    default = next(one for one in trials if one.candidate.publication.name == f"cohorts-local-{K}")
    expected = presets.default_publication(log, sensitive)
    same = default.candidate.publication.model_copy(update={"name": expected.name})
    assert same == expected
    if chosen is None:  # no setting is safe at every cut of so small a log: the nearest is named with what stopped it
        near = nearest(trials, K)
        assert near is not None
        assert near.releases > 0
        assert near.unreleased > 0
        return
    assert chosen.worth >= default.worth * default.proposable
    better = [t for t in trials if t.proposable and t.candidate.least >= K and t.worth > default.worth]
    if default.proposable and not better:
        assert chosen.candidate == default.candidate
    table = tomllib.loads(as_toml(settings, chosen.candidate.publication))
    assert table["publication"][0]["mechanism"] == dict(chosen.candidate.publication.mechanism)
    again = settings.model_copy(update={"publication": (chosen.candidate.publication,)})
    outcome = Replay(again, tmp_path / "again").run(log, final=True)
    assert outcome.decisions
    assert not outcome.withheld
    for _, decision in outcome.decisions:
        if decision.waits:  # in so short a log, no candidate may be without such a cut
            assert chosen.waiting
            continue
        worst = [worst_anonymity(decision.audit["anonymity"], measure) for measure in ("ka", "fa", "ca", "ba")]
        assert all(value is None or value == 0 or value >= K for value in worst)
