"""When a release with a dp promise becomes visible: a fixed delay after its cut, however long its build took.

Running time depends on the data (one case of 100,000 events made a build four times as long), so no moment that a
recipient sees may follow from it: not the rename, not the times of the files, not `published` in the manifest.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from stream.values.duration import SECOND, UNITS

LONGEST_BUILD = 15 * UNITS["m"]
"""Default of `longest_build` and of `publish_after`. No build may take longer (`stream.daemon.coordinator` ends the
process), so this delay reveals of a build only that it ended."""


@dataclass(frozen=True, slots=True)
class Slot:
    """When a release is published.

    Attributes
    ----------
    moment
        Moment of publication (ns, a whole second).
    missed
        Returns whether the build took too long.
    simulated
        Whether the moment is not one of the machine's clock.
    """

    moment: int
    missed: Callable[[], bool]
    simulated: bool = False


class ReleaseClock(Protocol):
    """The clock that publishes: the real one in the daemon, a simulated one in a replay."""

    simulated: bool

    def now(self) -> int:
        """Return ns since 1970-01-01 UTC."""

    def slot(self, cut: int | None, delay: int) -> Slot:
        """Return the moment of a release whose attempt begins now.

        Parameters
        ----------
        cut
            Clock at the cut (ns); None if it depends on the data.
        delay
            From the cut to the publication (ns).
        """

    def due(self, moment: int) -> bool:
        """Return whether what is promised for `moment` may be published."""


@dataclass
class RealClock:
    """The clock of the machine."""

    now: Callable[[], int] = time.time_ns
    simulated: bool = False

    def slot(self, cut: int | None, delay: int) -> Slot:
        """Return the moment `delay` after the cut.

        An attempt that begins late (the host was down, another build was before it) takes the first of the moments
        cut + 2 delay, cut + 3 delay, ... that leaves it half a delay: lateness shows in steps, never as it was.
        """
        begin = self.now()
        base = begin if cut is None else cut
        late = begin + delay // 2 - base
        steps = max(1, -(-late // delay))  # rounded up
        moment = whole_second(base + steps * delay)
        return Slot(moment, lambda: self.now() > moment)

    def due(self, moment: int) -> bool:
        """Return whether what is promised for `moment` may be published."""
        return self.now() >= moment


@dataclass
class SimulatedClock:
    """The clock of a replay: moments are those of its cuts.

    Nobody waits for them, unless the replay follows event time: then `reached` is the event time that it has reached.
    """

    reached: int | None = None
    began: int = field(default_factory=time.time_ns)
    monotonic: Callable[[], int] = time.monotonic_ns
    simulated: bool = True

    def now(self) -> int:
        """Return when the replay began (ns)."""
        return self.began

    def slot(self, cut: int | None, delay: int) -> Slot:
        """Return the moment `delay` after the cut.

        For a cut that an event made it is the begin of the replay: the time of the event must not show, nor how long
        earlier builds took.
        """
        begin = self.monotonic()
        moment = self.began if cut is None else cut + delay
        return Slot(whole_second(moment), lambda: self.monotonic() - begin > delay, simulated=cut is not None)

    def due(self, moment: int) -> bool:
        """Return whether what is promised for `moment` may be published."""
        return self.reached is None or moment <= self.reached or moment == whole_second(self.began)


def whole_second(moment: int) -> int:
    """Round up to the next second, the precision of a manifest.

    A part below a millisecond only shows that a bound is exclusive, and is dropped first.
    """
    whole_milliseconds = moment // 1_000_000 * 1_000_000
    seconds = -(-whole_milliseconds // SECOND)  # rounded up
    return seconds * SECOND
