"""The time of a process: the broker's clock, not the one of a host.

Windows by the wall clock, waits and the moments of releases are measured by a clock, and several hosts have several
clocks. The broker stamps every record of veilstream's topics (`LogAppendTime`), and reports the stamp of each record to
its producer. So one clock serves all: a worker whose own clock jumps by a year moves nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass
class BrokerClock:
    """The broker's time; between two stamps the monotonic clock of the host carries it on.

    Until the first stamp, and on topics that keep their producers' times, it is the clock of this host.
    """

    wall: Callable[[], int] = time.time_ns
    monotonic: Callable[[], int] = time.monotonic_ns
    _ahead: int | None = None
    """Broker's time less `monotonic`, ns."""

    def set_by(self, milliseconds: int) -> None:
        """Set the clock by the stamp (ms since 1970-01-01 UTC) of a record that the broker has just taken."""
        self._ahead = milliseconds * 1_000_000 - self.monotonic()

    def now(self) -> int:
        """Return the time, in ns since 1970-01-01 UTC."""
        if self._ahead is None:
            return self.wall()
        return self.monotonic() + self._ahead
