"""Events that single cases may not show yet, so that no B-attack on an earlier release leaves 1..K-1 cases.

The cases outside release R that match bk must be at least K, or none. If they are fewer, each of them loses its free
events of one item of bk. An event is free if no release showed it so far. Shown events stay: without them, records of R
would lose their partners (F- and C-attacks). Hiding makes other counts smaller, so the search is repeated. Each round
hides an event or gives up a bk, so it ends. The choice of the cases that hide events depends on the items and on the
releases that held a case, not on its sensitive value.

With local suppression TLKC itself is restored in the same way (`close_locally`): a case that matches a violating
candidate by a free event loses that event, and a case that matches by shown events alone keeps them. A solution always
exists, namely to show no more than the last release did: that release satisfied TLKC, supports only grow, and every
case outside an earlier release was counted then. A candidate that shown events alone violate (a sensitive value that
changed, or a larger L) is given up: one of its items is suppressed everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from models.anonymize.shown import ShownItems
from models.anonymize.tlkc import TlkcProblem
from models.eventlog import Flags, Ints

Bk = tuple[int, ...]
Mode = Literal["events", "items"]
"""Whether single cases may lose events, or only whole items go."""

SPARE = 1000
"""An event of an item that TLKC suppresses anyway costs this many times less than another: it is hidden first."""


@dataclass(frozen=True, slots=True)
class Target:
    """A number of cases that background knowledge must match, or none at all.

    Attributes
    ----------
    place
        Index of the earlier release whose cases are not counted; None: all cases count.
    least
        Least number of matching cases outside that release.
    length
        Longest background knowledge, in items.
    """

    place: int | None
    least: int
    length: int


class Hiding:
    """One log against what earlier releases showed of its cases.

    Parameters
    ----------
    problem
        The log, with knowledge and bounds.
    shown
        Items that earlier releases showed of each case.
    targets
        Numbers of cases that background knowledge must match, or none at all.
    mode
        Whether single cases may lose events, or only whole items go.
    """

    def __init__(
        self,
        problem: TlkcProblem,
        shown: ShownItems,
        targets: Sequence[Target],
        mode: Mode,
    ) -> None:
        log, seen = problem.log, problem.seen
        self.problem = problem
        self.items = len(seen.alphabet)
        self.codes = seen.item_of_event.astype(np.int64)
        self.of_all = [target for target in targets if target.place is None]
        self.of_some = [target for target in targets if target.place is not None]
        places = [target.place for target in targets if target.place is not None]
        used, self.group = np.unique(shown.groups(log.case_ids), return_inverse=True)
        self.outside = ~shown.members[used][:, places]
        self.fixed = np.ones(log.n_events, dtype=np.bool_)
        if mode == "events":
            self.fixed = shown.fixed(log.case_ids, log.starts, seen.alphabet, self.codes)

    def close(self, plain: Flags) -> tuple[Flags, set[Bk]]:
        """Hide events until no background knowledge is exposed.

        Parameters
        ----------
        plain
            bool[E], the events that TLKC suppression alone keeps.

        Returns
        -------
        kept
            bool[E], the events that may be shown.
        given_up
            Background knowledge that some case can only lose with a fixed event: one item of each must be
            suppressed everywhere.
        """
        plain_counts = np.bincount(self.codes[plain], minlength=self.items)
        price, rank = np.where(plain_counts > 0, SPARE, 1).astype(np.int64), _ranks(plain_counts)
        kept, given_up = np.ones(len(self.codes), dtype=np.bool_), set[Bk]()
        while True:
            exposed = _without(self._exposed(kept, self.of_some, self.outside), given_up)
            if not exposed:
                return kept, given_up
            given_up |= self._hide(kept, exposed, price, rank)

    def close_locally(self, violating: Callable[[Flags], Iterable[Bk]]) -> tuple[Flags, set[Bk]]:
        """Hide events until nothing is exposed and nothing violates TLKC-privacy.

        Every event costs the same, and rare items go first.

        Parameters
        ----------
        violating
            Returns the violating candidates of the events that are still shown.

        Returns
        -------
        kept
            bool[E], the events that may be shown.
        given_up
            Candidates that only the suppression of whole items can end.
        """
        price, rank = np.ones(self.items, dtype=np.int64), _ranks(np.bincount(self.codes, minlength=self.items))
        kept, given_up = np.ones(len(self.codes), dtype=np.bool_), set[Bk]()
        all_groups = np.ones((len(self.outside), len(self.of_all)), dtype=np.bool_)
        everybody = np.ones(len(self.outside), dtype=np.bool_)
        while True:
            exposed = self._exposed(kept, self.of_some, self.outside)
            exposed.update(self._exposed(kept, self.of_all, all_groups))
            exposed.update(dict.fromkeys(violating(kept), everybody))
            exposed = _without(exposed, given_up)
            if not exposed:
                return kept, given_up
            before = int(kept.sum())
            self._hide(kept, exposed, price, rank)
            if int(kept.sum()) == before:
                given_up |= set(exposed)

    def rare(self, kept: Flags) -> set[Bk]:
        """Return the background knowledge that too few of all cases match.

        Parameters
        ----------
        kept
            bool[E], events that may be shown.
        """
        everywhere = np.ones((len(self.outside), len(self.of_all)), dtype=np.bool_)
        return set(self._exposed(kept, self.of_all, everywhere))

    def _exposed(self, kept: Flags, targets: Sequence[Target], outside: Flags) -> dict[Bk, Flags]:
        """Return the background knowledge that too few cases outside a release match.

        With each, bool[groups]: the groups whose cases must lose it.
        """
        from models.anonymize.hiding_kernels import exposing

        if not targets or not self.items:
            return {}
        least = np.asarray([min(target.least, len(self.group) + 1) for target in targets], dtype=np.int64)
        length = np.asarray([target.length for target in targets], dtype=np.int64)
        starts = self.problem.log.starts
        sizes, bks, must = exposing(starts, self.codes, kept, self.group, outside, least, length, self.items)
        exposed = {}
        for size, bk, groups in zip(sizes.tolist(), bks, must, strict=True):
            exposed[tuple(bk[:size].tolist())] = groups
        return exposed

    def _hide(self, kept: Flags, exposed: dict[Bk, Flags], price: Ints, rank: Ints) -> set[Bk]:
        """Remove events from `kept`; returns the bk that some case must keep."""
        from models.anonymize.hiding_kernels import hide

        sizes = np.asarray([len(bk) for bk in exposed], dtype=np.int64)
        bans = np.zeros((len(exposed), int(sizes.max())), dtype=np.int64)
        for number, bk in enumerate(exposed):
            bans[number, : len(bk)] = bk
        must = np.asarray(list(exposed.values()))
        starts = self.problem.log.starts
        stuck = hide(starts, self.codes, kept, self.fixed, self.group, sizes, bans, must, price, rank)
        return {bk for bk, is_stuck in zip(exposed, stuck.tolist(), strict=True) if is_stuck}


def _without(exposed: dict[Bk, Flags], given_up: set[Bk]) -> dict[Bk, Flags]:
    """Return the exposed background knowledge that contains none that was given up."""

    def contains_ban(bk: Bk) -> bool:
        return any(within(ban, bk) for ban in given_up)

    return {bk: groups for bk, groups in exposed.items() if not contains_ban(bk)}


def _ranks(count: Ints) -> Ints:
    """Return the place of each item in ascending order of its count."""
    return np.argsort(np.argsort(count, kind="stable"), kind="stable").astype(np.int64)


def within(short: Sequence[Any], long: Sequence[Any]) -> bool:
    """Return whether `short` is a subsequence of `long`.

    Parameters
    ----------
    short, long
        Sequences of items.
    """
    remaining = iter(long)  # `in` continues behind the item that it finds
    return all(item in remaining for item in short)
