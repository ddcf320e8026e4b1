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
from stream.ledger.folder import compact_json
from stream.release.contract import Exposure
from stream.release.failpoints import Faults
from stream.release.mechanisms.cohorts import VERSION, TlkcCohorts
from stream.release.mechanisms.tlkc import Tlkc
from stream.run.replay import Replay


def exposure(cases: int, sensitive: tuple[str, ...] = ("S",)) -> Exposure:
    log = EventLog.from_traces([("ab", "pq"[case % 2]) for case in range(cases)], "S")
    return Exposure(log, np.ones(cases, dtype=np.bool_), sensitive, 0)


def memory(**parameters: Any) -> Any:
    """As it is read back from memory.json."""
    return msgspec.json.decode(compact_json(TlkcCohorts(**parameters).build(exposure(8)).memory))


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
        TlkcCohorts(K=4).build(exposure(16), {**memory(K=4), "version": VERSION + 1})


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
        Settings.model_validate({"process": process, "publication": [publication]}),
        tmp_path / "out",
        faults=Faults(change),
    )
    outcome = replay.run(log)
    assert [decision.status for _, decision in outcome.decisions] == ["sealed", "withheld"]
    assert f"were made by {first.kind}" in outcome.withheld[0].reasons[0]


RELATIVE = TlkcCohorts(K=4, L=1, C=0.5, knowledge="rel", attribute="ar", T="minutes", min_share=0.1)
MINUTE = 60_000_000_000


def timed_exposure(cases: int) -> Exposure:
    """Cases of a, b, and c (z in the first one), a minute apart; the last event has no resource."""
    log = EventLog.from_events(
        [f"c{case}" for case in range(cases) for _ in "abc"],
        [name for case in range(cases) for name in ("a", "b", "c" if case else "z")],
        np.arange(3 * cases) * MINUTE,
        ["r", "s", None] * cases,
        case_attributes={"S": {f"c{case}": "pq"[case % 2] for case in range(cases)}},
        unit="ns",
    )
    return Exposure(log, np.ones(cases, dtype=np.bool_), ("S",), 0, publication="p")


def of_version_2() -> dict[str, Any]:
    """A document as version 2 wrote it, a row a case; its cases differ from each other and from the log."""
    cases = {
        "c0": [["a", "b"], ["r", "s"], [0, MINUTE], {"S": "p"}, 3],
        "c1": [["b"], [None], [2 * MINUTE], {"S": "q"}, 3],
        "c2": [["b", "a", "b"], ["s", None, "r"], [0, 0, 5 * MINUTE], {"S": None}, 3],
        "c3": [[], [], [], {"S": "q"}, 2],
    }
    claim = {
        "knowledge": "rel", "attribute": "ar", "T": "minutes", "clock": "utc", "L": 1, "K": 4, "C": 0.5, "also": [],
        "bins": {}, "alphabet": "per-cohort", "sensitive": ["S"],
    }  # fmt: skip
    cohort = {"cases": cases, "n_actual": 1, "size": 4, "shown": ["p"], "below_k": None}
    return {"cohorts": [cohort], "alphabet": None, "version": 2, "claim": claim, "waiting": {}, "pending": []}


def test_cohorts_of_version_2_are_shown_as_they_were() -> None:
    """Rows become columns, and every value stays; the next memory is of this version and shows the same again."""
    first = RELATIVE.build(timed_exposure(12), of_version_2())
    kept = msgspec.json.decode(compact_json(first.memory))
    assert kept["version"] == VERSION
    again = RELATIVE.build(timed_exposure(24), kept)
    for build in (first, again):
        log = build.log
        for place, (name, row) in enumerate(of_version_2()["cohorts"][0]["cases"].items()):
            events = slice(log.starts[place], log.starts[place + 1])
            shown = (log.activity.take(events), log.resource.take(events), log.time[events])
            assert log.case_ids[place] == name
            assert [column.decode() for column in shown[:2]] + [shown[2].tolist()] == row[:3]
            assert log.case_attributes["S"].decode()[place] == row[3]["S"]
        assert build.operator["late_lost"] == 1  # c3 has three events now, and had two
    assert again.operator["cohorts"][0] == {
        "cohort": 1, "cases": 4, "erased": 0, "events": 6, "n_actual": 1,
    }  # fmt: skip


def test_an_erasure_leaves_the_other_cases_of_a_cohort() -> None:
    """Also in a document of version 2; one that does not name the case stays as it is."""
    before = of_version_2()
    assert TlkcCohorts.forget(before, ["c9"]) is before
    after = msgspec.json.decode(compact_json(TlkcCohorts.forget(before, ["c0", "c2"])))
    cohort = after["cohorts"][0]
    assert (cohort["cases"], cohort["size"]) == (["c1", "c3"], 4)
    # "a", "r", "s" and "p" were values of the erased cases alone.
    assert (cohort["activity"], cohort["resource"]) == (
        {"codes": [0], "values": ["b"]}, {"codes": [-1], "values": []}
    )  # fmt: skip
    assert cohort["sensitive"] == {"S": {"codes": [0, 0], "values": ["q"]}}
    assert (cohort["lengths"], cohort["exposed"], cohort["time"]) == ([1, 0], [3, 2], [2 * MINUTE])


def test_the_memory_has_no_value_that_was_suppressed() -> None:
    """One case alone has z: no cohort of four can show it, and the operator's file does not either."""
    build = RELATIVE.build(timed_exposure(8))
    assert {"a", "b"} <= set(build.log.activity.values)
    assert b'"z"' not in compact_json(build.memory)


ONCE = TlkcCohorts(K=4, C=1.0, L=1, knowledge="seq", suppression="local", min_share=0.0)


def once(cases: int, first: int = 0) -> Exposure:
    """Further cases of a series in which each is in one release."""
    exposure = timed_exposure(first + cases)
    part = np.arange(first, first + cases)
    log = exposure.log.select_cases(part)
    return replace(exposure, log=log, complete=exposure.complete[part], once=True)


def test_a_series_that_shows_each_case_once_keeps_sums() -> None:
    """No case and no activity that was suppressed: the counts by activity add up over releases, and cohorts are
    numbered on."""
    first = ONCE.build(replace(once(12), last=True))  # c0 waits no longer, and leaves without its z
    assert "c0" in first.log.case_ids
    second = ONCE.build(once(8, first=12), msgspec.json.decode(compact_json(first.memory)))
    memory = msgspec.json.decode(compact_json(second.memory))
    assert memory["cohorts"] == []
    assert (memory["former"]["publication"], memory["former"]["cohorts"]) == ("p", 2)
    assert dict(memory["former"]["recorded"]) == {"a": 20, "b": 20, "c": 19}
    assert dict(memory["former"]["published"]) == {"a": 20, "b": 20, "c": 19}
    assert not [name for name in (*first.log.case_ids, *second.log.case_ids) if f'"{name}"' in str(memory)]
    assert set(second.log.case_ids) == {f"c{case}" for case in range(12, 20)}
    assert [row["cohort"] for row in second.operator["cohorts"]] == [2]
    assert second.alone


def test_an_erasure_drops_the_undisclosed_times_of_a_series_without_cases() -> None:
    """The pairs of the erased case are not known any more, so the times of all pairs go; means stay."""
    timed = ONCE.model_copy(update={"times": "microaggregated", "T": "minutes"})
    memory = msgspec.json.decode(compact_json(timed.build(once(12)).memory))
    memory["pending"] = [["a", "b", 2, 2, 90, 60], ["b", "c", 1, 1, 30, None]]
    after = msgspec.json.decode(compact_json(TlkcCohorts.forget(memory, ["c3"])))
    assert after["pending"] == [["a", "b", 0, 0, 0, 60], ["b", "c", 0, 0, 0, None]]
    memory["pending"] = []
    assert TlkcCohorts.forget(memory, ["c3"]) is memory
