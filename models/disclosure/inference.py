"""Inference: an attacker who knows some items of a person guesses what they do not know, by a vote of nearest records.

The nearest records are those that share most of the known items with the target (longest common subsequence), and all
known attributes. The same attack on people who are not in the log (the control) shows what anybody could conclude from
the release about anybody: that is statistics and not disclosure of a person.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import LCSseq
from rapidfuzz.process import cdist

from models.compiled import kernel
from models.content_free import content_free
from models.disclosure.intervals import AttackRisk, Successes, TargetResults, against_guess, compared
from models.disclosure.material import CodedCases, Material
from models.eventlog import Codes, Column, EventLog, Floats, Ints, places_of
from models.utility.graphs import ordinal, same_names

DRAWS = 8
"""Sets of known items that are drawn for each target."""

TOLERANCE = 1.2
"""A guessed duration is right if neither is more than this factor of the other."""

SHORTEST = 60_000_000_000
"""Durations below one minute (ns) count as one minute, so that two short cases are alike."""


@content_free("case")
@dataclass(frozen=True, slots=True)
class _Target:
    """A case that is attacked: its number in its log, the known items, and one item that is not known."""

    case: int
    known_items: Codes
    hidden: int


@content_free()
@dataclass(frozen=True, slots=True)
class _Guesser:
    """Votes on one secret, and their check.

    Parameters
    ----------
    guess
        Returns the guess of some voting cases for a target of which some items are known, as a number.
    is_right
        Returns whether a guess is the truth of a target.
    """

    guess: Callable[[Ints, Codes], float]
    is_right: Callable[[float, _Target], bool]


NO_GUESS = -1.0
"""Guess of voting cases that all lack the value."""


@content_free("name")
@dataclass(frozen=True, slots=True)
class _Secret:
    """One thing that is guessed.

    Parameters
    ----------
    name
        Its public name.
    hindered
        Returns why it cannot be guessed from a release; empty if it can.
    guesser
        Reads what votes and checks need from the voting cases and from those of the targets.
    best_guess
        Returns the share of right guesses of somebody who knows the original's distribution and no release.
    """

    name: str
    hindered: Callable[[Material], str]
    guesser: Callable[[Material, CodedCases, CodedCases], _Guesser]
    best_guess: Callable[[EventLog], float]


@dataclass(frozen=True, slots=True)
class Inference:
    """Result for one secret.

    Parameters
    ----------
    secret
        Name of the guessed value.
    risk
        Share of right guesses; None if it could not be tried.
    without_release
        Share of right guesses of the targets with the control's cases in place of the release; None without a control.
    reason
        Why it could not be tried.
    """

    secret: str
    risk: AttackRisk | None
    without_release: float | None = None
    reason: str = ""


def inference(
    material: Material,
    targets: Ints,
    controls: Ints,
    sensitive: Sequence[str],
    measures: int,
    rng: np.random.Generator,
) -> list[Inference]:
    """Guess sensitive values, a further activity, the duration and a resource of each target.

    Each target is attacked `DRAWS` times, with other known items each time: a rate over people is known better than
    that over single guesses.

    Parameters
    ----------
    material
        Original, control and release in one coding.
    targets, controls
        Attacked cases of the original and of the control, as indices.
    sensitive
        Case attributes that are guessed; known ones are left out.
    measures
        Measures of the assessment (`AttackRisk.clear`).
    rng
        Draws the known items.
    """
    unknown = [name for name in sensitive if name not in material.profile.attributes]
    secrets = (*map(_value, unknown), _FURTHER_ITEM, _DURATION, _RESOURCE)
    reasons = [secret.hindered(material) for secret in secrets]
    guessable = [secret for secret, reason in zip(secrets, reasons, strict=True) if not reason]
    release = _Voters(material, material.released_cases)
    right = _right(guessable, material, release, material.original_cases, targets, rng)
    by_chance: dict[str, Successes] = {}
    without: dict[str, Successes] = {}
    if material.n_control:
        by_chance = _right(guessable, material, release, material.control_cases, controls, rng)
        outside = _Voters(material, material.control_cases)
        without = _right(guessable, material, outside, material.original_cases, targets, rng)
    results = []
    for secret, reason in zip(secrets, reasons, strict=True):
        name = secret.name
        risk = None
        if not reason and name not in right:
            reason = "no target has more than one event"
        elif not reason and not material.n_control:
            guess = secret.best_guess(material.original)
            share = right[name].share
            risk = against_guess(float(share.sum()), len(share), guess)
        elif not reason and name not in by_chance:
            reason = "no case of the control has more than one event"
        elif not reason:
            risk = compared(TargetResults(right[name], by_chance[name]), measures)
        without_release = without[name].rate if risk is not None and name in without else None
        results.append(Inference(name, risk, without_release, reason))
    return results


class _Voters:
    """Cases that vote: those of the release, or of the control.

    Attributes
    ----------
    coded
        V cases, with the row of each in `Material.traces`.
    rows
        Rows of `Material.traces` that some of them have, ascending.
    texts
        Items of each of these rows as a text of one character an item.
    """

    def __init__(self, material: Material, coded: CodedCases) -> None:
        self.coded = coded
        self.rows, self._place_of_case = np.unique(coded.row_of_case, return_inverse=True)
        self.texts = material.texts[self.rows]
        self._material = material

    def alike(self, row: int) -> npt.NDArray[np.bool_]:
        """Return which of `rows` have the known attributes of a row of `Material.traces`, bool[R].

        If none has them, all are returned: the attributes then exclude nobody.
        """
        alike = self._material.same_attributes(row, self.rows)
        if alike.any():
            return alike
        return np.ones(len(self.rows), dtype=np.bool_)

    def cases(self, chosen: npt.NDArray[np.bool_]) -> Ints:
        """Return the cases of chosen rows (bool[R], one of each of `rows`), ascending."""
        return np.flatnonzero(chosen[self._place_of_case])


def _right(
    secrets: Sequence[_Secret],
    material: Material,
    voters: _Voters,
    attacked: CodedCases,
    cases: Ints,
    rng: np.random.Generator,
) -> dict[str, Successes]:
    """Return how often each secret of each case was guessed, by its name, for the cases of at least two events."""
    lengths = np.diff(material.traces.starts)[attacked.row_of_case[cases]]
    chosen = cases[lengths >= 2]
    if not len(chosen) or not secrets:
        return {}
    guessers = [secret.guesser(material, voters.coded, attacked) for secret in secrets]
    attribute_class = _classes(material.traces.values[:, attacked.row_of_case[chosen]]).tolist()
    alike_of_class: dict[int, npt.NDArray[np.bool_]] = {}
    right = np.zeros((len(secrets), len(chosen)), dtype=np.int64)
    for _ in range(DRAWS):
        targets = [_target(material, attacked, case, rng) for case in chosen.tolist()]
        known_texts = [material.text(target.known_items) for target in targets]
        distinct, place = np.unique(np.asarray(known_texts, dtype=np.object_), return_inverse=True)
        shared = cdist(distinct.tolist(), voters.texts, scorer=LCSseq.similarity, dtype=np.int32)
        # Of many targets the same items and attributes are known: the same cases vote on all of them.
        guesses: dict[tuple[int, int], list[float]] = {}
        knowledge_of_target = zip(place.tolist(), attribute_class, strict=True)
        for number, (target, knowledge) in enumerate(zip(targets, knowledge_of_target, strict=True)):
            if knowledge not in guesses:
                text, attributes = knowledge
                if attributes not in alike_of_class:
                    alike_of_class[attributes] = voters.alike(int(attacked.row_of_case[target.case]))
                voting = voters.cases(_nearest(shared[text], alike_of_class[attributes]))
                guesses[knowledge] = [guesser.guess(voting, target.known_items) for guesser in guessers]
            for secret, guess in enumerate(guesses[knowledge]):
                right[secret, number] += guessers[secret].is_right(guess, target)
    shares = right / DRAWS
    return {secret.name: Successes(chosen, share, DRAWS) for secret, share in zip(secrets, shares, strict=True)}


def _classes(values: npt.NDArray[Any]) -> Ints:
    """Return a number for each column of int[A, N], the same for equal columns; 0 without attributes."""
    if not len(values):
        return np.zeros(values.shape[1], dtype=np.int64)
    return np.unique(values, axis=1, return_inverse=True)[1].reshape(-1)


def _target(material: Material, attacked: CodedCases, case: int, rng: np.random.Generator) -> _Target:
    """Draw the known items of a case, at most m, and one more that is guessed."""
    trace = material.trace(int(attacked.row_of_case[case]))
    drawn_places = rng.permutation(len(trace))[: material.profile.m + 1]
    known_places = np.sort(drawn_places[:-1])
    return _Target(case, trace[known_places], int(trace[drawn_places[-1]]))


def _nearest(shared: Any, alike: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return which rows share most items with a target, bool[R], among those that are alike."""
    most = shared[alike].max()
    nearest: npt.NDArray[np.bool_] = alike & (shared == most)
    return nearest


def _common_codes(first: Column, second: Column) -> tuple[Codes, Codes]:
    """Return both columns in one coding; a missing value is -1."""
    code_of: dict[Any, int] = {}
    parts = []
    for column in (first, second):
        codes = [code_of.setdefault(value, len(code_of)) for value in column.values]
        parts.append(np.asarray([*codes, -1], dtype=np.int32)[column.codes])
    return parts[0], parts[1]


def _most_frequent(codes: Codes) -> int:
    """Return the most frequent code that is not missing, the smaller of equals; -1 if all are missing."""
    present = codes[codes >= 0]
    return int(np.bincount(present).argmax()) if len(present) else -1


def _share_of_most_frequent(codes: Codes) -> float:
    """Return the share of all entries that have the most frequent value."""
    present = codes[codes >= 0]
    return float(np.bincount(present).max() / len(codes)) if len(present) else 0.0


def _value(attribute: str) -> _Secret:
    """Return the secret: the value of a sensitive attribute."""

    def hindered(material: Material) -> str:
        for log, name in ((material.original, "original"), (material.released, "release")):
            if attribute not in log.case_attributes and attribute not in log.event_attributes:
                return f"the {name} does not carry {attribute!r}"
        true = set(material.original.case_values(attribute).values)
        if not true & set(material.released.case_values(attribute).values):
            return f"no value of {attribute!r} in the release is in the original (the release shows classes)"
        return ""

    def guesser(_: Material, voters: CodedCases, truth: CodedCases) -> _Guesser:
        votes, true = _common_codes(voters.log.case_values(attribute), truth.log.case_values(attribute))

        def guess(voting: Ints, _: Codes) -> float:
            return _most_frequent(votes[voting])

        def is_right(guess: float, target: _Target) -> bool:
            return guess != NO_GUESS and guess == int(true[target.case])

        return _Guesser(guess, is_right)

    def best_guess(original: EventLog) -> float:
        return _share_of_most_frequent(original.case_values(attribute).codes)

    return _Secret(f"value of {attribute}", hindered, guesser, best_guess)


def _further_item(material: Material, voters: CodedCases, _: CodedCases) -> _Guesser:
    """Guess the item of one more event: the item that the voting cases have most often, apart from the known ones."""
    view = material.traces

    def guess(voting: Ints, known_items: Codes) -> float:
        rows = voters.row_of_case[voting]
        further = _further_items(view.starts, view.codes, rows, known_items, len(view.alphabet))
        return int(further.argmax()) if further.any() else NO_GUESS

    return _Guesser(guess, lambda guess, target: guess == target.hidden)


@kernel
def _further_items(starts: Ints, codes: Codes, rows: Ints, known_items: Codes, alphabet: int) -> Ints:
    """Return how often each item occurs in some records, apart from the known ones, int64[alphabet].

    A known item is a further one only in records that have it more often than it is known.
    """
    further = np.zeros(alphabet, dtype=np.int64)
    times_known = np.zeros(alphabet, dtype=np.int64)
    for row in rows:
        times_known[known_items] = 0
        for item in known_items:
            times_known[item] += 1
        for place in range(starts[row], starts[row + 1]):
            item = codes[place]
            if times_known[item] > 0:
                times_known[item] -= 1
            else:
                further[item] += 1
    return further


_FURTHER_ITEM = _Secret(
    "a further item",
    lambda material: "",
    _further_item,
    lambda original: _share_of_most_frequent(original.activity.codes),
)


def _durations(log: EventLog) -> Floats:
    """Return the time from first to last event of each case in ns, at least a minute; NaN without events."""
    durations = np.full(log.n_cases, np.nan)
    has_events = np.flatnonzero(log.lengths)
    if len(has_events):
        first = np.minimum.reduceat(log.time, log.starts[has_events])
        last = np.maximum.reduceat(log.time, log.starts[has_events])
        durations[has_events] = np.maximum(last - first, SHORTEST)
    return durations


def _without_times(material: Material) -> str:
    if ordinal(material.released):
        return "the release carries no times"
    return "the original carries no times" if ordinal(material.original) else ""


def _duration(_: Material, voters: CodedCases, truth: CodedCases) -> _Guesser:
    """Guess the duration that is right for most of the voting cases.

    The median would be right for neither of two cases that differ.
    """
    votes, true = _durations(voters.log), _durations(truth.log)

    def guess(voting: Ints, _: Codes) -> float:
        present = votes[voting][~np.isnan(votes[voting])]
        if not len(present):
            return NO_GUESS
        alike = _most_alike(np.sort(present))
        return math.sqrt(float(alike[0]) * float(alike[-1]))

    def is_right(guess: float, target: _Target) -> bool:
        return 1 / TOLERANCE <= guess / float(true[target.case]) <= TOLERANCE

    return _Guesser(guess, is_right)


def _best_duration(original: EventLog) -> float:
    """Return the share of the cases that the best single guess is right for."""
    durations = _durations(original)
    ascending = np.sort(durations[~np.isnan(durations)])
    return len(_most_alike(ascending)) / len(ascending)


def _most_alike(ascending: Floats) -> Floats:
    """Return the largest set of durations for all of which one guess is right, the shorter durations of equals.

    Parameters
    ----------
    ascending
        float64[D], durations, at least one.
    """
    # Such a set begins at one of the durations, and ends before TOLERANCE^2 times that.
    ends = np.searchsorted(ascending, ascending * TOLERANCE**2, side="right")
    begin = int((ends - np.arange(len(ascending))).argmax())
    return ascending[begin : ends[begin]]


_DURATION = _Secret("duration within a fifth", _without_times, _duration, _best_duration)


def _without_resources(material: Material) -> str:
    if material.profile.knowledge.attribute != "ac":
        return "the attacker knows resources"
    for log, name in ((material.original, "original"), (material.released, "release")):
        if not (log.resource.codes >= 0).any():
            return f"the {name} carries no resources"
    if not same_names(material.original, material.released):
        return "no resource of the release is in the original (pseudonyms)"
    return ""


def _resource(material: Material, voters: CodedCases, truth: CodedCases) -> _Guesser:
    """Guess who did the first known activity: who did it most often in the voting cases."""
    activity, true_activity = _common_codes(voters.log.activity, truth.log.activity)
    resource, true_resource = _common_codes(voters.log.resource, truth.log.resource)
    code_of = {value: code for code, value in enumerate(voters.log.activity.values)}

    def first_activity(known_items: Codes) -> Any:
        item = material.traces.alphabet[int(known_items[0])]
        return item[0] if isinstance(item, tuple) else item

    def guess(voting: Ints, known_items: Codes) -> float:
        known_activity = code_of.get(first_activity(known_items), -1)
        _, events = places_of(voters.log.starts, voting)
        return _most_frequent(resource[events[activity[events] == known_activity]])

    def is_right(guess: float, target: _Target) -> bool:
        known_activity = code_of.get(first_activity(target.known_items), -1)
        begin, end = truth.log.starts[target.case : target.case + 2].tolist()
        done = true_resource[begin:end][true_activity[begin:end] == known_activity]
        return guess != NO_GUESS and len(done) > 0 and guess == int(done[0])

    return _Guesser(guess, is_right)


def _best_resource(original: EventLog) -> float:
    """Return the share of the events whose resource is the most frequent one of their activity."""
    recorded = original.resource.codes >= 0
    pairs = np.stack([original.activity.codes[recorded], original.resource.codes[recorded]])
    (activities, _), counts = np.unique(pairs, axis=1, return_counts=True)
    best = np.zeros(len(original.activity.values), dtype=np.int64)
    np.maximum.at(best, activities, counts)
    return float(best.sum() / original.n_events)


_RESOURCE = _Secret("resource of a known activity", _without_resources, _resource, _best_resource)
