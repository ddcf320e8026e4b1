"""Events that single cases may not show yet, so that no B-attack on an earlier release leaves 1..K-1 cases.

The cases outside release R that match bk must be none or at least K. If they are fewer, each of them loses its free
events of one item of bk. An event is free if no release showed it so far. Shown events stay: without them, records of R
would lose their partners (F- and C-attacks). Hiding makes other counts smaller, so the search is repeated. Each round
hides an event or gives up a bk, so it ends. Which cases hide events depends on the items and on the releases that held
a case, not on its sensitive value.

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
import numpy.typing as npt

from models.anonymize.shown import ShownItems
from models.anonymize.tlkc import TlkcProblem
from models.eventlog import Ints

Kept = npt.NDArray[np.bool_]
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
        index of the earlier release whose cases are not counted; None: all cases count.
    least
        least number of matching cases outside that release.
    length
        longest background knowledge, in items.
    """

    place: int | None
    least: int
    length: int


class Hiding:
    """One log against what earlier releases showed of its cases."""

    def __init__(self, problem: TlkcProblem, shown: ShownItems, targets: Sequence[Target], mode: Mode) -> None:
        log, seen = problem.log, problem.seen
        self.problem = problem
        self.items = len(seen.alphabet)
        self.codes = seen.item_of_event.astype(np.int64)
        self.of_all = [one for one in targets if one.place is None]
        self.of_rest = [one for one in targets if one.place is not None]
        places = [one.place for one in targets if one.place is not None]
        used, self.group = np.unique(shown.groups(log.case_ids), return_inverse=True)
        self.outside = ~shown.members[used][:, places]
        self.fixed = np.ones(log.n_events, dtype=np.bool_)
        if mode == "events":
            self.fixed = shown.fixed(log.case_ids, log.starts, seen.alphabet, self.codes)

    def close(self, plain: Kept) -> tuple[Kept, set[Bk]]:
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
            background knowledge that some case can only lose with a fixed event: one item of each must be
            suppressed everywhere.
        """
        left = np.bincount(self.codes[plain], minlength=self.items)
        price, rank = np.where(left > 0, SPARE, 1).astype(np.int64), _ranks(left)
        kept, given_up = np.ones(len(self.codes), dtype=np.bool_), set[Bk]()
        while True:
            found = self._exposed(kept, self.of_rest, self.outside)
            found = {bk: groups for bk, groups in found.items() if not any(within(ban, bk) for ban in given_up)}
            if not found:
                return kept, given_up
            given_up |= self._hide(kept, found, price, rank)

    def close_locally(self, violating: Callable[[Kept], Iterable[Bk]]) -> tuple[Kept, set[Bk]]:
        """Hide events until nothing is exposed and nothing violates TLKC-privacy.

        Every event costs the same, and rare items go first.

        Parameters
        ----------
        violating
            returns the violating candidates of the events that are still shown.

        Returns
        -------
        kept
            bool[E], the events that may be shown.
        given_up
            candidates that only the suppression of whole items can end.
        """
        price, rank = np.ones(self.items, dtype=np.int64), _ranks(np.bincount(self.codes, minlength=self.items))
        kept, given_up = np.ones(len(self.codes), dtype=np.bool_), set[Bk]()
        all_groups = np.ones((len(self.outside), len(self.of_all)), dtype=np.bool_)
        everybody = np.ones(len(self.outside), dtype=np.bool_)
        while True:
            found = {**self._exposed(kept, self.of_rest, self.outside), **self._exposed(kept, self.of_all, all_groups)}
            found.update(dict.fromkeys(violating(kept), everybody))
            found = {bk: groups for bk, groups in found.items() if not any(within(ban, bk) for ban in given_up)}
            if not found:
                return kept, given_up
            before = int(kept.sum())
            self._hide(kept, found, price, rank)
            if int(kept.sum()) == before:
                given_up |= set(found)

    def rare(self, kept: Kept) -> set[Bk]:
        """Background knowledge that too few of all cases match."""
        everywhere = np.ones((len(self.outside), len(self.of_all)), dtype=np.bool_)
        return set(self._exposed(kept, self.of_all, everywhere))

    def _exposed(self, kept: Kept, targets: Sequence[Target], outside: Kept) -> dict[Bk, Kept]:
        """Background knowledge that too few cases outside a release match; bool[groups]: whose cases must lose it."""
        from models.anonymize.hiding_kernels import exposing

        if not targets or not self.items:
            return {}
        least = np.asarray([min(one.least, len(self.group) + 1) for one in targets], dtype=np.int64)
        length = np.asarray([one.length for one in targets], dtype=np.int64)
        starts = self.problem.log.starts
        sizes, bks, must = exposing(starts, self.codes, kept, self.group, outside, least, length, self.items)
        return {tuple(bk[:size].tolist()): groups for size, bk, groups in zip(sizes.tolist(), bks, must, strict=True)}

    def _hide(self, kept: Kept, found: dict[Bk, Kept], price: Ints, rank: Ints) -> set[Bk]:
        """Take from `kept`; the bk that some case keeps."""
        from models.anonymize.hiding_kernels import hide

        sizes = np.asarray([len(bk) for bk in found], dtype=np.int64)
        bans = np.zeros((len(found), int(sizes.max())), dtype=np.int64)
        for number, bk in enumerate(found):
            bans[number, : len(bk)] = bk
        must = np.asarray(list(found.values()))
        starts = self.problem.log.starts
        stuck = hide(starts, self.codes, kept, self.fixed, self.group, sizes, bans, must, price, rank)
        return {bk for bk, alone in zip(found, stuck.tolist(), strict=True) if alone}


def _ranks(count: Ints) -> Ints:
    """Place of each item in ascending order."""
    return np.argsort(np.argsort(count, kind="stable"), kind="stable").astype(np.int64)


def within(short: Sequence[Any], long: Sequence[Any]) -> bool:
    """Whether `short` is a subsequence of `long`."""
    rest = iter(long)
    return all(item in rest for item in short)
