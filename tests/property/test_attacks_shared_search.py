"""A search over totals that the pairs of one candidate share finds what a search of the pair alone finds.

Random series of releases: cases join, grow, are hidden and leave. Each pair is searched by the shared totals, one pair
after the other, so that each takes over what the pair before left; and by the walk that adds up for itself. Values and
the background knowledge that attains them must be equal, by the real partners and by the base linkers with their flows.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from models.attacks import totals
from models.attacks.correspondence import PairAttack
from models.attacks.numbering import Numbering
from models.attacks.pairs import NextOccurrences, ReleasePair, next_occurrences, unmatched
from models.attacks.search import Minimum
from models.attacks.shared_pairs import NumberedRelease, SharedPairs
from models.attacks.totals import SharedTotals, column_starts
from models.attacks.true_linker import true_linker_of_pair
from stream.ledger.release_record import ReleaseRecord
from stream.release.audits.anonymity import parts
from tests.property.test_attacks_against import Series


def found(given: ReleasePair, table: NextOccurrences, length: int, minimum: Minimum, partner: Any) -> Any:
    """Both searches of a pair, for three n."""
    exact = PairAttack(given, length, (0, 1, 2), "exact", minimum, table).run().json()
    return exact, true_linker_of_pair(given, table, partner, length, (0, 1, 2), minimum).json()


@pytest.mark.parametrize("length", [1, 2, 3])
@pytest.mark.parametrize("minimum", ["realisable", "all", "common"])
# 0 has sensitive values, 3 has times.
@pytest.mark.parametrize("seed", [0, 3, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_shared_totals_give_what_each_pair_adds_up_for_itself(length: int, minimum: Minimum, seed: int) -> None:
    """With and without sensitive values, with times that knowledge is not about, where cases leave or are hidden."""
    rng = random.Random(f"{length}{minimum}{seed}")
    series, records = Series(rng, values=seed % 2 == 0, timed=seed == 3), list[ReleaseRecord]()
    hidden, leaves = rng.choice([(0.0, 0.0), (0.0, 0.0), (0.2, 0.0), (0.1, 0.1)])
    for number in range(1, 7):
        series.grow(rng.randint(5, 30))
        records.append(series.release(number, hidden=hidden, leaves=leaves))
    numbering, logs = Numbering(), [one.simple() for one in records]
    numbered = [
        NumberedRelease(log, numbering.number(log, one.log.case_ids)) for log, one in zip(logs, records, strict=True)
    ]
    for last in (3, 5):  # the second candidate takes over what was looked up for the first one
        first = rng.choice([0, 2])  # releases that nobody looks back at any more
        seen_as = parts((0,)) if seed == 3 else None
        against = SharedPairs(numbering, numbered[last], numbered[first:last], 2, seen_as)
        place = {case: at for at, case in enumerate(records[last].log.case_ids)}
        order = list(range(first, last))
        for at in [*order, *rng.sample(order, 1)]:  # one comes again, after others
            given, table = against.pair(numbered[at])
            assert table.part_of is not None
            assert table.part_of.shared.table(length) is not None
            partner = np.asarray([place.get(case, -1) for case in records[at].log.case_ids], dtype=np.int64)
            alone = next_occurrences(given)
            assert alone.part_of is None
            assert found(given, table, length, minimum, partner) == found(given, alone, length, minimum, partner)


def test_each_column_says_what_is_unmatched() -> None:
    """Every variant against every background knowledge up to three symbols, one by one."""
    series, numbering = Series(random.Random(5), values=False), Numbering()
    series.grow(60)
    log = series.release(1, hidden=0.1, leaves=0).simple()
    one = NumberedRelease(log, numbering.number(log, [f"c{k}" for k in range(log.n_cases)]))
    _, table = SharedPairs(numbering, one, [one], 0).pair(one)
    assert table.part_of is not None
    symbols = table.part_of.occurrences.symbols
    looked_up, columns = table.part_of.shared.table(3), column_starts(symbols, 3)
    for k in range(columns[-1]):
        length = int(np.searchsorted(columns, k, side="right"))
        rest, bk = k - int(columns[length - 1]), list[int]()
        for _ in range(length):
            rest, symbol = divmod(rest, symbols)
            bk.insert(0, symbol)
        assert looked_up[:, k].tolist() == unmatched(table.part_of.occurrences, bk).tolist()


def test_what_is_too_much_to_look_up_is_searched_by_each_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table beyond the bound is not made, and the answers are the same."""
    series, numbering = Series(random.Random(6), values=True), Numbering()
    logs = []
    for number in (1, 2):
        series.grow(30)
        record = series.release(number, hidden=0, leaves=0)
        logs.append(NumberedRelease(record.simple(), numbering.number(record.simple(), record.log.case_ids)))
    given, table = SharedPairs(numbering, logs[1], logs[:1], 2).pair(logs[0])
    partner = np.arange(logs[0].log.n_cases)
    expected = found(given, table, 2, "realisable", partner)
    monkeypatch.setattr(totals, "MOST_COLUMNS", 3)
    assert table.part_of is not None
    shared = table.part_of.shared
    without = replace(table.part_of, shared=SharedTotals(shared.variants, shared.symbols, shared.numbers))
    assert without.shared.table(2) is None
    assert found(given, replace(table, part_of=without), 2, "realisable", partner) == expected
