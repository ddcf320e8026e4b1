"""Division of a queue of completed cases: those that leave as a cohort, and those that wait for similar cases.

A cohort must satisfy TLKC-privacy by itself and never changes. The whole queue need not leave at once
(models.anonymize.cohorts has the proof). A case that few others resemble loses events to local suppression now, and
fewer events later, when more similar cases have come. Therefore a division is searched that keeps the most over time:

    value of the events that the cohort keeps
    + for every case that waits, the value of the events that it can expect to keep later

The expectation of a case is what local suppression would leave it with K / (patience + 1) in place of K: an item that
so many cases of this queue share is shared by K cases after `patience` more queues, if all of them wait. The
expectation counts less with every release that a case has waited, and nothing after `patience` releases (LONGER times
as many for cases of an owed item).

The choice of the cases that wait depends on their traces, and on sensitive values by one rule only (`balanced`): the
latest cases of a class with more than its share wait, because no suppression of events reduces that share.

The search (`_Search`) is hill climbing from the whole queue. Its arrays:

    codes[e]     item of event e                         e = 0 .. E - 1, events of the queue
    case[e]      case of event e
    value[a]     value of an event of item a             a = 0 .. A - 1, items
    expected[c]  expectation of case c                   c = 0 .. C - 1, cases
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from models.anonymize.cohorts import balanced, no_cohort
from models.anonymize.local import PLAIN, Choice, entering
from models.anonymize.local_model import Bans, Reach, SafeState, close, project_onto
from models.anonymize.tlkc import TlkcProblem
from models.anonymize.violations import TlkcBounds
from models.content_free import content_free
from models.errors import TooFewCasesError
from models.eventlog import Column, EventLog, Flags, Ints
from models.keys import distinct

TRIALS, WORK = 40, 1_000_000
"""Most divisions that are tried, and most events and violating candidates that are compared for them.

A queue of at most 25,000 events and candidates together gets all trials: 2 ms a trial on Sepsis, 15 on
BPIC 2012. Three times as many trials gained nothing on either. A log of 1,000 activities has hundreds of
thousands of candidates.
"""

EXPECTED, IMPATIENCE = 0.97, 0.02
"""Share of its expectation that a waiting case counts for, and how much of it each release that it waited takes away.

Between .93 and 1, and between 0 and .05, the share of events kept on Sepsis changes by .005.
"""

RAISE = 0.3
"""Share of proposals in which a lost item becomes a priority item, and its cases leave.

Otherwise rare activities are lost in the very cohort that has enough cases of them: all other items of these cases are
more frequent, and enter before them.
"""

WAIT_FROM, LEAVE_FROM, WAIT_TO = RAISE / 2, 0.6, 0.7
"""Thresholds of the random number that chooses a proposal (`_Search._proposal`).

Cases wait from `WAIT_FROM` to `WAIT_TO`, and waiting cases leave from `LEAVE_FROM` on. Where ranges
overlap, a proposal does both.
"""

WHOLE = 0.2
"""Share of proposals in which all cases that gain by it change sides, and not only some of them."""

FREQUENT = 0.04
"""Share of the cases that must have an item for its cases to wait for one another.

Every activity of more than 5 % of the cases should be in the release. Some of these are rarer in the first windows.
"""

LONGER = 3
"""The factor by which the cases of an owed activity wait longer.

An activity of 5 % of the cases has K = 20 of them after four windows of a hundred cases, and after ten of forty.
"""

DUE, LATE = 2, 2
"""When an owed activity that K cases have is due, that is, shown even if its cases lose most of their other events.

It is due once DUE times K cases have it, or one of its cases has waited for LATE times `patience` releases, or no other
cohort follows. Earlier, these cases would lose most of their other events: due at once, Sepsis keeps .928 to .937 of
its events instead of .941 to .945.
"""

OWED = 30
"""Value of an event beyond `PLAIN` if all events of its item were lost so far."""

MOST, MOST_FRESH = 0.5, 0.4
"""Largest share of the queue, and of its new cases, that waits by choice: the median case leaves at once."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Limits on how long cases may wait by choice.

    Attributes
    ----------
    releases
        Most releases that a case waits by choice, `LONGER` times as many for an owed item; 0: none waits.
    last
        No other cohort will follow, so nobody waits by choice.
    seed
        Seed of the search.
    """

    releases: int = 4
    last: bool = False
    seed: int = 0


@content_free()
@dataclass(frozen=True, slots=True)
class ItemPriorities:
    """Items that the division favours over others.

    Attributes
    ----------
    value
        Value of an event by item; `PLAIN` if the item is not named.
    owed
        Items that no cohort has shown yet and enough cases have; their cases wait for one another.
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
        Items that enter first, value of events, and owed items.
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
        Items that entered before all others.
    leave
        bool[C], the cases that leave; the others of `tried` lost every event.
    stays
        bool[E], the events that stay.
    kept
        int64[C], value of the events that each case keeps.
    state
        Bans and priorities of local suppression.
    worth
        Value kept now and expected later.
    share
        Share of events kept, among the cases that leave.
    due_shown
        Number of due items that are shown.
    """

    tried: Flags
    first: tuple[int, ...]
    leave: Flags
    stays: Flags
    kept: Ints
    state: SafeState
    worth: float
    share: float
    due_shown: int

    def better(self, other: DivisionTrial, min_share: float) -> bool:
        """Compare two trials: first `min_share`, then due items shown, then worth.

        A due item counts more than the events it costs, because it is missing from every release otherwise.

        Parameters
        ----------
        other
            The trial to compare with.
        min_share
            Least share of events that should stay in the cases that leave.

        Returns
        -------
        bool
            Whether this trial ranks above the other one. Equal ranks are not better.
        """
        rank = (self.share >= min_share, self.due_shown, self.worth)
        other_rank = (other.share >= min_share, other.due_shown, other.worth)
        return rank > other_rank


def divided(
    queue: TlkcProblem,
    waited: Ints,
    patience: Patience,
    share: Fraction,
    min_share: float,
    priorities: ItemPriorities,
) -> Division:
    """Find the division of a queue that keeps most events over time.

    Parameters
    ----------
    queue
        The completed cases that wait.
    waited
        int64[C], releases that each case has waited for.
    patience
        How long cases may wait by choice.
    share
        Largest share of a class in the cohort.
    min_share
        Least share of events that must stay in the cases that leave.
    priorities
        Items to favour.

    Returns
    -------
    Division
        The cases that leave, and the preferences of local suppression.

    Raises
    ------
    TooFewCasesError
        If the queue is small, and no cohort can be formed yet.
    BoundError
        If no cohort can be formed from a larger queue; the message names the cause.
    """
    check_feasible(queue, share)
    search = _Search(queue, share, priorities)
    search.set_due(waited, patience)
    # If not even the whole queue forms a cohort, no part of it is searched.
    whole_queue = np.ones(queue.log.n_cases, dtype=np.bool_)
    best = search.attempt(whole_queue, ())
    if best is None:
        raise no_cohort(queue.log.n_cases, queue.bounds.K, _cause(queue))
    if patience.releases and not patience.last:
        search.set_expected(waited, patience.releases)
        best = search.climb(best, patience.seed, min_share)
    elif search.due.any():
        # Nobody waits by choice, but due items can still enter before the others.
        best = search.show_due_items(best, min_share)
    priority_items = queue.seen.decode(best.first)
    return Division(np.flatnonzero(best.tried), Choice(priority_items, priorities.value, priorities.owed))


def _cause(queue: TlkcProblem) -> str:
    """Return why no K cases of the whole queue can leave: they share too little, or too many have one value."""
    n, bounds = queue.log.n_cases, queue.bounds
    # If the queue forms a cohort without the bound on classes, that bound is the cause.
    without_c = TlkcProblem(queue.log, queue.knowledge, replace(bounds, C=Fraction(1)), queue.classes)
    whole_queue = np.ones(n, dtype=np.bool_)
    search = _Search(without_c, Fraction(1), ItemPriorities())
    if queue.classes and search.attempt(whole_queue, ()) is not None:
        return (
            f"of {n} completed cases that wait fewer than K = {bounds.K} would keep an event: of those that share one, "
            f"too many have one value of {' or '.join(queue.classes)} for C = {float(bounds.C):g}; cases with other "
            "values would help, or fewer and larger classes (mechanism.bins)"
        )
    return f"of {n} completed cases that wait fewer than K = {bounds.K} have anything in common; more cases would help"


def frequent(log: EventLog, classes: Iterable[Column], bounds: TlkcBounds) -> list[Any]:
    """Return the frequent activities that are worth waiting for.

    An activity is left out if K cases have it and one class has more than C of them: waiting does not cure
    such a share, and a ban takes the activity from all cases.

    Parameters
    ----------
    log
        The completed cases.
    classes
        The class of each case, one column per sensitive attribute.
    bounds
        K and C.

    Returns
    -------
    list
        Activities of at least `FREQUENT` of the cases.
    """
    n_activities = max(1, len(log.activity.values))
    pair = log.case_of_event * n_activities + log.activity.codes
    unique_pairs = distinct(pair, log.n_cases * n_activities)
    case, activity = np.divmod(unique_pairs, n_activities)
    cases = np.bincount(activity, minlength=n_activities)  # cases of each activity
    chosen = cases >= FREQUENT * log.n_cases
    for column in classes:
        n_values = max(1, len(column.values))
        value = column.codes[case]  # -1: missing, and no value that could be learned
        cell = (activity * n_values + value)[value >= 0]
        counts = np.bincount(cell, minlength=n_activities * n_values).reshape(n_activities, n_values)
        within_c = counts.max(axis=1) * bounds.C.denominator <= bounds.C.numerator * cases
        chosen &= (cases < bounds.K) | within_c
    return [name for name, is_chosen in zip(log.activity.values, chosen.tolist(), strict=False) if is_chosen]


def item_priorities(
    recorded: Mapping[Any, int],
    published: Mapping[Any, int],
    frequent_items: Collection[Any],
) -> ItemPriorities:
    """Value the events of items that earlier cohorts lost.

    Parameters
    ----------
    recorded
        Events of published cases by item, as they arrived.
    published
        Events of published cases by item, as they were published.
    frequent_items
        Items of at least `FREQUENT` of the completed cases.

    Returns
    -------
    ItemPriorities
        A higher value for items that lost more, and the frequent items that were never shown.
    """
    value = {}
    for item, count in recorded.items():
        lost = count - min(count, published.get(item, 0))
        value[item] = PLAIN + OWED * lost // count
    owed = frozenset(item for item in frequent_items if not published.get(item))
    value.update(dict.fromkeys(owed, PLAIN + OWED))
    return ItemPriorities(value, owed)


def check_feasible(queue: TlkcProblem, share: Fraction) -> None:
    """Refuse a queue from which no K cases can leave.

    Parameters
    ----------
    queue
        The cases that wait, with the bounds and classes of the release.
    share
        C, the largest share of the cases that one class may have.

    Raises
    ------
    TooFewCasesError
        If fewer than K cases wait, or the queue is small and one class is too frequent in it.
    BoundError
        If one class of a larger queue is so frequent that fewer than K cases could leave with the others.
    """
    if queue.log.n_cases < queue.bounds.K:
        raise TooFewCasesError(
            f"{queue.log.n_cases} completed cases wait, and a cohort needs at least K = {queue.bounds.K} of them"
        )
    n = queue.log.n_cases
    whole_queue = np.ones(n, dtype=np.bool_)
    fit = int(balanced(whole_queue, list(queue.classes.values()), share).sum())
    if fit >= queue.bounds.K:
        return
    counts = {}  # cases of the most frequent class of each attribute
    for name, column in queue.classes.items():
        codes = column.codes[column.codes >= 0]
        counts[name] = int(np.bincount(codes, minlength=1).max())
    name = max(counts, key=lambda attribute: counts[attribute])
    cause = (
        f"of the {n} completed cases that wait for a release, {100 * counts[name] / n:.0f} % have one value of {name}: "
        f"C = {float(share):g} cannot hold; {fit} of them could leave together, K = {queue.bounds.K} have to; "
        "cases with other values would help, or fewer and larger classes (mechanism.bins)"
    )
    raise no_cohort(n, queue.bounds.K, cause)


class _Search:
    """Divisions of one queue, by local suppression of the cases that leave."""

    def __init__(self, queue: TlkcProblem, share: Fraction, priorities: ItemPriorities) -> None:
        self.queue, self.share, self.view = queue, share, queue.seen
        self.reach = Reach(self.view)
        alphabet = self.view.alphabet
        self.value = np.asarray([priorities.value.get(item, PLAIN) for item in alphabet], dtype=np.int64)
        self.owed = np.asarray([item in priorities.owed for item in alphabet], dtype=np.bool_)
        self.classes = list(queue.classes.values())
        self.length = queue.log.lengths
        self.row = self.view.row_of_case
        self.case = np.repeat(np.arange(len(self.row)), self.length)
        self.position = self.view.starts[self.row[self.case]] + self.view.slot_of_event
        self.codes = self.view.codes[self.position]
        self.count = np.bincount(self.codes, minlength=len(self.value))
        n_items = max(1, len(self.value))
        item_of_pair = np.unique(self.case * n_items + self.codes) % n_items
        self.holders = np.bincount(item_of_pair, minlength=len(self.value))  # cases that have each item
        self.due = np.zeros(len(self.value), dtype=np.bool_)
        self.expected = np.zeros(len(self.row))
        self.waited = np.zeros(len(self.row), dtype=np.int64)

    def set_expected(self, waited: Ints, patience: int) -> None:
        """Set the value that each case can expect to keep if it waits."""
        bounds = self.queue.bounds
        # Cases that wait leave with those of up to `patience` later queues: only this part of K has to be here now.
        later_k = -(-bounds.K // (patience + 1))  # rounded up
        later_bounds = replace(bounds, K=max(min(2, bounds.K), later_k))
        whole_queue = np.ones(len(self.row), dtype=np.bool_)
        stays, _ = self._suppressed(whole_queue, (), later_bounds)
        stays |= self.owed[self.codes]
        longest_wait = np.where(self._cases_with(self.owed), LONGER * patience, patience)
        discount = np.maximum(EXPECTED - IMPATIENCE * waited, 0)
        self.expected = np.where(waited < longest_wait, discount, 0) * self._worth(stays)
        self.waited = waited

    def set_due(self, waited: Ints, patience: Patience) -> None:
        """Set which owed items are due (`DUE`)."""
        longest_wait = np.zeros(len(self.value), dtype=np.int64)  # of the cases that have each item
        np.maximum.at(longest_wait, self.codes, waited[self.case])
        has_waited = longest_wait >= LATE * patience.releases
        has_many = self.holders >= DUE * self.queue.bounds.K
        has_enough = self.holders >= self.queue.bounds.K
        self.due = self.owed & has_enough & (has_waited | has_many | patience.last)

    def attempt(self, chosen: Flags, first: tuple[int, ...]) -> DivisionTrial | None:
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
            # Cases that lost every event have left the cohort, and a class may be too frequent among the others.
            if balanced(leave, self.classes, self.share).sum() == leave.sum():
                break
            chosen = leave
        worth = float(kept.sum() + self.expected[~leave].sum())
        share = float(stays.sum() / self.length[leave].sum())
        due_shown = len(np.unique(self.codes[stays & self.due[self.codes]]))
        return DivisionTrial(chosen, first, leave, stays, kept, state, worth, share, due_shown)

    def climb(self, start: DivisionTrial, seed: int, min_share: float) -> DivisionTrial:
        """Return the best division that hill climbing finds from the whole queue.

        Proposals let cases wait that would keep more later, or let waiting cases leave. Due items are tried first.
        """
        generator = np.random.default_rng(seed)
        best, tried = start, {(start.tried.tobytes(), start.first)}
        due_items = np.flatnonzero(self.due).tolist()
        for _ in range(min(TRIALS, WORK // max(1, self.queue.trial_cost))):
            if due_items:
                chosen, first = self._toggle_priority(best, due_items.pop())
            else:
                chosen, first = self._proposal(best, generator)
            if (chosen.tobytes(), first) in tried or not self._few_wait(chosen, start):
                continue
            tried.add((chosen.tobytes(), first))
            trial = self.attempt(chosen, first)
            if trial is not None and trial.better(best, min_share):
                best = trial
        return best

    def show_due_items(self, best: DivisionTrial, min_share: float) -> DivisionTrial:
        """Return the division in which due items enter first, if that shows more of them; nobody waits by choice."""
        for item in np.flatnonzero(self.due).tolist():
            trial = self.attempt(*self._toggle_priority(best, item))
            if trial is not None and trial.better(best, min_share):
                best = trial
        return best

    def _cases_with(self, items: Flags) -> Flags:
        """Return bool[C]: the cases that have one of some items (bool[A])."""
        cases = np.zeros(len(self.row), dtype=np.bool_)
        cases[self.case[items[self.codes]]] = True
        return cases

    def _few_wait(self, chosen: Flags, start: DivisionTrial) -> bool:
        """Return whether no more cases wait by choice than may (`MOST`, `MOST_FRESH`)."""
        waits = start.leave & ~chosen
        is_fresh = self.waited == 0
        few_of_all = waits.sum() <= MOST * len(waits)
        few_of_fresh = waits[is_fresh].sum() <= MOST_FRESH * is_fresh.sum()
        return bool(few_of_all and few_of_fresh)

    def _proposal(self, best: DivisionTrial, generator: np.random.Generator) -> tuple[Flags, tuple[int, ...]]:
        """Return a random neighbour of a division.

        One random number `kind` decides what changes:

            kind from    0        WAIT_FROM      RAISE   LEAVE_FROM     WAIT_TO
            change       toggle   toggle, wait   wait    leave, wait    leave

        toggle: a lost item becomes a priority item, or one of these does not. wait: cases that gain by it wait.
        leave: waiting cases leave; below LEAVE_FROM this replaces `wait` if no case would gain by waiting.
        """
        chosen, first = best.tried.copy(), best.first
        gain_by_waiting = np.where(chosen, self.expected - best.kept, 0)
        gaining = np.flatnonzero(gain_by_waiting > 0)
        waiting = np.flatnonzero(~chosen)
        kind = generator.random()
        item = self._lost_item(best, generator) if kind < RAISE else None
        if item is not None:
            chosen, first = self._toggle_priority(best, item)
        elif len(waiting) and (kind >= LEAVE_FROM or not len(gaining)):
            gain_by_leaving = self._joining(best)[waiting] - self.expected[waiting]
            chosen[_some(waiting, gain_by_leaving, generator)] = True
        if len(gaining) and WAIT_FROM < kind < WAIT_TO:
            chosen[_some(gaining, gain_by_waiting[gaining], generator)] = False
        return chosen, first

    def _toggle_priority(self, best: DivisionTrial, item: int) -> tuple[Flags, tuple[int, ...]]:
        """Toggle `item` as a priority item and release all its cases.

        Cases that still wait for another item stay, if at least K cases remain.
        """
        uncovered_items = self.owed.copy()  # owed items that this division does not show
        uncovered_items[[*np.unique(self.codes[best.stays]), item]] = False
        is_item = np.zeros(len(self.value), dtype=np.bool_)
        is_item[item] = True
        released = self._cases_with(is_item)
        without_other = released & ~self._cases_with(uncovered_items)
        if np.count_nonzero(without_other) >= self.queue.bounds.K:
            released = without_other
        chosen = best.tried | released
        other_items = tuple(other for other in best.first if other != item)
        if item in best.first:
            return chosen, other_items
        return chosen, (*other_items, item)

    def _lost_item(self, best: DivisionTrial, generator: np.random.Generator) -> int | None:
        """Draw an item of K or more cases, by the value of its lost events.

        Items that enter first already can be drawn too, so that a proposal can take them back.
        """
        shown = np.bincount(self.codes[best.stays], minlength=len(self.value))
        lost_value = self.value * np.maximum(0, self.count - shown)
        lost_value[self.holders < self.queue.bounds.K] = 0
        priority_items = list(best.first)
        lost_value[priority_items] = np.maximum(lost_value[priority_items], 1)
        if not lost_value.any():
            return None
        return int(generator.choice(len(lost_value), p=lost_value / lost_value.sum()))

    def _suppressed(
        self,
        chosen: Flags,
        first: tuple[int, ...],
        bounds: TlkcBounds,
    ) -> tuple[Flags, SafeState]:
        """Return bool[E], the events of chosen cases that stay, and the state of local suppression.

        `first`: items that enter before all others.
        """
        cases_of_row = np.bincount(self.row[chosen], minlength=len(self.view.weight))
        of_chosen = chosen[self.case]
        events_at = np.bincount(self.position[of_chosen], minlength=len(self.view.codes)).astype(np.int64)
        priority = entering(self.view.codes, events_at, len(self.view.alphabet), first)
        state = close(self.reach, bounds, priority, Bans(), events_at, cases=cases_of_row)
        return state.kept[self.position] & of_chosen, state

    def _joining(self, best: DivisionTrial) -> Ints:
        """Return about what each case would keep if it left too: events that the bans allow, of items shown."""
        shown = np.bincount(self.codes[best.stays], minlength=len(self.value)) > 0
        allowed_at = project_onto(self.reach, best.state.priority, best.state.numbers)
        return self._worth(allowed_at[self.position] & shown[self.codes])

    def _worth(self, events: Flags) -> Ints:
        """Return int64[C]: the value of some events by case."""
        return np.bincount(self.case[events], self.value[self.codes[events]], len(self.row)).astype(np.int64)


def _some(cases: Ints, gain: npt.NDArray[np.float64], generator: np.random.Generator) -> Ints:
    """Return all cases that gain, or a random number of cases, those with the largest gain (and noise) first."""
    if (gain > 0).any() and generator.random() < WHOLE:
        return cases[gain > 0]
    noise = 2 * PLAIN * generator.random() * generator.random(len(cases))
    by_gain = np.argsort(-(gain + noise), kind="stable")
    number = max(1, int(len(cases) * generator.random()))
    return cases[by_gain[:number]]
