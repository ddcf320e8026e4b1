"""`veilstream catalogue DIR [PUBLICATION] -o FILE`: the record of a publication for a catalogue of data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from models.errors import InputError
from stream.commands import _options as options
from stream.commands._output import emit_json

PANEL = "Operate"


def command(
    folder: options.PublishedFolder,
    publication: options.ChosenPublication = None,
    url: Annotated[
        str | None,
        typer.Option("--url", metavar="URL", help="Address of the publication's folder.", show_default=False),
    ] = None,
    facts: options.Facts = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="FILE.jsonld.", show_default=False),
    ] = None,
) -> None:
    """Describe a publication for a catalogue of data: DCAT-AP and PROV-O, as JSON-LD.

    It is made from the public manifests and the facts, and from nothing else. Without --url no file is listed, since a
    catalogue needs an address for each. A table [catalogue] in the facts makes it a record of HealthDCAT-AP.
    """
    from msgspec.json import encode
    from msgspec.json import format as indented

    from stream.operator.catalogue import record
    from stream.operator.dossier.facts import read_facts
    from stream.operator.health_profile import read_health_facts
    from stream.operator.report.statement import releases_of

    if output is not None and output.suffix not in (".jsonld", ".json"):
        raise InputError(f"{output}: the record is written as .jsonld")
    if url is not None and not url.startswith(("https://", "http://")):
        raise InputError(f"--url {url}: give the address that recipients use, such as https://data.example.org/weekly")
    declared_facts = {} if facts is None else read_facts(facts)
    health = None if facts is None else read_health_facts(facts)
    document = record(releases_of(folder, publication, None), url=url, facts=declared_facts, health=health)
    if output is None:
        emit_json(document)
        return
    try:
        output.write_bytes(indented(encode(document)) + b"\n")
    except OSError as error:
        raise InputError(f"{output}: cannot be written ({error.strerror})") from None
    typer.echo(f"record: {output}", err=True)
