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

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from models.anonymize.cohorts import Chosen, balanced
from models.anonymize.local import Bans, Projection, Reach, close, frequent_first, under
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
class Trial:
    """One division: the cases that were tried, bool[C]; those that leave (the others lost every event); the events
    that each case keeps, int64[C]; the bans; what it is worth. `share`: of the events of those that leave."""

    tried: Chosen
    leave: Chosen
    kept: Ints
    state: Projection
    worth: float
    share: float


def leaving(queue: Problem, waited: Ints, patience: Patience, share: Fraction, min_share: float) -> Ints:
    """The cases to anonymize as a cohort now; of these, one that loses every event waits too. `waited`: int64[C], releases that each has waited for; `share`: largest share of a
    class. BoundError with the cause where no cohort can be formed."""
    refuse_small(queue)
    refuse_unbalanced(queue, share)
    search = _Search(queue, share)
    first = search.tried(np.ones(queue.log.n_cases, dtype=np.bool_))
    if first is None:
        raise BoundError(
            f"too few of {queue.log.n_cases} waiting cases have anything in common: by local suppression fewer than "
            f"K = {queue.bounds.K} would keep an event"
        )
    if patience.releases and not patience.last:
        search.expect(waited, patience.releases)
        first = search.best(first, patience.seed, min_share)
    return np.flatnonzero(first.tried)


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
    counts = {name: int(np.bincount(one.codes[one.codes >= 0], minlength=1).max()) for name, one in queue.classes.items()}
    name = max(counts, key=lambda one: counts[one])
    raise BoundError(
        f"{100 * counts[name] / n:.0f} % of the cases have one value of {name}: C = {float(share):g} cannot hold; of "
        f"{n} cases that wait {fit} could leave together, K = {queue.bounds.K} have to; raise C"
    )


class _Search:
    """Divisions of one queue, by local suppression of the cases that leave."""

    def __init__(self, queue: Problem, share: Fraction) -> None:
        self.queue, self.share, self.view = queue, share, queue.seen
        self.classes = list(queue.classes.values())
        self.length = queue.log.lengths
        self.row = self.view.row_of_case
        self.case = np.repeat(np.arange(len(self.row)), self.length)
        self.position = self.view.starts[self.row[self.case]] + self.view.slot_of_event
        self.expected = np.zeros(len(self.row))
        self.waited = np.zeros(len(self.row), dtype=np.int64)

    def expect(self, waited: Ints, patience: int) -> None:
        """Set what each case may expect to keep where it waits."""
        bounds = self.queue.bounds
        easy = replace(bounds, K=max(min(2, bounds.K), -(-bounds.K // patience)))
        kept, _ = self._suppressed(np.ones(len(self.row), dtype=np.bool_), easy)
        worth = np.where(waited < patience, np.maximum(EXPECTED - IMPATIENCE * waited, 0), 0)
        self.expected, self.waited = worth * kept, waited

    def tried(self, chosen: Chosen) -> Trial | None:
        """The division in which the chosen cases leave, without those that lose every event and those that a class
        has too many of; None where fewer than K are left."""
        while True:
            chosen = balanced(chosen, self.classes, self.share)
            if chosen.sum() < self.queue.bounds.K:
                return None
            kept, state = self._suppressed(chosen, self.queue.bounds)
            leave = kept > 0
            if leave.sum() < self.queue.bounds.K:
                return None
            if balanced(leave, self.classes, self.share).sum() == leave.sum():
                break
            chosen = leave
        worth = float(kept.sum() + self.expected[~leave].sum())
        return Trial(chosen, leave, kept, state, worth, float(kept.sum() / self.length[leave].sum()))

    def best(self, first: Trial, seed: int, min_share: float) -> Trial:
        """Hill climbing from the whole queue: cases that would keep more by waiting go, others come back."""
        generator = np.random.default_rng(seed)
        best, seen = first, {first.tried.tobytes()}
        for _ in range(min(TRIALS, WORK // max(1, self.queue.log.n_events))):
            chosen = self._proposal(best, generator)
            if chosen.tobytes() in seen or not self._few_wait(chosen, first):
                continue
            seen.add(chosen.tobytes())
            trial = self.tried(chosen)
            if trial is not None and (trial.share >= min_share, trial.worth) > (best.share >= min_share, best.worth):
                best = trial
        return best

    def _few_wait(self, chosen: Chosen, first: Trial) -> bool:
        """Whether no more wait by choice than may."""
        wait = first.leave & ~chosen
        fresh = self.waited == 0
        return bool(wait.sum() <= MOST * len(wait) and wait[fresh].sum() <= MOST_FRESH * fresh.sum())

    def _proposal(self, best: Trial, generator: np.random.Generator) -> Chosen:
        chosen = best.tried.copy()
        gain = np.where(chosen, self.expected - best.kept, 0)
        costly = np.flatnonzero(gain > 0)
        back = np.flatnonzero(~chosen)
        kind = generator.random()
        if len(back) and (kind >= 0.6 or not len(costly)):
            better = self._under(best.state)[back] - self.expected[back]
            chosen[_some(back, better, generator)] = True
        if len(costly) and (kind < 0.6 or kind > 0.8):
            chosen[_some(costly, gain[costly], generator)] = False
        return chosen

    def _suppressed(self, chosen: Chosen, bounds: Bounds) -> tuple[Ints, Projection]:
        """Events that each case keeps, 0 where it was not chosen, and the state of local suppression."""
        part, places = _part(self.view, np.bincount(self.row[chosen], minlength=len(self.view.weight)))
        mine = chosen[self.case]
        events = np.bincount(self.position[mine], minlength=len(self.view.codes))[places].astype(np.int64)
        state = close(part, bounds, frequent_first(part.codes, events, len(part.alphabet)), Bans(), events)
        stays = np.zeros(len(self.view.codes), dtype=np.bool_)
        stays[places] = state.kept
        return self._per_case(stays[self.position] & mine), state

    def _under(self, state: Projection) -> Ints:
        """What each case of the queue would keep under the bans of a division."""
        return self._per_case(under(Reach(self.view), state)[self.position])

    def _per_case(self, events: Chosen) -> Ints:
        return np.bincount(self.case[events], minlength=len(self.row)).astype(np.int64)


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
