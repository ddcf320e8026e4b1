"""Knowledge that is weaker than what a release was made for, and the clock by which days and hours begin."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.anonymize.tlkc import anonymize
from models.errors import BoundError, InputError
from models.eventlog import EventLog
from models.knowledge import relative_times
from stream.release.contract import Exposure
from stream.release.mechanisms import mechanism
from tests.conftest import examples
from tests.oracles import tlkc as oracle

K, C = 4, 0.5


def constructed() -> EventLog:
    """Half of the cases of each order of a and b are p, and two thirds of those with a and b: a case `aba` is in the
    matching sets of both orders and counts once in that of the set."""
    cases = [("aba", "q")] * 2 + [("aba", "r")] * 2 + [("ab", "p")] * 4 + [("ba", "p")] * 4
    return EventLog.from_traces([*cases, *[("a", "r")] * 4, *[("b", "r")] * 4], "S")


def worst(log: EventLog, structure: str, L: int) -> Fraction:
    """The largest share of a value that anybody with L items of that structure finds, by enumeration."""
    values = log.case_values("S").decode()
    cases: list[Any] = [(trace, {"S": value}) for trace, value in zip(log.traces(), values, strict=True)]
    shares = [
        Fraction(max(sum(values[number] == value for number in found) for value in set(values) - {None}), len(found))
        for found in oracle.matching(cases, structure, L).values()
    ]
    return max(shares, default=Fraction(0))


@pytest.mark.parametrize("suppression", ["local", "exact", "pruned"])
def test_a_share_for_who_knows_no_order(suppression: str) -> None:
    """Without `also` the release of a log that fits gives a set-knower two thirds; with it no more than C."""
    log = constructed()
    plain = anonymize(log, L=2, K=K, C=C, sensitive=["S"], suppression=suppression)
    assert worst(plain.log, "seq", 2) <= Fraction(1, 2) < worst(plain.log, "set", 2)
    both = anonymize(log, L=2, K=K, C=C, sensitive=["S"], suppression=suppression, also=("mult", "set"))
    assert both.satisfied
    assert both.details["also"]["bans"] > 0
    assert plain.events == log.n_events
    assert both.events > 0
    for structure in ("seq", "mult", "set"):
        assert worst(both.log, structure, 2) <= Fraction(1, 2)


@examples(60)
@given(
    rows=st.lists(st.tuples(st.text("abc", min_size=1, max_size=4), st.sampled_from("pqr")), min_size=8, max_size=24),
    suppression=st.sampled_from(["local", "exact"]),
    effort=st.sampled_from([0, 20]),
    knowledge=st.sampled_from(["seq", "mult"]),
)
def test_every_weaker_knowledge_holds_by_enumeration(
    rows: list[tuple[str, str]], suppression: str, effort: int, knowledge: str
) -> None:
    """K and C for the structure itself and all that say less, on random logs, with and without the search."""
    also = ("mult", "set") if knowledge == "seq" else ("set",)
    options = {"effort": effort} if suppression == "local" else {}
    try:
        found = anonymize(
            EventLog.from_traces(rows, "S"), L=2, K=3, C=0.6, sensitive=["S"], knowledge=knowledge, also=also,
            suppression=suppression, **options,
        )  # fmt: skip
    except (BoundError, InputError):
        return
    values = found.log.case_values("S").decode()
    cases: list[Any] = [(trace, {"S": value}) for trace, value in zip(found.log.traces(), values, strict=True)]
    for structure in (knowledge, *also):
        assert not oracle.violating(cases, structure, 2, 3, Fraction(3, 5))


@pytest.mark.parametrize(
    ("table", "also"),
    [
        ({"kind": "tlkc"}, ()),
        ({"kind": "tlkc", "suppression": "local"}, ("mult", "set")),
        ({"kind": "tlkc", "suppression": "local", "knowledge": "mult"}, ("set",)),
        ({"kind": "tlkc", "suppression": "local", "knowledge": "rel"}, ()),
        ({"kind": "tlkc", "suppression": "local", "also": []}, ()),
        ({"kind": "tlkc-cohorts"}, ("mult", "set")),
        ({"kind": "tlkc-cohorts", "knowledge": "set"}, ()),
    ],
)
def test_the_default_is_all_of_it_for_local_and_cohorts(table: dict[str, Any], also: tuple[str, ...]) -> None:
    """And the promise says which knowledge is meant, or that a share is left open."""
    chosen: Any = mechanism(table)
    assert chosen.also == also
    promise = chosen.promise()
    words = {"seq": "in which order", "mult": "how often each", "set": "which ones", "rel": "in which order and when"}
    assert "items (activities: " + " or ".join(words[one] for one in (chosen.knowledge, *also)) in promise["guaranteed"]
    open_ = chosen.knowledge == "rel" or (not also and chosen.knowledge != "set")
    assert ("the share of a value for somebody who knows" in promise["not_guaranteed"]) == open_


def test_knowledge_that_is_not_weaker_is_refused() -> None:
    """A wish for more than the release is made for."""
    with pytest.raises(InputError, match="also = 'seq' is not weaker than knowledge = 'set'"):
        mechanism({"kind": "tlkc", "knowledge": "set", "also": ["seq"]})


def test_cohorts_hold_it_too() -> None:
    """The default of cohorts on the log where a share comes out."""
    log = constructed()
    exposure = Exposure(log, np.ones(log.n_cases, dtype=bool), ("S",), 0)
    build = mechanism({"kind": "tlkc-cohorts", "K": K, "C": C, "min_share": 0}).build(exposure)
    assert worst(build.log, "set", 2) <= Fraction(1, 2)
    open_ = mechanism({"kind": "tlkc-cohorts", "K": K, "C": C, "min_share": 0, "also": []}).build(exposure)
    assert worst(open_.log, "set", 2) > Fraction(1, 2)


HOUR = 3_600_000_000_000


def nights() -> EventLog:
    """An event at 23:30 and one at 00:30 by a clock two hours ahead of UTC: one day apart there, none in UTC."""
    from dataclasses import replace

    times = np.asarray([21 * HOUR + HOUR // 2, 22 * HOUR + HOUR // 2])
    log = EventLog.from_events(["c", "c"], ["a", "b"], times, unit="ns")
    return replace(log, offset=np.asarray([120, 120], dtype=np.int32))


def test_days_begin_by_the_clock_that_is_named() -> None:
    """Midnight of the log is not that of UTC; minutes begin together."""
    assert relative_times(nights(), "days", "utc").tolist() == [0, 0]
    assert relative_times(nights(), "days", "log").tolist() == [0, 1]
    assert relative_times(nights(), "minutes", "log").tolist() == [0, 60]


def test_a_release_by_the_clock_of_the_log(tmp_path: Any) -> None:
    """The released times are days of that clock, its promise reports it, and the check of what was released agrees."""
    exposure = Exposure(nights(), np.ones(1, dtype=bool), (), 0)
    for clock, days in (("utc", [0, 0]), ("log", [0, 1])):
        chosen = mechanism({"kind": "tlkc", "knowledge": "rel", "T": "days", "K": 1, "clock": clock})
        build = chosen.build(exposure)
        assert (build.log.time // (24 * HOUR)).tolist() == days
        words = {"utc": "by UTC", "log": "by the clock of the log"}[clock]
        assert words in chosen.promise()["guaranteed"]
        assert f"another clock than {clock}" in chosen.promise()["not_guaranteed"]


def test_a_log_without_a_clock_is_refused() -> None:
    """Nobody guesses how far its midnight was from UTC's."""
    log = EventLog.from_traces([("ab", "x")], "S")
    with pytest.raises(InputError, match="clock"):
        relative_times(log, "days", "log")


def test_in_a_stream_the_clock_is_that_of_the_process(tmp_path: Any) -> None:
    """Deltas carry moments: without process.timezone the clock is refused when the file is read; with it days begin at
    its midnight, which daylight saving moves."""
    from connectors.times import offsets
    from stream.config.settings import Settings

    publication = {
        "name": "p", "window": {"manual": True},
        "mechanism": {"kind": "tlkc", "knowledge": "rel", "T": "days", "clock": "log"},
    }  # fmt: skip
    with pytest.raises(InputError, match=r"needs process\.timezone"):
        Settings.model_validate({"publication": [publication]})
    Settings.model_validate({"process": {"timezone": "Europe/Berlin"}, "publication": [publication]})
    moments = np.asarray(["2024-01-15T12:00", "2024-07-15T12:00"], dtype="datetime64[ns]").astype(np.int64)
    assert offsets(moments, "Europe/Berlin").tolist() == [60, 120]
    assert offsets(moments, "Asia/Kathmandu").tolist() == [345, 345]
