"""`veilstream reject`: a person's decision on a held release, to the running daemon or in the folder of a replay."""

from __future__ import annotations

from stream.commands import _decide as decision
from stream.commands import _options as options

PANEL = "Operate"


def command(
    publication: decision.Publication,
    number: decision.Number,
    by: decision.By,
    why: decision.Why,
    config: decision.Config = None,
    output: decision.Output = None,
    json: options.Json = False,
) -> int:
    """Never publish a held release: its bytes are deleted, its number and its charge stay used."""
    return decision.give("reject", publication, number, by, why, config, output, json=json)
