"""Local suppression: single cases are shortened, by public bans, and audited."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from connectors import read_log
from models.anonymize.local import default_priority, events_at_positions
from models.anonymize.local_model import Bans, Reach, _keys, close
from models.anonymize.minimality import audit
from models.anonymize.tlkc import TlkcProblem, anonymize
from models.anonymize.view import TraceView, view
from models.anonymize.violations import TlkcBounds
from models.eventlog import EventLog
from models.knowledge import Knowledge


def _view(cases: list[tuple[str, str]]) -> TraceView:
    log = EventLog.from_traces(cases)
    return view(log, Knowledge("seq", "ac"), {"sensitive": log.case_values("sensitive")})


RARE_ORDER = [("ab", "x"), ("ab", "y"), ("ab", "x"), ("ab", "y"), ("ba", "x")]


def test_only_the_rare_case_is_shortened() -> None:
    """Global suppression takes an activity from all cases; local suppression takes one event from one case."""
    log = EventLog.from_traces(RARE_ORDER)
    everywhere = anonymize(log, L=2, K=3, sensitive=["sensitive"], C=0.75, suppression="exact")
    locally = anonymize(log, L=2, K=3, sensitive=["sensitive"], C=0.75, suppression="local")
    assert everywhere.events == 5
    assert locally.log.traces() == [("a", "b")] * 4 + [("a",)]
    assert (locally.n_actual, len(locally.dropped), locally.suppressed) == (1, 0, ())
    assert locally.details["bans"] == 1


def test_priorities_decide_which_event_stays_out() -> None:
    """The event of lower priority stays out of the banned pair."""
    seen = _view(RARE_ORDER)
    a, b = seen.alphabet.index("a"), seen.alphabet.index("b")
    for first, second in itertools.permutations((a, b)):
        priority = np.zeros(2, dtype=np.int64)
        priority[second] = 1
        state = close(Reach(seen), TlkcBounds.of(2, 3, 1), priority, Bans(), events_at_positions(seen))
        lonely = seen.row_of_case[4]
        kept = seen.codes[seen.starts[lonely] : seen.starts[lonely + 1]][
            state.kept[seen.starts[lonely] : seen.starts[lonely + 1]]
        ]
        assert kept.tolist() == [first]
        assert state.bans.candidates == [(b, a)]


def test_globally_kept_items_enter_first() -> None:
    """Priority goes by what global suppression keeps, then by frequency."""
    seen = _view([("aab", "x"), ("bc", "x"), ("aac", "x")])
    a, b, c = (seen.alphabet.index(name) for name in "abc")
    assert np.argsort(default_priority(seen, [a])).tolist() == [b, c, a]
    assert np.argsort(default_priority(seen, [])).tolist() == [a, b, c]


def test_projection_reads_no_values() -> None:
    """Equal traces come out equal whatever their values, and no warning is due."""
    cases = [(trace, value) for trace in ("abc", "acb", "bac", "ab") for value in ("x", "x", "y", "z")]
    result = anonymize(EventLog.from_traces(cases), L=2, K=4, C=0.5, sensitive=["sensitive"], suppression="local")
    released = dict(zip(result.origin.tolist(), result.log.traces(), strict=True))
    for first, second in itertools.combinations(range(len(cases)), 2):
        if cases[first][0] == cases[second][0]:
            assert released.get(first) == released.get(second)
    assert result.warnings == ()


@pytest.mark.parametrize("n_items", [300, 1 << 20])
def test_keys_of_bans_sort_as_the_bans_do(n_items: int) -> None:
    """With few items they are whole numbers, with many texts; codes with a byte of zeros differ, too."""
    bans = sorted(itertools.product((0, 1, 255, 256), repeat=4))
    keys = _keys(np.asarray(bans, dtype=np.int32), n_items)
    assert keys.dtype.kind == ("i" if n_items == 300 else "S")
    assert (keys[:-1] < keys[1:]).all()


def test_search_is_reproducible_and_never_worse() -> None:
    """The same seed gives the same release; effort never loses events."""
    generator = np.random.default_rng(5)
    cases = [("".join(generator.choice(list("abcd"), 5)), "xyz"[int(generator.integers(3))]) for _ in range(40)]
    log = EventLog.from_traces(cases)
    plain, one, two = (
        anonymize(log, L=3, K=8, C=0.75, sensitive=["sensitive"], suppression="local", effort=effort, seed=9)
        for effort in (0, 12, 12)
    )
    assert one.kept.tolist() == two.kept.tolist()
    assert one.events > plain.events


def test_minimality_audit_counts_the_cases_that_may_hide_a_ban() -> None:
    """One case of `ba` comes out as `a` among four of `ab`, each activity at most once: only it can have been `ba`."""
    seen = _view(RARE_ORDER)
    priority = default_priority(seen, [])
    bounds = TlkcBounds.of(2, 3, 1)
    found = audit(Reach(seen), bounds, close(Reach(seen), bounds, priority, Bans(), events_at_positions(seen)))
    assert (found.below_k, found.least) == (1, 1)


def test_minimality_audit_finds_nothing_where_nothing_is_removed() -> None:
    """Without bans the audit sees the released supports themselves."""
    seen = _view([("ab", "x")] * 3)
    bounds = TlkcBounds.of(2, 3, 1)
    reach = Reach(seen)
    state = close(reach, bounds, default_priority(seen, []), Bans(), events_at_positions(seen))
    found = audit(reach, bounds, state)
    assert (found.audited, found.below_k, found.least) == (1, 0, 3)


REACHED = [(2, 20, 0.5, 15_083), (2, 60, 0.5, 14_760), (2, 60, 0.2, 11_960), (6, 20, 0.5, 12_869), (6, 60, 0.2, 8_641)]
"""Events that issue 5 asks for at least (Sepsis, Diagnose, seq)."""


@pytest.mark.logs
def test_sepsis_keeps_what_was_asked_for(logs: Path) -> None:
    """Every setting keeps all cases and the events asked for; checker and search agree that nothing violates."""
    log = read_log(logs / "sepsis.xes.gz")
    for L, K, C, least in REACHED:
        result = anonymize(log, L=L, K=K, C=C, sensitive=["Diagnose"], suppression="local")
        assert result.satisfied
        again = TlkcProblem(
            result.log, Knowledge("seq"), TlkcBounds.of(L, K, C), {"d": result.log.case_values("Diagnose")}
        )
        assert again.candidates == []
        assert result.events >= least
        assert len(result.origin) == log.n_cases
        assert result.details["minimality"]["audited"] > 0


@pytest.mark.logs
def test_sepsis_search_keeps_more(logs: Path) -> None:
    """A little effort on a quick setting: 2/60/.2 passes 13,000 of 11,960 events at the start."""
    log = read_log(logs / "sepsis.xes.gz")
    result = anonymize(log, L=2, K=60, C=0.2, sensitive=["Diagnose"], suppression="local", effort=40)
    assert result.satisfied
    assert result.events >= 13_000
