"""Amun: the log release of differentially-private-release-2023, algorithm 1, all steps and three designs. Paper mode.

The guarantee is about one cell, against an adversary who knows everything else (docs/dp.md, docs/limitations.md):

* one noised count of a transition gives a guessing advantage of at most `delta` (proposition A.4; unbounded neighbours:
  one trace more or less). With oversampling this holds on average over the noise only (proposition A.6);
* one noised time gives a guessing advantage of at most `delta` (proposition A.7; bounded neighbours: one time of one
  trace changed).

Not guaranteed: epsilon-DP of a whole release, for any epsilon.

* Requirement R1 releases only variants of the log, so a variant of one person has probability 0 in the neighbouring
  log.
* A person's trace belongs to many cells, and their losses compose.
* The counts of the released log are not the noised ones: whole cases are copied and deleted, chosen in proportion to
  the true counts, until every transition has at least its noise.
* The filter, the priors and the ranges read the data.
* The times of a group with a single value have no noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from models.content_free import content_free
from models.dp.annotation import AnnotatedLog, annotate, sorted_alphabet
from models.dp.guessing import (
    checked_delta,
    epsilon_of_counts,
    epsilon_of_oversampling,
    epsilon_of_times,
    worst_case_advantage,
)
from models.dp.noise import NoiseSource, or_secure
from models.dp.priors import Prior, prior_probabilities
from models.dp.sampling import Sampled, sample_cases
from models.dp.timestamps import case_times, compressed, compression_factor, noise_times, order_of_times
from models.errors import BoundError, InputError, check_choice
from models.eventlog import Column, EventLog, Floats, Ints, places_of, starts_of

Design = Literal["sampling", "filtering", "oversampling"]
"""sampling: copy and delete cases; filtering: the same after risky cases were dropped (the proposal); oversampling:
copies only, so that every variant stays (proposition A.6)."""

Correlation = Literal["independent", "linear"]
"""linear: eps_t is divided by the length of the longest trace (proposition A.7); equation 3 does not."""

Replicas = Literal["maximum", "own"]
"""Copies of a case share its eps_t: it is divided by the largest number of copies of any case (section 3.6, MaxD), or
by the case's own. Cases with one instance keep theirs."""

Compression = Literal["equation-4", "none"]


@dataclass(frozen=True, slots=True)
class AmunSettings:
    """Parameters of a release, checked.

    Attributes
    ----------
    delta : float
        Guessing advantage of one cell, between 0 and 1.
    variant, prior, time_correlation, replicas, compression
        Choices of the design; the types state what each value means.
    releases, cases_per_person : int
        Releases of the same cases, and most cases of one person. Both divide every epsilon (section 3.1).
    """

    delta: float
    variant: Design = "filtering"
    prior: Prior = "closed-window"
    time_correlation: Correlation = "independent"
    replicas: Replicas = "maximum"
    compression: Compression = "equation-4"
    releases: int = 1
    cases_per_person: int = 1

    def __post_init__(self) -> None:
        """Check and convert the parameters; InputError names the parameter that is wrong."""
        checked_delta(self.delta)
        for value, allowed, name in (
            (self.variant, get_args(Design), "variant"),
            (self.prior, get_args(Prior), "prior"),
            (self.time_correlation, get_args(Correlation), "time_correlation"),
            (self.replicas, get_args(Replicas), "replicas"),
            (self.compression, get_args(Compression), "compression"),
        ):
            check_choice(f"{name} =", value, allowed)
        for count, name in ((self.releases, "releases"), (self.cases_per_person, "cases_per_person")):
            if isinstance(count, bool) or not isinstance(count, int) or count < 1:
                raise InputError(f"{name} must be a whole number of at least 1")

    @property
    def epsilon_counts(self) -> float:
        """eps_d of one count cell."""
        total_epsilon = (
            epsilon_of_oversampling(self.delta) if self.variant == "oversampling" else epsilon_of_counts(self.delta)
        )
        return total_epsilon / (self.releases * self.cases_per_person)


@content_free("log", "settings", "private")
@dataclass(frozen=True, slots=True)
class AmunRelease:
    """A released log and what its noise was.

    Attributes
    ----------
    log : EventLog
        Released cases with fresh random ids, no attributes and no resources, in order of time.
    origin : int64[released cases]
        Case of the source log that each one is an instance of (operator only).
    epsilon_counts
        eps_d of each transition.
    epsilon_times : float64[events of the filtered log]
        eps_t before the division by copies.
    private : bool
        False if the noise was seeded.
    operator : mapping
        Measured on raw data, never to be published.
    """

    log: EventLog
    origin: Ints
    settings: AmunSettings
    epsilon_counts: float
    epsilon_times: Floats
    private: bool
    operator: Mapping[str, Any] = field(default_factory=dict)


def release(
    log: EventLog,
    *,
    delta: float,
    variant: Design = "filtering",
    prior: Prior = "closed-window",
    time_correlation: Correlation = "independent",
    replicas: Replicas = "maximum",
    compression: Compression = "equation-4",
    releases: int = 1,
    cases_per_person: int = 1,
    draw: NoiseSource | None = None,
) -> AmunRelease:
    """Release a log at a guessing advantage for each cell; the module's docstring states what is covered.

    Parameters
    ----------
    log
        The true cases.
    delta, variant, prior, time_correlation, replicas, compression, releases, cases_per_person
        As in `AmunSettings`.
    draw
        Source of the noise; the cryptographic one if not given.

    Raises
    ------
    InputError
        If a parameter is out of its range, or the log has no event.
    BoundError
        If the filter would leave no case.
    """
    settings = AmunSettings(delta, variant, prior, time_correlation, replicas, compression, releases, cases_per_person)
    if log.n_events == 0:
        raise InputError("the log has no events, there is nothing to release")
    return _release(log, settings, or_secure(draw))


def _release(log: EventLog, settings: AmunSettings, draw: NoiseSource) -> AmunRelease:
    nonempty = np.flatnonzero(log.lengths > 0)
    bare = replace(log, event_attributes={}, case_attributes={})  # no attribute is released
    if len(nonempty) < log.n_cases:
        bare = bare.select_cases(nonempty)
    annotated, kept = filtered(annotate(bare), settings)
    epsilon = event_epsilons(annotated, settings)
    needed = _needed(annotated, settings, draw)
    sampled = sample_cases(annotated.dafsa, annotated.variant_of_case, needed, draw)
    if not sampled.copies.any():
        raise BoundError(f"the noise deleted all {len(sampled.copies)} cases, nothing is left to release; raise delta")
    instances = np.repeat(np.arange(annotated.log.n_cases, dtype=np.int64), sampled.copies)
    _, events = places_of(annotated.log.starts, instances)
    shared = epsilon / _shares(sampled.copies, settings)[annotated.log.case_of_event]
    noisy_times, silent = noise_times(annotated.group, annotated.relative, shared, events, draw)
    released, order = _assemble(annotated, instances, noisy_times, settings, draw)
    return AmunRelease(
        log=released,
        origin=nonempty[np.flatnonzero(kept)][instances[order]],
        settings=settings,
        epsilon_counts=settings.epsilon_counts,
        epsilon_times=epsilon,
        private=draw.private,
        operator=_findings(annotated, kept, sampled, epsilon, silent, settings),
    )


def filtered(annotated: AnnotatedLog, settings: AmunSettings) -> tuple[AnnotatedLog, npt.NDArray[np.bool_]]:
    """Filter cases (definition 3.7), and return the mask of those that stay.

    All cases stay if the design has no filter.

    Parameters
    ----------
    annotated
        The log with its automaton.
    settings
        The design, delta and the prior.

    Returns
    -------
    annotated
        The log without the dropped cases, on the same automaton.
    kept
        bool[C].

    Raises
    ------
    BoundError
        If no case would stay. The filter reads the data, and nothing of it is published.
    """
    kept = np.ones(annotated.log.n_cases, dtype=np.bool_)
    if settings.variant != "filtering":
        return annotated, kept
    risky = prior_probabilities(annotated, settings.delta, settings.prior) + settings.delta >= 1.0
    kept[annotated.log.case_of_event[risky]] = False
    if not kept.any():
        raise BoundError(
            f"at delta = {settings.delta:g} the filter would drop all {len(kept)} cases (each has an event with "
            "P_k + delta >= 1); lower delta, or use --variant sampling"
        )
    return annotated.select(kept), kept


def event_epsilons(annotated: AnnotatedLog, settings: AmunSettings) -> Floats:
    """Return eps_t of each event by equation 3, float64[E].

    Proposition A.7 divides it further if times are linearly correlated.

    Parameters
    ----------
    annotated
        The log with its automaton.
    settings
        Delta, the prior, and the number of releases and of cases of a person, which divide the epsilon.
    """
    priors = prior_probabilities(annotated, settings.delta, settings.prior)
    divisor = settings.releases * settings.cases_per_person
    if settings.time_correlation == "linear":
        divisor *= int(annotated.log.lengths.max())
    return epsilon_of_times(priors, settings.delta) / divisor


def _needed(annotated: AnnotatedLog, settings: AmunSettings, draw: NoiseSource) -> Ints:
    """Noise of each transition of the contingency table (definition 3.11), int64[T]; |z| where oversampling."""
    scale = math.nextafter(1.0 / settings.epsilon_counts, math.inf)
    noise = draw.laplace(scale, annotated.dafsa.n_transitions)
    return np.abs(noise) if settings.variant == "oversampling" else noise


def _shares(copies: Ints, settings: AmunSettings) -> Ints:
    """By how much the eps_t of each case is divided, int64[C]."""
    share = np.maximum(copies, 1)
    if settings.replicas == "maximum":
        share = np.where(share > 1, share.max(), 1)
    return share


def _assemble(
    annotated: AnnotatedLog, instances: Ints, relative: Ints, settings: AmunSettings, draw: NoiseSource
) -> tuple[EventLog, Ints]:
    """Return the released log, its cases by released start (ties at random), and that order of the instances."""
    lengths = annotated.log.lengths[instances]
    starts = starts_of(lengths)
    if settings.compression == "equation-4":
        first_times = annotated.relative[annotated.first]
        factor = compression_factor(_extent(first_times), _extent(relative[starts[:-1]]))
        relative = compressed(relative, factor)
    starting = relative[starts[:-1]]
    shuffled = draw.permutation(len(instances))  # so that ties of time keep no order of the source
    order = shuffled[np.argsort(starting[shuffled], kind="stable")]
    times = case_times(starts, order, relative, annotated.origin_ms)
    labels, rank = sorted_alphabet(annotated.log.activity.values)
    _, events = places_of(annotated.log.starts, instances[order])
    codes = rank[annotated.log.activity.codes[events]]
    row = np.empty(len(times), dtype=np.int64)
    row[order_of_times(times)] = np.arange(len(times))
    released = EventLog(
        case_ids=draw.identifiers(len(instances)),
        starts=starts_of(lengths[order]),
        activity=Column(codes, labels).take(slice(None)),  # without the labels that no released event has
        time=times,
        resource=Column(np.full(len(times), -1, dtype=np.int32), ()),
        row=row,
    )
    return released, order


def _extent(values: Ints) -> int:
    return int(values.max() - values.min())


def _findings(
    annotated: AnnotatedLog,
    kept: npt.NDArray[np.bool_],
    sampled: Sampled,
    epsilon: Floats,
    silent: npt.NDArray[np.bool_],
    settings: AmunSettings,
) -> dict[str, Any]:
    """Read off raw data: for the operator only."""
    per_case = np.add.reduceat(epsilon, annotated.log.starts[:-1])
    before = np.bincount(annotated.variant_of_case, minlength=len(annotated.variants))
    after = np.bincount(annotated.variant_of_case, weights=sampled.copies, minlength=len(annotated.variants))
    total = float(annotated.log.lengths.max()) * settings.epsilon_counts + float(per_case.max())
    return {
        "cases": len(kept),
        "cases_filtered": int((~kept).sum()),
        "cases_deleted": int((sampled.copies == 0).sum()),
        "cases_copied": int((sampled.copies > 1).sum()),
        "variants_lost": int((after == 0).sum()),
        "singletons_released": int(((before == 1) & (after > 0)).sum()),
        "largest_number_of_copies": int(sampled.copies.max()),
        "events_without_time_noise": int(silent.sum()),
        "events_released": len(silent),
        "dafsa": {"states": annotated.dafsa.n_states, "transitions": annotated.dafsa.n_transitions},
        "mean_epsilon_times": float(epsilon.mean()),
        "epsilon_total_if_variants_were_public": total,
        "advantage_if_variants_were_public": worst_case_advantage(total),
    }
