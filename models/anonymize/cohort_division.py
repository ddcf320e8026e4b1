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

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from models.anonymize.cohorts import Chosen, balanced
from models.anonymize.local import PLAIN, Choice, entering, under
from models.anonymize.local_model import Bans, Reach, SafeState, close
from models.anonymize.tlkc import TlkcProblem
from models.anonymize.view import TraceView
from models.anonymize.violations import TlkcBounds
from models.content_free import content_free
from models.errors import BoundError, TooFewCasesError
from models.eventlog import Column, EventLog, Ints, places_of
from models.keys import distinct

TRIALS, WORK = 40, 1_000_000
"""Divisions that are tried, and the most events that are anonymized for it: a queue of 25,000 events or less is tried
in full, 2 ms a trial on Sepsis, 15 on BPIC 2012. Three times as many trials gained nothing on either."""

EXPECTED, IMPATIENCE = 0.97, 0.02
"""Share of what a case may expect that waiting counts for, and what each release that it has waited takes from that.
Between .93 and 1, and 0 and .05, what is kept on Sepsis moves by .005."""

RAISE = 0.3
"""Share of proposals in which an item that is lost enters first, and all that have it leave: rare activities else go in
the cohort in which enough of them have gathered, since all that stands beside them is more frequent."""

WHOLE = 0.2
"""Share of proposals in which all cases that gain by it change sides, not some."""

FREQUENT = 0.04
"""Share of the cases that has to have an item for its cases to wait for one another. Less than 5 %, above which every
activity should be in the release: of those, some are rarer in the first windows."""

LONGER = 3
"""How many times longer the cases of such an activity wait: one of 5 % of the cases has come to K = 20 of them after
four windows of a hundred cases, after ten of forty."""

DUE, LATE = 2, 2
"""An activity that is owed and that K cases have is due, and shown at any price in events, once DUE times K cases have
it, one of these has waited for LATE times `patience` releases, or no other cohort is to come. Earlier the cases lose
most of what stands beside it: due at once, Sepsis keeps .928 to .937 of its events, not .941 to .945."""

OWED = 30
"""What an event is worth beyond `PLAIN` where all events of its item were lost so far."""

MOST, MOST_FRESH = 0.5, 0.4
"""Largest share of the queue, and of its newcomers, that waits by choice: so the median case leaves at once."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long cases may wait by choice.

    Attributes
    ----------
    releases
        most releases that a case waits by choice, `LONGER` times as many for an owed item; 0: none waits.
    last
        no other cohort will follow, so nobody waits by choice.
    seed
        seed of the search.
    """

    releases: int = 4
    last: bool = False
    seed: int = 0


@content_free()
@dataclass(frozen=True, slots=True)
class Wanted:
    """Items that the division favours.

    Attributes
    ----------
    value
        value of an event by item; `PLAIN` if the item is not named.
    owed
        items that no cohort has shown yet and enough cases have; their cases wait for one another.
    """

    value: Mapping[Any, int] = field(default_factory=dict)
    owed: frozenset[Any] = frozenset()


@content_free()
@dataclass(frozen=True, slots=True)
class Division:
    """The cases that leave, and the preferences under which they do.

    Attributes
    ----------
    cases
        int64, indices of the queue; a case of them that loses every event waits too.
    choice
        items that enter first, value of events, and owed items.
    """

    cases: Ints
    choice: Choice


@content_free()
@dataclass(frozen=True, slots=True)
class DivisionTrial:
    """One division that was tried.

    Attributes
    ----------
    tried
        bool[C], the cases that were to leave.
    first
        items that entered before all others.
    leave
        bool[C], the cases that leave; the others of `tried` lost every event.
    stays
        bool[E], the events that stay.
    kept
        int64[C], value of the events that each case keeps.
    state
        bans and priorities of local suppression.
    worth
        value kept now and expected later.
    share
        share of events kept, among the cases that leave.
    paid
        number of due items that are shown.
    """

    tried: Chosen
    first: tuple[int, ...]
    leave: Chosen
    stays: Chosen
    kept: Ints
    state: SafeState
    worth: float
    share: float
    paid: int

    def better(self, other: DivisionTrial, min_share: float) -> bool:
        """Compare two trials: first `min_share`, then due items shown, then worth.

        A due item counts more than the events it costs, because it is missing from every release otherwise.
        """
        return (self.share >= min_share, self.paid, self.worth) > (other.share >= min_share, other.paid, other.worth)


def divided(
    queue: TlkcProblem, waited: Ints, patience: Patience, share: Fraction, min_share: float, want: Wanted
) -> Division:
    """Find the division of a queue that keeps most events over time.

    Parameters
    ----------
    queue
        the completed cases that wait.
    waited
        int64[C], releases that each case has waited for.
    patience
        how long cases may wait by choice.
    share
        largest share of a class in the cohort.
    min_share
        least share of events that must stay in the cases that leave.
    want
        items to favour.

    Returns
    -------
    Division
        the cases that leave, and the preferences of local suppression.

    Raises
    ------
    BoundError
        no cohort can be formed; the message names the cause.
    """
    refuse_hopeless(queue, share)
    search = _Search(queue, share, want)
    search.claim(waited, patience)
    first = search.tried(np.ones(queue.log.n_cases, dtype=np.bool_), ())
    if first is None:
        raise BoundError(_cause(queue))
    if patience.releases and not patience.last:
        search.expect(waited, patience.releases)
        first = search.best(first, patience.seed, min_share)
    elif search.due.any():
        first = search.rescued(first, min_share)
    decode = queue.seen.decode
    return Division(np.flatnonzero(first.tried), Choice(decode(first.first), want.value, want.owed))


def _cause(queue: TlkcProblem) -> str:
    """Why no K cases of the whole queue can leave: what they share is too little, or too much of one value."""
    n, bounds = queue.log.n_cases, queue.bounds
    free = TlkcProblem(queue.log, queue.knowledge, replace(bounds, C=Fraction(1)), queue.classes)
    everyone = np.ones(n, dtype=np.bool_)
    if queue.classes and _Search(free, Fraction(1), Wanted()).tried(everyone, ()) is not None:
        return (
            f"of {n} completed cases that wait fewer than K = {bounds.K} would keep an event: of those that share one, "
            f"too many have one value of {' or '.join(queue.classes)} for C = {float(bounds.C):g}; cases with other "
            "values mend it, or fewer and larger classes (mechanism.bins)"
        )
    return f"of {n} completed cases that wait fewer than K = {bounds.K} have anything in common; more cases mend it"


def frequent(log: EventLog, classes: Iterable[Column], bounds: TlkcBounds) -> list[Any]:
    """Return the frequent activities that are worth waiting for.

    An activity is left out if K cases have it and one class has more than C of them: waiting does not cure
    such a share, and value-blind bans take the activity from all cases.

    Parameters
    ----------
    log
        the completed cases.
    classes
        the class of each case, one column per sensitive attribute.
    bounds
        K and C.

    Returns
    -------
    list
        activities of at least `FREQUENT` of the cases.
    """
    width = max(1, len(log.activity.values))
    case, item = np.divmod(distinct(log.case_of_event * width + log.activity.codes, log.n_cases * width), width)
    cases = np.bincount(item, minlength=width)
    often = cases >= FREQUENT * log.n_cases
    for column in classes:
        value, values = column.codes[case], max(1, len(column.values))
        counts = np.bincount((item * values + value)[value >= 0], minlength=width * values).reshape(width, values)
        often &= (cases < bounds.K) | (counts.max(axis=1) * bounds.C.denominator <= bounds.C.numerator * cases)
    return [name for name, chosen in zip(log.activity.values, often.tolist(), strict=False) if chosen]


def wanted(came: Mapping[Any, int], shown: Mapping[Any, int], frequent: Collection[Any]) -> Wanted:
    """Value the events of items that earlier cohorts lost.

    Parameters
    ----------
    came
        events of published cases by item, as they arrived.
    shown
        events of published cases by item, as they were published.
    frequent
        items of at least `FREQUENT` of the completed cases.

    Returns
    -------
    Wanted
        a higher value for items that lost more, and the frequent items that were never shown.
    """
    lost = {item: OWED * (count - min(count, shown.get(item, 0))) // count for item, count in came.items()}
    owed = frozenset(item for item in frequent if not shown.get(item))
    return Wanted({**{item: PLAIN + more for item, more in lost.items()}, **dict.fromkeys(owed, PLAIN + OWED)}, owed)


def refuse_hopeless(queue: TlkcProblem, share: Fraction) -> None:
    """Refuse a queue from which no K cases can leave.

    Raises
    ------
    TooFewCasesError
        fewer than K cases wait.
    BoundError
        one class is so frequent that fewer than K cases could leave beside the others.
    """
    if queue.log.n_cases < queue.bounds.K:
        raise TooFewCasesError(
            f"{queue.log.n_cases} completed cases wait, and a cohort needs at least K = {queue.bounds.K} of them"
        )
    n = queue.log.n_cases
    fit = int(balanced(np.ones(n, dtype=np.bool_), list(queue.classes.values()), share).sum())
    if fit >= queue.bounds.K:
        return
    known = {name: one.codes[one.codes >= 0] for name, one in queue.classes.items()}
    counts = {name: int(np.bincount(codes, minlength=1).max()) for name, codes in known.items()}
    name = max(counts, key=lambda one: counts[one])
    raise BoundError(
        f"of the {n} completed cases that wait for a release, {100 * counts[name] / n:.0f} % have one value of {name}: "
        f"C = {float(share):g} cannot hold; {fit} of them could leave together, K = {queue.bounds.K} have to; "
        "cases with other values mend it, or fewer and larger classes (mechanism.bins)"
    )


class _Search:
    """Divisions of one queue, by local suppression of the cases that leave."""

    def __init__(self, queue: TlkcProblem, share: Fraction, want: Wanted) -> None:
        self.queue, self.share, self.view = queue, share, queue.seen
        self.value = np.asarray([want.value.get(item, PLAIN) for item in self.view.alphabet], dtype=np.int64)
        self.owed = np.asarray([item in want.owed for item in self.view.alphabet], dtype=np.bool_)
        self.classes = list(queue.classes.values())
        self.length = queue.log.lengths
        self.row = self.view.row_of_case
        self.case = np.repeat(np.arange(len(self.row)), self.length)
        self.position = self.view.starts[self.row[self.case]] + self.view.slot_of_event
        self.codes = self.view.codes[self.position]
        self.count = np.bincount(self.codes, minlength=len(self.value))
        pairs = np.unique(self.case * max(1, len(self.value)) + self.codes) % max(1, len(self.value))
        self.holders = np.bincount(pairs, minlength=len(self.value))
        self.due = np.zeros(len(self.value), dtype=np.bool_)
        self.expected = np.zeros(len(self.row))
        self.waited = np.zeros(len(self.row), dtype=np.int64)

    def expect(self, waited: Ints, patience: int) -> None:
        """Set what each case may expect to keep where it waits."""
        bounds = self.queue.bounds
        easy = replace(bounds, K=max(min(2, bounds.K), -(-bounds.K // (patience + 1))))
        stays, _ = self._suppressed(np.ones(len(self.row), dtype=np.bool_), (), easy)
        stays |= self.owed[self.codes]
        owing = np.zeros(len(self.row), dtype=np.bool_)
        owing[self.case[self.owed[self.codes]]] = True
        most = np.where(owing, LONGER * patience, patience)
        worth = np.where(waited < most, np.maximum(EXPECTED - IMPATIENCE * waited, 0), 0)
        self.expected, self.waited = worth * self._worth(stays), waited

    def claim(self, waited: Ints, patience: Patience) -> None:
        """Set which owed items are due (`DUE`)."""
        oldest = np.zeros(len(self.value), dtype=np.int64)
        np.maximum.at(oldest, self.codes, waited[self.case])
        late = (oldest >= LATE * patience.releases) | patience.last | (self.holders >= DUE * self.queue.bounds.K)
        self.due = self.owed & (self.holders >= self.queue.bounds.K) & late

    def tried(self, chosen: Chosen, first: tuple[int, ...]) -> DivisionTrial | None:
        """Return the division in which the chosen cases leave, or None if fewer than K are left.

        Cases that lose every event stay behind, and so do the last cases of a class that is too frequent.
        Both are repeated until the cohort is stable.
        """
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
        share = float(stays.sum() / self.length[leave].sum())
        paid = len(np.unique(self.codes[stays & self.due[self.codes]]))
        return DivisionTrial(chosen, first, leave, stays, kept, state, worth, share, paid)

    def best(self, start: DivisionTrial, seed: int, min_share: float) -> DivisionTrial:
        """Hill climbing from the whole queue: cases that would keep more by waiting go, others come back."""
        generator = np.random.default_rng(seed)
        best, seen = start, {(start.tried.tobytes(), start.first)}
        rescued = np.flatnonzero(self.due).tolist()
        for _ in range(min(TRIALS, WORK // max(1, self.queue.log.n_events))):
            chosen, first = self._raised(best, rescued.pop()) if rescued else self._proposal(best, generator)
            if (chosen.tobytes(), first) in seen or not self._few_wait(chosen, start):
                continue
            seen.add((chosen.tobytes(), first))
            trial = self.tried(chosen, first)
            if trial is not None and trial.better(best, min_share):
                best = trial
        return best

    def rescued(self, best: DivisionTrial, min_share: float) -> DivisionTrial:
        """Who leaves stays; items that are due enter first, where that shows more of them."""
        for item in np.flatnonzero(self.due).tolist():
            trial = self.tried(*self._raised(best, item))
            if trial is not None and trial.better(best, min_share):
                best = trial
        return best

    def _few_wait(self, chosen: Chosen, start: DivisionTrial) -> bool:
        """Whether no more wait by choice than may."""
        wait = start.leave & ~chosen
        fresh = self.waited == 0
        return bool(wait.sum() <= MOST * len(wait) and wait[fresh].sum() <= MOST_FRESH * fresh.sum())

    def _proposal(self, best: DivisionTrial, generator: np.random.Generator) -> tuple[Chosen, tuple[int, ...]]:
        chosen, first = best.tried.copy(), best.first
        gain = np.where(chosen, self.expected - best.kept, 0)
        costly = np.flatnonzero(gain > 0)
        back = np.flatnonzero(~chosen)
        kind = generator.random()
        if kind < RAISE and (item := self._lost_item(best, generator)) is not None:
            chosen, first = self._raised(best, item)
        elif len(back) and (kind >= 0.6 or not len(costly)):
            gained = self._joining(best)[back] - self.expected[back]
            chosen[_some(back, gained, generator)] = True
        if len(costly) and RAISE / 2 < kind < 0.7:
            chosen[_some(costly, gain[costly], generator)] = False
        return chosen, first

    def _paying(self, best: DivisionTrial) -> Chosen:
        """bool[C]: cases that show an item that was owed and enters first: hardly more than K do, so they stay."""
        entering = np.zeros(len(self.value), dtype=np.bool_)
        entering[list(best.first)] = True
        paying = np.zeros(len(self.row), dtype=np.bool_)
        paying[self.case[best.stays & (self.due & entering)[self.codes]]] = True
        return paying

    def _raised(self, best: DivisionTrial, item: int) -> tuple[Chosen, tuple[int, ...]]:
        """Toggle `item` as a priority item and release all its cases.

        Cases that still wait for another item stay, if at least K cases remain.
        """
        unpaid = self.owed.copy()
        unpaid[[*np.unique(self.codes[best.stays]), item]] = False
        owing = np.zeros(len(self.row), dtype=np.bool_)
        owing[self.case[unpaid[self.codes]]] = True
        chosen, having = best.tried.copy(), np.zeros(len(self.row), dtype=np.bool_)
        having[self.case[self.codes == item]] = True
        if np.count_nonzero(having & ~owing) >= self.queue.bounds.K:
            having &= ~owing
        chosen[having] = True
        others = tuple(other for other in best.first if other != item)
        return chosen, others if item in best.first else (*others, item)

    def _lost_item(self, best: DivisionTrial, generator: np.random.Generator) -> int | None:
        """Draw an item of K or more cases, by the value of its lost events.

        Items that enter first already can be drawn too, so that a proposal can take them back.
        """
        lost = self.value * np.maximum(0, self.count - np.bincount(self.codes[best.stays], minlength=len(self.value)))
        lost[self.holders < self.queue.bounds.K] = 0
        lost[list(best.first)] = np.maximum(lost[list(best.first)], 1)
        return int(generator.choice(len(lost), p=lost / lost.sum())) if lost.any() else None

    def _suppressed(self, chosen: Chosen, first: tuple[int, ...], bounds: TlkcBounds) -> tuple[Chosen, SafeState]:
        """bool[E]: the events of chosen cases that stay, and the state of local suppression."""
        part, places = _part(self.view, np.bincount(self.row[chosen], minlength=len(self.view.weight)))
        mine = chosen[self.case]
        events = np.bincount(self.position[mine], minlength=len(self.view.codes))[places].astype(np.int64)
        state = close(part, bounds, entering(part.codes, events, len(part.alphabet), first), Bans(), events)
        stays = np.zeros(len(self.view.codes), dtype=np.bool_)
        stays[places] = state.kept
        return stays[self.position] & mine, state

    def _joining(self, best: DivisionTrial) -> Ints:
        """About what each case would keep beside those that leave: what their bans allow, of items that they show."""
        shown = np.bincount(self.codes[best.stays], minlength=len(self.value)) > 0
        return self._worth(under(Reach(self.view), best.state)[self.position] & shown[self.codes])

    def _worth(self, events: Chosen) -> Ints:
        """Value of some events by case."""
        return np.bincount(self.case[events], self.value[self.codes[events]], len(self.row)).astype(np.int64)


def _some(cases: Ints, gain: npt.NDArray[np.float64], generator: np.random.Generator) -> Ints:
    """Cases that gain; else a random number of the cases, those with most to gain first, but for some noise."""
    if (gain > 0).any() and generator.random() < WHOLE:
        return cases[gain > 0]
    noise = 2 * PLAIN * generator.random() * generator.random(len(cases))
    return cases[np.argsort(-(gain + noise), kind="stable")[: max(1, int(len(cases) * generator.random()))]]


def _part(view: TraceView, weight: Ints) -> tuple[TraceView, Ints]:
    """Return the rows of positive weight, and the place of each of their positions in the view."""
    rows = np.flatnonzero(weight)
    starts, places = places_of(view.starts, rows)
    return replace(
        view,
        starts=starts,
        codes=view.codes[places],
        weight=weight[rows].astype(np.int64),
        values=np.ascontiguousarray(view.values[:, rows]),
    ), places
