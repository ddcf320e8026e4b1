"""Reconstruction: what only one person has, and the release shows word for word.

A trace that many people have gives nobody away. So only those traces and pieces (consecutive events) count that exactly
one case of original and control together has. *Together*, as in singling out: a piece that a case of the control shares
with one of the original is no evidence, since it may have been released because of either. The owner of such a trace or
piece then does not depend on the division of the cases into original and control. Without a leak each of these people
is as likely in the original as any other case is, and the exact test applies
(`models.disclosure.intervals.compared_exactly`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from models.anonymize.view import TraceView
from models.disclosure.intervals import AttackRisk, Successes, TargetResults, compared_exactly, rate_alone
from models.disclosure.material import Material, drawn
from models.eventlog import Floats, Ints

_ODD = np.uint64(0x9E3779B97F4A7C15)
"""Multiplier of the rolling hash of pieces: an odd number without a pattern (the golden ratio of 64 bits)."""


@dataclass(frozen=True, slots=True)
class Reconstruction:
    """Result of the attack.

    Parameters
    ----------
    traces
        Share of the cases whose whole trace the release shows and no other case has.
    pieces
        Share of the cases of which the release shows a piece that no other case has, longer than the m known items:
        somebody who knows the person learns more of them.
    shown_traces, shown_unique_traces
        Cases of the original whose trace is released, and those among them that no other case of the original has.
    longest
        Events of the longest released piece that only one case of the original has; 0 if there is none.
    """

    traces: AttackRisk
    pieces: AttackRisk
    shown_traces: int
    shown_unique_traces: int
    longest: int


def reconstruction(
    material: Material,
    view: TraceView,
    measures: int,
    rng: np.random.Generator,
) -> Reconstruction:
    """Look for whole traces and for pieces of single cases in the release.

    All cases are looked at. Of the larger of original and control, as many cases are drawn as the other one has.

    Parameters
    ----------
    material
        Original, control and release in one coding.
    view
        The traces that are looked for: `material.steps`, or the traces of another material of the same logs.
    measures
        Measures of the assessment (`AttackRisk.clear`).
    rng
        Draws the cases.
    """
    original, control, released = material.rows(view)
    is_shown = np.bincount(released, minlength=len(view.weight)) > 0
    longest = _longest_unique_piece(view, released, original)
    if not len(control):
        traces = rate_alone(float(_is_shown_alone(is_shown, original).sum()), len(original))
        pieces = rate_alone(float((longest > material.profile.m).sum()), len(original))
    else:
        size = min(len(original), len(control))
        cases, control_cases = (drawn(len(rows), size, rng) for rows in (original, control))
        together = np.concatenate((original[cases], control[control_cases]))
        is_reconstructed = _is_shown_alone(is_shown, together)
        has_piece = _longest_unique_piece(view, released, together) > material.profile.m
        # If all of it were released, the attack would find those with a trace, or a piece, of their own.
        everything = np.ones_like(is_shown)
        own_traces = _is_shown_alone(everything, together)[: len(cases)]
        own_pieces = (_longest_unique_piece(view, together, together) > material.profile.m)[: len(cases)]
        traces = _compared(cases, control_cases, is_reconstructed, float(own_traces.mean()), measures)
        pieces = _compared(cases, control_cases, has_piece, float(own_pieces.mean()), measures)
    return Reconstruction(
        traces,
        pieces,
        int(is_shown[original].sum()),
        int(_is_shown_alone(is_shown, original).sum()),
        int(longest.max(initial=0)),
    )


def _compared(
    cases: Ints, control_cases: Ints, succeeded: npt.NDArray[np.bool_], reach: float, measures: int
) -> AttackRisk:
    """Return the risk from the success on the cases of the original, followed by those of the control."""
    share: Floats = succeeded.astype(np.float64)
    within, outside = np.split(share, [len(cases)])
    evidence = TargetResults(Successes(cases, within), Successes(control_cases, outside), reach)
    return compared_exactly(evidence, measures)


def _is_shown_alone(is_shown: npt.NDArray[np.bool_], rows: Ints) -> npt.NDArray[np.bool_]:
    """Return whether the trace of each case is released and no other of these cases has it."""
    cases_of_row = np.bincount(rows, minlength=len(is_shown))
    return np.asarray((is_shown & (cases_of_row == 1))[rows])


def _longest_unique_piece(view: TraceView, released: Ints, rows: Ints) -> Ints:
    """Return for each case the length of its longest released piece that no other case has; 0 if there is none.

    Parameters
    ----------
    view
        Traces of all logs.
    released, rows
        int64[R] and int64[C], row of each released case, and of each case whose pieces are looked for.
    """
    is_released = np.bincount(released, minlength=len(view.weight)) > 0
    cases_of_row = np.bincount(rows, minlength=len(view.weight))
    is_single = cases_of_row == 1
    row_of_place = view.row_of_position
    end_of_place = view.starts[1:][row_of_place]
    longest = np.zeros(len(view.weight), dtype=np.int64)
    # hashes[p] is the hash of the piece that begins at place p. It grows by one event in each round.
    hashes = np.zeros(len(view.codes), dtype=np.uint64)
    places = np.arange(len(view.codes))
    for length in range(1, int(np.diff(view.starts).max(initial=0)) + 1):
        places = places[places + length <= end_of_place[places]]
        added = view.codes[places + length - 1].astype(np.uint64) + np.uint64(1)
        hashes[places] = (hashes[places] + added) * _ODD
        shown = np.unique(hashes[places[is_released[row_of_place[places]]]])
        # A piece that is not released has no longer one that is: its place needs no further round.
        places = places[_is_in(hashes[places], shown)]
        in_log = places[cases_of_row[row_of_place[places]] > 0]
        owners = _only_owners(hashes[in_log], row_of_place[in_log])
        longest[owners[is_single[owners]]] = length
    return longest[rows]


def _only_owners(pieces: npt.NDArray[np.uint64], rows: Ints) -> Ints:
    """Return the rows that have a piece which no other row has.

    Parameters
    ----------
    pieces
        uint64[N], hash of each occurrence of a piece.
    rows
        int64[N], row of each occurrence.
    """
    order = np.lexsort((rows, pieces))
    pieces, rows = pieces[order], rows[order]
    is_new_piece = np.ones(len(order), dtype=np.bool_)
    is_new_piece[1:] = pieces[1:] != pieces[:-1]
    begins = np.flatnonzero(is_new_piece)
    ends = np.append(begins, len(order))[1:] - 1
    # The rows of a piece ascend: it has one owner if the first and the last are equal.
    has_one_owner = rows[begins] == rows[ends]
    return np.unique(rows[begins[has_one_owner]])


def _is_in(values: npt.NDArray[np.uint64], ascending: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    if not len(ascending):
        return np.zeros(len(values), dtype=np.bool_)
    at = np.minimum(np.searchsorted(ascending, values), len(ascending) - 1)
    return np.asarray(ascending[at] == values)
