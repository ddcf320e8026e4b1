"""Material of an assessment: the original, a control and a release in one coding, as one attacker knows their cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from models.anonymize.view import TraceView, view_of_items
from models.content_free import content_free
from models.errors import InputError, check_choice
from models.eventlog import MISSING, Codes, Column, EventLog, Ints, starts_of
from models.knowledge import NANOSECONDS, Knowledge, Unit, items
from models.utility.distance import letter

MOST_KNOWN = 8
"""Most items of a case that a profile may know."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Knowledge that an attacker has of a target.

    Parameters
    ----------
    m
        Number of known items, 1..8.
    knowledge
        Whether their order, number and relative times are known, and whether items are activities, resources or both.
    attributes
        Case attributes that are known exactly.
    name
        Word for tables: `promised`, `declared` or `stronger`.
    start
        Unit of time in which the first moment of the case is known; "" if it is not known.
    """

    m: int = 3
    knowledge: Knowledge = field(default_factory=Knowledge)
    attributes: tuple[str, ...] = ()
    name: str = "declared"
    start: Unit | Literal[""] = ""

    def __post_init__(self) -> None:
        """Check the number of items and the unit of the start."""
        if not 1 <= self.m <= MOST_KNOWN:
            raise InputError(f"m = {self.m}: an attacker of an assessment knows 1 to {MOST_KNOWN} items of a case")
        if self.start:
            check_choice("start:", self.start, NANOSECONDS)

    def stronger(self, shown: Sequence[str], *, dates: bool = False) -> Profile:
        """Return an attacker who knows more: twice the items, their order, and what else the release shows.

        Parameters
        ----------
        shown
            Case attributes that the release shows.
        dates
            Whether it shows dates: then the day on which the case began is known.
        """
        order = replace(self.knowledge, structure="rel" if self.knowledge.structure == "rel" else "seq")
        m = min(2 * self.m, MOST_KNOWN)
        attributes = tuple(dict.fromkeys((*self.attributes, *shown)))
        start = self.start or ("days" if dates else "")
        return Profile(m, order, attributes, "stronger", start)

    def without_times(self) -> Profile:
        """Return an attacker who knows the same items and their order, and no relative times."""
        if self.knowledge.structure != "rel":
            return self
        return replace(self, knowledge=replace(self.knowledge, structure="seq"))

    def sentence(self) -> str:
        """Return what the attacker knows, in words."""
        kind = {"ac": "activities", "re": "resources", "ar": "activities with their resources"}
        order = {
            "set": "which they are",
            "mult": "how often each occurs",
            "seq": "their order",
            "rel": f"their order and their time since the start of the case, in {self.knowledge.T}",
        }
        known_part = f"{self.m} items of a case ({kind[self.knowledge.attribute]}), {order[self.knowledge.structure]}"
        further = list(self.attributes)
        if self.start:
            further.append(f"when the case began, in {self.start}")
        return f"{known_part}, and {', '.join(further)}" if further else known_part


@content_free()
@dataclass(frozen=True)
class CodedCases:
    """Cases of one log, as rows of `Material.traces`.

    Parameters
    ----------
    log
        The log, C cases.
    row_of_case
        int64[C], row of each case.
    """

    log: EventLog
    row_of_case: Ints


@content_free("n_original", "n_control", "n_released")
@dataclass(frozen=True)
class Material:
    """Original, control and release in one coding.

    Parameters
    ----------
    original, control, released
        The logs; `control` has no cases if there is none.
    profile
        The attacker's knowledge; gives the items.
    traces
        All distinct traces of items, with the known attributes as classes.
    steps
        All distinct sequences of activities, whatever the profile.
    """

    original: EventLog
    control: EventLog
    released: EventLog
    profile: Profile
    traces: TraceView
    steps: TraceView

    @classmethod
    def of(
        cls,
        original: EventLog,
        control: EventLog | None,
        released: EventLog,
        profile: Profile,
    ) -> Material:
        """Code three logs together.

        Parameters
        ----------
        original, control, released
            The logs. The control may be None.
        profile
            The attacker's knowledge.

        Raises
        ------
        InputError
            If the original or the release has no event, if they have no activity in common, or if a log lacks an
            attribute of the profile.
        """
        other = control
        if other is None:  # a log without cases in its place: all that follows then has three logs
            other = original.select_cases(np.zeros(original.n_cases, dtype=np.bool_))
        logs = (original, other, released)
        for log, name in ((original, "the original"), (released, "the release")):
            if not log.n_events:
                raise InputError(f"{name} has no event: there is nothing to attack")
        if not set(original.activity.values) & set(released.activity.values):
            raise InputError(
                "no activity of the release is in the original: the logs are of different processes, or the release "
                "writes its activities in other words"
            )
        nothing = Column(_NONE, ())
        attributes = {}
        for name in profile.attributes:
            values_of_logs = [log.sensitive([name]) if log.n_cases else nothing for log in logs]
            attributes[name] = Column.together(values_of_logs)
        if profile.start:
            if not shows_dates(released, original):
                raise InputError("start: the release shows no dates, so knowing when a case began is of no use")
            attributes[STARTED] = Column.together([_started(log, profile.start) for log in logs])
        starts = _starts_together(logs)
        items_of_logs = [items(log, profile.knowledge) if log.n_events else nothing for log in logs]
        known_items = Column.together(column.with_missing_as_value() for column in items_of_logs)
        traces = view_of_items(starts, known_items, profile.knowledge.structure, attributes)
        activities = Column.together([log.activity.with_missing_as_value() for log in logs])
        return cls(*logs, profile, traces, view_of_items(starts, activities, "seq", {}))

    @property
    def n_original(self) -> int:
        """Cases of the original."""
        return self.original.n_cases

    @property
    def n_control(self) -> int:
        """Cases of the control, 0 without one."""
        return self.control.n_cases

    @property
    def n_released(self) -> int:
        """Released cases."""
        return self.released.n_cases

    def rows(self, view: TraceView) -> tuple[Ints, Ints, Ints]:
        """Return the row of each case in a view: original, control, release.

        Parameters
        ----------
        view
            `traces` or `steps`.

        Returns
        -------
        original, control, released
            int64 each, by case of the log.
        """
        ends = np.cumsum([self.n_original, self.n_control])
        original, control, released = np.split(view.row_of_case, ends)
        return original, control, released

    @cached_property
    def original_cases(self) -> CodedCases:
        """Cases of the original."""
        return CodedCases(self.original, self.rows(self.traces)[0])

    @cached_property
    def control_cases(self) -> CodedCases:
        """Cases of the control."""
        return CodedCases(self.control, self.rows(self.traces)[1])

    @cached_property
    def released_cases(self) -> CodedCases:
        """Released cases."""
        return CodedCases(self.released, self.rows(self.traces)[2])

    @cached_property
    def released_weight(self) -> Ints:
        """Released cases of each row of `traces`, int64[R]."""
        return np.bincount(self.released_cases.row_of_case, minlength=len(self.traces.weight))

    @cached_property
    def texts(self) -> npt.NDArray[np.object_]:
        """Each row of `traces` as a text of one character an item."""
        return _texts(self.traces)

    def text(self, codes: Codes) -> str:
        """Return items as a text, to be compared with `texts`.

        Parameters
        ----------
        codes
            Item codes.
        """
        return "".join(map(letter, codes.tolist()))

    def trace(self, row: int) -> Codes:
        """Return the items of a row.

        Parameters
        ----------
        row
            Row of `traces`.
        """
        return self.traces.codes[self.traces.starts[row] : self.traces.starts[row + 1]]

    @cached_property
    def shown_texts(self) -> tuple[Ints, npt.NDArray[np.object_]]:
        """Rows of `traces` that the release has, and their texts."""
        rows = np.flatnonzero(self.released_weight)
        return rows, self.texts[rows]

    def same_attributes(self, row: int, rows: Ints) -> npt.NDArray[np.bool_]:
        """Return which of `rows` have the known attributes of `row`; an unknown value fits none but itself.

        Parameters
        ----------
        row, rows
            Rows of `traces`.
        """
        return np.asarray((self.traces.values[:, rows] == self.traces.values[:, [row]]).all(axis=0))


_NONE = np.zeros(0, dtype=np.int32)

STARTED = "start of the case"
"""Name of the moment at which a case began, among the known attributes."""


def shows_dates(released: EventLog, original: EventLog) -> bool:
    """Return whether most released cases begin while the original was recorded.

    Ordinal and relative times begin in 1970.

    Parameters
    ----------
    released, original
        The release and its source.
    """
    if not released.n_events or not original.n_events:
        return False
    begins = released.time[released.starts[:-1][released.lengths > 0]]
    is_inside = (begins >= original.time.min()) & (begins <= original.time.max())
    return bool(is_inside.mean() > 0.5)


def _started(log: EventLog, unit: Unit) -> Column:
    """Return the moment of the first event of each case, in a unit of time; missing without events."""
    has_events = np.flatnonzero(log.lengths)
    codes = np.full(log.n_cases, MISSING, dtype=np.int32)
    begins = np.minimum.reduceat(log.time, log.starts[has_events]) if len(has_events) else log.time[:0]
    moments, codes[has_events] = np.unique(begins // NANOSECONDS[unit], return_inverse=True)
    return Column(codes, tuple(moments.tolist()))


def pooled(logs: Sequence[EventLog]) -> EventLog:
    """Return all cases of several releases as one log, as somebody sees them who puts the files together.

    Parameters
    ----------
    logs
        At least one log. Attributes that not all of them carry are left out.
    """
    if len(logs) == 1:
        return logs[0]
    common_of_cases = sorted(set.intersection(*(set(log.case_attributes) for log in logs)))
    common_of_events = sorted(set.intersection(*(set(log.event_attributes) for log in logs)))
    numbered_logs = []
    for number, log in enumerate(logs):
        numbered = replace(
            log,
            case_ids=tuple(f"{number}/{case}" for case in log.case_ids),
            case_attributes={name: log.case_attributes[name] for name in common_of_cases},
            event_attributes={name: log.event_attributes[name] for name in common_of_events},
            offset=None,
        )
        numbered_logs.append(numbered)
    return EventLog.together(numbered_logs)


def _starts_together(logs: Sequence[EventLog]) -> Ints:
    return starts_of(np.concatenate([log.lengths for log in logs]))


def _texts(view: TraceView) -> npt.NDArray[np.object_]:
    letters = np.asarray([letter(code) for code in range(len(view.alphabet))], dtype=np.object_)
    letter_of_place = letters[view.codes]
    texts = np.empty(len(view.weight), dtype=np.object_)
    for row in range(len(texts)):
        texts[row] = "".join(letter_of_place[view.starts[row] : view.starts[row + 1]])
    return texts


def drawn(n: int, most: int, rng: np.random.Generator) -> Ints:
    """Return at most `most` of n numbers, drawn at random without replacement, ascending.

    Parameters
    ----------
    n
        Numbers 0 .. n - 1 to draw from.
    most
        Numbers to draw, if there are as many.
    rng
        Source of chance.
    """
    return np.sort(rng.choice(n, size=min(n, most), replace=False))
