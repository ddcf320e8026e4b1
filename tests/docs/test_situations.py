"""Each key, option and metric has a situation in which somebody sets it, passes it or looks at it."""

from __future__ import annotations

import pytest

from stream.config.reference import tables
from tests.docs.situations import faults, repeated

KEYS = [row for _, _, rows in tables() for row in rows]


def test_every_key_names_the_situation_in_which_somebody_sets_it() -> None:
    """A key without one would be missed by nobody; a key that everybody must set says how to choose."""
    wrong = [f"{row.table}: {row.key} has no description" for row in KEYS if not row.meaning]
    for row in KEYS:
        start = "Choose " if row.required else "Set it when "
        wrong += [f"{row.table}: {row.key} {fault}" for fault in faults(row.key, row.situation, start)]
    assert wrong == []


def test_no_two_keys_have_the_same_situation() -> None:
    """A sentence that suits two keys was copied, or the keys set the same thing."""
    assert repeated((row.key, row.situation) for row in KEYS) == []


@pytest.mark.parametrize(
    "empty",
    [
        "",
        "The largest share.",
        "Set it when needed.",
        "Set it when you need another value than the default.",
        "Set it when the default does not fit your requirements.",
        "Set it when max_share must be set to something different.",
        "Set it when you want to change the max share that is used.",
        "Set it when a specific configuration requires another setting of this option",
    ],
)
def test_a_phrase_that_would_suit_every_key_is_no_situation(empty: str) -> None:
    """Control: such sentences can be written without knowing what the key does."""
    assert list(faults("max_share", empty, "Set it when "))


def test_a_copied_situation_is_noticed() -> None:
    """Control: the same sentence beside two keys."""
    sentence = "Set it when cases take longer than a month."
    assert repeated([("max_duration", sentence), ("inactivity", sentence.replace("month", "months"))])
    assert repeated([("K", sentence), ("K", sentence)]) == []
