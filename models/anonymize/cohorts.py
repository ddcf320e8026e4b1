"""Cohorts: continuous publishing that stays safe over releases (FCB-safe cohorts; docs/fcb-safe.md has the proof).

Re-anonymizing everything at each release is not safe: what the new cases add to a matching set can be a single case
(B-attack), and what the old ones lose can be too. Here each release is the union of cohorts; a cohort holds completed
cases, satisfies TLKC-privacy (tlkc-privacy-extended-2021, Def. 14) on its own, and never changes once it is out. So

* supports add and shares are averages over cohorts: every union of cohorts satisfies TLKC for the same L, K, C;
* the real partner of a released case is itself, so no case leaves a matching set (correspondence-attacks-2021,
  Def. 10, 11: FA, CA >= K), and the new cases of a matching set are a union of cohorts' matching sets (Def. 12:
  BA >= K or there is none). The crack is a minimum over linkers, so the identity bounds it.

Covered: |bk| <= L + n where a record matches with at most n symbols missing. Relation: linkage of one case by
background knowledge of its items, adversary's time = the first publication of the case; unit: one case. Not
guaranteed: who knows more than L items, or when the case *started*; attacks that combine the alphabets of cohorts
(unless it is common); conclusions from the moment of publication.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from models.anonymize.local import Choice
from models.anonymize.result import Anonymized
from models.anonymize.sensitive import InfeasibleError, is_numeric
from models.anonymize.tlkc import SuppressionOptions, TlkcProblem
from models.content_free import content_free
from models.errors import BoundError, InputError, TooFewCasesError
from models.eventlog import Column, Flags, Ints

Alphabet = Literal["per-cohort", "common"]

PROPOSALS, WORK = 100, 500_000
"""Proposals of the search of `local` that a cohort gets if the configuration asks for none, and the most events and
violating candidates that they may compare: at Sepsis .003 to .008 more events stay for a tenth of a
second, a thousand bring .002 more."""

SMALL_QUEUE = 3
"""A queue of fewer than this many times K cases waits for more of them if it forms no cohort. A larger one is
refused: more cases of the same kind would hardly change what is in the way."""


def no_cohort(n_cases: int, K: int, cause: str) -> BoundError:
    """Return the error of a queue that forms no cohort: a small queue waits, a larger one is refused.

    Parameters
    ----------
    n_cases
        Cases in the queue.
    K
        Least cases of a cohort.
    cause
        The message.

    Returns
    -------
    BoundError
        A `TooFewCasesError` below `SMALL_QUEUE` times K cases: more cases may form a cohort.
    """
    if n_cases < SMALL_QUEUE * K:
        return TooFewCasesError(cause)
    return BoundError(cause)


@content_free()
@dataclass(frozen=True, slots=True)
class CohortRules:
    """Conditions under which a queue may leave as a cohort.

    Attributes
    ----------
    options
        Options of suppression: how it chooses items.
    min_share
        Least share of the queue's events that must stay.
    alphabet
        Items that every cohort may show; None: each cohort chooses its own.
    choice
        Preferences of local suppression.
    """

    options: SuppressionOptions
    min_share: float = 0.0
    alphabet: Collection[Any] | None = None
    choice: Choice = field(default_factory=Choice)


def cohort(queue: TlkcProblem, rules: CohortRules) -> Anonymized:
    """Return the queue as a cohort.

    Cases that would lose every event are not in the cohort; they stay in the queue.

    Parameters
    ----------
    queue
        The completed cases that wait, with knowledge, bounds and classes.
    rules
        Conditions under which the queue may leave.

    Returns
    -------
    Anonymized
        The cohort, verified by the independent checker.

    Raises
    ------
    TooFewCasesError
        If the queue is small, and has to wait for more cases: because of K, of C, or because too few events would stay.
    BoundError
        If the same is true of a larger queue. The message names the cause.
    """
    if not queue.log.n_events:
        raise TooFewCasesError("no completed case is waiting")
    result = _suppressed(queue, rules)
    share = result.events / queue.log.n_events
    if share < rules.min_share:
        cause = f"{share:.3f} of their events would stay, min_share is {rules.min_share:g}"
        raise _error_of_queue(queue, cause)
    return result


def _error_of_queue(queue: TlkcProblem, cause: str) -> BoundError:
    waiting = queue.log.n_cases
    return no_cohort(waiting, queue.bounds.K, f"{waiting} completed cases wait: {cause}")


def _suppressed(queue: TlkcProblem, rules: CohortRules) -> Anonymized:
    try:
        if rules.alphabet is None and rules.options.suppression == "local":
            return _locally(queue, rules)
        if rules.alphabet is None:
            return queue.solve(rules.options)
        queue.refuse_infeasible()
        return queue.verified(_within(queue, rules.alphabet))
    except InfeasibleError as error:
        raise _error_of_queue(queue, str(error)) from None
    except BoundError as error:
        raise BoundError(f"{queue.log.n_cases} completed cases wait: {error}") from None


def _locally(queue: TlkcProblem, rules: CohortRules) -> Anonymized:
    """Suppress locally, with some search.

    The search can lose whole cases, and with them the balance of a class, or all events of an item that no
    cohort has shown yet. In both situations the state from before the search is used.
    """
    queue.refuse_infeasible()
    options = rules.options
    effort = options.effort or min(PROPOSALS, WORK // queue.trial_cost)
    try:
        searched = queue.settled(lambda problem: problem.local(replace(options, effort=effort), rules.choice))
    except BoundError:
        searched = None
    if searched is not None and rules.choice.owed.issubset(searched.items.values):
        return searched
    without_search = queue.settled(lambda problem: problem.local(replace(options, effort=0), rules.choice))
    if searched is None or _owed_shown(without_search, rules) > _owed_shown(searched, rules):
        return without_search
    return searched


def _owed_shown(result: Anonymized, rules: CohortRules) -> int:
    """Return how many owed items (shown by no cohort yet) a result shows."""
    return len(rules.choice.owed & set(result.items.values))


def _within(queue: TlkcProblem, alphabet: Collection[Any]) -> Anonymized:
    """Keep only the items of the common alphabet.

    Nothing else may be suppressed: an item that is missing here and shown by another cohort would show the
    cohorts apart.
    """
    seen = queue.seen
    shown = np.asarray([item in alphabet for item in seen.alphabet], dtype=np.bool_)
    return Anonymized(
        queue.log,
        shown[seen.item_of_event],
        queue.knowledge,
        suppressed=seen.decode(np.flatnonzero(~shown).tolist()),
        details={"violations": queue.reasons()},
    )


def balanced(among: Flags, classes: Sequence[Column], share: Fraction) -> Flags:
    """Return the cases that may leave together so that no class has more than `share` of them.

    Suppression cannot cure a class that is too frequent in the queue itself (the empty candidate of Def. 14).
    Waiting can: the last cases of such a class stay in the queue. Each round holds back the fewest cases that
    cure one attribute.

    Parameters
    ----------
    among
        bool[C], the cases that could leave, in queue order.
    classes
        The class of each case, one column per sensitive attribute.
    share
        Largest share of one class.

    Returns
    -------
    Flags
        bool[C], a subset of `among`; empty if nothing else balances.

    References
    ----------
    tlkc-privacy-extended-2021, Def. 14.
    """
    chosen = among.copy()
    while True:
        excess_by_class = (_excess(column, chosen, share) for column in classes)
        excess = next((excess for excess in excess_by_class if excess is not None), None)
        if excess is None:
            return chosen
        holders, count = excess
        chosen[holders[len(holders) - count :]] = False


def _excess(column: Column, chosen: Flags, share: Fraction) -> tuple[Ints, int] | None:
    """Return the chosen cases of a class above `share`, and how many of them must wait.

    With m cases of the class among `total`, x of them must wait so that (m - x) <= share * (total - x).
    """
    with_value = np.flatnonzero(chosen & (column.codes >= 0))
    if not len(with_value):
        return None
    counts = np.bincount(column.codes[with_value])
    worst, total = int(np.argmax(counts)), int(chosen.sum())
    over = int(counts[worst]) * share.denominator - share.numerator * total
    if over <= 0:
        return None
    slack = share.denominator - share.numerator  # above 0: a share of 1 is never exceeded
    holders = with_value[column.codes[with_value] == worst]
    waiting = -(-over // slack)  # rounded up
    return holders, min(int(counts[worst]), waiting)


def refuse_moving_bins(name: str, column: Column) -> None:
    """Refuse a numeric sensitive attribute that has no fixed classes.

    Quartiles differ from cohort to cohort, and an average of shares is meaningless if the classes move.

    Parameters
    ----------
    name
        Name of the sensitive attribute, for the message.
    column
        Its values.

    Raises
    ------
    InputError
        If the attribute is numeric; the message asks for mechanism.bins.
    """
    if is_numeric(column):
        raise InputError(f"tlkc-cohorts: {name} is numeric; give its classes by mechanism.bins, fixed for all cohorts")
