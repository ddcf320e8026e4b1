"""`veilstream dossier DIR PUBLICATION`: the document that a controller and an officer sign and file."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from models.errors import InputError
from stream.commands import _options as options
from stream.commands._output import emit_json

PANEL = "Operate"


def command(
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="DIR", help="The output folder of a replay or daemon.", show_default=False),
    ] = None,
    publication: Annotated[
        str | None,
        typer.Argument(metavar="PUBLICATION", help="Needed if the folder holds several.", show_default=False),
    ] = None,
    assessment: Annotated[
        list[Path] | None,
        typer.Option("--assessment", metavar="FILE", help="JSON of veilstream assess; repeatable.", show_default=False),
    ] = None,
    facts: Annotated[
        Path | None,
        typer.Option("--facts", metavar="FILE", help="Facts that only people know (dossier.toml).", show_default=False),
    ] = None,
    facts_template: Annotated[
        bool, typer.Option("--facts-template", help="Print an empty file of facts, and end.")
    ] = False,
    language: Annotated[str, typer.Option("--language", help="en, de or nl.")] = "en",
    config: Annotated[
        Path | None,
        typer.Option("-c", "--config", metavar="FILE", help="The configuration, if the folder keeps none."),
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

    It is made from ledger, manifests, audits, an assessment and the facts that people know. What nobody answered is
    printed as an open question. It is for the controller, the officer and the operator.
    """
    from stream.operator.dossier.evidence import collect
    from stream.operator.dossier.facts import read_facts, template
    from stream.operator.dossier.page import dossier, html
    from stream.operator.dossier.texts import DossierTexts
    from stream.operator.report.statement import markdown

    texts = DossierTexts(language)
    if facts_template:
        typer.echo(template(texts), nl=False)
        return
    if folder is None:
        raise InputError("name the output folder: veilstream dossier DIR PUBLICATION")
    if output is not None and output.suffix not in (".html", ".md"):
        raise InputError(f"{output}: the dossier is written as .html or .md; print the .html to get a PDF of two pages")
    known = {} if facts is None else read_facts(facts)
    evidence = collect(folder, publication, config=config, assessments=assessment or [])
    page = dossier(evidence, known, texts, today=datetime.now(UTC).date())
    if output is not None:
        text = html(page, texts) if output.suffix == ".html" else markdown(page)
        try:
            output.touch(mode=0o600)
            output.write_text(text, encoding="utf-8")
        except OSError as error:
            raise InputError(f"{output}: cannot be written ({error.strerror})") from None
        typer.echo(f"dossier: {output}", err=True)
    elif not json:
        typer.echo(markdown(page), nl=False)
    if json:
        emit_json(page.data)
