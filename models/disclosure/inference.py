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
from rapidfuzz.distance import LCSseq
from rapidfuzz.process import cdist

from models.content_free import content_free
from models.disclosure.intervals import AttackRisk, Floats, against_control, against_guess
from models.disclosure.material import Material
from models.eventlog import Codes, Column, EventLog, Ints, places_of
from models.utility.graphs import ordinal, same_names

TOLERANCE = 1.2
"""A guessed duration is right if neither is more than this factor of the other."""

SHORTEST = 60_000_000_000
"""Durations below one minute (ns) count as one minute, so that two short cases are alike."""


@content_free("case")
@dataclass(frozen=True, slots=True)
class _Target:
    """A case that is attacked: its number in its log, the known items, and one item that is not known."""

    case: int
    known: Codes
    hidden: int


IsRight = Callable[[_Target, Ints], bool]
"""Whether the guess of some voting cases is the truth of a target."""


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
        Reads what votes and checks need from the log of the voters and from that of the targets.
    best_guess
        Returns the share of right guesses of somebody who knows the original's distribution and no release.
    """

    name: str
    hindered: Callable[[Material], str]
    guesser: Callable[[Material, EventLog, EventLog], IsRight]
    best_guess: Callable[[EventLog], float]


@dataclass(frozen=True, slots=True)
class Inference:
    """Result for one secret.

    Parameters
    ----------
    secret
        What is guessed.
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

    Parameters
    ----------
    material
        The logs.
    targets, controls
        Attacked cases of the original and of the control, as indices.
    sensitive
        Case attributes that are guessed; known ones are left out.
    measures
        Measures of the assessment (`AttackRisk.clear`).
    rng
        Draws the known items.
    """
    results = []
    hidden = [name for name in sensitive if name not in material.profile.attributes]
    for secret in (*map(_value, hidden), _FURTHER_ITEM, _DURATION, _RESOURCE):
        reason = secret.hindered(material)
        if reason:
            results.append(Inference(secret.name, None, reason=reason))
            continue
        release = _Voters(material, material.released, material.rows(material.traces)[2])
        right = _right(secret, material, release, material.original, material.rows(material.traces)[0], targets, rng)
        if not len(right):
            results.append(Inference(secret.name, None, reason="no target has more than one event"))
            continue
        if not len(controls):
            guess = secret.best_guess(material.original)
            results.append(Inference(secret.name, against_guess(float(right.sum()), len(right), guess)))
            continue
        other = _right(secret, material, release, material.control, material.rows(material.traces)[1], controls, rng)
        if not len(other):
            results.append(Inference(secret.name, None, reason="no case of the control has more than one event"))
            continue
        voters = _Voters(material, material.control, material.rows(material.traces)[1])
        without = _right(secret, material, voters, material.original, material.rows(material.traces)[0], targets, rng)
        risk = against_control(float(right.sum()), len(right), float(other.sum()), len(other), measures)
        results.append(Inference(secret.name, risk, float(without.mean())))
    return results


class _Voters:
    """Cases that vote: those of the release, or of the control."""

    def __init__(self, material: Material, log: EventLog, row_of_case: Ints) -> None:
        self.log = log
        weight = np.bincount(row_of_case, minlength=len(material.traces.weight))
        self.rows = np.flatnonzero(weight)
        self.texts = material.texts[self.rows]
        order = np.argsort(row_of_case, kind="stable")
        self._cases = order
        self._ends = np.cumsum(weight)
        self._weight = weight

    def cases(self, places: Ints) -> Ints:
        """Return the cases of chosen rows (places in `rows`), ascending."""
        rows = self.rows[places]
        parts = [self._cases[self._ends[row] - self._weight[row] : self._ends[row]] for row in rows.tolist()]
        return np.sort(np.concatenate(parts))


def _right(
    secret: _Secret,
    material: Material,
    voters: _Voters,
    log: EventLog,
    row_of_case: Ints,
    cases: Ints,
    rng: np.random.Generator,
) -> Any:
    """Return whether each guess was right, bool[targets with a guess]."""
    is_right = secret.guesser(material, voters.log, log)
    known: list[Codes] = []
    hidden: list[int] = []
    chosen: list[int] = []
    for case in cases.tolist():
        trace = material.trace(int(row_of_case[case]))
        if len(trace) < 2:
            continue
        places = rng.permutation(len(trace))[: material.profile.m + 1]
        # The last place drawn is never known: it is the event of a further activity.
        known.append(trace[np.sort(places[:-1])])
        hidden.append(int(trace[places[-1]]))
        chosen.append(case)
    if not chosen:
        return np.zeros(0, dtype=np.bool_)
    shared = cdist([material.text(codes) for codes in known], voters.texts, scorer=LCSseq.similarity, dtype=np.int32)
    right = np.zeros(len(chosen), dtype=np.bool_)
    for number, case in enumerate(chosen):
        near = _nearest(material, voters, shared[number], int(row_of_case[case]))
        right[number] = is_right(_Target(case, known[number], hidden[number]), voters.cases(near))
    return right


def _nearest(material: Material, voters: _Voters, shared: Any, row: int) -> Ints:
    """Return the places of the nearest rows, among those with the known attributes if there are any."""
    alike = material.same_attributes(row, voters.rows)
    if not alike.any():
        alike = np.ones(len(voters.rows), dtype=np.bool_)
    most = shared[alike].max()
    return np.flatnonzero(alike & (shared == most))


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

    def guesser(_: Material, voters: EventLog, truth: EventLog) -> IsRight:
        votes, true = _common_codes(voters.case_values(attribute), truth.case_values(attribute))

        def is_right(target: _Target, voting: Ints) -> bool:
            guess = _most_frequent(votes[voting])
            return guess >= 0 and guess == int(true[target.case])

        return is_right

    def best_guess(original: EventLog) -> float:
        return _share_of_most_frequent(original.case_values(attribute).codes)

    return _Secret(f"value of {attribute}", hindered, guesser, best_guess)


def _further_item(material: Material, voters: EventLog, _: EventLog) -> IsRight:
    """Guess the item of one more event: the item that the voting cases have most often, beside the known ones."""
    view = material.traces
    begins = np.cumsum([0, material.n_original, material.n_control])
    logs = (material.original, material.control, material.released)
    begin = next(begin for log, begin in zip(logs, begins.tolist(), strict=True) if log is voters)
    rows = view.row_of_case[begin : begin + voters.n_cases]
    counts = np.zeros((len(view.weight), len(view.alphabet)), dtype=np.int32)
    np.add.at(counts, (view.row_of_position, view.codes), 1)

    def is_right(target: _Target, voting: Ints) -> bool:
        known = np.bincount(target.known, minlength=len(view.alphabet))
        distinct, cases = np.unique(rows[voting], return_counts=True)
        further = cases @ np.maximum(counts[distinct] - known, 0)
        return bool(further.any()) and int(further.argmax()) == target.hidden

    return is_right


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


def _duration(_: Material, voters: EventLog, truth: EventLog) -> IsRight:
    """Guess the duration: the median of the voting cases."""
    votes, true = _durations(voters), _durations(truth)

    def is_right(target: _Target, voting: Ints) -> bool:
        present = votes[voting][~np.isnan(votes[voting])]
        if not len(present):
            return False
        ratio = float(np.median(present)) / float(true[target.case])
        return 1 / TOLERANCE <= ratio <= TOLERANCE

    return is_right


def _best_duration(original: EventLog) -> float:
    """Return the share of the cases that the best single guess is right for."""
    durations = _durations(original)
    ordered = np.sort(np.log(durations[~np.isnan(durations)]))
    # The best guess covers an interval that begins at the duration of some case.
    covered = np.searchsorted(ordered, ordered + 2 * math.log(TOLERANCE), side="right")
    return float((covered - np.arange(len(ordered))).max() / len(ordered))


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


def _resource(material: Material, voters: EventLog, truth: EventLog) -> IsRight:
    """Guess who did the first known activity: who did it most often in the voting cases."""
    activity, true_activity = _common_codes(voters.activity, truth.activity)
    resource, true_resource = _common_codes(voters.resource, truth.resource)
    code_of = {value: code for code, value in enumerate(voters.activity.values)}

    def is_right(target: _Target, voting: Ints) -> bool:
        item = material.traces.alphabet[int(target.known[0])]
        name = item[0] if isinstance(item, tuple) else item
        asked = code_of.get(name, -1)
        _, events = places_of(voters.starts, voting)
        guess = _most_frequent(resource[events[activity[events] == asked]])
        begin, end = truth.starts[target.case : target.case + 2].tolist()
        done = true_resource[begin:end][true_activity[begin:end] == asked]
        return guess >= 0 and len(done) > 0 and guess == int(done[0])

    return is_right


def _best_resource(original: EventLog) -> float:
    """Return the share of the events whose resource is the most frequent one of their activity."""
    recorded = original.resource.codes >= 0
    pairs = np.stack([original.activity.codes[recorded], original.resource.codes[recorded]])
    (activities, _), counts = np.unique(pairs, axis=1, return_counts=True)
    best = np.zeros(len(original.activity.values), dtype=np.int64)
    np.maximum.at(best, activities, counts)
    return float(best.sum() / original.n_events)


_RESOURCE = _Secret("resource of a known activity", _without_resources, _resource, _best_resource)
