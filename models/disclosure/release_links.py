"""Links between two releases of a series: which record of the later release is the same person's.

The attacker holds both files and nothing else. For a record of the earlier release they guess one of the records of the
later release that link with it for the fewest changes (`models.attacks.linkability`, the relation of the
correspondence attacks). F, C and B bound what can be excluded by any such argument; this is how often one simple guess
is right.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from models.attacks.linkability import LEAST, Edges, edges
from models.attacks.pairs import ReleasePair, join_releases
from models.disclosure.intervals import AttackRisk, against_guess
from models.disclosure.material import drawn
from models.eventlog import EventLog, Floats, Ints, SimpleLog


@dataclass(frozen=True, slots=True)
class ReleaseLinks:
    """Result of the attack on two releases.

    Parameters
    ----------
    common
        Cases that both releases have.
    risk
        Its `rate` is the share of these cases whose record is guessed, its `control` that of a random record.
    candidates
        Median number of records that the guess is made among.
    """

    common: int
    risk: AttackRisk
    candidates: int


def release_links(
    earlier: EventLog,
    later: EventLog,
    targets: int,
    rng: np.random.Generator,
) -> ReleaseLinks | None:
    """Guess for cases of the earlier release their record in the later one.

    Parameters
    ----------
    earlier, later
        The releases. Equal case ids name the same case: they decide whether a guess is right, and the attack does not
        read them.
    targets
        Cases that are attacked, at most all that both have.
    rng
        Draws the cases.

    Returns
    -------
    ReleaseLinks or None
        None if no case is in both.
    """
    number_later = {case: number for number, case in enumerate(later.case_ids) if case}
    pairs = [(number, number_later[case]) for number, case in enumerate(earlier.case_ids) if case in number_later]
    if not pairs:
        return None
    chosen = np.asarray(pairs, dtype=np.int64)[drawn(len(pairs), targets, rng)]
    joined = join_releases(SimpleLog.from_log(earlier), SimpleLog.from_log(later))
    rows = joined.earlier.row_of_case[chosen[:, 0]].astype(np.int64)
    partners = joined.later.row_of_case[chosen[:, 1]].astype(np.int64)
    success, candidates = _guesses(joined, rows, partners)
    risk = against_guess(float(success.sum()), len(success), 1 / joined.later.n_cases)
    return ReleaseLinks(len(pairs), risk, int(np.median(candidates)))


def _guesses(joined: ReleasePair, rows: Ints, partners: Ints) -> tuple[Floats, Ints]:
    """Return the probability that each guess is right, and the number of records that it is made among.

    Few rows need more than a few changes, and a list of all links is large: the cap grows until all have a link.
    """
    success = np.zeros(len(rows))
    candidates = np.full(len(rows), joined.later.n_cases, dtype=np.int64)
    cap = 0
    open_targets = np.arange(len(rows))
    while len(open_targets):
        linkable = edges(joined, cap)
        unlinked = []
        for target in open_targets.tolist():
            nearest = _nearest(linkable, int(rows[target]))
            if not len(nearest):
                unlinked.append(target)
                continue
            candidates[target] = joined.later.count[nearest].sum()
            success[target] = bool((nearest == partners[target]).any()) / candidates[target]
        open_targets = np.asarray(unlinked, dtype=np.int64)
        if cap >= LEAST:
            break
        cap = min(max(1, 2 * cap), LEAST)
    # Without any link the guess is any record.
    success[open_targets] = 1 / joined.later.n_cases
    return success, candidates


def _nearest(linkable: Edges, row: int) -> Ints:
    """Return the later rows that link with an earlier row for the fewest changes."""
    first, behind = linkable.start[row : row + 2].tolist()
    least = linkable.least[first:behind] & LEAST
    if not len(least):
        return np.zeros(0, dtype=np.int64)
    nearest_runs = first + np.flatnonzero(least == least.min())
    begins, ends = linkable.begin[nearest_runs].tolist(), linkable.end[nearest_runs].tolist()
    return np.concatenate([np.arange(begin, end) for begin, end in zip(begins, ends, strict=True)])
