"""Which transitions of an activity's lifecycle (XES `lifecycle:transition`) count as events."""

from __future__ import annotations

from typing import Final, Literal

Lifecycle = Literal["complete", "start", "both"]

START: Final = "start"
COMPLETE: Final = "complete"


def transition_of(text: str | None) -> str:
    """The transition in lower case. An event without one is atomic and counts as its completion."""
    return (text or "").strip().lower() or COMPLETE


def activity_of(lifecycle: Lifecycle, activity: str, transition: str | None) -> str | None:
    """The activity under which an event counts, None where it does not.

    complete, start: only events of this transition, under their activity. both: the two are events of their own,
    `A+start` and `A+complete` (the XES classifier of name and transition). Other transitions (schedule, suspend,
    ate_abort ...) are never events.
    """
    found = transition_of(transition)
    if lifecycle == "both":
        return f"{activity}+{found}" if found in (START, COMPLETE) else None
    return activity if found == lifecycle else None
