"""Waits of cases until a release shows them: figures of `advise` and of `replay --compare`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from statistics import median

import numpy as np

from models.eventlog import EventLog, Ints
from stream.ledger.release_record import ReleaseRecord
from stream.values.pseudonym import Pseudonyms

DAY = 86_400.0


def moments_of_cases(log: EventLog, event_of_case: Ints, pseudonyms: Pseudonyms) -> dict[str, float]:
    """Return the time of one event of each case, by pseudonym, in seconds since 1970.

    Parameters
    ----------
    log
        The source log.
    event_of_case
        int64[C], the event of each case; a case without events is left out.
    pseudonyms
        The pseudonyms of cases in releases.
    """
    moments = {}
    for case in np.flatnonzero(log.lengths > 0).tolist():
        moments[pseudonyms.case(log.case_ids[case])] = int(log.time[event_of_case[case]]) / 1e9
    return moments


def median_wait(records: Sequence[ReleaseRecord], since: Mapping[str, float]) -> float | None:
    """Return median days from `since` (seconds by pseudonym) to the first release that shows the case.

    Never below 0 (an open case may be shown); None if records are not cases (dp).
    """
    first_shown: dict[str, float] = {}
    for record in records:
        moment = datetime.fromisoformat(record.audit["cut"]["time"]).timestamp()
        for case in record.case_ids:
            if case:  # a record that is not a case has no name
                first_shown.setdefault(case, moment)
    waits = []
    for case, moment in first_shown.items():
        if case in since:
            waits.append(max(0.0, moment - since[case]) / DAY)
    return median(waits) if waits else None
