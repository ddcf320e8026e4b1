"""What the real partners leave, followed from earlier release to earlier release, is what each pair gives alone.

Random series: cases join, grow, are hidden, change their sensitive value and leave; candidates are withheld, releases
are written again by erasure and read back after a restart. Survivors, changes, the least values and the background
knowledge that attains them must be equal.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from models.attacks import totals
from models.attacks.outcome import FLOOR, Minimum
from models.attacks.true_linker import RealPartners
from stream.ledger import release_record
from stream.ledger.release_record import ReleaseRecord
from stream.release.audits.anonymity import CorrespondenceAudit, knowledge_of
from stream.release.comparison import Comparison
from tests.property.test_attacks_against import Series, fresh


def beside(candidate: ReleaseRecord, earlier: list[ReleaseRecord]) -> Comparison:
    """The candidate beside earlier releases, for n up to 2; background knowledge is about activities."""
    return Comparison(candidate, earlier, 2, knowledge_of(candidate.carries, ("activity",)))


def followed(compared: Comparison, length: int, minimum: Minimum) -> list[RealPartners] | None:
    """The answer for n = 0, 1, 2, from one release to the next."""
    return compared.real_partners(length, (0, 1, 2), FLOOR[minimum])


def alone(candidate: ReleaseRecord, earlier: list[ReleaseRecord], length: int, minimum: Minimum) -> list[RealPartners]:
    """The same of records that share nothing, each pair by itself."""
    audit = CorrespondenceAudit(bk_length=length, n=(0, 1, 2), minimum=minimum)
    return [audit._real_alone(beside(fresh(candidate), [copy]), copy) for copy in map(fresh, earlier)]


def told(found: RealPartners) -> RealPartners:
    """Changes are asked of pairs whose cases are all there."""
    return replace(found, changed=0) if found.gone else found


@pytest.mark.parametrize("length", [1, 2, 3])
@pytest.mark.parametrize("minimum", ["realisable", "all", "common"])
@pytest.mark.parametrize("seed", range(6))
def test_what_is_followed_equals_each_pair_alone(length: int, minimum: Minimum, seed: int) -> None:
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
            compared = beside(candidate, kept)
            found = followed(compared, length, minimum)
            wanted = alone(candidate, kept, length, minimum)
            assert list(map(told, found or [])) == wanted
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
    found = beside(records[2], records[:2]).real_partners(1, (0,), 1)
    assert found is not None
    assert [(one.survivors, one.gone, one.changed) for one in found] == [(2, 0, 1), (1, 0, 0)]
    assert found[0].least == {"fa": (1, ["y"]), "ca": (1, ["y"]), "ba": (None, None)}  # nothing in release 3 is new
    assert found[1].least == {"fa": (1, ["y"]), "ca": (1, ["y"]), "ba": (1, ["z"])}


def test_records_of_no_case_are_counted_pair_by_pair() -> None:
    """A release of a mechanism that draws records has no partners to follow."""
    series = Series(random.Random(2), values=False)
    series.grow(20)
    records = [series.release(number, hidden=0.0, leaves=0.0) for number in (1, 2)]
    one, other = (record.showing(replace(record.log, case_ids=("", *record.case_ids[1:]))) for record in records)
    assert followed(beside(other, [one]), 2, "realisable") is None


def test_too_many_candidates_are_searched_pair_by_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    """No table, nothing to follow."""
    monkeypatch.setattr(totals, "MOST_COLUMNS", 3)
    series = Series(random.Random(2), values=False)
    series.grow(20)
    records = [series.release(number, hidden=0.0, leaves=0.0) for number in (1, 2)]
    assert followed(beside(records[1], records[:1]), 2, "realisable") is None


def test_steps_between_earlier_releases_are_made_once() -> None:
    """A further cut makes one more, whatever lies behind, and a step holds the cases that differ only."""
    series, records = Series(random.Random(3), values=False), list[ReleaseRecord]()
    for number in range(1, 6):
        series.grow(10)
        records.append(series.release(number, hidden=0.0, leaves=0.0))
        followed(beside(records[-1], records[:-1]), 2, "realisable")
    before = [one.cache["attacks.step"][2] for one in records[:-1]]
    series.grow(5)
    candidate = series.release(6, hidden=0.0, leaves=0.0)
    followed(beside(candidate, records), 2, "realisable")
    after = [one.cache["attacks.step"][2] for one in records]
    assert all(one is other for one, other in zip(before, after[:-1], strict=True))
    assert 0 < sum(len(one.case) for one in after) < sum(one.log.n_cases for one in records)
