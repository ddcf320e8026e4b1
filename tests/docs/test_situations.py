"""Each key, option and metric has a situation in which somebody sets it, passes it or looks at it."""

from __future__ import annotations

import pytest

from stream.commands import _reference as options_page
from stream.config.reference import tables
from stream.run.metric_table import DEFINITIONS
from tests.conftest import ROOT
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


def test_every_option_names_the_situation_in_which_somebody_passes_it() -> None:
    """Also an option of one command alone. A situation whose option is gone would be noticed by nobody."""
    rows = list(options_page.options())
    wrong = [f"{row.command} {row.option} has no description" for row in rows if not row.meaning]
    for row in rows:
        wrong += [f"{row.command} {row.option} {fault}" for fault in faults(row.option, row.situation, *PASSED)]
    assert wrong == []
    asked = {f"{row.command} {row.option}" for row in rows} | {row.option for row in rows}
    assert options_page.SITUATIONS.keys() <= asked
    assert repeated((row.option, row.situation) for row in rows) == []


PASSED = ("Pass it when ", "Pass it with ", "Pass it before ", "Pass it to ", "Pass `")


def test_the_page_of_options_is_current() -> None:
    """docs/options.md is what the commands say today."""
    committed = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
    assert committed == options_page.page(), "run `python -m stream.commands._reference > docs/options.md`"


def test_every_metric_names_the_situation_in_which_somebody_looks_at_it() -> None:
    """That each of them is on a dashboard is in tests/deploy/test_grafana_dashboards.py."""
    wrong = [f"{one.name} has no description" for one in DEFINITIONS if not one.help]
    for one in DEFINITIONS:
        name = one.name.removeprefix("veilstream_")
        wrong += [f"{one.name} {fault}" for fault in faults(name, one.situation, "Look at it when ")]
    assert wrong == []
    assert repeated((one.name, one.situation) for one in DEFINITIONS) == []


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
    """Control: two keys with the same sentence."""
    sentence = "Set it when cases take longer than a month."
    assert repeated([("max_duration", sentence), ("inactivity", sentence.replace("month", "months"))])
    assert repeated([("K", sentence), ("K", sentence)]) == []
