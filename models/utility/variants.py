"""Variants, and cases that run at a time, that a release kept.

Source: differentially-private-release-2023, requirement R1 and figure 3. It reads the raw log: for the operator, never
to be published together with a differentially private release.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from models.eventlog import EventLog, Ints


@dataclass(frozen=True, slots=True)
class VariantChanges:
    """Variants (activity sequences) that original and release do not share.

    Attributes
    ----------
    r1 : bool
        Requirement R1: the release has no new variant.
    """

    lost: int
    new: int
    r1: bool


def variant_changes(original: EventLog, released: EventLog) -> VariantChanges:
    """Return the variants that were lost, and new ones.

    Parameters
    ----------
    original, released
        The log and its release.
    """
    before, after = set(original.traces()), set(released.traces())
    return VariantChanges(len(before - after), len(after - before), after <= before)


def active_cases(log: EventLog, moments: Ints) -> npt.NDArray[np.int64]:
    """Count the cases that are running at each moment, int64[len(moments)].

    Parameters
    ----------
    log
        The log.
    moments
        ns since 1970-01-01 UTC.

    References
    ----------
    differentially-private-release-2023, figure 3.
    """
    filled = log.lengths > 0
    begins = np.sort(log.time[log.starts[:-1][filled]])
    ends = np.sort(log.time[log.starts[1:][filled] - 1])
    running = np.searchsorted(begins, moments, side="right") - np.searchsorted(ends, moments, side="left")
    return np.asarray(running, dtype=np.int64)


def moments_of(log: EventLog, count: int = 20) -> Ints:
    """Return the moments in the middle of `count` equal parts of a log's time, int64[count].

    There are none without events.

    Parameters
    ----------
    log
        The log.
    count
        Number of moments.
    """
    if not log.n_events:
        return np.zeros(0, dtype=np.int64)
    first, last = int(log.time.min()), int(log.time.max())
    # Python's integers: the product does not fit into 64 bits.
    moments = [first + (last - first) * (2 * part + 1) // (2 * count) for part in range(count)]
    return np.asarray(moments, dtype=np.int64)
