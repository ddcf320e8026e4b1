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

    Parameters
    ----------
    text
        The transition as the event has it.
    """
    return (text or "").strip().lower() or COMPLETE


def activity_of(lifecycle: Lifecycle, activity: str, transition: str | None) -> str | None:
    """Return the activity under which an event counts, or None if it does not count.

    With `complete` and `start`, only events of this transition count, under their activity. With `both`, the two are
    separate events `A+start` and `A+complete` (the XES classifier of name and transition). Other transitions
    (schedule, suspend, ate_abort ...) are never events.

    Parameters
    ----------
    lifecycle
        Transitions that count.
    activity, transition
        Activity and transition of the event.
    """
    counted_as = transition_of(transition)
    if lifecycle == "both":
        return f"{activity}+{counted_as}" if counted_as in (START, COMPLETE) else None
    return activity if counted_as == lifecycle else None


def counted_twice(column: str, n_values: int, remedy: str = "--lifecycle complete keeps") -> str:
    """Return the sentence on a log whose starts and completes are events alike.

    Parameters
    ----------
    column
        The attribute with the transitions.
    n_values
        Number of its values.
    remedy
        Begin of the clause on how to keep the events of one transition.
    """
    return (
        f"{column} has {n_values} values: each start and each complete is an event of its own, so activities count "
        "more than once, and somebody who knows one activity knows two of the L items that a promise covers; "
        f"{remedy} one of them if that is not meant"
    )


def has_starts_and_completes(log: EventLog, column: str) -> bool:
    """Return whether a log has events of both transitions under one name of the activity.

    Parameters
    ----------
    log
        The log.
    column
        Name of the event attribute with the transitions.
    """
    if column not in log.event_attributes:
        return False
    # With `both` (`activity_of`) the names carry the transitions: somebody has decided that both are events.
    if all(str(name).endswith((f"+{START}", f"+{COMPLETE}")) for name in log.activity.values):
        return False
    transitions = log.event_attributes[column]
    used_codes = np.unique(transitions.codes[transitions.codes >= 0])
    return {START, COMPLETE} <= {transition_of(str(transitions.values[code])) for code in used_codes}


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
    left_out = Counter(step[~keep].tolist())
    if left_out:
        standard = sum(count for name, count in left_out.items() if name in STANDARD)
        named = [f"{count} {name}" for name, count in sorted(left_out.items()) if name in STANDARD]
        named += [f"{left_out.total() - standard} others"] if left_out.total() > standard else []
        say(f"lifecycle = {lifecycle}: {left_out.total()} of {log.n_events} events left out ({', '.join(named)})")
    kept = log.select_events(keep, drop_empty=True)
    if kept.n_cases < log.n_cases:
        say(f"lifecycle = {lifecycle}: {log.n_cases - kept.n_cases} cases have no event left")
    return _both(kept, column, say) if lifecycle == "both" else kept


STANDARD: Final = frozenset(
    {"schedule", "assign", "withdraw", "reassign", "start", "suspend", "resume", "pi_abort", "ate_abort", "complete"}
    | {"autoskip", "manualskip"}
)
"""The transitions of XES. Other words are counted and not repeated in messages, since they may be any content."""


def _both(log: EventLog, column: str, say: Callable[[str], None]) -> EventLog:
    """Give start and complete separate names, and count the pairs.

    Each start has the next complete of its activity in its case as its partner, first in, first out; if the log has
    `concept:instance`, of the same instance.
    """
    transitions = log.event_attributes[column]
    is_complete_by_code = [transition_of(str(value)) == COMPLETE for value in transitions.values]
    is_complete_by_code.append(True)  # the code -1: an event without a transition
    is_complete = np.array(is_complete_by_code)[transitions.codes]
    names = tuple(f"{name}+{step}" for name in log.activity.values for step in (START, COMPLETE))
    labels = Column((log.activity.codes * 2 + is_complete).astype(np.int32), names)
    instance = log.event_attributes.get("concept:instance")
    instance_codes = np.full(log.n_events, MISSING) if instance is None else instance.codes
    keys = zip(log.case_of_event.tolist(), log.activity.codes.tolist(), instance_codes.tolist(), strict=True)
    open_starts: Counter[tuple[int, int, int]] = Counter()
    completes_alone = 0
    for key, ends in zip(keys, is_complete.tolist(), strict=True):
        if not ends:
            open_starts[key] += 1
        elif open_starts[key]:
            open_starts[key] -= 1
        else:
            completes_alone += 1
    pairs = int(is_complete.sum()) - completes_alone
    say(
        f"lifecycle = both: {pairs} starts have their complete; {open_starts.total()} starts and {completes_alone} "
        "completes have no partner, and stay"
    )
    return replace(log, activity=labels.take(np.arange(log.n_events)))
