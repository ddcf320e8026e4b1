"""Pause and resume, as orders to a running daemon."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from connectors.kafka.source import Source
from models.errors import InputError
from stream.config.settings import Settings
from stream.daemon import operator_commands
from stream.daemon.start import daemon_settings
from stream.fold.records import Command

ORDERS: Mapping[Literal["pause", "resume"], str] = {
    "pause": "Pause: release nothing, not even approved releases; continue to read events",
    "resume": "Resume: release again",
}


@dataclass(frozen=True, slots=True)
class Orders:
    """Receiver of orders: the delta topic of the daemon that this configuration is of."""

    settings: Settings
    source: Source

    @property
    def publications(self) -> list[str]:
        """Publications that an order can name."""
        return [publication.name for publication in self.settings.publication]

    def give(self, name: str | None, publication: str | None) -> str:
        """Put an order on the delta topic, and return a notice for the operator.

        Parameters
        ----------
        name
            One of `ORDERS`, as the browser sent it.
        publication
            Name of the publication; all of them if it is empty.

        Raises
        ------
        InputError
            If there is no such order or publication.
        """
        order = next((word for word in ORDERS if word == name), None)
        if order is None:
            raise InputError(f"the console gives no such order; it gives {', '.join(ORDERS)}")
        offset = operator_commands.send(
            self.settings, self.source, Command(name=order, publication=publication or None)
        )
        subject = publication or "all publications"
        return (
            f"The order to {order} {subject} is at offset {offset} of the delta topic. The daemon obeys when it has "
            "read so far."
        )


def orders_from(config: Path) -> Orders:
    """Return the orders that reach the daemon of a configuration.

    Parameters
    ----------
    config
        File of the configuration.

    Raises
    ------
    InputError
        If it is not one of a daemon.
    """
    return Orders(*daemon_settings(config))
