"""Times at the doors: datetimes of any unit and zone are read by their type, bare integers are refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from connectors import read_log
from connectors.columns import ColumnNames
from connectors.frame import from_frame
from connectors.inspection import inspect
from connectors.reading import Reading
from models.errors import InputError
from models.eventlog import EventLog
from models.knowledge import Knowledge
from models.risk.uniqueness import trace_uniqueness
from stream.engine.contract import CountQuery
from tests.conftest import ROOT

UNITS = ["s", "ms", "us", "ns"]
MOMENTS = [datetime(2025, 3, 30, 0, 30, tzinfo=UTC), datetime(2025, 10, 26, 1, 30, tzinfo=UTC)]
"""Each an hour of a change of clocks in Berlin."""
NANOSECONDS = [1_743_294_600 * 10**9, 1_761_442_200 * 10**9]
IN_BERLIN = pd.DatetimeIndex(MOMENTS).tz_convert("Europe/Berlin")


def events(time: Any, **options: Any) -> list[int]:
    """The times of a log of one case, in the order of its events."""
    return EventLog.from_events(["1", "1"], ["a", "b"], time, **options).time.tolist()


def frame(time: Any) -> pd.DataFrame:
    return pd.DataFrame({"case:concept:name": ["1", "1"], "concept:name": ["a", "b"], "time:timestamp": time})


def read(table: pd.DataFrame, **options: Any) -> list[int]:
    log = from_frame(table, ColumnNames.of(None), Reading(**options), "table", lambda row: f"row {row + 1}")
    return log.time.tolist()


def test_a_frame_of_pm4py_has_its_own_years_and_risk(tmp_path: Path) -> None:
    """pm4py's frame is microseconds under pandas 3: read as nanoseconds, every day of the log is one day of 1970."""
    import pm4py

    log = read_log(ROOT / "examples" / "hospital.xes.gz")
    part = log.select_cases(np.arange(200))
    table = part.to_dataframe()
    assert part.time.min() > np.datetime64("2020", "ns").astype(np.int64)
    made = pm4py.format_dataframe(
        table.assign(**{"time:timestamp": table["time:timestamp"].astype(str)}),
        case_id="case:concept:name",
        activity_key="concept:name",
        timestamp_key="time:timestamp",
    )
    for column in (made["time:timestamp"], made["time:timestamp"].dt.as_unit("us")):
        again = EventLog.from_events(made["case:concept:name"], made["concept:name"], column)
        assert sorted(again.time.tolist()) == sorted(part.time.tolist())
    days = [
        trace_uniqueness(each, "A", [2], resolution="days", draws=3, seed=1).points[0].unique_mean
        for each in (part, again)
    ]
    assert days[0] > 0
    assert days[1] == pytest.approx(days[0])


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "+05:30"])
@pytest.mark.parametrize("unit", UNITS)
def test_datetimes_of_any_unit_and_zone_are_their_moment(unit: str, zone: str) -> None:
    """pandas, Arrow in pandas, Arrow, numpy and Python's datetimes, at the notebook's door and at the readers'."""
    column = pd.Series(IN_BERLIN.tz_convert(zone).as_unit(unit))
    arrow = pa.array(column, type=pa.timestamp(unit, tz=zone))
    held = column.astype(pd.ArrowDtype(arrow.type))
    plain = np.asarray([moment.replace(tzinfo=None) for moment in MOMENTS], dtype=f"datetime64[{unit}]")
    for given in (
        column,
        pd.DatetimeIndex(column),
        held,
        arrow,
        pa.chunked_array([arrow]),
        plain,
        list(plain),
        MOMENTS,
    ):
        assert events(given) == NANOSECONDS
    assert events([moment.to_pydatetime() for moment in column]) == NANOSECONDS
    for given in (column, held, column.astype(object)):
        assert read(frame(given)) == NANOSECONDS


@pytest.mark.parametrize("unit", UNITS)
def test_local_times_take_the_zone_that_is_named(unit: str) -> None:
    """Without a name they are refused. Of two equal local times the first is meant."""
    local = pd.Series(IN_BERLIN.tz_localize(None).as_unit(unit))
    second_of_two = NANOSECONDS[1] - 3600 * 10**9
    held = local.astype(pd.ArrowDtype(pa.timestamp(unit)))
    for given in (local, held, pa.array(local), local.tolist()):
        with pytest.raises(InputError, match="event 1: the time has no time zone"):
            events(given)
        assert events(given, timezone="Europe/Berlin") == [NANOSECONDS[0], second_of_two]
    for given in (local, held):
        with pytest.raises(InputError, match="row 1: time:timestamp has no time zone"):
            read(frame(given))
        assert read(frame(given), timezone="Europe/Berlin") == [NANOSECONDS[0], second_of_two]


@pytest.mark.parametrize(
    "numbers", [[5, 6], (5, 6), np.arange(2), pd.Series([5, 6]), pd.array([5, 6]), pa.array([5, 6]), np.arange(2.0)]
)
def test_a_notebook_gives_integers_their_unit(numbers: Any) -> None:
    """No integer says what it counts; a float is refused with and without a unit."""
    with pytest.raises(InputError, match=r"integers without a unit|not datetimes"):
        events(numbers)
    if np.asarray(numbers).dtype.kind == "i":
        first = int(numbers[0].as_py() if hasattr(numbers[0], "as_py") else numbers[0])
        assert events(numbers, unit="ms")[0] == first * 10**6


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize(("unit", "factor"), [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)])
def test_a_file_of_integers_needs_its_unit_and_inspect_names_it(
    tmp_path: Path, suffix: str, unit: str, factor: int
) -> None:
    """Reading refuses with the flag to give; with the flag, or with `unit`, the years are right."""
    file = tmp_path / f"log.{suffix}"
    table = frame([moment // 10**9 * factor for moment in NANOSECONDS])
    if suffix == "csv":
        table.to_csv(file, index=False)
    else:
        table.to_parquet(file)
    with pytest.raises(InputError, match=f"needs its unit.*--time-format {unit}"):
        read_log(file)
    assert read_log(file, unit=unit).time.tolist() == NANOSECONDS
    found = inspect(file, Reading())
    assert found.problems == []
    assert f"--time-format {unit}" in found.commands[0]
    assert read_log(file, reading=Reading(time_format=unit)).time.tolist() == NANOSECONDS


def stored(file: Path, column: Any) -> Path:
    """Two events of a case in Parquet."""
    names = frame([1, 2])[["case:concept:name", "concept:name"]]
    pq.write_table(pa.table({**{name: pa.array(names[name]) for name in names}, "time:timestamp": column}), file)
    return file


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
@pytest.mark.parametrize("unit", UNITS)
def test_timestamps_of_arrow_in_parquet(tmp_path: Path, unit: str, zone: str | None) -> None:
    """Any unit and zone, read whole and counted by duckdb; a time without zone takes the one named."""
    from stream.engine.duckdb import DuckDb
    from stream.engine.source import opened

    plain = pa.array([moment.replace(tzinfo=None) for moment in MOMENTS], type=pa.timestamp(unit))
    column = plain if zone is None else pa.array(MOMENTS, type=pa.timestamp(unit, tz=zone))
    file = stored(tmp_path / "log.parquet", column)
    reading = Reading(timezone="UTC" if zone is None else None)
    assert read_log(file, reading=reading).time.tolist() == NANOSECONDS
    engine = DuckDb(opened(file, reading), tmp_path)
    (((trace, _), cases),) = engine.count(CountQuery(Knowledge("rel", "ac", "seconds"))).table.decoded().items()
    engine.close()
    assert (trace, cases) == ((("a", 0), ("b", (NANOSECONDS[1] - NANOSECONDS[0]) // 10**9)), 1)


@pytest.mark.parametrize("year", [1, 1677, 2262, 9999])
@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_duckdb_refuses_years_that_nanoseconds_do_not_hold(tmp_path: Path, unit: str, year: int) -> None:
    """As the readers do."""
    from stream.engine.duckdb import DuckDb
    from stream.engine.source import opened

    column = pa.array([MOMENTS[0], datetime(year, 6, 1, tzinfo=UTC)], type=pa.timestamp(unit, tz="UTC"))
    file = stored(tmp_path / "log.parquet", column)
    (tmp_path / "work").mkdir()
    with pytest.raises(InputError, match=r"row 2: .* outside the years 1678 to 2261"):
        DuckDb(opened(file, Reading()), tmp_path / "work").count(CountQuery(Knowledge("rel", "ac", "seconds")))
    local = pa.array([moment.replace(tzinfo=None) for moment in column.to_pylist()], type=pa.timestamp(unit))
    berlin = opened(stored(file, local), Reading(timezone="Europe/Berlin"))
    with pytest.raises(InputError, match=r"outside the years 1678 to 2261|times before"):
        DuckDb(berlin, tmp_path / "work").count(CountQuery(Knowledge("rel", "ac", "seconds")))


def test_engines_refuse_integers_without_a_unit(tmp_path: Path) -> None:
    """With the unit they are counted as the readers read them."""
    from stream.engine.duckdb import DuckDb
    from stream.engine.source import opened
    from stream.engine.spark import readable

    file = stored(tmp_path / "log.parquet", pa.array([moment // 10**9 for moment in NANOSECONDS]))
    asked = CountQuery(Knowledge("rel", "ac", "seconds"))
    with pytest.raises(InputError, match="--time-format"):
        DuckDb(opened(file, Reading()), tmp_path).count(asked)
    with pytest.raises(InputError, match="--time-format"):
        readable(opened(file, Reading()))
    engine = DuckDb(opened(file, Reading(unit="s")), tmp_path)
    ((trace, _),) = engine.count(asked).table.decoded()
    engine.close()
    assert trace == (("a", 0), ("b", (NANOSECONDS[1] - NANOSECONDS[0]) // 10**9))


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
@pytest.mark.parametrize("year", [1, 1677, 2262, 9999])
def test_a_year_that_nanoseconds_do_not_hold_is_one_clear_error(unit: str, year: int) -> None:
    """Never a moment of another year. In each container, and for integers."""
    moment = datetime(year, 1, 1, tzinfo=UTC)
    seconds = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)
    plain = np.asarray([MOMENTS[0].replace(tzinfo=None), moment.replace(tzinfo=None)], dtype=f"datetime64[{unit}]")
    column = pd.Series(plain).dt.tz_localize("UTC")
    said = "event 2: the time is outside the years 1678 to 2261"
    for given in (plain, column, pa.array(column), [MOMENTS[0], moment]):
        with pytest.raises(InputError, match=said):
            events(given)
    with pytest.raises(InputError, match=said):
        events([0, seconds], unit="s")
    with pytest.raises(InputError, match="row 2: time:timestamp is outside the years 1678 to 2261"):
        read(frame(column))
    with pytest.raises(InputError, match="row 2: time:timestamp is outside the years 1678 to 2261"):
        read(frame([0, seconds]), unit="s")


def test_a_duration_beyond_what_is_held_is_one_clear_error() -> None:
    """Durations since 1970, as releases with relative times have them."""
    lengths = pd.Series(np.asarray([5, 10**11], dtype="timedelta64[s]"))
    with pytest.raises(InputError, match="row 2: time:timestamp is a duration beyond 292 years"):
        read(frame(lengths))
    assert read(frame(lengths // 100)) == [0, 10**18]


def test_nanoseconds_of_a_timestamp_are_kept() -> None:
    """A Timestamp in a list is a datetime of Python with three digits more."""
    fine = pd.Timestamp("2025-03-30T00:30:00.123456789Z")
    assert events([fine, fine.tz_convert("Europe/Berlin")]) == [NANOSECONDS[0] + 123456789] * 2
    offset = timezone(timedelta(hours=-3))
    assert events([MOMENTS[0].astimezone(offset), MOMENTS[1]]) == NANOSECONDS


@pytest.mark.parametrize(
    ("time", "said"),
    [
        ([MOMENTS[0], None], "event 2: the time is missing"),
        (pd.Series([MOMENTS[0], pd.NaT]), "event 2: the time is missing"),
        (np.asarray(["2025-01-01", "NaT"], dtype="datetime64[s]"), "event 2: the time is missing"),
        ([MOMENTS[0], 5], "event 2: the time is of type int"),
        (["2025-01-01T00:00:00Z"] * 2, "event 1: the time is of type str"),
        (pd.Series(["2025-01-01T00:00:00Z"] * 2), "not datetimes"),
        (MOMENTS[:1], "2 case ids for 1 times"),
    ],
)
def test_what_is_no_time_is_named_without_its_value(time: Any, said: str) -> None:
    """The event and the kind of fault."""
    with pytest.raises(InputError, match=said) as error:
        events(time)
    assert "2025" not in str(error.value)


def test_a_unit_for_datetimes_is_refused() -> None:
    """It would say twice, and perhaps otherwise, in which unit they count."""
    with pytest.raises(InputError, match="carry their unit"):
        events(MOMENTS, unit="s")
    with pytest.raises(InputError, match="unit 'h' is not known"):
        events([1, 2], unit="h")
    with pytest.raises(InputError, match="timezone 'Atlantis' is not known"):
        events(MOMENTS, timezone="Atlantis")
