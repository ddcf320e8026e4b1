"""`veilstream advise LOG`: replay candidate settings and propose a configuration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from models.errors import InputError
from stream.commands import _options as options
from stream.commands._output import emit_json, progress, tables

if TYPE_CHECKING:
    from stream.replay.advise import Trial

PANEL = "Publish"


def command(
    log: options.Log,
    K: Annotated[int, typer.Option("--K", min=2, help="Least number of cases that must match.")] = 20,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write the proposal there (TOML).")] = None,
    sensitive: options.Sensitive = "",
    columns: options.Columns = "",
    timezone: options.Timezone = "",
    json: options.Json = False,
) -> int:
    """Propose a configuration with what it would have leaked and kept; exit 3 where no candidate holds."""
    import tempfile

    from connectors import read_log
    from stream.config.settings import Columns, Completion, Process, Settings
    from stream.replay import advise as proposal
    from stream.replay.replay import check_against

    if output is not None and not output.absolute().parent.is_dir():
        raise InputError(f"{output}: its folder does not exist")
    names = options.columns(columns)
    settings = Settings(
        process=Process(
            sensitive=tuple(options.split(sensitive)),
            columns=Columns(**names),
            timezone=timezone or None,
            completion=Completion(log_end=True),
        )
    )
    with progress() as bar, tempfile.TemporaryDirectory() as folder:
        events = read_log(log, names, timezone or None)
        check_against(settings, events)
        task = bar.add_task("replaying", total=5)
        trials, best = proposal.propose(events, settings, K, Path(folder), lambda _name: bar.advance(task))
    text = "" if best is None else proposal.as_toml(settings, best.candidate.publication)
    if output is not None and text:
        output.write_text(text, encoding="utf-8")
    name = None if best is None else best.candidate.publication.name
    if json:
        emit_json({"candidates": [_row(trial) for trial in trials], "proposed": name, "configuration": text or None})
    else:
        _show(trials, name, text)
    return 0 if best is not None else 3


def _row(trial: Trial) -> dict[str, Any]:
    publication = trial.candidate.publication
    return {
        "name": publication.name,
        "for": trial.candidate.why,
        "window": publication.window,
        "mechanism": publication.mechanism,
        "gate": publication.gate.model_dump(exclude_defaults=True),
        "releases": trial.releases,
        "withheld": trial.withheld,
        "kept": trial.kept,
        "worst": trial.worst,
        "holds": trial.holds,
        "reasons": [trial.refused] if trial.refused else list(trial.reasons),
    }


def _show(trials: list[Trial], name: str | None, text: str) -> None:
    from rich.table import Table

    console = tables()
    table = Table("candidate", "releases", "withheld", "kept", "KA", "FA", "CA", "BA", "for")
    for trial in trials:
        kept = "-" if trial.kept is None else f"{100 * trial.kept:.0f} %"
        worst = ["-" if value is None else str(value) for value in trial.worst.values()]
        label = trial.candidate.publication.name
        table.add_row(
            label, str(trial.releases), str(trial.withheld), kept, *worst, trial.refused or trial.candidate.why
        )
    console.print(table)
    console.print("kept: events of the last release, of all events; KA to BA: the least over all releases")
    if name is None:
        console.print("no candidate holds on this log: choose a smaller K or larger windows")
        return
    console.print(f"proposed: {name}\n")
    console.print(text, markup=False, soft_wrap=True)
