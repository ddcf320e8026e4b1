"""Memory of a publication of cohorts, and the part of it that may change."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from models.errors import BoundError, RefusedError
from models.eventlog import EventLog
from stream.config.settings import Settings
from stream.release.contract import Exposure
from stream.release.mechanisms.cohorts import TlkcCohorts
from stream.release.mechanisms.tlkc import Tlkc
from stream.run.replay import Replay


def exposure(cases: int, sensitive: tuple[str, ...] = ("S",)) -> Exposure:
    log = EventLog.from_traces([("ab", "pq"[case % 2]) for case in range(cases)], "S")
    return Exposure(log, np.ones(cases, dtype=np.bool_), sensitive, 0)


def memory(**parameters: Any) -> Any:
    """As it is read back from memory.json."""
    return msgspec.json.decode(msgspec.json.encode(TlkcCohorts(**parameters).build(exposure(8)).memory))


@pytest.mark.parametrize(
    ("changed", "named"),
    [({"K": 5}, "K = 4"), ({"C": 0.6}, "C = 0.5"), ({"L": 1}, "L = 2"), ({"alphabet": "common"}, "alphabet")],
)
def test_cohorts_of_other_bounds_do_not_join(changed: dict[str, Any], named: str) -> None:
    """A union promises what each of its cohorts does; another promise is withheld, and says which part differs."""
    with pytest.raises(BoundError, match=named):
        TlkcCohorts(**{"K": 4, **changed}).build(exposure(16), memory(K=4))
    with pytest.raises(BoundError, match="sensitive"):
        TlkcCohorts(K=4).build(exposure(16, ()), memory(K=4))


def test_what_is_no_part_of_the_promise_may_change() -> None:
    """The choice of events, the moment at which a queue may leave, and T without protected times may change."""
    build = TlkcCohorts(K=4, min_share=0.2, suppression="greedy", T="hours").build(exposure(16), memory(K=4))
    assert build.log.n_cases == 16


def test_a_memory_of_before_bounds_were_kept_is_read() -> None:
    """The version is the same; what it does not say is not held against it."""
    before = {key: value for key, value in memory(K=4).items() if key != "claim"}
    assert TlkcCohorts(K=4).build(exposure(16), before).log.n_cases == 16


def test_a_newer_memory_is_refused() -> None:
    """Never half understood."""
    with pytest.raises(RefusedError, match="newer"):
        TlkcCohorts(K=4).build(exposure(16), {**memory(K=4), "version": 3})


@pytest.mark.parametrize(
    ("first", "second"), [(TlkcCohorts(K=4), Tlkc(K=4)), (Tlkc(K=4), TlkcCohorts(K=4))], ids=["to tlkc", "to cohorts"]
)
def test_a_publication_of_cohorts_does_not_change_its_kind(tmp_path: Path, first: Any, second: Any) -> None:
    """After a changed configuration the cut is withheld with the reason; and an erasure still finds the memory."""
    publication = {"name": "p", "window": {"new_cases": 20}, "mechanism": first.model_dump(), "audit": {"risk": False}}
    process = {"sensitive": ["S"], "completion": {"log_end": True}}
    names = [f"c{case}" for case in range(40) for _ in "ab"]
    times = np.arange(80) * 1_000_000_000
    values = {"S": {f"c{case}": "pq"[case % 2] for case in range(40)}}
    log = EventLog.from_events(names, list("ab") * 40, times, case_attributes=values, unit="ns")

    def change(boundary: str) -> None:
        pipeline = replay.service.pipelines["p"]
        if boundary == "opened" and pipeline.earlier:
            pipeline.spec = replace(pipeline.spec, mechanism=second)
            case, kept, *_ = pipeline.earlier[0].log.case_ids
            memory = pipeline.folder.release("p", 1) / "memory.json"
            held = case in memory.read_text()
            pipeline.audience.forget(("p", 1), [case])
            assert case not in memory.read_text()
            assert (kept in memory.read_text()) == held == (first.kind == "tlkc-cohorts")

    replay = Replay(
        Settings.model_validate({"process": process, "publication": [publication]}), tmp_path / "out", at=change
    )
    outcome = replay.run(log)
    assert [decision.status for _, decision in outcome.decisions] == ["sealed", "withheld"]
    assert f"were made by {first.kind}" in outcome.withheld[0].reasons[0]
