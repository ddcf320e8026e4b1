"""Warnings of doubtful values in the events that a daemon releases.

A replay reads the whole log first, and warns of all of it (`stream.run.replay`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np

from models.anonymize.sensitive import (
    VALUE_WARNINGS,
    warnings_of_lost_values,
    warnings_of_no_values,
    warnings_of_several_values,
)
from models.eventlog import EventLog, Flags
from models.missing_words import means_missing
from models.spelling import DIFFERENCE, spelled_twice
from stream.fold.fold import Fold
from stream.release.contract import Mechanism

log = logging.getLogger("veilstream")


class DataWarnings:
    """Logs each doubtful value once in the life of a process.

    Parameters
    ----------
    sensitive
        Names of the sensitive attributes.
    """

    def __init__(self, sensitive: Sequence[str]) -> None:
        self._sensitive = sensitive
        # Sensitive attributes that were logged because they change within a case.
        self._logged_as_changing: set[str] = set()
        # Sensitive attributes that were logged because no case had a value.
        self._logged_as_empty: set[str] = set()
        # Sensitive attributes that were logged because the newest cases had no value any more.
        self._logged_as_lost: set[str] = set()
        # Kinds of doubtful values (places in VALUE_WARNINGS) that were logged, with the sensitive attribute.
        self._logged_for_values: set[tuple[int, str]] = set()
        # Words of missing values that were logged as activities.
        self._logged_activities: set[str] = set()
        # Whether several spellings of one activity were logged.
        self._logged_spellings = False

    def log_new(self, fold: Fold, exposed: EventLog, complete: Flags, mechanism: Mechanism) -> None:
        """Log the doubtful values at a cut that were not logged before.

        Parameters
        ----------
        fold
            The state, with all cases.
        exposed
            The log that the cut exposes.
        complete
            bool[C], which of its cases are complete.
        mechanism
            The mechanism that gets it. One with noise reads no sensitive attribute, so no warning may depend on one.
        """
        self._log_activities(exposed)
        if mechanism.reads_data_in_gate:
            self._log_changing(fold)
            self._log_empty(exposed, mechanism)
            self._log_lost(exposed, complete, mechanism)
            self._log_values(exposed, mechanism)

    def _log_activities(self, exposed: EventLog) -> None:
        counts = np.bincount(exposed.activity.codes, minlength=len(exposed.activity.values))
        spelled = spelled_twice(exposed.activity.values[code] for code in np.flatnonzero(counts))
        if spelled and not self._logged_spellings:
            self._logged_spellings = True
            log.warning(
                "%d activities differ from another one %s: each spelling is an activity of its own, so fewer cases are "
                "alike; write them alike at the source",
                len(spelled),
                DIFFERENCE,
            )
        for activity, n_events in zip(exposed.activity.values, counts.tolist(), strict=True):
            if not n_events or not means_missing(activity):
                continue
            word = str(activity).strip().casefold()  # one of a fixed list, so the line has no content of a record
            if word in self._logged_activities:
                continue
            self._logged_activities.add(word)
            log.warning(
                "%d events have an activity that exports write for a missing one (%s): it is released as an "
                "activity like the others; leave such records out (source.mapping, where), or mend the source",
                n_events,
                word,
            )

    def _log_changing(self, fold: Fold) -> None:
        """Log the attributes that change within a case."""
        unlogged = [name for name in self._sensitive if name not in self._logged_as_changing]
        changing_cases = fold.state.changing_cases(unlogged)
        self._logged_as_changing.update(name for name, n_cases in changing_cases.items() if n_cases)
        for warning in warnings_of_several_values(changing_cases):
            log.warning("%s", warning)

    def _log_empty(self, exposed: EventLog, mechanism: Mechanism) -> None:
        """Log the attributes that C should bound and no case has."""
        has_bound = getattr(mechanism, "C", 1) < 1
        if not has_bound or exposed.n_cases < getattr(mechanism, "K", 1):
            return
        unlogged = [name for name in self._sensitive if name not in self._logged_as_empty]
        for name in unlogged:
            for warning in warnings_of_no_values(exposed, [name]):
                self._logged_as_empty.add(name)
                log.warning("%s", warning)

    def _log_lost(self, exposed: EventLog, complete: Flags, mechanism: Mechanism) -> None:
        """Log the attributes that C should bound and only earlier cases have."""
        if getattr(mechanism, "C", 1) >= 1:
            return
        unlogged = [name for name in self._sensitive if name not in self._logged_as_lost]
        for name in unlogged:
            for warning in warnings_of_lost_values(exposed, [name], getattr(mechanism, "K", 1), complete):
                self._logged_as_lost.add(name)
                log.warning("%s", warning)

    def _log_values(self, exposed: EventLog, mechanism: Mechanism) -> None:
        """Log the attributes with words for a missing value, numbers that count as texts, or spellings."""
        bins = getattr(mechanism, "bins", None)
        for kind, warnings_of in enumerate(VALUE_WARNINGS):
            unlogged = [name for name in self._sensitive if (kind, name) not in self._logged_for_values]
            for name in unlogged:
                for warning in warnings_of(exposed, [name], bins):
                    self._logged_for_values.add((kind, name))
                    log.warning("%s", warning)
