"""Logs in and out of the public API: DataFrames of pm4py, EventLogs, own column names, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import veilstream as vs
from connectors import read_log
from models.eventlog import EventLog
from models.utility.discovery import quiet_pm4py
from tests.api.conftest import HOSPITAL, variants

OWN_NAMES = {
    "case:concept:name": "Patient",
    "concept:name": "What",
    "time:timestamp": "When",
    "org:resource": "By",
}
OWN_COLUMNS = {"case": "Patient", "activity": "What", "time": "When", "resource": "By"}
TERMS: dict[str, Any] = {"K": 5, "L": 2, "C": 1}


class ComputedLater:
    """A table that is computed when somebody asks for it, as the LazyFrame of polars."""

    def collect(self) -> None:
        """Do nothing: the hint names the call, and nobody makes it."""


def test_a_frame_of_pm4py_and_the_file_it_was_read_from_are_one_log(frame: pd.DataFrame) -> None:
    """Cases, order, times and attributes are those of our own reader."""
    of_frame = vs.anonymize(frame, mechanism="identity", keep_resources=True)
    read = vs.read_log(HOSPITAL)
    assert variants(of_frame.log) == variants(read) == sorted(read_log(HOSPITAL).traces())
    assert read["time:timestamp"].astype("int64").sum() == read_log(HOSPITAL).time.sum()
    assert list(read.columns) == [
        "case:concept:name", "concept:name", "time:timestamp", "org:resource", "case:diagnosis", "case:age",
    ]  # fmt: skip


def test_the_callers_frame_stays_as_it_is(frame: pd.DataFrame) -> None:
    """No column, value, index, type or attribute of the frame changes in any function."""
    before = frame.copy(deep=True)
    release = vs.anonymize(frame, sensitive="diagnosis", release_attributes="diagnosis", K=20, C=0.5)
    released_before = release.log.copy(deep=True)
    vs.risk(frame, projection="E", points=1)
    vs.leakage(frame, releases=2)
    vs.attack(release, frame)
    vs.utility(frame, release.log, fitness="none")
    pd.testing.assert_frame_equal(frame, before)
    assert frame.attrs == before.attrs
    pd.testing.assert_frame_equal(release.log, released_before)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_keep_their_unit(small: pd.DataFrame, unit: str) -> None:
    """pandas 3 holds what pm4py reads in microseconds: a release comes in the unit that was given."""
    given = small.assign(**{"time:timestamp": small["time:timestamp"].dt.as_unit(unit)})
    released = vs.anonymize(given, mechanism="identity", knowledge="rel", T="seconds").log
    assert str(released["time:timestamp"].dtype) == f"datetime64[{unit}, UTC]"
    assert released["time:timestamp"].min() == pd.Timestamp("1970-01-01", tz="UTC")


def test_a_release_has_a_new_index_and_new_case_ids(small: pd.DataFrame) -> None:
    """An index that is carried over would link the events of a release with those of its source."""
    given = small.set_axis([f"event-{number}" for number in range(len(small))])
    released = vs.anonymize(given, **TERMS).log
    assert released.index.equals(pd.RangeIndex(len(released)))
    assert not set(released["case:concept:name"]) & set(small["case:concept:name"])


def test_own_column_names_come_back(small: pd.DataFrame) -> None:
    """A release has the columns of its source, and can be given back with the same keywords."""
    own = small.rename(columns=OWN_NAMES)
    release = vs.anonymize(own, columns=OWN_COLUMNS, keep_resources=True, attribute="ar", **TERMS)
    assert list(release.log.columns) == ["Patient", "What", "When", "By"]
    renamed = release.log.rename(columns={own: xes for xes, own in OWN_NAMES.items()})
    usual = vs.anonymize(small, keep_resources=True, attribute="ar", **TERMS)
    assert variants(renamed) == variants(usual.log)
    of_own = vs.attack(release, own, columns=OWN_COLUMNS)
    # A release of the command line has XES names.
    assert vs.attack(renamed, own, columns=OWN_COLUMNS).document == of_own.document


def test_categories_hold_released_values_alone(small: pd.DataFrame) -> None:
    """Categories of the source would name the activities that the release hides."""
    rare = small.copy()
    rare.loc[0, "concept:name"] = "Rare disease ward"
    rare["concept:name"] = rare["concept:name"].astype("category")
    released = vs.anonymize(rare, **TERMS).log
    assert isinstance(released["concept:name"].dtype, pd.CategoricalDtype)
    assert set(released["concept:name"].cat.categories) == set(released["concept:name"])
    assert "Rare disease ward" not in released["concept:name"].cat.categories


def test_an_event_log_of_pm4py_comes_back_as_one(small: pd.DataFrame) -> None:
    """Traces with fresh names, and attributes of cases where they belong."""
    with quiet_pm4py() as pm4py:
        given = pm4py.convert_to_event_log(small)
    release = vs.anonymize(given, sensitive="diagnosis", release_attributes="diagnosis", K=5, L=2, C=1)
    assert type(release.log) is type(given)
    assert sum(len(trace) for trace in release.log) == release.document["events"]["out"]
    assert "diagnosis" in release.log[0].attributes
    assert isinstance(release.to_dataframe(), pd.DataFrame)
    assert vs.attack(release, given).document == vs.attack(release.log, small).document


def test_our_event_log_comes_back_as_one() -> None:
    """A log of `models` is taken as it is."""
    log = read_log(HOSPITAL)
    release = vs.anonymize(log, **TERMS)
    assert isinstance(release.log, EventLog)
    assert len(release.to_dataframe()) == release.log.n_events


def test_columns_that_pm4py_adds_for_itself_are_no_attributes(small: pd.DataFrame) -> None:
    """One of them numbers the cases, and would make each of them unique."""
    numbered = small.assign(**{"@@case_index": small.groupby("case:concept:name").ngroup(), "@@index": small.index})
    asked: dict[str, Any] = {"projection": ["B", "C", "E"], "points": [1, "all"]}
    rows = vs.risk(numbered, **asked).to_dataframe()
    pd.testing.assert_frame_equal(rows, vs.risk(small, **asked).to_dataframe())


def test_what_a_release_says_of_its_times_reaches_the_measure(frame: pd.DataFrame) -> None:
    """Times that are dealt out at random are nobody's: projection A is marked as an upper limit."""
    series = vs.replay(frame, sensitive="diagnosis")
    notes = vs.risk(series.releases[0], projection="A").notes
    assert any("artificial" in note for note in notes)
    assert not any("artificial" in note for note in vs.risk(frame, projection="A", points=1).notes)


def _naive(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(**{"time:timestamp": frame["time:timestamp"].dt.tz_localize(None)})


def _as_integers(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(**{"time:timestamp": frame["time:timestamp"].dt.as_unit("us").astype("int64")})


def _with(frame: pd.DataFrame, row: int, column: str, value: Any) -> pd.DataFrame:
    changed = frame.copy()
    changed.loc[row, column] = value
    return changed


REFUSED: dict[str, tuple[Callable[[pd.DataFrame], Any], list[str]]] = {
    "a missing column": (
        lambda frame: frame.rename(columns={"concept:name": "what"}),
        ["no column 'concept:name' (activity)", "it has what, ", "columns={'activity': ...}"],
    ),
    "a column twice": (lambda frame: pd.concat([frame, frame[["org:resource"]]], axis=1), ["'org:resource'", "twice"]),
    "a part in the index": (
        lambda frame: frame.set_index("case:concept:name"),
        ["'case:concept:name' is in the index", ".reset_index()"],
    ),
    "naive times": (_naive, ["row 0", "time:timestamp has no time zone", "timezone=..."]),
    "integer times": (_as_integers, ["row 0", "needs its unit", "time_format='us'"]),
    "a missing time": (lambda frame: _with(frame, 7, "time:timestamp", pd.NaT), ["row 7", "no time:timestamp"]),
    "a missing activity": (lambda frame: _with(frame, 7, "concept:name", None), ["row 7", "no concept:name"]),
    "a list in a cell": (lambda frame: frame.assign(tags=[["x"]] * len(frame)), ["'tags' holds a list", "row 0"]),
    "an array in a cell, as pandas reads lists of Parquet": (
        lambda frame: frame.assign(tags=[np.array(["x"])] * len(frame)),
        ["'tags' holds a ndarray", "row 0"],
    ),
    "no rows": (lambda frame: frame.iloc[:0], ["the log holds no events"]),
    "no rows and no columns": (lambda _: pd.DataFrame(), ["no column 'case:concept:name' (case)", "it has none"]),
    "columns without names": (
        lambda frame: frame.set_axis(range(len(frame.columns)), axis=1),
        ["have numbers for names", "columns={'case': 0, 'activity': 1, 'time': 2}"],
    ),
    "computed later": (lambda _: ComputedLater(), ["is no event log", "convert it with .collect().to_pandas()"]),
    "no log": (lambda _: {"case": 1}, ["dict is no event log", "DataFrame"]),
    "no file": (lambda _: "nowhere.csv", ["nowhere.csv: no such file"]),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("function", [vs.anonymize, vs.risk, vs.leakage, vs.replay], ids=lambda one: one.__name__)
def test_a_log_that_cannot_be_read_is_refused(small: pd.DataFrame, name: str, function: Callable[[Any], Any]) -> None:
    """The error names place, reason and remedy in the words of Python."""
    change, words = REFUSED[name]
    with pytest.raises(vs.InputError) as refused:
        function(change(small))
    for word in words:
        assert word in str(refused.value)
    assert "--" not in str(refused.value)


@pytest.mark.parametrize(
    "times",
    [
        pytest.param(lambda times: times.dt.tz_localize(None), id="naive"),
        pytest.param(lambda times: times.dt.tz_convert("Europe/Berlin"), id="another zone"),
        pytest.param(lambda times: times.dt.strftime("%Y-%m-%dT%H:%M:%S.%f+00:00"), id="text"),
        pytest.param(lambda times: times.astype("timestamp[us, tz=UTC][pyarrow]"), id="arrow"),
        pytest.param(
            lambda times: pd.Series(
                [
                    time.to_pydatetime().astimezone(timezone(timedelta(hours=place % 3)))
                    for place, time in enumerate(times)
                ],
                index=times.index,
                dtype=object,
            ),
            id="objects of several zones",
        ),
    ],
)
def test_times_are_read_by_their_type(small: pd.DataFrame, times: Callable[[pd.Series], pd.Series]) -> None:
    """The same moments in another type give the same figures."""
    given = small.assign(**{"time:timestamp": times(small["time:timestamp"])})
    asked: dict[str, Any] = {"projection": "A", "points": 1, "resolution": "days", "draws": 3}
    expected = vs.risk(small, **asked).to_dataframe()
    pd.testing.assert_frame_equal(vs.risk(given, timezone="UTC", **asked).to_dataframe(), expected)


def test_integers_are_read_with_their_unit(small: pd.DataFrame) -> None:
    """The unit is said as on the command line: time_format."""
    asked: dict[str, Any] = {"projection": "A", "points": 1, "resolution": "days", "draws": 3}
    counted = vs.risk(_as_integers(small), time_format="us", **asked).to_dataframe()
    pd.testing.assert_frame_equal(counted, vs.risk(small, **asked).to_dataframe())


def test_durations_as_times_are_reported(small: pd.DataFrame, recwarn: pytest.WarningsRecorder) -> None:
    """The length of an event would order its case, and no line said so. A release states what its times mean."""
    times = small["time:timestamp"]
    durations = small.assign(**{"time:timestamp": times - times.min()})
    with pytest.warns(UserWarning, match="'time:timestamp' holds durations, which are read as times since") as caught:
        vs.risk(durations, projection="A", points=1)
    assert {Path(one.filename).name for one in caught} == {"test_logs.py"}
    durations.attrs["veilstream:time_basis"] = "relative"
    vs.risk(durations, projection="A", points=1)
    assert not [one for one in recwarn if "durations" in str(one.message)]


def test_a_guess_is_a_warning_at_the_callers_line(tmp_path: Path) -> None:
    """Report the guesses of the command line as warnings in a notebook."""
    path = tmp_path / "log.csv"
    path.write_text("Case ID;Activity;Timestamp\n1;A;2025-01-31T10:00:00Z\n")
    with pytest.warns(UserWarning, match="columns known by their names: case='Case ID'") as caught:
        assert len(vs.read_log(path)) == 1
    assert {Path(one.filename).name for one in caught} == {"test_logs.py"}


def test_rows_that_cannot_be_read_go_to_a_file(tmp_path: Path) -> None:
    """`bad_rows` is the option of the command line."""
    path = tmp_path / "log.csv"
    path.write_text("case,activity,time\n1,A,2025-01-31T10:00:00Z\n1,,2025-01-31T11:00:00Z\n")
    with pytest.raises(vs.InputError, match="skip_bad_rows=True"):
        vs.read_log(path, columns={"case": "case", "activity": "activity", "time": "time"})
    with pytest.warns(UserWarning, match="the rows are in"):
        kept = vs.read_log(
            path,
            columns={"case": "case", "activity": "activity", "time": "time"},
            skip_bad_rows=True,
            bad_rows=tmp_path / "bad.csv",
        )
    assert len(kept) == 1
    assert "2025-01-31T11:00:00Z" in (tmp_path / "bad.csv").read_text()


def test_numbers_of_columns_are_names(small: pd.DataFrame) -> None:
    """A DataFrame that was read without a header."""
    numbered = small.set_axis(range(len(small.columns)), axis=1)
    numbers = [list(small.columns).index(name) for name in ("case:concept:name", "concept:name", "time:timestamp")]
    columns: dict[str, Any] = dict(zip(("case", "activity", "time"), numbers, strict=True))
    release = vs.anonymize(numbered, columns=columns, **TERMS)
    usual = vs.anonymize(small, **TERMS)
    assert release.document["events"] == usual.document["events"]
    assert list(release.log.columns) == [str(number) for number in numbers]


@pytest.mark.parametrize("kind", ["int64", "float64", "category", "string[pyarrow]", "object"])
def test_ids_of_any_type(small: pd.DataFrame, kind: str) -> None:
    """Numbers, categories and texts of other backends are ids of cases; the release has new ones."""
    ids = small["case:concept:name"].str[1:].astype("int64").astype(kind)
    release = vs.anonymize(small.assign(**{"case:concept:name": ids}), **TERMS)
    assert release.document["events"] == vs.anonymize(small, **TERMS).document["events"]


def test_nothing_comes_of_one_case(small: pd.DataFrame) -> None:
    """One clear error, or a result that says that nothing is released."""
    one_case = small[small["case:concept:name"] == small["case:concept:name"].iloc[0]]
    with pytest.raises(vs.InputError, match="K = 5 is infeasible"):
        vs.anonymize(one_case, **TERMS)
    with pytest.raises(vs.InputError, match="at least two cases"):
        vs.assess(original=one_case, mechanism="identity")
    series = vs.replay(one_case)
    assert (series.releases, series.exit_code) == ([], 3)
    assert "(no rows)" in series.summary()
    assert "(no rows)" in series._repr_html_()
    assert "Empty DataFrame" not in series.summary()
    assert vs.risk(one_case, projection="E", points=1).to_dataframe()["unique_mean"].tolist() == [1.0]


STRANGE_LOGS = ("bpic2013-incidents", "ccc19", "urineweginfectie")


@pytest.mark.parametrize("name", STRANGE_LOGS)
def test_logs_that_the_program_was_not_made_for(logs: Path, name: str) -> None:
    """Four activities in 7,554 cases, twenty cases with 29 activities, and ten activities in 1,650 cases."""
    frame = vs.read_log(logs / f"{name}.xes.gz")
    release = vs.anonymize(frame, K=5, L=2, C=1, suppression="local")
    assert 0 < len(release.log) <= len(frame)
    ids = pd.concat([release.log["case:concept:name"], frame["case:concept:name"]])
    assert ids.nunique() == release.log["case:concept:name"].nunique() + frame["case:concept:name"].nunique()
    assert vs.leakage(frame, releases=2).broken == ()
    assert len(vs.risk(release, projection="E", points=[1, 2]).to_dataframe()) == 2


def test_read_log_says_where_a_frame_goes() -> None:
    """A frame needs no reading: the functions take it."""
    with pytest.raises(vs.InputError, match="read_log reads a file, not a DataFrame; give a DataFrame"):
        vs.read_log(pd.DataFrame())  # type: ignore[arg-type]
