"""`veilstream dossier DIR PUBLICATION`: the document that a controller and an officer sign and file."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from models.errors import InputError
from stream.commands import _options as options
from stream.commands._output import check_page, emit_json, progress, write_page

if TYPE_CHECKING:
    from stream.operator.dossier.evidence import DossierEvidence

PANEL = "Operate"


def command(
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="DIR", help="The output folder of a replay or daemon.", show_default=False),
    ] = None,
    publication: options.ChosenPublication = None,
    assessment: Annotated[
        list[Path] | None,
        typer.Option("--assessment", metavar="FILE", help="JSON of veilstream assess; repeatable.", show_default=False),
    ] = None,
    facts: options.Facts = None,
    facts_template: Annotated[
        bool, typer.Option("--facts-template", help="Print an empty file of facts, and end.")
    ] = False,
    language: Annotated[str, typer.Option("--language", help="en, de or nl.")] = "en",
    config: Annotated[
        Path | None,
        typer.Option("-c", "--config", metavar="FILE", help="The configuration, if the folder keeps none."),
    ] = None,
    original: Annotated[
        Path | None,
        typer.Option(
            "--original", metavar="LOG", help="Replay other parameters on the original log.", show_default=False
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="FILE.html (prints on two pages) or FILE.md.", show_default=False
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Write the dossier of a publication: promises, measurements, decisions, history, lines to sign.

    It is made from ledger, manifests, audits, an assessment and the facts that people know. Facts that are missing are
    printed as open questions. It is for the controller, the officer and the operator.
    """
    from stream.operator.dossier.alternatives import kept
    from stream.operator.dossier.evidence import collect
    from stream.operator.dossier.facts import read_facts, template
    from stream.operator.dossier.kept import keep
    from stream.operator.dossier.page import dossier, html
    from stream.operator.dossier.texts import DossierTexts
    from stream.operator.report.statement import markdown

    texts = DossierTexts(language)
    if facts_template:
        typer.echo(template(texts), nl=False)
        return
    if folder is None:
        raise InputError("name the output folder: veilstream dossier DIR PUBLICATION")
    check_page(output, "dossier", "; print the .html to get a PDF of two pages")
    declared_facts = {} if facts is None else read_facts(facts)
    evidence = collect(folder, publication, config=config, assessments=assessment or [])
    today = datetime.now(UTC).date()
    if original is None:
        figures = kept(folder, evidence.name, evidence.document["config_digest"])
    else:
        figures = _alternatives(folder, evidence, original, today)
    page = dossier(evidence, declared_facts, texts, today=today, alternatives=figures)
    if output is not None:
        written = html(page, texts)
        text = written if output.suffix == ".html" else markdown(page)
        write_page(output, text, private=True)
        typer.echo(f"dossier: {output}", err=True)
        try:
            keep(folder, evidence, written)
        except OSError as error:
            # An officer may read the folder of a daemon, or a copy of it, without a right to write there.
            typer.echo(
                f"warning: {error.filename}: cannot be written ({error.strerror}); the console and the catalogue do "
                "not have this dossier",
                err=True,
            )
    elif not json:
        typer.echo(markdown(page), nl=False)
    if json:
        emit_json(page.data)


def _alternatives(folder: Path, evidence: DossierEvidence, original: Path, today: date) -> Mapping[str, Any]:
    """Replay other parameters on the original log, and keep the figures with the operator's files."""
    from connectors import read_log
    from stream.operator.dossier.alternatives import alternatives, check_original, compute, keep
    from stream.operator.history import ledger_view
    from stream.release.verdict import LOG_END

    settings, publication = evidence.settings, evidence.publication
    if settings is None or publication is None:
        raise InputError("--original needs the configuration, and the folder keeps none: give it with -c FILE")
    with progress() as bar:
        reading = bar.add_task("reading", total=None)
        log = read_log(original, reading=settings.reading(options.print_note))
        check_original(log, settings, ledger_view(folder), str(original))
        bar.remove_task(reading)
        task = bar.add_task("alternatives", total=len(alternatives(publication, settings, log)))

        def step(name: str) -> None:
            bar.update(task, description=name)
            bar.advance(task)

        final = any(row["trigger"] == LOG_END for row in evidence.rows)
        figures = compute(publication, settings, log, step, final=final, today=today)
    keep(folder, figures)
    return figures
