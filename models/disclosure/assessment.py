"""All attacks on a release, by profile: the assessment that an officer reads.

A lower bound above 0 means that the release reveals something about the people in it. The opposite is never shown: no
attack that failed proves that another would fail too, so the result names the least leak that it would have seen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from models.anonymize.view import TraceView
from models.content_free import content_free
from models.disclosure.inference import inference
from models.disclosure.intervals import AttackRisk, BothWays, area_under_curve, crossed, crossed_area, targets_needed
from models.disclosure.linkability import linkability
from models.disclosure.material import Material, Profile, drawn
from models.disclosure.membership import LIKELIHOOD, CountNoise, TraceModel, membership
from models.disclosure.reconstruction import reconstruction
from models.disclosure.singling_out import singling_out
from models.errors import InputError
from models.eventlog import EventLog, Ints
from models.knowledge import NANOSECONDS, Knowledge, Unit, relative_times
from models.utility.graphs import ordinal

ATTACKS = ("singling out", "linkability", "inference", "membership", "reconstruction")

HALF_WIDTH = 0.03
"""Half-width of the interval of a rate near .5 that decides how many targets are drawn, unless they are given."""

_MEASURES = 15
"""Largest number of measures of a profile, plus one for each sensitive attribute."""

WITH_HOURS = "known items and hours"
"""Name of the predicates that have the hours since the start of the case."""

WITH_TIMES = " with times"
"""End of the names of traces and pieces that have their times."""

BLIND = 0.5
"""A measure that would not have seen a leak of half of the targets could not have seen it."""


@content_free("attack", "how")
@dataclass(frozen=True, slots=True)
class Measure:
    """One attack of one profile.

    Parameters
    ----------
    attack
        One of `ATTACKS`.
    how
        The way of that attack.
    risk
        Result; None if the attack could not be run, for `reason`.
    details
        Further figures of the attack, under their public names.
    """

    attack: str
    how: str
    risk: AttackRisk | None
    reason: str = ""
    details: Mapping[str, Any] | None = None

    @property
    def result(self) -> str:
        """Result in a word or two. None of them is "safe"."""
        if self.risk is None:
            return "not run"
        if self.risk.clear:
            return "seen"
        if self.risk.control is None:
            return "rate alone"
        if not self.risk.control_targets:
            return "above the guess" if (self.risk.low or 0.0) > 0 else "not above the guess"
        if self.risk.power is None or self.risk.power > BLIND:
            return "could not see"
        return "not seen"

    def sentence(self) -> str:
        """Return the result in words."""
        power = 0.0 if self.risk is None else self.risk.power or 0.0
        # Rounded up: a leak of the printed size would have been seen.
        seen_from = math.ceil(1000 * power) / 1000
        return {
            "not run": f"not run: {self.reason}",
            "seen": "seen: the release gives away people who are in it",
            "rate alone": "a rate alone: without a control nobody knows how much of it the release gave away",
            "above the guess": "above the best guess without the release: only a control shows how much is a leak",
            "not above the guess": "not above the best guess without the release",
            "could not see": "this test could not have seen it: it might have missed a leak of half of the targets",
            "not seen": f"not seen; a leak of {seen_from:.1%} would have been, in 95 of 100 runs",
        }[self.result]

    def json(self) -> dict[str, Any]:
        """Return the measure under its public names."""
        body: dict[str, Any] = {"attack": self.attack, "how": self.how}
        if self.risk is not None:
            body |= dict(self.risk.json())
            body["seen"] = self.risk.clear
        return body | dict(self.details or {}) | {"result": self.result, "sentence": self.sentence()}


@dataclass(frozen=True, slots=True)
class ProfileResult:
    """All attacks of one attacker.

    Attributes
    ----------
    profile
        Knowledge of the attacker.
    measures
        Results of its attacks.
    """

    profile: Profile
    measures: tuple[Measure, ...]

    @property
    def seen(self) -> tuple[Measure, ...]:
        """Measures that saw a leak."""
        return tuple(measure for measure in self.measures if measure.risk is not None and measure.risk.clear)

    def json(self) -> dict[str, Any]:
        """Return the result under its public names."""
        return {
            "profile": self.profile.name,
            "m": self.profile.m,
            "knowledge": asdict(self.profile.knowledge),
            "attributes": list(self.profile.attributes),
            "start": self.profile.start,
            "knows": self.profile.sentence(),
            "measures": [measure.json() for measure in self.measures],
        }


@dataclass(frozen=True, slots=True)
class Assessment:
    """Result of all profiles on one release, or on several that are put together.

    Parameters
    ----------
    original_cases, control_cases, released_cases
        Sizes; `control_cases` is 0 without a control.
    results
        One for each attacker.
    drift
        Area under the curve by which original and control can be distinguished without any release; None without a
        control of four cases.
    seed
        Seed of the draws.
    both_ways
        Random divisions of a log whose halves were released and were the control of each other (`assess_twice`); 0 if
        the release was given.
    """

    original_cases: int
    control_cases: int
    released_cases: int
    results: tuple[ProfileResult, ...]
    drift: AttackRisk | None
    seed: int
    both_ways: int = 0

    def json(self) -> dict[str, Any]:
        """Return the assessment under its public names."""
        return {
            "original_cases": self.original_cases,
            "control_cases": self.control_cases,
            "released_cases": self.released_cases,
            "control": "cases that did not enter the release" if self.control_cases else "best guess only",
            "drift": None if self.drift is None else dict(self.drift.json()),
            "seed": self.seed,
            "both_ways": self.both_ways,
            "profiles": [result.json() for result in self.results],
        }


@content_free("profiles", "sensitive", "targets", "seed", "noise", "assessments")
@dataclass(frozen=True)
class Attackers:
    """The attackers, and the number of cases that they attack.

    Parameters
    ----------
    profiles
        Knowledge of each attacker.
    sensitive
        Case attributes that are guessed.
    targets
        Cases that are attacked, at most all; None: as many as a rate near one half needs for an interval of
        `half_width` to each side.
    half_width
        Largest distance of a rate from each end of its interval, for the number of `targets`.
    seed
        Seed of targets and ties.
    noise
        Design of noisy counts of variants, if the release has such counts and an attacker can know it.
    assessments
        Assessments that are read together: no leak may be called seen only because there are many measures.
    """

    profiles: Sequence[Profile]
    sensitive: Sequence[str] = ()
    targets: int | None = None
    half_width: float = HALF_WIDTH
    seed: int = 0
    noise: CountNoise | None = None
    assessments: int = 1

    def __post_init__(self) -> None:
        """Check the width."""
        if not 0 < self.half_width < 0.5:
            raise InputError(f"half-width {self.half_width}: give one between 0 and .5, such as .03")

    @property
    def n_targets(self) -> int:
        """Number of attacked cases, at most all."""
        return self.targets if self.targets is not None else targets_needed(self.half_width)

    @property
    def measures(self) -> int:
        """Measures of all assessments, at most, for a level that holds for all of them together."""
        return self.assessments * len(self.profiles) * (_MEASURES + len(self.sensitive))


def assess(
    original: EventLog,
    released: EventLog,
    control: EventLog | None,
    attackers: Attackers,
    *,
    chosen: tuple[Ints, Ints] | None = None,
    on_step: Callable[[str], None] = lambda _: None,
) -> Assessment:
    """Run all attacks of some attackers on a release.

    Parameters
    ----------
    original
        The log that the release was made from.
    released
        The release; several are put together by `models.disclosure.material.pooled`.
    control
        Cases of the same process that did not enter the release. None: only the best guess without the release is
        compared with, and membership is not attacked.
    attackers
        The attackers. One who knows times uses only the order if the release shows no times: times that are compared
        with places of events would match no case, whatever is released.
    chosen
        Attacked cases of the original and of the control, as indices; None: drawn at random.
    on_step
        Called with the name of each attack before it runs.

    Raises
    ------
    InputError
        Logs without events or without a common activity, or cases that are in both original and control.

    References
    ----------
    Article 29 Working Party, Opinion 05/2014; Giomi et al., A Unified Framework for Quantifying Privacy Risk in
    Synthetic Data (Anonymeter), PoPETs 2023.
    """
    if control is not None:
        _refuse_shared_cases(original, control)
    n_control = 0 if control is None else control.n_cases
    if chosen is None:
        rng = np.random.default_rng([attackers.seed, len(ATTACKS)])
        targets = drawn(original.n_cases, attackers.n_targets, rng)
        chosen = (targets, drawn(n_control, attackers.n_targets, rng))
    results = []
    for declared in attackers.profiles:
        profile = declared.without_times() if ordinal(released) else declared
        material = Material.of(original, control, released, profile)
        results.append(ProfileResult(profile, tuple(_attacks(material, attackers, chosen, on_step))))
    drift = None if control is None else _drift(original, control, attackers.seed)
    return Assessment(original.n_cases, n_control, released.n_cases, tuple(results), drift, attackers.seed)


@content_free()
@dataclass(frozen=True)
class HalvedLog:
    """A random division of a log into two halves, each with a release of its own.

    Parameters
    ----------
    cases
        int64[C / 2] each, numbers of the cases of either half.
    halves, releases
        The halves, and what was released of each.
    """

    cases: tuple[Ints, Ints]
    halves: tuple[EventLog, EventLog]
    releases: tuple[EventLog, EventLog]


def assess_twice(
    divisions: Sequence[HalvedLog], attackers: Attackers, *, on_step: Callable[[str], None] = lambda _: None
) -> Assessment:
    """Assess a mechanism: each half of a log was released on its own, and is the control of the other half's release.

    Each case is attacked twice in a division, as one within a release and as one outside of the other. Its own
    difficulty is the same in both, so the risk is known better than from different cases
    (`models.disclosure.intervals.crossed`).

    Parameters
    ----------
    divisions
        Random divisions of one log, at least one.
    attackers, on_step
        As for `assess`.

    Raises
    ------
    InputError
        As `assess`.
    """
    runs = []
    for number, division in enumerate(divisions):
        (half, other), (release, other_release) = division.halves, division.releases
        rng = np.random.default_rng([attackers.seed, len(ATTACKS), number])
        targets = drawn(half.n_cases, attackers.n_targets, rng)
        other_targets = drawn(other.n_cases, attackers.n_targets, rng)
        first = assess(half, release, other, attackers, chosen=(targets, other_targets), on_step=on_step)
        second = assess(other, other_release, half, attackers, chosen=(other_targets, targets), on_step=on_step)
        runs.append((first, second))
    first, second = runs[0]
    results = []
    for place, result in enumerate(first.results):
        measures = []
        for row, measure in enumerate(result.measures):
            both = [tuple(run.results[place].measures[row] for run in pair) for pair in runs]
            cases = [division.cases for division in divisions]
            measures.append(_both_ways(measure, both, cases, attackers.measures))
        results.append(ProfileResult(result.profile, tuple(measures)))
    n_cases = first.original_cases + second.original_cases
    released = first.released_cases + second.released_cases
    return Assessment(n_cases, n_cases, released, tuple(results), first.drift, attackers.seed, both_ways=len(divisions))


def _both_ways(
    measure: Measure,
    runs: Sequence[tuple[Measure, ...]],
    cases: Sequence[tuple[Ints, Ints]],
    measures: int,
) -> Measure:
    """Put the same measure of several runs together, in which original and control changed places."""
    divisions = []
    for pair, numbers in zip(runs, cases, strict=True):
        for run in pair:
            if (run.attack, run.how) != (measure.attack, measure.how):
                raise InputError("the halves of the log carry different attributes: assess a release of all cases")
            if run.risk is None:
                return run
        first, second = (run.risk for run in pair if run.risk is not None)
        divisions.append(BothWays((first, second), numbers))
    put_together = crossed_area if measure.attack == "membership" else crossed
    risk = put_together(divisions, measures)
    # Further figures are those of the first division. Each division has all cases, so counts of several would be twice.
    other_details = runs[0][1].details or {}
    details = {}
    for name, value in (measure.details or {}).items():
        details[name] = _detail_of_both(name, value, other_details[name])
    reason = "" if risk is not None else "fewer than two cases were attacked both ways"
    return Measure(measure.attack, measure.how, risk, reason, details)


def _detail_of_both(name: str, first: Any, second: Any) -> Any:
    """Return a further figure of both halves: counts add up, the longest stays, and rates have a mean."""
    if first is None or second is None:
        return None
    if name == "longest":
        return max(first, second)
    return (first + second) / 2 if isinstance(first, float) else first + second


def _refuse_shared_cases(original: EventLog, control: EventLog) -> None:
    if not control.n_events:
        raise InputError("the control has no event; leave it out, or give cases that did not enter the release")
    shared = set(original.case_ids) & set(control.case_ids)
    if shared:
        raise InputError(
            f"{len(shared)} cases are in the original and in the control, e.g. {min(shared)!r}: the control must hold "
            "cases that did not enter the release"
        )


Outcome = tuple[str, AttackRisk | None, str, Mapping[str, Any] | None]
"""One way to carry out an attack, its risk, why there is none, and further figures."""


def _attacks(
    material: Material, attackers: Attackers, chosen: tuple[Ints, Ints], on_step: Callable[[str], None]
) -> Iterator[Measure]:
    runs = (_singling_out, _linkability, _inference, _membership, _reconstruction)
    for number, (attack, measured) in enumerate(zip(ATTACKS, runs, strict=True)):
        on_step(f"{material.profile.name}: {attack}")
        # Each attack has draws of its own, so that one more attack changes no other.
        rng = np.random.default_rng([attackers.seed, number])
        for how, risk, reason, details in measured(material, attackers, chosen, rng):
            yield Measure(attack, how, risk, reason, details)


def _singling_out(
    material: Material, attackers: Attackers, _: tuple[Ints, Ints], rng: np.random.Generator
) -> Iterator[Outcome]:
    for kind, seen_material in _predicates(material).items():
        singled_out = singling_out(seen_material, attackers.n_targets, attackers.measures, rng)
        reason = ""
        if singled_out.risk is None:
            written = f"none of {singled_out.written} predicates is rare enough"
            reason = f"{written}: each would fit a tenth of a case by chance"
        yield kind, singled_out.risk, reason, {"written": singled_out.written}
    no_times = _without_times(material)
    if no_times and material.profile.knowledge.structure != "rel":
        yield WITH_HOURS, None, no_times, None


def _linkability(
    material: Material, attackers: Attackers, chosen: tuple[Ints, Ints], _: np.random.Generator
) -> Iterator[Outcome]:
    for views, risk in linkability(material, *chosen, attackers.measures).items():
        yield views, risk, "" if risk else "no case has two items, one for each view", None


def _inference(
    material: Material, attackers: Attackers, chosen: tuple[Ints, Ints], rng: np.random.Generator
) -> Iterator[Outcome]:
    for guess in inference(material, *chosen, attackers.sensitive, attackers.measures, rng):
        yield guess.secret, guess.risk, guess.reason, {"without_release": guess.without_release}


def _membership(
    material: Material, attackers: Attackers, chosen: tuple[Ints, Ints], rng: np.random.Generator
) -> Iterator[Outcome]:
    by_score = membership(material, *chosen, attackers.measures, rng, attackers.noise)
    if not by_score:
        yield "scores", None, "it needs two targets, and a control of four cases that did not enter", None
    for score, result in by_score.items():
        rates = {f"true_positives_at_{share:g}": rate for share, rate in result.true_positives.items()}
        knowledge = "all other cases" if score == LIKELIHOOD else "whole case"
        yield f"{knowledge}, {score}", result.risk, "", rates


def _reconstruction(
    material: Material, attackers: Attackers, _: tuple[Ints, Ints], rng: np.random.Generator
) -> Iterator[Outcome]:
    for suffix, view in _reconstructed_views(material).items():
        pieces = reconstruction(material, view, attackers.measures, rng)
        counts = {"shown_traces": pieces.shown_traces, "shown_unique_traces": pieces.shown_unique_traces}
        yield f"traces of one case{suffix}", pieces.traces, "", counts
        yield f"pieces of one case{suffix}", pieces.pieces, "", {"longest": pieces.longest}
    no_times = _without_times(material)
    if no_times:
        yield f"traces of one case{WITH_TIMES}", None, no_times, None


def _without_times(material: Material) -> str:
    """Return why no times are compared; empty if they are."""
    for log, name in ((material.released, "release"), (material.original, "original")):
        if ordinal(log):
            return f"the {name} carries no times: without them a leak of whole cases is missed more often"
    return ""


def _reconstructed_views(material: Material) -> dict[str, TraceView]:
    """Return the traces that are looked for: activities, and activities with their times if the release shows any."""
    views = {"": material.steps}
    if not _without_times(material):
        timed = Profile(material.profile.m, Knowledge("rel", T=_shown_unit(material.released)))
        control = material.control if material.n_control else None
        views[WITH_TIMES] = Material.of(material.original, control, material.released, timed).traces
    return views


def _shown_unit(released: EventLog) -> Unit:
    """Return the unit in which a release shows the time since the start of a case: the longest without a remainder."""
    seconds = relative_times(released, "seconds")
    shown: Unit = "seconds"
    for unit, nanoseconds in NANOSECONDS.items():
        if not (seconds % (nanoseconds // NANOSECONDS["seconds"])).any():
            shown = unit  # type: ignore[assignment] # a key of NANOSECONDS
    return shown


def _predicates(material: Material) -> dict[str, Material]:
    """Return the items of predicates: those of the profile, and with their times if the release shows any."""
    kinds = {"known items": material}
    knowledge = material.profile.knowledge
    if knowledge.structure != "rel" and not _without_times(material):
        timed = replace(material.profile, knowledge=replace(knowledge, structure="rel", T="hours"))
        control = material.control if material.n_control else None
        kinds[WITH_HOURS] = Material.of(material.original, control, material.released, timed)
    return kinds


def _drift(original: EventLog, control: EventLog, seed: int) -> AttackRisk | None:
    """Measure how well original and control can be distinguished without any release.

    Half of either log gives a model of traces, the other halves are scored by the difference of their log densities.
    An area near .5 means that they are alike. Another value means that the process drifted between them, or that the
    control is of another process: attacks then see what is not a leak.
    """
    if min(original.n_cases, control.n_cases) < 4:
        return None
    rng = np.random.default_rng([seed, len(ATTACKS) + 1])
    material = Material.of(original, control, original, Profile(1))
    halves = [rng.permutation(log.n_cases) for log in (original, control)]
    rows = material.rows(material.steps)[:2]
    models, scored = [], []
    for row_of_case, order in zip(rows, halves, strict=True):
        half = len(order) // 2
        weight = np.bincount(row_of_case[order[:half]], minlength=len(material.steps.weight))
        models.append(TraceModel(material.steps, weight))
        scored.append(row_of_case[order[half:]])
    of_original, of_control = models
    scores = []
    for rows_of_half in scored:
        ratios = [of_original.log_density(row) - of_control.log_density(row) for row in rows_of_half.tolist()]
        scores.append(np.asarray(ratios))
    return area_under_curve(scores[0], scores[1], 1)
