"""Settings that a configuration must not have: refused when it is read, before anything is spent or written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from models.errors import InputError
from stream.config import settings, sources

PRIVATE = 'mechanism = { kind = "dp-variants", epsilon = 1.0, delta_dp = 1e-6 }'
PLAIN = 'mechanism = { kind = "identity" }'
WEEKLY = 'window = { every = "7d", time = "event" }'


def load(folder: Path, *lines: str) -> settings.Settings:
    path = folder / "veilstream.toml"
    path.write_text("\n".join(["[[publication]]", 'name = "p"', *lines]))
    return sources.load(path)


@pytest.mark.parametrize("first", ["new_cases = 5", "events_fraction = 0.5", "cases_fraction = 0.5"])
def test_the_first_dp_release_may_not_wait_for_the_data(tmp_path: Path, first: str) -> None:
    """The moment of the first release would reveal as much about the data as any other."""
    window = f'window = {{ every = "7d", time = "event", first = {{ {first} }} }}'
    with pytest.raises(InputError, match=r"window\.first\..* reads the data"):
        load(tmp_path, window, PRIVATE)
    assert load(tmp_path, window, PRIVATE, "gate = { public_cut = true }")


def test_a_fixed_first_moment_reveals_nothing(tmp_path: Path) -> None:
    """A date that is in the configuration is not a function of the data."""
    window = 'window = { every = "7d", time = "event", first = { until = "2020-01-01T00:00:00Z" } }'
    assert load(tmp_path, window, PRIVATE)


@pytest.mark.parametrize("bound", ["min_ka = 2", "min_fa = 2", "min_series = 2"])
def test_anonymity_bounds_on_noisy_counts_are_refused(tmp_path: Path, bound: str) -> None:
    """They can never be measured there, so each attempt would be paid for and none could pass."""
    with pytest.raises(InputError, match="do not apply"):
        load(tmp_path, WEEKLY, PRIVATE, f"gate = {{ {bound}, charge_withheld = true }}")


def test_a_delta_bound_needs_a_mechanism_that_spends(tmp_path: Path) -> None:
    """max_delta on a mechanism without a budget would pass without meaning anything."""
    with pytest.raises(InputError, match="max_delta"):
        load(tmp_path, "window = { new_cases = 10 }", PLAIN, "gate = { max_delta = 1e-6 }")


def test_a_release_has_at_least_one_format(tmp_path: Path) -> None:
    """A release without a log would be an empty success."""
    with pytest.raises(InputError, match="formats"):
        load(tmp_path, "window = { new_cases = 10 }", PLAIN, "formats = []")


def test_a_ba_bound_above_what_a_window_brings_is_refused(tmp_path: Path) -> None:
    """BA is at most the number of new cases; the least guard counts as part of the window."""
    with pytest.raises(InputError, match="min_ba = 20 cannot hold"):
        load(tmp_path, "window = { new_cases = 10 }", PLAIN, "gate = { min_ba = 20 }")
    assert load(tmp_path, "window = { new_cases = 10, min_new_cases = 20 }", PLAIN, "gate = { min_ba = 20 }")


@pytest.mark.parametrize(
    ("lines", "place"),
    [
        ((WEEKLY, 'mechanism = { kind = "tlkc", K = "abc", L = 2, C = 0.5 }'), "mechanism.K"),
        ((WEEKLY, 'mechanism = { kind = "identity", colour = 1 }'), "mechanism.colour: unknown key"),
        ((WEEKLY, PLAIN, 'audit = { bk_length = "z" }'), "audit.bk_length"),
        ((WEEKLY, PLAIN, "audit = { risk = 5 }"), "audit.risk: must be a table"),
        ((WEEKLY, PLAIN, f"gate = {{ min_ka = {10**30} }}"), "gate.min_ka"),
        ((WEEKLY, 'mechanism = { kind = ["identity"] }'), "mechanism kind ['identity'] is not one of"),
        (("window = { evry = 3 }", PLAIN), "window.evry"),
        ((WEEKLY, 'mechanism = { kind = "tlkc", alpha = 0.7 }'), "alpha = 0.7"),
        ((WEEKLY, 'mechanism = { kind = "tlkc", bins = { Age = [60, 40] } }'), "the bins of Age do not ascend"),
        ((WEEKLY, 'mechanism = { kind = "lcs-start", bins = { Age = [60, 40] } }'), "the bins of Age do not ascend"),
        ((WEEKLY, 'mechanism = { kind = "tlkc", bins = { Age = [40] } }'), "mechanism.bins are given for Age"),
        ((WEEKLY, 'mechanism = { kind = "tlkc-cohorts", effort = 9 }'), 'effort is of suppression = "local"'),
        (
            (
                "window = { events_per_case = { x = 3 } }",
                'mechanism = { kind = "dp-variants", epsilon = 1, delta_dp = 1e-3 }',
                "gate = { public_cut = true }",
            ),
            "window.events_per_case cannot fire by itself for dp-variants",
        ),
        ((WEEKLY,), "mechanism: is missing, and has no default; set it"),
    ],
)
def test_a_fault_names_the_publication_and_the_table(tmp_path: Path, lines: tuple[str, ...], place: str) -> None:
    """Not the publication's number in the file: its name, then the table and the key."""
    with pytest.raises(InputError, match=re.escape(f"veilstream.toml: publication 'p': {place}")):
        load(tmp_path, *lines)


@pytest.mark.parametrize(
    ("window", "named"),
    [
        ('window = { every = "7d" }', 'window.time = "event" (the default) closes'),
        (WEEKLY, 'window.time = "event" closes'),
    ],
)
def test_a_refused_default_is_named_as_a_default(tmp_path: Path, window: str, named: str) -> None:
    """A reader of the message looked for a key that the file did not have."""
    with pytest.raises(InputError, match=re.escape(named)):
        load(tmp_path, 'cases = "completed"', window, PRIVATE)
