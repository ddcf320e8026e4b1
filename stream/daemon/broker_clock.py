"""What time it is for a process: the broker's clock, not the one of a host.

Windows by the wall clock, waits and the moments of releases last for as long as a clock says, and several hosts have
several. The broker stamps every record of veilstream's topics (`LogAppendTime`), and tells a producer the stamp of each
that it takes. So one clock serves all: a worker whose own clock jumps by a year moves nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


def host_time() -> int:
    """This host's clock, ns since 1970-01-01 UTC."""
    return time.time_ns()


@dataclass
class BrokerClock:
    """The broker's time, carried on between two stamps by what counts durations here. Until the first stamp, and where
    a topic keeps its producers' times, it is this host's clock."""

    wall: Callable[[], int] = host_time
    monotonic: Callable[[], int] = time.monotonic_ns
    _ahead: int | None = None
    """Broker's time less `monotonic`, ns."""

    def heard(self, milliseconds: int) -> None:
        """The stamp (since 1970-01-01 UTC) of a record that the broker has just taken."""
        self._ahead = milliseconds * 1_000_000 - self.monotonic()

    def now(self) -> int:
        """ns since 1970-01-01 UTC."""
        return self.wall() if self._ahead is None else self.monotonic() + self._ahead
