"""Class edges of the default: points of a public grid, never a value of a person."""

from __future__ import annotations

import itertools
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.anonymize.sensitive import class_columns
from models.eventlog import Column, EventLog
from stream.run.presets import default_publication, grid_edges


def log_of(amounts: list[float]) -> EventLog:
    """One event a case, and the amount of each case."""
    ids = [str(number) for number in range(len(amounts))]
    times = np.arange(len(amounts), dtype=np.int64)
    log = EventLog.from_events(ids, ["a"] * len(ids), times, unit="ns")
    return log.with_columns(case={"amount": Column.encode(amounts)})


def on_grid(edge: float) -> bool:
    """Whether a number has few digits: a multiple of a step of the size of the distance between the quartiles."""
    return len(Decimal(repr(edge)).normalize().as_tuple().digits) <= 4


AMOUNTS = [1234.56 + 17.31 * number for number in range(101)]
"""As many as 1 mod 4: both quartiles are the amount of one case."""


def test_edges_are_no_amount_of_a_case() -> None:
    """The quartiles themselves would be those of two persons."""
    quartiles = {AMOUNTS[25], AMOUNTS[75]}
    edges = grid_edges(log_of(AMOUNTS), ["amount"])["amount"]
    assert edges == (1800.0, 2400.0)
    assert not quartiles & set(edges)
    assert not set(AMOUNTS) & set(edges)


def test_edges_of_neighbours_are_the_same() -> None:
    """Any case of this log may be missing, or have another amount."""
    edges = grid_edges(log_of(AMOUNTS), ["amount"])
    for number in range(len(AMOUNTS)):
        without = AMOUNTS[:number] + AMOUNTS[number + 1 :]
        assert grid_edges(log_of(without), ["amount"]) == edges
        assert grid_edges(log_of([*without, 1e6]), ["amount"]) == edges


@given(st.lists(st.decimals(-10_000, 10_000, places=2), min_size=1, max_size=60))
def test_outer_classes_hold_a_quarter_each(drawn: list[Decimal]) -> None:
    """So no class between them holds more than half, as with the quartiles themselves."""
    amounts = [float(amount) for amount in drawn]
    log = log_of(amounts)
    edges = grid_edges(log, ["amount"])["amount"]
    assert all(low < high for low, high in itertools.pairwise(edges))
    low, high = np.quantile(amounts, [0.25, 0.75])
    assert all(on_grid(edge) or low == high for edge in edges)
    if low < high:
        classes = class_columns(log, ["amount"], {"amount": edges})["amount"].decode()
        assert sum(name == f"<= {edges[0]:g}" for name in classes) * 4 >= len(amounts)
        assert sum(name == f"> {edges[-1]:g}" for name in classes) * 4 >= len(amounts)


@pytest.mark.parametrize("amount", [0.0, 7.25, -3.0, 1e9])
def test_one_amount_of_all_cases_is_no_edge(amount: float) -> None:
    """Equal quartiles have a grid too."""
    edges = grid_edges(log_of([amount] * 9), ["amount"])["amount"]
    assert edges
    assert all(on_grid(edge) for edge in edges)


def test_the_default_takes_its_edges_from_the_grid() -> None:
    """The settings are those of `replay` without a configuration."""
    assert default_publication(log_of(AMOUNTS), ["amount"]).mechanism["bins"] == {"amount": (1800.0, 2400.0)}
