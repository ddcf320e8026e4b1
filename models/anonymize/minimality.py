"""Minimality audit of local suppression: what an adversary learns who knows the rules.

The adversary knows the bans, the priorities, that every event stays unless it completes a ban, and which items occur
at most once in any case (common knowledge of the process). Knowing a candidate of the victim's *source* case, they
keep the released cases whose source may have contained it: each item either stands in the released trace, or could
have stood at a gap where the rules would have skipped it. Where fewer than K cases remain, the promise of
TLKC-privacy does not reach this adversary; the audit counts such candidates. It is measured, not prevented. Of
value-aware bans the adversary knows the candidates, not the holders.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from models.anonymize.local_model import Bans, Reach, SafeState, flat, projected
from models.anonymize.view import TraceView
from models.anonymize.violations import TlkcBounds
from models.eventlog import Ints

PAIRS_UP_TO = 40
"""Items up to which all pairs are audited too, not only the bans: beyond that their square outgrows the bans."""


@dataclass(frozen=True, slots=True)
class Minimality:
    """`audited`: candidates looked at; `below_k`: those left with 1..K-1 possible cases; `least`: their minimum (the
    least number of possible cases of any audited candidate where none is below K)."""

    audited: int
    below_k: int
    least: int | None

    def json(self) -> dict[str, int | None]:
        return {"audited": self.audited, "below_k": self.below_k, "least_cases": self.least}


def audit(view: TraceView, bounds: TlkcBounds, state: SafeState) -> Minimality:
    """Audit every ban and every pair of items that some source case contains."""
    wanted, cases = _possible(view, bounds, state)
    possible = cases[cases > 0]
    below = possible[possible < bounds.K]
    return Minimality(len(wanted), len(below), int(possible.min()) if len(possible) else None)


def narrowed(view: TraceView, bounds: TlkcBounds, state: SafeState) -> list[tuple[int, ...]]:
    """Return the audited candidates for which 1..K-1 released cases are possible."""
    wanted, cases = _possible(view, bounds, state)
    below = np.flatnonzero((cases > 0) & (cases < bounds.K))
    return [wanted[place] for place in below.tolist()]


def _possible(view: TraceView, bounds: TlkcBounds, state: SafeState) -> tuple[list[tuple[int, ...]], Ints]:
    """The audited candidates, and how many released cases each can be of: int64[candidates]."""
    from models.anonymize.local_kernels import first_gaps, possible_cases

    wanted = _wanted(view, state.bans, bounds)
    if not wanted:
        return [], np.zeros(0, dtype=np.int64)
    released = projected(view, state.kept)
    ban_starts, ban_codes, item_starts, item_bans = state.bans.by_item(len(view.alphabet))
    offsets, gaps = first_gaps(
        released.starts,
        released.codes,
        state.priority,
        ban_starts,
        ban_codes,
        item_starts,
        item_bans,
        len(view.alphabet),
    )
    # A case that lost every event is not in the release, so nobody can take it for a possible one.
    weight = np.where(np.diff(released.starts) > 0, view.weight, 0)
    cases = possible_cases(released.starts, released.codes, weight, offsets, gaps, at_most_once(view), *flat(wanted))
    return wanted, cases


def at_most_once(view: TraceView) -> npt.NDArray[np.bool_]:
    """bool[items]: items that no case of the source has twice."""
    key = view.row_of_position * max(len(view.alphabet), 1) + view.codes
    pairs, counts = np.unique(key, return_counts=True)
    once = np.ones(len(view.alphabet), dtype=np.bool_)
    once[(pairs % max(len(view.alphabet), 1))[counts > 1]] = False
    return once


def _wanted(view: TraceView, bans: Bans, bounds: TlkcBounds) -> list[tuple[int, ...]]:
    wanted = set(bans.candidates)
    items = len(view.alphabet)
    if bounds.L >= 2 and items <= PAIRS_UP_TO:
        wanted |= set(itertools.product(range(items), repeat=2))
    if view.structure in ("set", "mult"):
        wanted = {candidate for candidate in wanted if tuple(sorted(candidate)) == candidate}
    ordered = sorted(wanted)
    return [candidate for candidate, rows in zip(ordered, Reach(view).of(ordered), strict=True) if len(rows)]
