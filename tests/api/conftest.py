"""The bundled log as an analyst has it: a DataFrame that pm4py reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from models.utility.discovery import quiet_pm4py
from tests.conftest import ROOT

HOSPITAL = ROOT / "examples" / "hospital.xes.gz"


@pytest.fixture(scope="session")
def read_by_pm4py() -> pd.DataFrame:
    """The whole log, read once."""
    with quiet_pm4py() as pm4py:
        return pm4py.read_xes(str(HOSPITAL))


@pytest.fixture
def frame(read_by_pm4py: pd.DataFrame) -> pd.DataFrame:
    """A copy of the log for one test."""
    return read_by_pm4py.copy(deep=True)


@pytest.fixture(scope="session")
def small(read_by_pm4py: pd.DataFrame) -> pd.DataFrame:
    """The cases of the first 300 by id."""
    ids = sorted(read_by_pm4py["case:concept:name"].unique())[:300]
    return read_by_pm4py[read_by_pm4py["case:concept:name"].isin(ids)].reset_index(drop=True)


@pytest.fixture
def small_file(small: pd.DataFrame, tmp_path: Path) -> Path:
    """The same cases as a Parquet file, for the command line."""
    path = tmp_path / "small.parquet"
    small.to_parquet(path)
    return path


def variants(log: Any) -> list[tuple[str, ...]]:
    """The activity sequences of a DataFrame with XES names, sorted."""
    by_case = log.groupby("case:concept:name", sort=False)["concept:name"]
    return sorted(by_case.apply(tuple).tolist())
