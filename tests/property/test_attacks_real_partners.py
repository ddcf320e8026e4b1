"""The counts of the real partners are the same with shared tables and totals, and without.

Random series: cases join, grow, are hidden, change their sensitive value and leave; candidates are withheld, releases
are written again by erasure and read back after a restart. Survivors, changes and the least values must be equal.
Several background knowledges may attain a least value: the one that is named must attain it in the pair alone.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from models.attacks import totals
from models.attacks.correspondence import AttackResult
from models.attacks.pairs import ReleasePair, encode, join_releases, next_occurrences, unmatched
from models.attacks.search import Minimum
from models.attacks.true_linker import RealPartners, true_counts, true_linker
from models.errors import InputError
from stream.ledger import release_record
from stream.ledger.release_record import ReleaseRecord
from stream.release.audits.anonymity import CorrespondenceAudit, knowledge_of
from stream.release.audits.comparison import Comparison
from tests.property.test_attacks_against import Series, fresh


def compared_with(candidate: ReleaseRecord, earlier: list[ReleaseRecord]) -> Comparison:
    """The candidate and earlier releases, for n up to 2; background knowledge is about activities."""
    return Comparison(candidate, earlier, 2, knowledge_of(candidate.carries, ("activity",)))


def shared(
    candidate: ReleaseRecord,
    earlier: list[ReleaseRecord],
    length: int,
    minimum: Minimum,
    n: tuple[int, ...] = (0, 1, 2),
) -> list[RealPartners]:
    """The answer of the audit, which shares tables and totals among all pairs of the candidate."""
    audit = CorrespondenceAudit(bk_length=length, n=n, minimum=minimum)
    compared = compared_with(candidate, earlier)
    return audit._real_partners(compared)


def partners_by_case_id(candidate: ReleaseRecord, earlier: ReleaseRecord) -> list[int]:
    """The place of each earlier case in the candidate, -1 if it is not in it."""
    later_place = {case: place for place, case in enumerate(candidate.log.case_ids)}
    return [later_place.get(case, -1) for case in earlier.log.case_ids]


def check(found: RealPartners, candidate: ReleaseRecord, earlier: ReleaseRecord, length: int, minimum: Minimum) -> None:
    """Compare an answer with that of the pair alone, and what it names with the counts of that background knowledge."""
    expected = alone(candidate, earlier, length, minimum)
    assert (found.survivors, found.gone, found.changed) == (expected.survivors, expected.gone, expected.changed)
    known = knowledge_of(candidate.carries, ("activity",))
    pair = join_releases(earlier.simple(), candidate.simple(), known=known)
    partner = np.asarray(partners_by_case_id(candidate, earlier), dtype=np.int64)
    for result, expected_result in zip(found.results, expected.results, strict=True):
        assert (result.n, result.linker, result.values) == (expected_result.n, "exists", expected_result.values)
        check_named(result, pair, partner)
    for measure, (value, knowledge) in found.least.items():
        assert value == expected.least[measure][0]
        if knowledge is not None:
            counts = [true_counts(pair, next_occurrences(pair), partner, knowledge, n)[measure] for n in (0, 1, 2)]
            assert 0 < len(knowledge) <= length
            assert value in counts


def check_named(result: AttackResult, pair: ReleasePair, partner: Any) -> None:
    """Each named background knowledge attains its value, and so many records match it."""
    table = next_occurrences(pair)
    for measure, knowledge in result.worst.items():
        if knowledge is None:
            assert result.values[measure] is None
            continue
        counts = true_counts(pair, table, partner, knowledge, result.n)
        matches = unmatched(table, encode(pair, knowledge)) <= result.n
        sizes = [int(rows.count[matches[rows.known_variant]].sum()) for rows in (pair.earlier, pair.later)]
        records = {**counts, "ka1": sizes[0], "ka1_common": sizes[0], "ka2": sizes[1], "ka2_common": sizes[1]}
        assert result.values[measure] == records[measure]
        if measure in counts:
            assert result.matching[measure] == sizes[0 if measure == "fa" else 1]


def alone(candidate: ReleaseRecord, earlier: ReleaseRecord, length: int, minimum: Minimum) -> RealPartners:
    """The answer of one pair of simple logs, with partners and changes read from case ids."""
    partner = partners_by_case_id(candidate, earlier)
    value1, value2 = (one.log.sensitive(one.sensitive).decode() for one in (earlier, candidate))
    gone = partner.count(-1)
    changed = 0 if gone else sum(value1[case] != value2[place] for case, place in enumerate(partner))
    answer = true_linker(
        earlier.simple(),
        candidate.simple(),
        np.asarray(partner, dtype=np.int64),
        bk_length=length,
        n=(0, 1, 2),
        minimum=minimum,
        known=knowledge_of(candidate.carries, ("activity",)),
    )
    return RealPartners(len(partner) - gone, gone, changed, answer.results)


@pytest.mark.parametrize("length", [1, 2, 3])
@pytest.mark.parametrize("minimum", ["realisable", "all", "common"])
# 0 has sensitive values, 3 has times.
@pytest.mark.parametrize("seed", [0, 3, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 4, 5))])
def test_what_pairs_share_equals_each_pair_alone(length: int, minimum: Minimum, seed: int) -> None:
    """With and without sensitive values, with times that knowledge is not about, where cases leave or are hidden."""
    rng = random.Random(f"{length}{minimum}{seed}")
    series, kept = Series(rng, values=seed % 2 == 0, timed=seed == 3), list[ReleaseRecord]()
    hidden, leaves = rng.choice([(0.0, 0.0), (0.2, 0.0), (0.1, 0.1)])
    for number in range(1, 8):
        series.grow(rng.randint(1, 25))
        if rng.random() < 0.2:
            kept = [fresh(one) for one in kept]
        for _attempt in range(rng.choice([1, 1, 2])):
            candidate = series.release(number, hidden=hidden, leaves=leaves)
            answers = shared(candidate, kept, length, minimum)
            for found, earlier in zip(answers, kept, strict=True):
                check(found, candidate, earlier, length, minimum)
        kept.append(candidate)
        if rng.random() < 0.2:
            gone = {rng.choice(list(series.cases))}
            series.erased |= gone
            kept = [release_record.without_cases(one, gone) if gone & set(one.log.case_ids) else one for one in kept]


def test_a_case_that_leaves_and_comes_again_is_counted_each_time() -> None:
    """Two cases; the second one is in releases 1 and 3 only, with another value in 3."""
    logs = [{"a": ("xy", "v"), "b": ("xz", "v")}, {"a": ("xy", "v")}, {"a": ("xyy", "v"), "b": ("xz", "w")}]
    records = []
    for number, cases in enumerate(logs, start=1):
        series = Series(random.Random(1), values=True)
        series.cases = {name: [(activity, 0) for activity in trace] for name, (trace, _) in cases.items()}
        series.value = {name: value for name, (_, value) in cases.items()}
        records.append(series.release(number, hidden=0.0, leaves=0.0))
    found = shared(records[2], records[:2], 1, "realisable", n=(0,))
    assert [(one.survivors, one.gone, one.changed) for one in found] == [(2, 0, 1), (1, 0, 0)]
    assert found[0].least == {"fa": (1, ["y"]), "ca": (1, ["y"]), "ba": (None, None)}  # nothing in release 3 is new
    assert found[1].least == {"fa": (1, ["y"]), "ca": (1, ["y"]), "ba": (1, ["z"])}


def test_records_of_no_case_have_no_partner() -> None:
    """A release of a mechanism that draws records has no real cases behind some of them."""
    series = Series(random.Random(2), values=False)
    series.grow(20)
    records = [series.release(number, hidden=0.0, leaves=0.0) for number in (1, 2)]
    one, other = (record.showing(replace(record.log, case_ids=("", *record.case_ids[1:]))) for record in records)
    (found,) = shared(other, [one], 2, "realisable")
    assert (found.survivors, found.gone) == (one.log.n_cases - 1, 1)


def test_totals_that_do_not_fit_are_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a table over all background knowledge the answer is the same."""
    monkeypatch.setattr(totals, "MOST_COLUMNS", 3)
    series = Series(random.Random(2), values=False)
    series.grow(20)
    records = [series.release(number, hidden=0.2, leaves=0.1) for number in (1, 2)]
    assert shared(records[1], records[:1], 2, "realisable") == [alone(records[1], records[0], 2, "realisable")]


def test_partners_of_shared_pairs_must_be_distinct_and_complete() -> None:
    """Two earlier cases cannot be one later case, and each has a place."""
    series = Series(random.Random(2), values=False)
    series.grow(20)
    earlier, candidate = (series.release(number, hidden=0.0, leaves=0.0) for number in (1, 2))
    compared = compared_with(candidate, [earlier])
    same = np.zeros(earlier.log.n_cases, dtype=np.int64)
    with pytest.raises(InputError, match="same partner"):
        compared.true_counts([same], 2, (0,), "realisable")
    with pytest.raises(InputError, match="partners for"):
        compared.true_counts([same[:1]], 2, (0,), "realisable")
