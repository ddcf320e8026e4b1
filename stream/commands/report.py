"""`veilstream report DIR -o FILE.html`: one page on what the releases of a folder give away."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer

from connectors.reading import Reading
from models.errors import InputError
from stream.commands import _options as options
from stream.commands._output import emit_json, write_page

PANEL = "Operate"


@options.grouped
def command(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The output folder of a replay or daemon.", show_default=False)
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE.html",
            help="File of the page (a new one gets mode 0600).",
            show_default=False,
        ),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option("--source", metavar="LOG", help="The source log: its graph appears next to the last release's."),
    ] = None,
    reading: Reading = Reading(),  # noqa: B008 - frozen
    show_values: options.ShowValues = True,
    json: options.Json = False,
) -> int:
    """Write the operator's report on an output folder.

    It is one HTML file (--json: the data behind it). Exit 3 if a publication has released nothing.
    """
    if output is None and not json:
        raise InputError("report: name the file of the page: -o FILE.html (or --json for the data)")
    if output is not None and output.suffix != ".html":
        raise InputError(f"{output}: the report is written as .html; print the .html to get a PDF")
    from connectors import read_log
    from stream.operator.report.data import collect

    log = read_log(source, reading=reading) if source else None
    data = collect(folder, show_values=show_values, source=log)
    if output is not None:
        from stream.operator.report.page import render

        write_page(output, render(data, papers=_links(folder, output)), private=True)
    if json:
        emit_json(data)
    else:
        typer.echo(f"report: {output}", err=True)
        for verdict in data["verdicts"]:
            if verdict["exit_code"]:
                typer.echo(verdict["line"], err=True)
    return max((int(verdict["exit_code"]) for verdict in data["verdicts"]), default=3)


def _links(folder: Path, page: Path) -> dict[str, dict[str, str]]:
    """Return the addresses of dossiers and assessments as seen from the page."""
    from stream.operator.papers import papers

    links: dict[str, dict[str, str]] = {}
    for publication, paths in papers(folder).items():
        links[publication] = {}
        for name, path in paths.items():
            relative_path = os.path.relpath(path.absolute(), page.absolute().parent)
            links[publication][name] = quote(relative_path)
    return links
