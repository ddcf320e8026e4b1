"""All attacks on a series of releases as `veilstream attack` documents them, and the sentences beside the figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from models.attacks.correspondence import AttackQuestion
from models.attacks.outcome import MOST_N, Anonymity, AttackResult
from models.attacks.series import series
from models.eventlog import SimpleLog

LEGEND = (
    "releases: in the order given; n: events removed from a case, at most; linker: can every earlier case be a later "
    "one; ka1, ka2: least number of cases of each release that match what is known; fa, ca, ba: what is left of it "
    "after the forward, cross and backward attack; fc, cc, bc: the share that each excludes"
)
"""Below the tables. Words of docs/glossary.md."""


class AttackedPair(NamedTuple):
    """Two releases (0 is the first), and the anonymity that they leave together."""

    earlier: int
    later: int
    answer: Anonymity


def _nothing() -> None:
    pass


def attack_pairs(
    question: AttackQuestion, logs: Sequence[SimpleLog], on_pair: Callable[[], None] = _nothing
) -> list[AttackedPair]:
    """Return the answer for each pair of releases, in order of the later one.

    Parameters
    ----------
    question, logs
        The options, and the releases as `question.simple_logs` returns them.
    on_pair
        Called after each pair.
    """
    pairs = []
    for later in range(1, len(logs)):
        for earlier in range(later):
            pairs.append(AttackedPair(earlier, later, question.between(logs[earlier], logs[later])))
            on_pair()
    return pairs


def document(question: AttackQuestion, logs: Sequence[SimpleLog], pairs: Sequence[AttackedPair]) -> dict[str, Any]:
    """Return the documented JSON: the first pair, and for more than two releases every pair and the series."""
    body = pairs[0].answer.json()
    if len(logs) > 2:
        body["pairs"] = [{"earlier": pair.earlier + 1, "later": pair.later + 1, **pair.answer.json()} for pair in pairs]
        together = series(
            logs,
            bk_length=question.bk_length,
            n=question.n,
            known=question.known,
            taxonomy=question.taxonomy,
            foreign=question.foreign,
        )
        body["series"] = together.json()
    return body


def missing_linkers(pairs: Sequence[AttackedPair]) -> list[str]:
    """Return a sentence for each pair and n without a linker."""
    return [
        _no_linker(pair.earlier, pair.later, result)
        for pair in pairs
        for result in pair.answer.results
        if result.linker == "none"
    ]


def _no_linker(earlier: int, later: int, result: AttackResult) -> str:
    witness = result.obstacles[0]
    if result.least_n:
        hint = f"the least n with a linker is {result.least_n}"
    else:
        hint = f"no n up to {MOST_N} gives one: a value changed, or cases were dropped"
    return (
        f"releases {earlier + 1}, {later + 1}, n = {result.n}: no linker; {len(result.obstacles)} sensitive value(s) "
        f"cannot be matched ({witness.earlier} earlier records link to {witness.later} later ones); {hint}"
    )
