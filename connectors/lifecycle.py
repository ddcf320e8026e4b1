"""The transitions of an activity's lifecycle that count as events.

XES names the attribute `lifecycle:transition`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Final, Literal

import numpy as np

from models.errors import InputError
from models.eventlog import MISSING, Column, EventLog

Lifecycle = Literal["complete", "start", "both"]

START: Final = "start"
COMPLETE: Final = "complete"


def transition_of(text: str | None) -> str:
    """Return the transition in lower case.

    An event without one is atomic and counts as its completion.
    """
    return (text or "").strip().lower() or COMPLETE


def activity_of(lifecycle: Lifecycle, activity: str, transition: str | None) -> str | None:
    """Return the activity under which an event counts, or None if it does not count.

    With `complete` and `start`, only events of this transition count, under their activity. With `both`, the two are
    separate events `A+start` and `A+complete` (the XES classifier of name and transition). Other transitions
    (schedule, suspend, ate_abort ...) are never events.
    """
    counted_as = transition_of(transition)
    if lifecycle == "both":
        return f"{activity}+{counted_as}" if counted_as in (START, COMPLETE) else None
    return activity if counted_as == lifecycle else None


def of_log(log: EventLog, lifecycle: Lifecycle, column: str, say: Callable[[str], None]) -> EventLog:
    """Return the log with the events that count (`activity_of`).

    Parameters
    ----------
    log
        The log.
    lifecycle
        The transitions that count.
    column
        The attribute with the transitions.
    say
        Called with the number of events that do not count, by transition, and with `both` also with the number of
        starts and completes without a partner.

    Raises
    ------
    InputError
        The log has no such column.
    """
    if column not in log.event_attributes:
        raise InputError(
            f"lifecycle: the log has no column {column!r} with transitions; name it with --columns lifecycle=NAME"
        )
    transitions = log.event_attributes[column]
    steps = [transition_of(str(value)) for value in transitions.values] + [COMPLETE]
    step = np.array(steps, dtype=object)[transitions.codes]
    keep = np.isin(step, [START, COMPLETE] if lifecycle == "both" else [lifecycle])
    others = Counter(step[~keep].tolist())
    if others:
        standard = sum(count for name, count in others.items() if name in STANDARD)
        named = [f"{count} {name}" for name, count in sorted(others.items()) if name in STANDARD]
        named += [f"{others.total() - standard} others"] if others.total() > standard else []
        say(f"lifecycle = {lifecycle}: {others.total()} of {log.n_events} events left out ({', '.join(named)})")
    kept = log.select_events(keep, drop_empty=True)
    if kept.n_cases < log.n_cases:
        say(f"lifecycle = {lifecycle}: {log.n_cases - kept.n_cases} cases have no event left")
    return _both(kept, column, say) if lifecycle == "both" else kept


STANDARD: Final = frozenset(
    {"schedule", "assign", "withdraw", "reassign", "start", "suspend", "resume", "pi_abort", "ate_abort", "complete"}
    | {"autoskip", "manualskip"}
)
"""The transitions of XES. A word that is none of them is counted, not repeated: it may be anything."""


def _both(log: EventLog, column: str, say: Callable[[str], None]) -> EventLog:
    """Give start and complete separate names, and count the pairs.

    Each start has the next complete of its activity in its case as its partner, first in, first out; if the log has
    `concept:instance`, of the same instance.
    """
    transitions = log.event_attributes[column]
    completes = np.array([transition_of(str(value)) == COMPLETE for value in transitions.values] + [True])[
        transitions.codes
    ]
    names = [*log.activity.values]
    labels = Column(
        (log.activity.codes * 2 + completes).astype(np.int32),
        tuple(f"{name}+{step}" for name in names for step in (START, COMPLETE)),
    )
    waiting: Counter[tuple[int, int, int]] = Counter()
    instance = log.event_attributes.get("concept:instance")
    which = np.full(log.n_events, MISSING) if instance is None else instance.codes
    alone = 0
    events = zip(
        log.case_of_event.tolist(), log.activity.codes.tolist(), which.tolist(), completes.tolist(), strict=True
    )
    for case, activity, number, ends in events:
        if not ends:
            waiting[case, activity, number] += 1
        elif waiting[case, activity, number]:
            waiting[case, activity, number] -= 1
        else:
            alone += 1
    pairs = int(completes.sum()) - alone
    say(
        f"lifecycle = both: {pairs} starts have their complete; {waiting.total()} starts and {alone} completes have no "
        "partner, and stay"
    )
    return replace(log, activity=labels.take(np.arange(log.n_events)))
