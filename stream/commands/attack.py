"""`veilstream attack L1 L2 [L3 ...]`: correspondence attacks on releases that somebody compares.

The command reads the releases (in memory, or as variants that an engine counts), attacks every pair of them, and, if
there are more than two, the series. It prints tables, or one JSON document (`--json`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from connectors.reading import Reading
from models.errors import InputError
from stream.commands import _engine
from stream.commands import _options as options
from stream.commands._output import emit_json, grid, or_dash, progress, tables

if TYPE_CHECKING:
    from models.attacks.correspondence import AttackedPair, AttackQuestion, Method
    from models.attacks.search import Minimum
    from models.eventlog import SimpleLog
    from models.knowledge import Unit
    from models.variants import VariantTable

PANEL = "Measure"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackFlags:
    """The options of an attack, as they are typed."""

    bk_length: Annotated[int, typer.Option("--bk-length", help="Items that the adversary knows, at most.")] = 2
    n: Annotated[
        str, typer.Option("--n", help="Events that may have been removed from a case, at most: 1..5 or 0,1.")
    ] = "0,1"
    method: Annotated[str, typer.Option("--method", help="exact, sound, paper or reference.")] = "exact"
    minimum: Annotated[str, typer.Option("--minimum", help="realisable (least value >= 1), all or common.")] = (
        "realisable"
    )
    bk: Annotated[
        list[str] | None, typer.Option("--bk", metavar="A,B,..", help="A named candidate; may be repeated.")
    ] = None
    joint: Annotated[bool, typer.Option("--joint", help="Named candidates: count only links that contain bk.")] = False
    foreign: Annotated[bool, typer.Option("--foreign", help="bk may hold an activity that no release shows.")] = False
    attribute: Annotated[str, typer.Option("--attribute", help="Attribute of bk: ac or re.")] = "ac"
    link: Annotated[
        str, typer.Option("--link", metavar="ac,re,time", help="Further attributes of the releases to link on.")
    ] = ""
    T: Annotated[str, typer.Option("--T", help="Accuracy of relative times that are linked on.")] = "minutes"
    taxonomy: Annotated[
        Path | None, typer.Option("--taxonomy", help="CSV file activity,generalization.", show_default=False)
    ] = None


@options.grouped
def command(
    releases: Annotated[
        list[Path],
        typer.Argument(metavar="L1 L2 [L3 ...]", help="Releases in order of publication.", show_default=False),
    ],
    sensitive: options.Sensitive = "",
    reading: Reading = Reading(),  # noqa: B008 - frozen
    flags: AttackFlags = AttackFlags(),
    engine: _engine.EngineOptions = _engine.IN_MEMORY,
    enumerate_to: Annotated[
        Path | None, typer.Option("--all", metavar="FILE", help="Every candidate of two releases to a Parquet file.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Count the cases that somebody who holds several releases can exclude by comparing them (F-, C- and B-attack)."""
    from connectors import read_log
    from models.attacks.correspondence import AttackQuestion, attack_pairs

    if len(releases) < 2:
        raise InputError("attack compares releases: give two or more, in order of publication")
    if enumerate_to is not None:
        _check_target(enumerate_to, len(releases))
    attributes = options.split_attributes(sensitive)
    question = AttackQuestion(
        bk_length=flags.bk_length,
        n=options.integers(flags.n, "--n"),
        # The question checks method, minimum and T.
        method=cast("Method", flags.method),
        minimum=cast("Minimum", flags.minimum),
        bk=[options.split(text) for text in flags.bk or []],
        joint=flags.joint,
        foreign=flags.foreign,
        attribute=flags.attribute,
        link=options.split(flags.link),
        T=cast("Unit", flags.T),
        taxonomy=_taxonomy(flags.taxonomy) if flags.taxonomy else None,
    )
    if engine.engine == _engine.EMBEDDED:
        logs_read = [read_log(path, reading=reading) for path in releases]
        logs = question.simple_logs(logs_read, attributes, names=releases)
    else:
        # An engine returns each variant once, with its number of cases: the attacks need no more.
        counted = [_counted(question, path, reading, engine, attributes) for path in releases]
        variants = [table.log for table in counted]
        cases = [table.count for table in counted]
        logs = question.simple_logs(variants, attributes, names=releases, cases=cases)
    with progress() as bar:
        task = bar.add_task("pairs of releases", total=len(logs) * (len(logs) - 1) // 2)
        pairs = attack_pairs(question, logs, lambda: bar.advance(task))
    if enumerate_to is not None:
        _write_all(question, logs[0], logs[1], enumerate_to)
    if len(logs) == 2:
        body = pairs[0].answer.json()
    else:
        from models.attacks.series import document

        body = document(question, logs, pairs)
    if json:
        emit_json(body)
        return
    _show(pairs, body)


def _counted(
    question: AttackQuestion,
    path: Path,
    reading: Reading,
    engine: _engine.EngineOptions,
    sensitive: list[str],
) -> VariantTable:
    """Return a release as an engine counts its variants."""
    from models.knowledge import Knowledge
    from stream.engine.contract import CountQuery

    # The variants must differ by everything that is linked on, and not only by what is known.
    reads_both = {"activity", "resource"} <= set(question.carries)
    attribute = "ar" if reads_both else question.attribute
    structure = "rel" if "relative_time" in question.carries else "seq"
    knowledge = Knowledge(structure, attribute, question.T)  # type: ignore[arg-type]
    query = CountQuery(knowledge, tuple(sensitive), classes=False, written=False)
    return _engine.table(engine.engine, path, reading, engine.memory, query)


def _write_all(question: AttackQuestion, earlier: SimpleLog, later: SimpleLog, path: Path) -> None:
    """Write every candidate with its values to a Parquet file, a row group for each first symbol and n."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from models.attacks.correspondence import every_candidate

    names = ("ms1", "ms2", "f", "c", "b")
    columns_of_counts = [(name, pa.int32()) for name in names]
    schema = pa.schema([("bk", pa.list_(pa.string())), ("n", pa.int32()), *columns_of_counts])
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for n, symbols, codes, values in every_candidate(question, earlier, later):
            writer.write_table(_block(schema, n, symbols, codes, values))


def _block(schema: Any, n: int, symbols: Sequence[Any], codes: Any, values: Any) -> Any:
    """Return one block as an Arrow table: background knowledge as a list of names, n, and the five values.

    `codes`: int[candidates, length], the symbols of each candidate, filled with -1 at the end. `values`:
    int[candidates, 5].
    """
    import numpy as np
    import pyarrow as pa

    from models.eventlog import starts_of

    is_symbol = codes >= 0
    offsets = pa.array(starts_of(is_symbol.sum(axis=1)).astype(np.int32))
    names = pa.array([str(symbol) for symbol in symbols])
    name_of_item = names.take(pa.array(codes[is_symbol].astype(np.int32)))
    knowledge = pa.ListArray.from_arrays(offsets, name_of_item)
    n_column = pa.array(np.full(len(codes), n, dtype=np.int32))
    value_columns = [pa.array(values[:, column]) for column in range(values.shape[1])]
    return pa.Table.from_arrays([knowledge, n_column, *value_columns], schema=schema)


def _check_target(path: Path, releases: int) -> None:
    """Refuse a bad --all before the attack, which may take long."""
    if releases > 2:
        raise InputError("--all lists the candidates of two releases: give two")
    if not path.absolute().parent.is_dir():
        raise InputError(f"--all {path}: no such folder")


def _taxonomy(path: Path) -> dict[str, str]:
    """Read {child: parent} from a CSV file of two columns without header."""
    import csv

    if not path.is_file():
        raise InputError(f"{path}: no such file")
    parents: dict[str, str] = {}
    with path.open(encoding="utf-8-sig", newline="") as lines:
        try:
            for number, row in enumerate(csv.reader(lines), start=1):
                if len(row) != 2 or row[0] in parents:
                    raise InputError(f"{path}: line {number}: expected activity,generalization, each activity once")
                parents[row[0]] = row[1]
        except (UnicodeDecodeError, csv.Error) as error:
            raise InputError(f"{path}: not a CSV file in UTF-8 ({type(error).__name__})") from None
    if not parents:
        raise InputError(f"{path}: no line activity,generalization")
    return parents


def _show(pairs: list[AttackedPair], body: dict[str, Any]) -> None:
    """Print the tables of pairs, of the series and of named candidates, as far as they exist."""
    from models.attacks.correspondence import LEGEND, missing_linkers

    console = tables()
    names = ("ka1", "ka2", "fa", "ca", "ba")
    table = grid("releases", "n", "linker", *names, "fc", "cc", "bc", word_columns=3)
    for pair in pairs:
        compared = f"{pair.earlier + 1}, {pair.later + 1}"
        for row in pair.answer.json()["results"]:
            shares = [or_dash(row[name], ".2f") for name in ("fc", "cc", "bc")]
            table.add_row(compared, str(row["n"]), row["linker"], *_numbers(row, names), *shares)
    console.print(table)
    for sentence in missing_linkers(pairs):
        console.print(sentence)
    if "series" in body:
        _show_series(console, body["series"])
    console.print(LEGEND)
    if any(pair.answer.candidates for pair in pairs):
        _show_candidates(console, pairs)


def _numbers(row: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    return [or_dash(row[name]) for name in names]


def _show_series(console: Any, series: Mapping[str, Any]) -> None:
    from models.attacks.series import ATTACKS

    table = grid("series", "n", *ATTACKS, "all candidates")
    for row in series["results"]:
        all_candidates = "yes" if row["complete"] else "no, the worst of each pair"
        table.add_row(f"1..{series['releases']}", str(row["n"]), *_numbers(row, ATTACKS), all_candidates)
    console.print(table)


def _show_candidates(console: Any, pairs: list[AttackedPair]) -> None:
    names = ("n", "ms1", "ms2", "f", "c", "b", "fa", "ca", "ba")
    table = grid("releases", "bk", *names, word_columns=2)
    for pair in pairs:
        compared = f"{pair.earlier + 1}, {pair.later + 1}"
        for row in pair.answer.candidates:
            table.add_row(compared, ", ".join(row["bk"]), *_numbers(row, names))
    console.print(table)
