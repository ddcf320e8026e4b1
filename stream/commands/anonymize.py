"""`veilstream anonymize LOG -o OUT`: one release of a log by any mechanism."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from connectors.reading import Reading
from models.errors import InputError
from stream.commands import _engine
from stream.commands import _options as options
from stream.commands._output import emit_json, tables

if TYPE_CHECKING:
    from stream.release.spec import Intake

PANEL = "Release"
TLKC = "TLKC-privacy"
DP = "Differential privacy and Amun"


@dataclass(frozen=True, slots=True)
class Output:
    """The file to write, and its form."""

    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="OUT", help="The released log, or a new folder.")
    ] = None
    keep_resources: Annotated[bool, typer.Option("--keep-resources", help="Release the names of resources.")] = False
    form: Annotated[
        str,
        typer.Option("--format", help="Relative times as timestamp (1970-01-01 plus the time) or duration (PT1H2M3S)."),
    ] = "timestamp"

    def check(self, log: Path) -> None:
        """Check the form, and that the log itself would not be overwritten.

        Parameters
        ----------
        log
            The log that is read.

        Raises
        ------
        InputError
            If the form is unknown, or the output is the log.
        """
        if self.form not in ("timestamp", "duration"):
            raise InputError(f"--format {self.form!r} is not timestamp or duration")
        if self.output is not None and self.output.exists() and log.exists() and self.output.samefile(log):
            raise InputError(f"-o {self.output} is the log itself; name another file")


@dataclass(frozen=True, slots=True)
class TlkcOptions:
    """Keys of the mechanism for the TLKC kinds and the baselines."""

    knowledge: Annotated[
        str | None,
        typer.Option(
            help="Knowledge of the items: which (set), how often (mult), their order (seq), order and times (rel).",
            rich_help_panel=TLKC,
        ),
    ] = None
    attribute: Annotated[
        str | None,
        typer.Option(help="An item is an activity (ac), a resource (re) or both (ar).", rich_help_panel=TLKC),
    ] = None
    T: Annotated[str | None, typer.Option("--T", help="seconds, minutes, hours or days.", rich_help_panel=TLKC)] = None
    L: Annotated[
        int | None, typer.Option("--L", help="Items that the adversary knows, at most.", rich_help_panel=TLKC)
    ] = None
    K: Annotated[
        int | None, typer.Option("--K", help="Least cases that must match the known items.", rich_help_panel=TLKC)
    ] = None
    C: Annotated[
        str | None,
        typer.Option(
            "--C", help="Share of the matching cases that may have one sensitive value, at most.", rich_help_panel=TLKC
        ),
    ] = None
    suppression: Annotated[str | None, typer.Option(help="greedy, pruned, exact or local.", rich_help_panel=TLKC)] = (
        None
    )
    algorithm: Annotated[int | None, typer.Option(help="1 or 2 (greedy, pruned).", rich_help_panel=TLKC)] = None
    theta: Annotated[float | None, typer.Option(help="Share of frequent traces.", rich_help_panel=TLKC)] = None
    alpha: Annotated[float | None, typer.Option(help="Weight of privacy gain.", rich_help_panel=TLKC)] = None
    beta: Annotated[float | None, typer.Option(help="Weight of utility loss.", rich_help_panel=TLKC)] = None
    bins: Annotated[
        list[str] | None, typer.Option(metavar="A=X,Y", help="Upper edges of classes.", rich_help_panel=TLKC)
    ] = None


@dataclass(frozen=True, slots=True)
class DpOptions:
    """Keys of the mechanism for the differentially private kinds and Amun."""

    variant: Annotated[str | None, typer.Option(help="sampling, filtering or oversampling.", rich_help_panel=DP)] = None
    delta: Annotated[str | None, typer.Option(help="amun: guessing advantage.", rich_help_panel=DP)] = None
    prior: Annotated[str | None, typer.Option(help="amun: how priors are estimated.", rich_help_panel=DP)] = None
    epsilon: Annotated[
        str | None, typer.Option(help="Privacy loss of the release (smaller is stricter).", rich_help_panel=DP)
    ] = None
    delta_dp: Annotated[
        str | None, typer.Option(help="Probability with which the promise of epsilon may fail.", rich_help_panel=DP)
    ] = None


@options.grouped
def command(
    log: options.Log,
    output: Output,
    mechanism: Annotated[
        str,
        typer.Option(help="tlkc, baseline-1, baseline-2, pretsa, amun, dp-log, dp-variants, dp-synthetic or identity."),
    ] = "tlkc",
    tlkc: TlkcOptions = TlkcOptions(),
    list_violations: Annotated[
        bool,
        typer.Option(
            "--list-violations", help="List what breaks the promise before anything is removed.", rich_help_panel=TLKC
        ),
    ] = False,
    dp: DpOptions = DpOptions(),
    option: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any other key (effort=300, capping=false); repeatable."),
    ] = None,
    attributes: options.AttributeOptions = options.AttributeOptions(),  # noqa: B008 - frozen
    reading: Reading = Reading(),  # noqa: B008 - frozen
    engine: _engine.EngineOptions = _engine.IN_MEMORY,
    seed: Annotated[int | None, typer.Option("--seed", help="Seed of the search of `local`.")] = None,
    json: options.Json = False,
) -> None:
    """Anonymize one log, once, without a ledger. The options are the keys of a publication's `mechanism` table."""
    output.check(log)
    if output.output is None and not list_violations:
        raise InputError("name the released log with -o OUT")
    settings = {
        **asdict(tlkc),
        "bins": _bins(tlkc.bins),
        **asdict(dp),
        "seed": seed,
        **options.assignments(option or []),
    }
    sensitive, released = (
        options.split_attributes(attributes.sensitive),
        options.split_attributes(attributes.release_attributes),
    )

    from stream.release import single

    chosen = single.mechanism_of(mechanism, settings)
    # No row may decide how another one is read: the promise of epsilon begins at the rows of the file.
    reading = replace(reading, declared=not chosen.reads_data_in_gate)
    if engine.writes_folder(output.output):
        engine_release = _engine.EngineRelease(
            chosen, sensitive, released, output.keep_resources, output.form == "duration", list_violations,
            output.output,
        )  # fmt: skip
        result_of_engine = _engine.anonymize(engine_release, engine.engine, engine.memory, log, reading)
        emit_json(result_of_engine) if json else _print(result_of_engine)
        return
    intake: Intake = "rows" if reading.declared and reading.object_type is None else "log"
    source = options.read_as_declared(log, reading)
    exposure = single.exposure_of(source, sensitive, released, chosen)
    problem = single.tlkc_problem(chosen, exposure)
    result: Mapping[str, Any] = {}
    if list_violations:
        if problem is None:
            raise InputError(f"--list-violations is for --mechanism tlkc, not {mechanism}")
        result = {"violations": single.violation_documents(problem)}
    if output.output is not None:
        build, seconds = single.release_once(chosen, exposure, keep_resources=output.keep_resources, released=released)
        single.write(output.output, chosen, build, durations=output.form == "duration")
        result = {**single.summary(chosen, exposure, build, seconds, intake), **result}
    emit_json(result) if json else _print(result)


def _bins(texts: list[str] | None) -> dict[str, list[float]] | None:
    """Return {"Age": [40.0, 60.0]} for `Age=40,60`."""
    result: dict[str, list[float]] = {}
    for text in texts or []:
        name, sign, edges = text.partition("=")
        try:
            result[name] = [float(edge) for edge in options.split(edges)]
        except ValueError:
            sign = ""
        if not sign or not name:
            raise InputError(f"--bins: {text!r} is not like Age=40,60")
    return result or None


def _print(result: Mapping[str, Any]) -> None:
    from rich.table import Table

    from stream.release.single import warnings_of

    if "events" in result:
        tables().print(f"{result['mechanism']['kind']}: {result['promise']['guaranteed']}", markup=False)
        table = Table("", "in", "out")
        for name in ("cases", "events", "variants"):
            table.add_row(name, str(result[name]["in"]), str(result[name]["out"]))
        tables().print(table)
        if result["n_actual"] is not None:  # dp kinds and Amun remove no single events and bound no counts
            tables().print(f"most events removed from one case: {result['n_actual']}; satisfied: {result['satisfied']}")
            tables().print("suppressed: " + _shortened(result["suppressed"]), markup=False)
        for warning in warnings_of(result):
            tables().print(f"warning: {warning}", style="yellow", markup=False)
    for entry in result.get("violations", []):
        tables().print(f"{entry['cases']:>6}  {entry['reason']:<26} {entry['candidate']}", markup=False)


SHOWN_ITEMS = 20
"""Suppressed items that a line names: a log of many activities can have thousands."""


def _shortened(items: list[Any]) -> str:
    shown = ", ".join(map(str, items[:SHOWN_ITEMS])) or "no item as a whole"
    n_more = len(items) - SHOWN_ITEMS
    return f"{shown} and {n_more} more" if n_more > 0 else shown
