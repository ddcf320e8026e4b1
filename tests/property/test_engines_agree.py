"""Random data sets: every engine counts the same table of variants as a log in memory, and applies a plan alike."""

from __future__ import annotations

import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from connectors.reading import Reading
from models.errors import InputError
from models.knowledge import Knowledge
from models.variants import GONE, VariantPlan
from stream.engine.contract import CountQuery, Draws, Engine
from stream.engine.embedded import Embedded
from stream.engine.source import opened
from tests.conftest import random_inputs

DATASETS = 3
ZONES = ("2024-03-31T02:30:15", "2024-10-27T02:30:15", "2024-10-27T01:59:59.25", "2024-03-31T03:00:00")
"""Local times of Berlin: one that does not exist, one that is there twice, and their neighbours."""


def engines(name: str, path: Path, reading: Reading, work: Path) -> Engine:
    """The engine, or a clear skip if it is not installed."""
    if name == "duckdb":
        pytest.importorskip("duckdb", reason='duckdb is not installed (extra "duckdb")')
        from stream.engine.duckdb import DuckDb

        work.mkdir(exist_ok=True)
        return DuckDb(opened(path, reading), work)
    return Embedded(path, reading)


def random_rows(generator: np.random.Generator, zoned: bool) -> dict[str, list[Any]]:
    """Events in any order, with ties, repeated rows, missing values and labels that are one when written."""
    rows: dict[str, list[Any]] = {
        "case:concept:name": [], "concept:name": [], "time:timestamp": [], "org:resource": [],
        "case:age": [], "case:kind": [], "result": [], "note": [],
    }  # fmt: skip
    labels = ("a", "b", " b", "café", "cafe\u0301", "=c", "7")
    ages = [None if generator.random() < 0.2 else int(generator.integers(20, 80)) for _ in range(40)]
    kinds = [["x", None, "y", "True"][int(generator.integers(4))] for _ in range(40)]
    for _ in range(int(generator.integers(40, 160))):
        case = int(generator.integers(40))
        moment = f"2024-01-01T10:0{int(generator.integers(3))}:00"
        if generator.random() < 0.2 and not zoned:
            moment = ZONES[int(generator.integers(len(ZONES)))]
        row = (
            f"c{case}", labels[int(generator.integers(len(labels)))], moment + ("+01:00" if zoned else ""),
            ["r", "s", None, "s "][int(generator.integers(4))], ages[case], kinds[case],
            [None, 1, 2.5, 10][int(generator.integers(4))], [None, "n", "m"][int(generator.integers(3))],
        )  # fmt: skip
        for _ in range(1 + (generator.random() < 0.1)):
            for column, value in zip(rows.values(), row, strict=True):
                column.append(value)
    rows["org:resource"][0] = "r"
    return rows


def written_as(kind: str, rows: dict[str, list[Any]], folder: Path, zoned: bool) -> Path:
    """The rows as one file or as a folder of two."""
    import pandas as pd

    frame = pd.DataFrame(rows)
    folder.mkdir()
    if kind == "parquet":
        moments = pd.to_datetime(frame["time:timestamp"], format="ISO8601")
        frame["time:timestamp"] = moments.dt.tz_convert("UTC") if zoned else moments
    half = len(frame) // 2
    for number, part in enumerate((frame[:half], frame[half:])):
        path = folder / f"part-{number}.{kind}"
        part.to_parquet(path, index=False) if kind == "parquet" else part.to_csv(path, index=False)
    return folder


ASKED = [
    CountQuery(Knowledge("seq", "ac"), ("age", "kind"), ("note",)),
    CountQuery(Knowledge("seq", "re"), ("result",)),
    CountQuery(Knowledge("rel", "ar", "seconds"), ("note",), ("kind",)),
    CountQuery(Knowledge("rel", "ac", "hours"), ("age",), bins={"age": (30.0, 50.0)}),
    CountQuery(Knowledge("set", "ar"), ("kind", "result"), classes=False, written=False),
]


@pytest.mark.parametrize("kind", ["parquet", pytest.param("csv", marks=pytest.mark.slow)])
@pytest.mark.parametrize("zoned", [True, False], ids=["zoned", "local"])
@pytest.mark.parametrize("asked", ASKED, ids=lambda asked: f"{asked.knowledge.structure}-{asked.knowledge.attribute}")
def test_the_same_table_and_the_same_cases(kind: str, zoned: bool, asked: CountQuery, tmp_path: Path) -> None:
    """Tables row by row in the same order; a plan gives each case the same id, trace and attributes."""
    generator = np.random.default_rng(zlib.crc32(f"{kind} {zoned} {asked.knowledge}".encode()))
    reading = Reading() if zoned else Reading(timezone="Europe/Berlin")
    for number in range(random_inputs(DATASETS)):
        data = written_as(kind, random_rows(generator, zoned), tmp_path / f"data-{number}", zoned)
        one = engines("embedded", data, reading, tmp_path)
        other = engines("duckdb", data, reading, tmp_path / f"work-{number}")
        wanted, found = one.count(asked), other.count(asked)
        assert found.table.decoded() == wanted.table.decoded()
        assert list(found.table.decoded()) == list(wanted.table.decoded())
        assert found.unit == wanted.unit
        assert other.cases == one.cases
        draws = Draws()
        plan = random_plan(generator, wanted.table.log, wanted.table.count)
        assert cases_of(other, plan, draws, asked) == cases_of(one, plan, draws, asked)
        other.close()


def random_plan(generator: np.random.Generator, log: Any, count: Any) -> VariantPlan:
    """Some rows leave whole, some are parted, some stay."""
    row, trace, amount = [], [], []
    for place, cases in enumerate(count.tolist()):
        first = int(generator.integers(0, cases + 1))
        parts = [(int(generator.integers(-1, log.n_cases)), first), (GONE, cases - first)]
        for target, size in parts if first and first < cases else parts[:1]:
            row.append(place)
            trace.append(target)
            amount.append(size if first and first < cases else cases)
    return VariantPlan(log, np.asarray(row), np.asarray(trace), np.asarray(amount))


def cases_of(engine: Engine, plan: VariantPlan, draws: Draws, asked: CountQuery) -> list[tuple[Any, ...]]:
    """Return the released cases, one line each."""
    found: list[tuple[Any, ...]] = []
    for part in engine.leaving(plan, draws):
        shown = [
            [(*engine.values(name).values, None)[code] for code in part.attributes[name].tolist()]
            for name in asked.public
        ]
        columns = [list(part.ids), part.trace.tolist(), part.row.tolist(), *shown]
        found += list(zip(*columns, strict=True))
    assert [line[0] for line in found] == sorted(line[0] for line in found)
    assert len({line[0] for line in found}) == plan.cases
    return found


def test_times_that_count_since_1970(tmp_path: Path) -> None:
    """Whole numbers of a unit, also before 1970, in files of other order of columns, with equal times across files."""
    import pandas as pd

    (tmp_path / "data").mkdir()
    moments = [-90_000, 0, 59_999, 60_000, 60_000, -1]
    rows = pd.DataFrame(
        {"time:timestamp": moments, "case:concept:name": [1, 1, 2, 2, 1, 2], "concept:name": list("abcabc")}
    )
    rows[:4].to_parquet(tmp_path / "data" / "a.parquet", index=False)
    rows[4:].to_parquet(tmp_path / "data" / "b.parquet", index=False)
    asked = CountQuery(Knowledge("rel", "ac", "minutes"))
    reading = Reading(time_format="ms")
    one, other = (engines(name, tmp_path / "data", reading, tmp_path / "work") for name in ("embedded", "duckdb"))
    found = other.count(asked)
    other.close()
    assert found.table.decoded() == one.count(asked).table.decoded()
    assert (("a", 0), ("b", 2), ("b", 3)) in {trace for trace, _ in found.table.decoded()}


def test_what_a_case_draws_is_hmac_of_its_id() -> None:
    """By the standard library; another key or purpose draws otherwise."""
    import hashlib
    import hmac

    draws = Draws(b"k" * 32)
    key = hmac.new(b"k" * 32, b"id", hashlib.sha256).digest()
    assert draws.of("id", "c1") == hmac.new(key, b"c1", hashlib.sha256).hexdigest()
    assert len({draws.of("id", "c1"), draws.of("place", "c1"), Draws().of("id", "c1")}) == 3
    assert b"k" * 32 not in repr(draws).encode()


def test_who_gets_which_trace_is_another_matter_in_every_release(tmp_path: Path) -> None:
    """Of 40 equal cases half leave: which half does not depend on their order, and is drawn again for each release."""
    import pandas as pd

    rows = [
        {"case:concept:name": f"c{n}", "concept:name": "a", "time:timestamp": "2024-01-01T00:00:00Z"} for n in range(40)
    ]
    pd.DataFrame(rows).to_csv(tmp_path / "log.csv", index=False)
    engine = Embedded(tmp_path / "log.csv")
    table = engine.count(CountQuery(Knowledge("seq", "ac"))).table
    plan = VariantPlan(table.log, np.asarray([0, 0]), np.asarray([0, GONE]), np.asarray([20, 20]))
    chosen: Counter[str] = Counter()
    for _ in range(50):
        draws = Draws()
        ids = {draws.of("id", f"c{n}")[:20]: f"c{n}" for n in range(40)}
        chosen.update(ids[name] for part in engine.leaving(plan, draws) for name in part.ids)
    assert chosen.total() == 50 * 20
    # a fixed half would have 50 or 0 each; that any of 40 fair coins shows 5 or fewer of 50 has probability 1e-7
    assert 5 < min(chosen[f"c{n}"] for n in range(40)) <= max(chosen.values()) < 45


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("sepsis", CountQuery(Knowledge("seq", "ac"), ("Age",), ("Diagnose",))),
        ("sepsis", CountQuery(Knowledge("rel", "ac", "hours"), ("Diagnose",))),
        ("bpic2013-incidents", CountQuery(Knowledge("mult", "ar"), ("impact",))),
        *(
            (name, CountQuery(Knowledge("rel", "ac")))
            for name in ("bpic2012", "bpic2012-app", "ccc19", "urineweginfectie")
        ),
    ],
    ids=["sepsis-seq", "sepsis-rel", "bpic2013", "bpic2012", "bpic2012-app", "ccc19", "urineweginfectie"],
)
def test_the_tables_of_real_logs(name: str, asked: CountQuery, logs: Path, tmp_path: Path) -> None:
    """Public logs as Parquet: the same table and the same draws as in memory."""
    from connectors import read_log, write_log

    source = next(path for path in sorted(logs.iterdir()) if path.name.startswith(f"{name}."))
    write_log(read_log(source), tmp_path / "log.parquet")
    one, other = (engines(kind, tmp_path / "log.parquet", Reading(), tmp_path) for kind in ("embedded", "duckdb"))
    wanted, found = one.count(asked), other.count(asked)
    assert list(found.table.decoded().items()) == list(wanted.table.decoded().items())
    assert found.unit == wanted.unit
    log, draws = wanted.table.log, Draws()
    row = np.arange(log.n_cases)
    plan = VariantPlan(log, row, row, wanted.table.count)
    assert cases_of(other, plan, draws, asked) == cases_of(one, plan, draws, asked)
    other.close()


HELPERS = (
    "f",
    "n",
    "F",
    "N",
    "filename",
    "c",
    "a",
    "r",
    "t",
    "z",
    "raw",
    "x0",
    "y0",
    "veilstream_row",
    "Veilstream_File",
)


@pytest.mark.parametrize("kind", ["parquet", pytest.param("csv", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", HELPERS)
@pytest.mark.parametrize("files", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_columns_may_have_the_names_of_an_engines_own(name: str, kind: str, files: int, tmp_path: Path) -> None:
    """With equal times the order of the rows decides the trace: a column of such a name neither changes it, nor is it
    changed where it is released itself."""
    import pandas as pd

    rows = pd.DataFrame(
        {
            "case:concept:name": ["1", "1", "2", "2", "1", "2"],
            "concept:name": list("abcabc"),
            "time:timestamp": pd.to_datetime(["2024-01-01T00:00:00Z"] * 6),
            name: [9, 8, 7, 6, 5, 4],
        }
    )
    (tmp_path / "data").mkdir()
    for number, part in enumerate((rows,) if files == 1 else (rows[:4], rows[4:])):
        path = tmp_path / "data" / f"{number}.{kind}"
        part.to_parquet(path, index=False) if kind == "parquet" else part.to_csv(path, index=False)
    for asked in (
        CountQuery(Knowledge("seq", "ac")),
        CountQuery(Knowledge("seq", "ac"), (name,), classes=False, written=False),
    ):
        one = engines("embedded", tmp_path / "data", Reading(), tmp_path)
        other = engines("duckdb", tmp_path / "data", Reading(), tmp_path / "work")
        wanted, found = one.count(asked), other.count(asked)
        other.close()
        assert list(found.table.decoded().items()) == list(wanted.table.decoded().items())


@pytest.mark.parametrize("name", ["Case:Concept:Name", "CONCEPT:NAME", "Time:timestamp"])
@pytest.mark.parametrize("before", [True, False])
def test_names_that_differ_in_letter_case_only_are_refused(name: str, before: bool, tmp_path: Path) -> None:
    """An engine would read the one for the other; in memory the exact one counts."""
    import pandas as pd

    own = {
        "case:concept:name": ["1", "1"], "concept:name": ["a", "b"],
        "time:timestamp": pd.to_datetime(["2024-01-01T00:00:00Z"] * 2),
    }  # fmt: skip
    other = {name: ["x", "x"]}
    for kind in ("parquet", "csv"):
        rows = pd.DataFrame({**other, **own} if before else {**own, **other})
        path = tmp_path / f"log.{kind}"
        rows.to_parquet(path, index=False) if kind == "parquet" else rows.to_csv(path, index=False)
        with pytest.raises(InputError, match="letter case"):
            opened(path, Reading())
    table = Embedded(tmp_path / "log.parquet").count(CountQuery(Knowledge("seq", "ac"))).table
    assert list(table.decoded()) == [(("a", "b"), ())]


def test_a_name_that_duckdb_needs_itself_is_refused(tmp_path: Path) -> None:
    """One line that names the column."""
    import pandas as pd

    rows = {"case:concept:name": ["1"], "concept:name": ["a"], "File_row_number": [3]}
    rows["time:timestamp"] = list(pd.to_datetime(["2024-01-01T00:00:00Z"]))
    pd.DataFrame(rows).to_parquet(tmp_path / "log.parquet", index=False)
    engine = engines("duckdb", tmp_path / "log.parquet", Reading(), tmp_path / "work")
    with pytest.raises(InputError, match="file_row_number"):
        engine.count(CountQuery(Knowledge("seq", "ac")))
    engine.close()


@pytest.mark.parametrize("name", ["a*.parquet", "a?.parquet", "[a]b.parquet", "{ab,b}.parquet"])
def test_names_that_an_engine_takes_for_patterns_are_refused(name: str, tmp_path: Path) -> None:
    """`a*.parquet` next to `ab.parquet` would be read as both."""
    for one in ("ab.parquet", name):
        (tmp_path / one).touch()
    with pytest.raises(InputError, match="pattern"):
        opened(tmp_path, Reading())
