"""Which cases of a queue leave as a cohort, and which wait for others like them.

A cohort has to satisfy TLKC-privacy on its own and never changes; nothing asks that the whole queue leaves at once
(models.anonymize.cohorts has the proof). A case that few others resemble loses events to local suppression now, and
fewer once enough of its like have gathered. So the division is sought that keeps most over time:

    events that the cohort keeps + for every case that waits, the events it may expect to keep later.

What a case may expect is what local suppression would leave it at K / patience: what a K / patience-th of the cases
share in this queue, K share after `patience` queues, if those who share it wait. The price of waiting rises with every
release, and who has waited for `patience` of them waits no longer by choice.

Who waits depends on the traces of the queue, and on a sensitive value by one rule alone (`balanced`): the latest cases
of a class with more than its share wait, which no suppression could cure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from models.anonymize.cohorts import Chosen, balanced
from models.anonymize.local import PLAIN, Bans, Choice, Projection, Reach, close, entering, under
from models.anonymize.tlkc import Problem
from models.anonymize.view import View
from models.anonymize.violations import Bounds
from models.errors import BoundError
from models.eventlog import Ints

TRIALS, WORK = 40, 2_000_000
"""Divisions that are tried, and the most events that are anonymized for it: a queue of 50,000 events or less is tried
in full, 2 ms a trial on Sepsis, 15 on BPIC 2012. Three times as many trials gained nothing on either."""

EXPECTED, IMPATIENCE = 0.97, 0.02
"""Share of what a case may expect that waiting counts for, and what each release that it has waited takes from that.
Between .93 and 1, and 0 and .05, what is kept on Sepsis moves by .005."""

RAISE = 0.3
"""Share of proposals in which an item that is lost enters first, and all that have it leave: rare activities else go in
the cohort in which enough of them have gathered, since all that stands beside them is more frequent."""

OWED = 30
"""What an event is worth beyond `PLAIN` where all events of its item were lost so far."""

MOST, MOST_FRESH = 0.5, 0.4
"""Largest share of the queue, and of its newcomers, that waits by choice: so the median case leaves at once."""


@dataclass(frozen=True, slots=True)
class Patience:
    """`releases` that a case waits at most by choice (0: none does); `last`: no other cohort is to come, nobody waits
    by choice; `seed` of the search."""

    releases: int = 4
    last: bool = False
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Division:
    """Who leaves: cases of the queue, int64. Of these, one that loses every event waits too. `first`: items that enter
    before all others, in order; `value`: of an event by item (see `Choice`)."""

    cases: Ints
    choice: Choice


@dataclass(frozen=True, slots=True)
class Trial:
    """One division: the cases that were tried, bool[C]; items that entered first; the cases that leave (the others lost
    every event); what each case keeps by the value of events, int64[C]; the bans; what it is worth. `share`: of the
    events of those that leave."""

    tried: Chosen
    first: tuple[int, ...]
    leave: Chosen
    stays: Chosen
    kept: Ints
    state: Projection
    worth: float
    share: float


def divided(
    queue: Problem, waited: Ints, patience: Patience, share: Fraction, min_share: float, value: Mapping[Any, int]
) -> Division:
    """The division that keeps most. `waited`: int64[C], releases that each case has waited for; `share`: largest share
    of a class; `value`: of an event by item, `PLAIN` where it is not named. BoundError with the cause where no cohort
    can be formed."""
    refuse_small(queue)
    refuse_unbalanced(queue, share)
    search = _Search(queue, share, value)
    first = search.tried(np.ones(queue.log.n_cases, dtype=np.bool_), ())
    if first is None:
        raise BoundError(
            f"too few of {queue.log.n_cases} waiting cases have anything in common: by local suppression fewer than "
            f"K = {queue.bounds.K} would keep an event"
        )
    if patience.releases and not patience.last:
        search.expect(waited, patience.releases)
        first = search.best(first, patience.seed, min_share)
    decode = queue.seen.decode
    return Division(np.flatnonzero(first.tried), Choice(decode(first.first), value))


def owed(came: Mapping[Any, int], shown: Mapping[Any, int]) -> dict[Any, int]:
    """Value of an event by item: more of an item of which more was lost so far. Without, a rare activity would be lost
    in every cohort, and with it what a tenth of the cases did."""
    return {item: PLAIN + OWED * (count - min(count, shown.get(item, 0))) // count for item, count in came.items()}


def refuse_small(queue: Problem) -> None:
    """BoundError for a queue below K."""
    if queue.log.n_cases < queue.bounds.K:
        raise BoundError(f"K = {queue.bounds.K} is infeasible: {queue.log.n_cases} cases wait")


def refuse_unbalanced(queue: Problem, share: Fraction) -> None:
    """BoundError where a class is so frequent that fewer than K cases could leave beside the others: that is the cause
    then, not how many cases wait."""
    n = queue.log.n_cases
    fit = int(balanced(np.ones(n, dtype=np.bool_), list(queue.classes.values()), share).sum())
    if fit >= queue.bounds.K:
        return
    known = {name: one.codes[one.codes >= 0] for name, one in queue.classes.items()}
    counts = {name: int(np.bincount(codes, minlength=1).max()) for name, codes in known.items()}
    name = max(counts, key=lambda one: counts[one])
    raise BoundError(
        f"{100 * counts[name] / n:.0f} % of the cases have one value of {name}: C = {float(share):g} cannot hold; of "
        f"{n} cases that wait {fit} could leave together, K = {queue.bounds.K} have to; raise C"
    )


class _Search:
    """Divisions of one queue, by local suppression of the cases that leave."""

    def __init__(self, queue: Problem, share: Fraction, value: Mapping[Any, int]) -> None:
        self.queue, self.share, self.view = queue, share, queue.seen
        self.value = np.asarray([value.get(item, PLAIN) for item in self.view.alphabet], dtype=np.int64)
        self.classes = list(queue.classes.values())
        self.length = queue.log.lengths
        self.row = self.view.row_of_case
        self.case = np.repeat(np.arange(len(self.row)), self.length)
        self.position = self.view.starts[self.row[self.case]] + self.view.slot_of_event
        self.codes = self.view.codes[self.position]
        self.count = np.bincount(self.codes, minlength=len(self.value))
        pairs = np.unique(self.case * max(1, len(self.value)) + self.codes) % max(1, len(self.value))
        self.holders = np.bincount(pairs, minlength=len(self.value))
        self.expected = np.zeros(len(self.row))
        self.waited = np.zeros(len(self.row), dtype=np.int64)

    def expect(self, waited: Ints, patience: int) -> None:
        """Set what each case may expect to keep where it waits."""
        bounds = self.queue.bounds
        easy = replace(bounds, K=max(min(2, bounds.K), -(-bounds.K // patience)))
        stays, _ = self._suppressed(np.ones(len(self.row), dtype=np.bool_), (), easy)
        worth = np.where(waited < patience, np.maximum(EXPECTED - IMPATIENCE * waited, 0), 0)
        self.expected, self.waited = worth * self._worth(stays), waited

    def tried(self, chosen: Chosen, first: tuple[int, ...]) -> Trial | None:
        """The division in which the chosen cases leave, without those that lose every event and those that a class
        has too many of; None where fewer than K are left."""
        while True:
            chosen = balanced(chosen, self.classes, self.share)
            if chosen.sum() < self.queue.bounds.K:
                return None
            stays, state = self._suppressed(chosen, first, self.queue.bounds)
            kept = self._worth(stays)
            leave = kept > 0
            if leave.sum() < self.queue.bounds.K:
                return None
            if balanced(leave, self.classes, self.share).sum() == leave.sum():
                break
            chosen = leave
        worth = float(kept.sum() + self.expected[~leave].sum())
        return Trial(chosen, first, leave, stays, kept, state, worth, float(stays.sum() / self.length[leave].sum()))

    def best(self, start: Trial, seed: int, min_share: float) -> Trial:
        """Hill climbing from the whole queue: cases that would keep more by waiting go, others come back."""
        generator = np.random.default_rng(seed)
        best, seen = start, {(start.tried.tobytes(), start.first)}
        for _ in range(min(TRIALS, WORK // max(1, self.queue.log.n_events))):
            chosen, first = self._proposal(best, generator)
            if (chosen.tobytes(), first) in seen or not self._few_wait(chosen, start):
                continue
            seen.add((chosen.tobytes(), first))
            trial = self.tried(chosen, first)
            if trial is not None and (trial.share >= min_share, trial.worth) > (best.share >= min_share, best.worth):
                best = trial
        return best

    def _few_wait(self, chosen: Chosen, start: Trial) -> bool:
        """Whether no more wait by choice than may."""
        wait = start.leave & ~chosen
        fresh = self.waited == 0
        return bool(wait.sum() <= MOST * len(wait) and wait[fresh].sum() <= MOST_FRESH * fresh.sum())

    def _proposal(self, best: Trial, generator: np.random.Generator) -> tuple[Chosen, tuple[int, ...]]:
        chosen, first = best.tried.copy(), best.first
        gain = np.where(chosen, self.expected - best.kept, 0)
        costly = np.flatnonzero(gain > 0)
        back = np.flatnonzero(~chosen)
        kind = generator.random()
        if kind < RAISE and (item := self._lost_item(best, generator)) is not None:
            first = (*first, item) if item not in first else tuple(other for other in first if other != item)
            chosen[self.case[self.codes == item]] = True
        elif len(back) and (kind >= 0.6 or not len(costly)):
            better = self._worth(under(Reach(self.view), best.state)[self.position])[back] - self.expected[back]
            chosen[_some(back, better, generator)] = True
        if len(costly) and RAISE / 2 < kind < 0.7:
            chosen[_some(costly, gain[costly], generator)] = False
        return chosen, first

    def _lost_item(self, best: Trial, generator: np.random.Generator) -> int | None:
        """An item that K cases have, by the value of its events that the division does not keep, or one that enters
        first already."""
        lost = self.value * np.maximum(0, self.count - np.bincount(self.codes[best.stays], minlength=len(self.value)))
        lost[self.holders < self.queue.bounds.K] = 0
        lost[list(best.first)] = np.maximum(lost[list(best.first)], 1)
        return int(generator.choice(len(lost), p=lost / lost.sum())) if lost.any() else None

    def _suppressed(self, chosen: Chosen, first: tuple[int, ...], bounds: Bounds) -> tuple[Chosen, Projection]:
        """bool[E]: the events of chosen cases that stay, and the state of local suppression."""
        part, places = _part(self.view, np.bincount(self.row[chosen], minlength=len(self.view.weight)))
        mine = chosen[self.case]
        events = np.bincount(self.position[mine], minlength=len(self.view.codes))[places].astype(np.int64)
        state = close(part, bounds, entering(part.codes, events, len(part.alphabet), first), Bans(), events)
        stays = np.zeros(len(self.view.codes), dtype=np.bool_)
        stays[places] = state.kept
        return stays[self.position] & mine, state

    def _worth(self, events: Chosen) -> Ints:
        """Value of some events by case."""
        return np.bincount(self.case[events], self.value[self.codes[events]], len(self.row)).astype(np.int64)


def _some(cases: Ints, gain: npt.NDArray[np.float64], generator: np.random.Generator) -> Ints:
    """A random number of the cases, those with most to gain first, but for some noise."""
    noise = 2 * generator.random() * generator.random(len(cases))
    return cases[np.argsort(-(gain + noise), kind="stable")[: max(1, int(len(cases) * generator.random()))]]


def _part(view: View, weight: Ints) -> tuple[View, Ints]:
    """The rows of positive weight, and the position of each of theirs in the whole view."""
    rows = np.flatnonzero(weight)
    lengths = np.diff(view.starts)[rows]
    starts = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    places = np.repeat(view.starts[rows] - starts[:-1], lengths) + np.arange(starts[-1])
    return replace(
        view,
        starts=starts,
        codes=view.codes[places],
        weight=weight[rows].astype(np.int64),
        values=np.ascontiguousarray(view.values[:, rows]),
    ), places
