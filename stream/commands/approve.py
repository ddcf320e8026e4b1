"""`veilstream approve`: a person's decision on a held release, to the running daemon or in the folder of a replay."""

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
    """Publish a held release: its attacks are audited again, and a gate that no longer passes refuses it (exit 3)."""
    return decision.give("approve", publication, number, by, why, config, output, json=json)
