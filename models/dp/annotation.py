"""The DAFSA-annotated log: which transition each event takes, and how long it took.

Source: differentially-private-release-2023, definitions 3.5 and 3.10 and section 3.2. The relative time of an event
is counted from its predecessor (Table 2 does so; the text says successor); the first event of a case from the start of
the log. Relative times are grouped by transition, case starts form one group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from models.content_free import content_free
from models.dp.dafsa import Dafsa, minimal_dafsa
from models.errors import InputError
from models.eventlog import Codes, EventLog, Ints, SimpleLog, place_in_run

MILLISECOND = 1_000_000
"""Nanoseconds; times are protected and released in whole milliseconds."""

MAX_TIME_MS = 9_214_560_000_000
"""292 years: from the first day of 1678 to the last of 2261, the whole years that 64 bits of nanoseconds hold (readers
of logs refuse others). A noised time beyond is cut to it, never wrapped around."""

MAX_BOUND_MS = 1 << 40
"""35 years: a public bound of times beyond it is a mistake, and its noise could leave 64 bits."""

LONGEST_MS = 1 << 43
"""278 years: ranges of times below it, on a lattice of 2^20 steps (models.dp.timestamps), fit 64 bits."""


def check_starts(start: tuple[int, int] | None) -> None:
    """Refuse a range of case starts that is not one, or that times cannot hold.

    Parameters
    ----------
    start
        First and last start of a case, in milliseconds since 1970-01-01 UTC. None is no range.

    Raises
    ------
    InputError
        If the range is empty, 35 years or longer, or outside of the years 1678 to 2261.
    """
    if start is None:
        return
    first, last = start
    if not 0 < last - first < MAX_BOUND_MS:
        raise InputError("the last start must be after the first, and by less than 35 years")
    if first < -MAX_TIME_MS or last > MAX_TIME_MS:
        raise InputError("the range of starts must be within the years 1678 to 2261")


@content_free("log")
@dataclass(frozen=True, slots=True)
class AnnotatedLog:
    """A log without empty cases, with its automaton.

    Attributes
    ----------
    log
        The log.
    dafsa
        The automaton of all variants.
    variants
        Label codes of each variant.
    variant_of_case
        int64[C].
    transition
        int64[E], transition that each event takes.
    first
        bool[E], whether it is the first event of its case.
    relative
        int64[E], milliseconds since the predecessor, or since `origin_ms` for a first event.
    origin_ms
        Milliseconds since 1970-01-01 UTC.
    """

    log: EventLog
    dafsa: Dafsa
    variants: tuple[tuple[int, ...], ...]
    variant_of_case: Ints
    transition: Ints
    first: npt.NDArray[np.bool_]
    relative: Ints
    origin_ms: int

    @property
    def group(self) -> Ints:
        """Group of each event for times, int64[E]: its transition, or one further group for all case starts."""
        return np.where(self.first, self.dafsa.n_transitions, self.transition)

    @property
    def counts(self) -> Ints:
        """The transitions contingency table (definition 3.10), int64[T]."""
        return np.bincount(self.transition, minlength=self.dafsa.n_transitions).astype(np.int64)

    def select(self, cases: npt.NDArray[np.bool_]) -> AnnotatedLog:
        """Return the chosen cases on the same automaton and the same origin of time.

        Parameters
        ----------
        cases
            bool[C].
        """
        events = np.repeat(cases, self.log.lengths)
        return AnnotatedLog(
            log=self.log.select_cases(cases),
            dafsa=self.dafsa,
            variants=self.variants,
            variant_of_case=self.variant_of_case[cases],
            transition=self.transition[events],
            first=self.first[events],
            relative=self.relative[events],
            origin_ms=self.origin_ms,
        )


def annotate(log: EventLog) -> AnnotatedLog:
    """Annotate a log without empty cases.

    Raises
    ------
    InputError
        If it spans more than 278 years.
    """
    simple = SimpleLog.from_log(log)
    dafsa = minimal_dafsa(simple.variants)
    variant_of_case = simple.variant[simple.row_of_case].astype(np.int64)
    first = np.zeros(log.n_events, dtype=np.bool_)
    first[log.starts[:-1]] = True
    origin, relative = _relative(log, first)
    return AnnotatedLog(
        log, dafsa, simple.variants, variant_of_case, _transitions(log, dafsa, variant_of_case), first, relative, origin
    )


def _transitions(log: EventLog, dafsa: Dafsa, variant_of_case: Ints) -> Ints:
    begins = dafsa.starts[variant_of_case]
    place = np.repeat(begins, log.lengths) + place_in_run(log.starts)
    return np.asarray(dafsa.path[place], dtype=np.int64)


def _relative(log: EventLog, first: npt.NDArray[np.bool_]) -> tuple[int, Ints]:
    stamps = log.time // MILLISECOND
    origin = int(stamps.min()) if len(stamps) else 0
    if len(stamps) and int(stamps.max()) - origin >= LONGEST_MS:
        raise InputError("the log spans more than 278 years; remove dates that mean an unknown time")
    relative = np.diff(stamps, prepend=origin)
    relative[first] = stamps[first] - origin
    return origin, relative


def sorted_alphabet(labels: tuple[Any, ...]) -> tuple[tuple[Any, ...], Codes]:
    """Return the labels in sorted order and the new code of each old label.

    The order of codes shows in dictionary-coded files. In a released log it must not be the order in which the source
    mentioned the labels.

    Parameters
    ----------
    labels
        The labels in any order.

    Returns
    -------
    labels
        The labels in the order of their texts.
    rank
        int32[labels], new code by old code.
    """
    order = sorted(range(len(labels)), key=lambda code: str(labels[code]))
    rank = np.empty(len(order), dtype=np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return tuple(labels[code] for code in order), rank
