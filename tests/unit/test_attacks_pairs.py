"""Options of the correspondence attacks on small releases: taxonomy, foreign symbol, perspectives, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from models.attacks import linkability, search
from models.attacks.candidates import cracks_by_value, joint_value, matching_rows, records_by_value
from models.attacks.correspondence import AttackQuestion, PairAttack, anonymity, every_candidate
from models.attacks.linker import base_linkers
from models.attacks.pairs import encode, join_releases, next_occurrences
from models.attacks.series import (
    PairInSeries,
    PairTables,
    b_then_c,
    b_then_f,
    best_of,
    identity_tables,
    pair_cracks,
    series,
)
from models.attacks.true_linker import real_links, true_linker
from models.errors import InputError
from models.eventlog import Column, EventLog, SimpleLog
from tests.conftest import golden
from tests.golden.test_attacks import judged


def simple(*cases: tuple[Any, Any]) -> SimpleLog:
    return SimpleLog.from_log(EventLog.from_traces([(tuple(trace), own) for trace, own in cases]), ("sensitive",))


FIGURE = golden("attacks.json")["paper_figures"]["figure2"]
L1, L2 = (simple(*FIGURE[name]) for name in ("L1", "L2"))


def test_figure_2_at_log_level() -> None:
    """5-anonymous releases are 4-anonymous together, by the background knowledge of Examples 1 to 3."""
    (found,) = anonymity(L1, L2, bk_length=2, n=[1]).results
    assert {name: found.values[name] for name in ("ka1", "ka2", "fa", "ca", "ba")} == {
        "ka1": 5, "ka2": 5, "fa": 4, "ca": 4, "ba": 4,
    }  # fmt: skip
    assert (found.worst["fa"], found.worst["ba"]) == (["d", "e"], ["d", "c"])
    assert found.groups["ba"]["value"] == "Corona"
    assert found.json()["fc"] == pytest.approx(1 / 5)


def test_no_linker_names_a_witness_and_the_least_n() -> None:
    """Figure 2 has no linker with n = 0: its c and d were removed; every value names its witness, n = 1 is enough."""
    found = anonymity(L1, L2, bk_length=2, n=[0]).results[0].json()
    assert (found["linker"], found["fa"], found["ka1"], found["least_n"]) == ("none", None, None, 1)
    assert {(own["value"], own["earlier"], own["later"]) for own in found["witness"]} == {
        ("Corona", 3, 0), ("HIV", 2, 0),
    }  # fmt: skip


def test_a_changed_sensitive_value_has_no_n() -> None:
    """A value that changed between releases leaves an earlier record without any partner: no n helps."""
    found = anonymity(simple(("ab", "X")), simple(("ab", "Y"), ("ab", None)), bk_length=1, n=[0, 3]).results
    assert [(one.linker, one.least_n) for one in found] == [("none", None), ("none", None)]


def test_missing_is_a_value_of_its_own() -> None:
    """A missing value links to missing values only."""
    earlier, later = simple(("a", None)), simple(("a", None), ("b", "X"))
    assert anonymity(earlier, later, bk_length=1, n=[0]).results[0].linker == "exists"
    assert anonymity(simple(("a", "X")), simple(("a", None)), bk_length=1, n=[0]).results[0].linker == "none"


def test_linking_on_more_than_is_known() -> None:
    """Resources distinguish two records for linking although background knowledge is about activities."""
    earlier = _with_resources([("a", "r"), ("a", "s")])
    later = _with_resources([("a", "r"), ("a", "s"), ("a", "t")])
    (both,) = anonymity(earlier, later, bk_length=1, n=[0], known=lambda item: item[0]).results
    assert (both.values["ka2"], both.values["ba"], both.worst["ba"]) == (3, 1, ["a"])


def _with_resources(events: list[tuple[str, str]]) -> SimpleLog:
    starts = np.arange(len(events) + 1, dtype=np.int64)
    return SimpleLog.from_items(starts, Column.encode(events), Column.encode([None] * len(events)))


def test_taxonomy_lets_a_general_activity_stand_for_special_ones() -> None:
    """`test` may be x or y: it links to both and matches background knowledge of either, not of z."""
    taxonomy = {"x": "test", "y": "test"}
    earlier = simple((["test"], "X"))
    later = simple((["x"], "X"), (["z"], "X"))
    found = anonymity(earlier, later, bk_length=1, n=[0], taxonomy=taxonomy, candidates=[["x"], ["y"], ["z"]])
    sizes = {row["bk"][0]: (row["ms1"], row["ms2"], row["f"]) for row in found.candidates}
    assert found.results[0].linker == "exists"
    assert sizes == {"x": (1, 1, 0), "y": (1, 0, 1), "z": (0, 1, 0)}


def test_a_series_knows_the_taxonomy() -> None:
    """If an activity was published generalized at first, only the taxonomy links the releases."""
    releases = [simple(*[([activity], "X")] * size) for activity, size in (("t", 2), ("x", 3), ("x", 4))]
    without = {}
    for taxonomy in (None, {"x": "t", "y": "t"}):
        (row,) = series(AttackQuestion(bk_length=1, n=(0,), taxonomy=taxonomy), releases).json()["results"]
        without[taxonomy is not None] = row["without_linker"]
    assert without == {False: [[1, 2], [1, 3]], True: []}


def test_foreign_symbol_costs_one_n() -> None:
    """ms^n(bk.x) = ms^(n-1)(bk) for an activity x that no release shows."""
    rows = anonymity(L1, L2, bk_length=3, n=[1, 2], foreign=True, candidates=[["d", "c", "*"], ["d", "c"]]).candidates
    by = {(tuple(row["bk"]), row["n"]): row for row in rows}
    assert by[("d", "c", "*"), 2]["ms2"] == by[("d", "c"), 1]["ms2"] == 5


def test_every_vector_of_joint_links() -> None:
    """Joint links give the golden F, C and B wherever a linker exists."""
    checked = 0
    for one in golden("attacks.json")["random"][::2]:
        for vector in one["vectors"]:
            judge, base, code = judged(one["L1"], one["L2"], vector["n"], "exact", vector["bk"])
            if base.exists:
                found, wanted = joint_value(judge, code), vector["exact_joint"]
                assert {key: found[key.lower()] for key in ("F", "C", "B", "fa")} == {
                    key: wanted[key] for key in ("F", "C", "B", "fa")
                }
                checked += 1
    assert checked > 200


@pytest.mark.parametrize("method", ["sizes", "exact"])
def test_golden_series(method: str) -> None:
    """Optimal micro attacks and compositions of three releases; exact cracks never fall below the formulas."""
    for vector in golden("attacks_series.json")["vectors"]:
        logs = [vector["L1"], vector["L2"], vector["L3"]]
        shown = {}
        for i, j in ((0, 1), (0, 2), (1, 2)):
            judge, base, code = judged(logs[i], logs[j], vector["n"], method, vector["bk"])
            if method == "exact" and not base.exists:
                break
            shown[i, j] = pair_cracks(judge, [judge.pair.alphabet[symbol] for symbol in code])
        if len(shown) < 3:
            continue
        found = {
            "optimal_F_on_L1": best_of([shown[0, 1].f, shown[0, 2].f]),
            "optimal_C_on_L3": best_of([shown[0, 2].c, shown[1, 2].c]),
            "optimal_B_on_L3": best_of([shown[0, 2].b, shown[1, 2].b]),
            "BF_formula": b_then_f(shown[0, 1], shown[1, 2]),
            "BC_formula": b_then_c(shown[0, 1], shown[1, 2]),
        }
        for key, number in found.items():
            assert number == vector[key] if method == "sizes" else number >= vector[key]
        if method == "exact" and vector["BF_exact"] is not None:
            assert found["BF_formula"] <= vector["BF_exact"]
            assert found["BC_formula"] <= vector["BC_exact"]


def test_series_never_leaves_more_than_its_pairs() -> None:
    """For the background knowledge of each least number of three releases, an adversary keeps at most what any pair
    with the release that it is about leaves. (Over all bk it may be more: f, d fits one record of release 3, but none
    of release 2, so that nobody is the victim.)"""
    logs = [L1, L2, simple(*FIGURE["L2"], (["a", "b", "f"], "HIV"))]
    (row,) = series(AttackQuestion(bk_length=2, n=[1]), logs).json()["results"]
    assert row["complete"]
    compared = 0
    for name, about in (("fa", 0), ("ca", 1), ("ba", 1)):
        release, bk = row["worst"][name]["release"] - 1, row["worst"][name]["bk"]
        for places in ((0, 1), (0, 2), (1, 2)):
            earlier, later = (logs[place] for place in places)
            if places[about] == release and set(bk) <= {*earlier.alphabet, *later.alphabet}:
                (one,) = anonymity(earlier, later, bk_length=2, n=[1], candidates=[bk]).candidates
                assert row[name] <= one[name]
                compared += 1
    assert compared >= 4


def test_a_series_tries_activities_that_one_release_alone_shows() -> None:
    """x comes with release 3. With n = 1, b, x is known of `ab` in release 2: no B there, and F keeps its one record;
    C on release 3 excludes the two of value Y. A pair whose own activities lack x was once left out."""
    logs = [
        simple(("aa", "Y")),
        simple(("aa", "Y"), ("a", "Y"), ("ab", "X")),
        simple(("aax", "Y"), ("ax", "Y"), ("ax", "X")),
    ]
    (row,) = series(AttackQuestion(bk_length=2, n=[1]), logs).json()["results"]
    assert (row["bf"], row["bc"], row["complete"]) == (1, 1, True)
    assert row["worst"]["bf"] == {"release": 2, "bk": ["b", "x"]}


def test_cracks_by_sensitive_value() -> None:
    """In Example 6 B excludes one Corona record of five: two HIV against two Corona stay."""
    given = join_releases(L1, L2)
    audit = PairAttack(given, 2, [1], "exact", "realisable")
    (base,) = base_linkers(given, audit.linkable, [1])
    valuer, bk = audit.valuer(base), encode(given, "dc")
    _, in_later = matching_rows(valuer, bk)
    sizes = records_by_value(given.later, in_later, len(given.values)).tolist()
    cracks = cracks_by_value(valuer, bk)[:, 2].tolist()
    assert {value: n for value, n in zip(given.values, sizes, strict=True) if n} == {"Corona": 3, "HIV": 2}
    assert {value: n for value, n in zip(given.values, cracks, strict=True) if n} == {"Corona": 1}


def test_enumeration_agrees_with_branch_and_bound() -> None:
    """The least realisable values over all listed candidates are those of the search."""
    (found,) = anonymity(L1, L2, bk_length=3, n=[1]).results
    rows = np.concatenate([values for *_, values in every_candidate(AttackQuestion(bk_length=3, n=[1]), L1, L2)])
    assert len(rows) == 5 + 5**2 + 5**3
    left = {"fa": rows[:, 0] - rows[:, 2], "ca": rows[:, 1] - rows[:, 3], "ba": rows[:, 1] - rows[:, 4]}
    assert {name: column[column >= 1].min() for name, column in left.items()} == {
        name: found.values[name] for name in left
    }


def test_the_search_distinguishes_like_positions_of_different_variants() -> None:
    """After b, `ab` is at 2 and `cb` at 2; after c, `ac` at 2 and `cb` at 1: variants and positions of equal sum
    and equal exclusive or, which were once taken for one state, so that c, b (one record) was never looked at."""
    counts = {"ab": 5, "ac": 5, "cb": 1, "a": 5, "aa": 5, "aaa": 5}
    log = simple(*[(trace, "X") for trace, count in counts.items() for _ in range(count)])
    (found,) = anonymity(log, log, bk_length=2, n=[0]).results
    assert (found.values["ka1"], found.worst["ka1"], found.values["fa"]) == (1, ["c", "b"], 1)


@pytest.mark.parametrize("stride", [1, 3])
def test_a_search_that_stops_to_look_up_goes_on_where_it_was(monkeypatch: pytest.MonkeyPatch, stride: int) -> None:
    """Signals are seen between compiled walks only; where the walk stops changes no value."""
    whole = anonymity(L1, L2, bk_length=4, n=[1, 2]).json()
    monkeypatch.setattr(search, "STRIDE", stride)
    assert anonymity(L1, L2, bk_length=4, n=[1, 2]).json() == whole


def test_true_linker_on_survivors() -> None:
    """A dropped case has no partner in any matching set, and a new one is left to B."""
    earlier, later = simple(("ab", "X"), ("ab", "X"), ("c", "Y")), simple(("abc", "X"), ("c", "Y"), ("ab", "Z"))
    (found,) = true_linker(earlier, later, np.asarray([0, -1, 1]), bk_length=1, n=[0]).results
    assert found.values["fa"] == 1
    assert found.values["ba"] == 1
    assert found.values["ka1"] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"bk_length": 0}, "bk_length = 0"),
        ({"n": [-1]}, "n = -1"),
        ({"n": []}, "n names no"),
        ({"method": "best"}, "method 'best'"),
        ({"minimum": "most"}, "minimum 'most'"),
        ({"candidates": [["a", "zz"]]}, "activity 2 of 2"),
        ({"taxonomy": {"a": "b", "b": "a"}}, "cycle"),
    ],
)
def test_parameters_out_of_range(arguments: dict[str, Any], message: str) -> None:
    """Every parameter out of range is one clear InputError."""
    with pytest.raises(InputError, match=message):
        anonymity(L1, L2, **arguments)


def test_too_many_candidates_are_counted() -> None:
    """An enumeration that cannot end names how many candidates there are and offers branch and bound."""
    with pytest.raises(InputError, match=r"make 305175780 candidates.*branch and bound"):
        anonymity(L1, L2, bk_length=12, n=[1], method="sound")


def test_links_that_do_not_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figure 2 has links of 2 earlier record classes, each in runs of its own: not into 1."""
    monkeypatch.setattr(linkability, "MOST_RUNS", 4)
    assert anonymity(L1, L2, n=[1]).results[0].linker == "exists"
    monkeypatch.setattr(linkability, "MOST_RUNS", 1)
    with pytest.raises(InputError, match="with n = 1 the links between records have over 1 runs"):
        anonymity(L1, L2, n=[1])


def test_partners_must_be_distinct() -> None:
    """Two earlier cases cannot be one later case."""
    with pytest.raises(InputError, match="same partner"):
        true_linker(L1, L2, np.zeros(5, dtype=np.int64))


def test_more_variants_than_the_root_of_int32() -> None:
    """Two variants are one number: of 46,656 of them it exceeds 32 bits, also where NumPy 1 keeps int32."""
    symbols = range(216)
    variants = tuple((first, second) for first in symbols for second in symbols)
    codes = np.arange(len(variants), dtype=np.int32)
    ones = np.ones(len(variants), dtype=np.int64)
    log = SimpleLog(tuple(symbols), variants, (None,), codes, codes * 0, ones, codes)
    links = real_links(join_releases(log, log), np.arange(len(variants)))
    assert np.array_equal(links, np.column_stack((codes, codes, ones)))


def test_codes_of_a_candidate() -> None:
    """Candidates are coded over the union of both alphabets."""
    given = join_releases(L1, L2)
    assert [given.alphabet[code] for code in encode(given, "dce")] == ["d", "c", "e"]


def test_tables_of_next_occurrences_count_by_symbol() -> None:
    """A position has two bytes for each symbol, once the table is made; a pair with large tables does not keep them."""
    names = [f"a{number}" for number in range(300)]
    log = SimpleLog.from_log(EventLog.from_traces([(names, None), (names[:100], None)]))
    table = next_occurrences(join_releases(log, log))
    assert table.n_bytes == 0
    assert table.after.shape == (301 + 101, 300)
    assert table.n_bytes == 2 * (301 + 101) * 300


def test_a_pair_with_large_tables_keeps_its_answers_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it answered stays, and what is asked later is the same from new tables."""
    earlier = SimpleLog.from_log(EventLog.from_traces([("ab", None), ("ac", None)]))
    later = SimpleLog.from_log(EventLog.from_traces([("ab", None), ("ac", None), ("abc", None)]))
    made: list[PairTables] = []

    def make() -> PairTables:
        made.append(identity_tables(earlier, later, np.arange(2), 2))
        return made[-1]

    pair = PairInSeries(make)
    before = pair.cracks(0, ("b",))
    pair.keep_small_tables()
    pair.cracks(0, ("a",))
    assert len(made) == 1
    monkeypatch.setattr("models.attacks.series.MOST_KEPT", 10)
    pair.keep_small_tables()
    assert pair.cracks(0, ("b",)) == before
    assert len(made) == 1
    assert pair.cracks(0, ("c",)).size2 == {None: 2}
    assert len(made) == 2
