"""In a log without sensitive values the group with the most cracks is known from the anonymity that is left."""

from __future__ import annotations

import random

import pytest

from models.attacks.candidates import worst_group
from models.attacks.correspondence import PairAttack
from models.attacks.linker import base_linkers
from models.attacks.pairs import encode, join_releases
from models.attacks.search import Minimum
from tests.property.test_attacks_against import Series


@pytest.mark.parametrize("minimum", ["realisable", "all", "common"])
def test_the_one_group_has_what_its_flows_count(minimum: Minimum) -> None:
    """Thirty random pairs: what follows from the value found, against the cracks counted by flows."""
    compared = 0
    for seed in range(30):
        rng = random.Random(f"{minimum}{seed}")
        series, logs = Series(rng, values=False), []
        for number in (1, 2):
            series.grow(rng.randint(5, 40))
            logs.append(series.release(number, hidden=rng.choice([0, 0, 0.1]), leaves=0).simple())
        audit = PairAttack(join_releases(*logs), 2, (0, 1, 2), "exact", minimum)
        for base in base_linkers(audit.pair, audit.linkable, audit.ns):
            result, judge = audit.least(base), audit.valuer(base)
            for attack, group in result.groups.items():
                bk = encode(audit.pair, result.worst[attack] or []).tolist()
                assert group == worst_group(judge, bk, attack)
                compared += group["cracked"] > 0
    assert compared > 10
