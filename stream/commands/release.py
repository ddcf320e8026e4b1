"""`veilstream release`: an order to the running daemon."""

from __future__ import annotations

from stream.commands import _options as options
from stream.commands import _order as order

PANEL = "Operate"


def command(config: order.Config, publication: order.Which = None, json: options.Json = False) -> None:
    """Take a release now, even if the window is not over."""
    order.give("release", config, publication, json=json)
