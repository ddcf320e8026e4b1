"""`veilstream statement DIR [PUBLICATION [N]]`: one page on what was released and promised, to sign and to pass on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stream.commands import _options as options
from stream.commands._output import check_page, emit_json, write_page

PANEL = "Operate"


def command(
    folder: options.PublishedFolder,
    publication: options.ChosenPublication = None,
    number: Annotated[
        int | None, typer.Argument(metavar="N", help="One release; without it the whole series.", show_default=False)
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="FILE.html or FILE.md.", show_default=False),
    ] = None,
    json: options.Json = False,
) -> None:
    """Write one page on a release or series for recipients and records: contents, promise, limits, sums.

    It is made from public files alone, so that it may go wherever the release goes.
    """
    from stream.operator.report.statement import html, markdown, other_publications, releases_of, statement

    check_page(output, "statement")
    series = releases_of(folder, publication, number)
    page = statement(series, alone=number is not None, other_releases=other_publications(folder, series))
    if output is not None:
        write_page(output, html(page) if output.suffix == ".html" else markdown(page), private=False)
        typer.echo(f"statement: {output}", err=True)
    elif not json:
        typer.echo(markdown(page), nl=False)
    if json:
        emit_json(page.data)
