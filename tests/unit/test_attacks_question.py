"""The attack on event logs in memory: options, preparation and answer, without the command."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from models.attacks.correspondence import AttackQuestion, attack
from models.errors import InputError
from models.eventlog import EventLog

MINUTES = np.asarray([0, 1, 2, 0, 5]) * 60_000_000_000
FIRST = EventLog.from_events(["1", "1"], [*"ab"], MINUTES[:2], [*"rr"], unit="ns")
BOTH = EventLog.from_events([*"11122"], [*"abxab"], MINUTES, [*"rrrss"], unit="ns")


@pytest.mark.parametrize(("link", "left"), [((), 1), (("re",), 0), (("time",), 0), (("re", "time"), 0)])
def test_releases_are_linked_on_what_they_carry(link: tuple[str, ...], left: int) -> None:
    """Case 1 has x, case 2 is new: by resources or times, the record with x cannot be the new one."""
    answer = attack(FIRST, BOTH, AttackQuestion(n=[0], bk=[["x"]], link=link))
    assert answer.cases == (1, 2)
    assert [row["ba"] for row in answer.candidates] == [left]


def test_background_knowledge_about_resources() -> None:
    """One case has r, the other s: each stays the only match of what somebody knows of its resource."""
    answer = attack(FIRST, BOTH, AttackQuestion(n=[0], bk=[["r"], ["s"]], attribute="re"))
    assert [row["ms2"] for row in answer.candidates] == [1, 1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n": [128]}, "n = 128 is not in 0..127"),
        ({"attribute": "ar"}, "attribute = 'ar' is not one of ac, re"),
        ({"link": ["colour"]}, "link = 'colour' is not one of ac, re, time"),
        ({"T": "weeks"}, "T = 'weeks' is not one of seconds, minutes, hours, days"),
        ({"bk": [[]]}, "bk names no activity"),
        ({"joint": True}, "joint links are about named background knowledge: name it by bk"),
    ],
)
def test_bad_options_are_refused_before_a_log_is_read(change: dict[str, object], message: str) -> None:
    """The message names the parameter, its value and what is possible."""
    with pytest.raises(InputError) as error:
        AttackQuestion(**change)  # type: ignore[arg-type]
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: attack(BOTH, FIRST), "release 2 has 1 cases, fewer than the 2 of release 1"),
        (lambda: attack(FIRST, BOTH, sensitive=["age"]), "release 1: no attribute 'age'"),
        (lambda: attack(FIRST, BOTH, sensitive=["age"], names=["May", "June"]), "May: no attribute 'age'"),
        (lambda: attack(FIRST, BOTH, AttackQuestion(bk=[["a", "q"]])), "bk: activity 2 of 2 occurs in none"),
        (lambda: attack(FIRST, BOTH, AttackQuestion(taxonomy={"p": "q"})), "taxonomy: it names no activity"),
    ],
)
def test_releases_that_cannot_be_compared(ask: Callable[[], object], message: str) -> None:
    """The message names the release."""
    with pytest.raises(InputError) as error:
        ask()
    assert message in str(error.value)
