"""Whether relative times are asked for more finely than the log records them."""

from __future__ import annotations

import numpy as np

from models.eventlog import EventLog
from models.knowledge import NANOSECONDS, Unit


def coarser_unit(log: EventLog, T: Unit) -> str | None:
    """The coarsest unit of which all times of the log are whole multiples apart, where that is coarser than T."""
    if log.n_events < 2:
        return None
    steps = np.asarray(np.diff(np.sort(log.time)), dtype=np.int64)
    fitting = [unit for unit, ns in NANOSECONDS.items() if ns > NANOSECONDS[T] and not (steps % ns).any()]
    return fitting[-1] if fitting and steps.any() else None
