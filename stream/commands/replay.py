"""`veilstream replay LOG`: the main job, without a broker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from connectors.reading import Reading
from models.errors import InputError, check_choice
from stream.commands import _engine
from stream.commands import _options as options
from stream.commands._output import emit_json, filled, grid, progress, show_reasons, show_verdicts, tables
from stream.ledger.layout import OperatorLayout

if TYPE_CHECKING:
    from rich.console import Console

    from connectors.bad_rows import BadRows
    from models.eventlog import EventLog
    from stream.config.settings import Settings
    from stream.release.planned import BuiltBy
    from stream.run.observer import MetricsObserver
    from stream.run.replay import Replay, ReplayOutcome

PANEL = "Publish"


@dataclass(frozen=True, slots=True)
class MetricsOptions:
    """File for the metrics of the run."""

    metrics_port: Annotated[
        int | None, typer.Option("--metrics-port", min=0, max=65535, help="Serve Prometheus metrics on loopback.")
    ] = None
    metrics_textfile: Annotated[
        Path | None, typer.Option("--metrics-textfile", help="Leave the metrics in this file at the end.")
    ] = None


@dataclass(frozen=True, slots=True)
class BuilderOptions:
    """Options of the builder of releases: the mechanism in memory, or an engine."""

    engine: Annotated[
        str,
        typer.Option(
            "--engine",
            metavar="embedded|duckdb|spark",
            help="The engine that builds each release (default: engine.kind of the configuration, else embedded).",
            rich_help_panel=_engine.PANEL,
            show_default=False,
        ),
    ] = ""
    memory: _engine.Memory = None

    def built_by(self, settings: Settings, output: Path) -> BuiltBy | None:
        """Return who builds the releases, or None if the mechanisms do, in memory.

        Parameters
        ----------
        settings
            The configuration.
        output
            Folder of the replay.

        Raises
        ------
        InputError
            For an unknown engine, for one that is not installed, and for publications that no engine can build.
        """
        from stream.engine.building import builder
        from stream.engine.contract import KINDS
        from stream.release.planned import refuse_unplanned

        kind = self.engine or settings.engine.kind
        check_choice("--engine", kind, KINDS)
        if kind == _engine.EMBEDDED and self.memory is not None:
            raise InputError("--memory is for --engine duckdb and spark")
        engine = builder(kind, output, self.memory or settings.engine.memory)
        if engine is None:
            return None
        # The configuration was checked for the engine that it names; the flag may name another one.
        for publication in settings.publication:
            spec = settings.spec(publication)
            refuse_unplanned(
                spec.name,
                spec.mechanism,
                repairs=spec.gate.on_violation == "repair",
                accumulates=spec.accumulation is not None,
            )
        return engine


@options.grouped
def command(
    log: options.Log,
    config: Annotated[Path | None, typer.Option("-c", "--config", help="Configuration file (TOML).")] = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder of releases and audits.")] = Path("out"),
    final: Annotated[bool, typer.Option("--final", help="Release the rest after the last event.")] = False,
    until: Annotated[
        str, typer.Option("--until", help="Let the clock run to this time, behind the last event too.")
    ] = "",
    speed: Annotated[
        float | None, typer.Option("--speed", help="Follow event time, this many times faster (default: at once).")
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Publish in several ways side by side, and compare them.")
    ] = False,
    assess: Annotated[
        bool,
        typer.Option("--assess", help="Attack held-out cases before each release; for the operator, refuses nothing."),
    ] = False,
    figures: MetricsOptions = MetricsOptions(),
    sensitive: options.Sensitive = "",
    reading: Reading = Reading(),  # noqa: B008 - frozen
    built: BuilderOptions = BuilderOptions(),
    json: options.Json = False,
) -> int:
    """Publish a log as the daemon would have, day by day; exit 3 if a release was withheld, or nothing is out."""
    from stream.config import sources
    from stream.config.window import moment
    from stream.run.replay import Replay, intake_of, settings_for

    if speed is not None and not speed > 0:
        raise typer.BadParameter("must be above 0", param_hint="--speed")
    end = moment(until, "--until") if until else None
    loaded = sources.load(config, sources.of_reading(reading, options.split_attributes(sensitive)))
    if config is not None and not loaded.publication:
        raise typer.BadParameter(f"{config} has no [[publication]]", param_hint="-c")
    with progress() as bar:
        loading = bar.add_task(f"reading {log.name}", total=None)
        left_out: list[BadRows] = []
        log_reading = replace(loaded.reading(options.print_note), on_bad_rows=left_out.append)
        events = options.read_as_declared(log, log_reading)
        bar.remove_task(loading)
        if compare:
            from stream.run.compare import alternatives

            loaded = alternatives(loaded, events)
        loaded = settings_for(loaded, events, end)
        task = bar.add_task("replaying", total=events.n_events)
        source = events if compare else None
        only_reference = [events]  # The replay drops the log once its events are folded.
        del events
        with _watched(loaded, output, figures.metrics_port, figures.metrics_textfile) as watch:
            built_by = built.built_by(loaded, output)
            replay = Replay(
                loaded,
                output,
                speed=speed,
                on_progress=lambda done: bar.update(task, completed=done, description="replaying"),
                watch=watch,
                built_by=built_by,
                intake=intake_of(log_reading, end),
                assess=assess,
                on_assess=lambda attack: bar.update(task, description=f"assessing: {attack}"),
            )
            for bad in left_out:  # the operator's folder is there now, and locked
                _rows_file(reading, output)(bad)
            outcome = replay.run(only_reference.pop(), final=final, until=end)
    if outcome.warning:
        typer.echo(f"veilstream: {outcome.warning}; the checkpoint before it was used", err=True)
    rows = None if source is None else _compared(replay, outcome, source, output)
    if json:
        document = dict(outcome.document())
        if left_out:
            document["bad_rows"] = left_out[0].by_cause()
        emit_json(document if rows is None else {**document, "comparison": rows})
    else:
        _show(outcome, output, rows)
    return outcome.exit_code


def _rows_file(reading: Reading, output: Path) -> options.RowsFile:
    """Return the file for the rows that were left out: the operator's, unless another was named."""
    bad_rows = reading.on_bad_rows
    named = bad_rows.path if isinstance(bad_rows, options.RowsFile) else None
    return options.RowsFile(named or OperatorLayout(output).bad_rows)


@contextmanager
def _watched(
    settings: Settings, output: Path, port: int | None, textfile: Path | None
) -> Iterator[MetricsObserver | None]:
    """Serve metrics while the replay runs, if configured; the textfile is written in any case."""
    if port is None and textfile is None:
        yield None
        return
    from stream.run.exporter import Metrics
    from stream.run.observer import MetricsObserver, watch_space

    if textfile is not None and not textfile.parent.is_dir():
        raise InputError(f"{textfile}: its folder does not exist")  # refused now, and not after hours
    metrics = Metrics(settings.process.name)
    bound, server = (0, None) if port is None else metrics.serve(port)
    if server is not None:
        watch_space(metrics, settings, output)  # not for a textfile: what is free changes after the end
        typer.echo(f"metrics: http://127.0.0.1:{bound}/metrics", err=True)
    try:
        yield MetricsObserver(settings, metrics)
    finally:
        if textfile is not None:
            metrics.write(textfile)
        if server is not None:
            server.shutdown()
            server.server_close()


def _compared(
    replay: Replay,
    outcome: ReplayOutcome,
    log: EventLog,
    output: Path,
) -> Sequence[Mapping[str, Any]]:
    from stream.run.compare import compare_publications, write_comparison

    rows = compare_publications(replay, outcome, log)
    write_comparison(rows, output)
    return rows


HEAD = ("no", "time", "trigger", "cases", "events", "kept", "acts", "KA", "FA", "CA", "BA")

SIGNS = {"withheld": "x", "rejected": "x", "held": "?", "waits": "?"}
"""In place of a number: refused, or waits for a person or for more cases."""


def _show(outcome: ReplayOutcome, output: Path, rows: Sequence[Mapping[str, Any]] | None = None) -> None:
    verdicts = outcome.verdicts()
    show_verdicts(verdicts)
    console = tables()
    _show_attempts(console, outcome)
    attempts = [verdict.released or verdict.withheld or verdict.waiting or verdict.held for verdict in verdicts]
    if not all(attempts):
        console.print(
            f"the log has {outcome.cases} cases; the window of a publication sets how many a release "
            "needs, and process.completion when a case is complete (veilstream check-config warns if none "
            "ever is)"
        )
    for warning in outcome.warnings():
        console.print(f"warning: {warning}", style="yellow")
    if rows is not None:
        _show_comparison(console, rows)
    _show_attacks_and_held(console, outcome, output)
    for name, tail in outcome.tail.items():
        if tail["late"]:
            console.print(
                f"{name}: {tail['late']} of {tail['seen']} events came too late and are in no release: "
                "after the cut that took their case, or behind a window"
            )
    console.print(
        f"{outcome.events} events in {outcome.seconds:.1f} s; releases: {output}/public, audits: {output}/operator"
    )


def _show_attempts(console: Console, outcome: ReplayOutcome) -> None:
    """Print a table of the attempts of each publication, and the reasons below it."""
    rows_of: dict[str, list[Any]] = {}
    reasons_of: dict[str, list[tuple[str, Any, Any]]] = {}
    for name, number, time, *figures, reasons in outcome.rows():
        rows_of.setdefault(name, []).append((SIGNS.get(number, number), time, *figures))
        reasons_of.setdefault(name, []).append((str(number), time, reasons))
    for name, rows_of_publication in rows_of.items():
        console.print(filled(HEAD, rows_of_publication, title=name, word_columns=3))
        show_reasons(console, reasons_of[name])


def _show_comparison(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print one line for each publication that is compared."""
    from stream.run.compare import SHOWN, cells

    compared = grid(*SHOWN)
    for line in rows:
        compared.add_row(*cells(line))
    console.print(compared)


def _show_attacks_and_held(console: Console, outcome: ReplayOutcome, output: Path) -> None:
    """Print what attacks on held-out cases saw, and how to decide on the releases that wait for a person."""
    from stream.operator.history import attacks_sentence

    for name, decision in outcome.decisions:
        attacks = attacks_sentence(output, name, decision.sequence) if decision.sequence else ""
        if attacks:
            console.print(f"{name}, release {decision.sequence}: attacks on held-out cases. {attacks}")
    for publication, number in outcome.held:
        console.print(
            f"release {number} of {publication} is held: look at it (veilstream serve {output}, or veilstream report "
            f"{output}), then veilstream approve {publication} {number} -o {output} --by NAME --why TEXT, "
            "or reject"
        )
