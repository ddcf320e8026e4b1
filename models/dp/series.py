"""Releases of disjoint cases, each with an accumulated log: noisy counts drawn once and added over all releases.

Unit: one person with at most c cases in all releases together (`models.dp.accumulation` states how counts are kept).

`release_variants` makes two logs:

* the release has the variants of its cases whose noisy count reaches a threshold;
* the accumulated log has the variants whose noisy count over all releases so far reaches another threshold. A variant
  that is too rare for every single release is shown once enough releases had it.

With L levels each noisy count costs epsilon / L, and a case enters one count of each level, so both logs together cost
epsilon. The thresholds share delta: half is for the releases, half for the accumulated logs (`delta_of`).

Not guaranteed: anything beyond a single release. The operator's state holds the variants of all cases so far, and true
counts of open nodes, so it is as secret as the source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from models.content_free import content_free
from models.dp.accumulation import Counts, Shape, delta_of, threshold
from models.dp.counts import NoisyCounts
from models.dp.noise import NoiseSource, or_secure, scale_for
from models.dp.strict import MAX_EVENTS, StrictRelease, Terms, assembled, coverage, least_count, ordinal_rows
from models.errors import BoundError, InputError
from models.eventlog import EventLog, Ints, SimpleLog


@content_free("release", "log")
@dataclass(frozen=True, slots=True)
class Accumulated:
    """A release, and the log over everything so far.

    Attributes
    ----------
    log : EventLog or None
        The log over everything so far; None if there is none, and `public` then gives the reason.
    state
        The state that the next release continues from; for the operator alone.
    public
        The part of the manifest, which is not read off the data.
    """

    release: StrictRelease
    log: EventLog | None
    state: Mapping[str, Any]
    public: Mapping[str, Any]


def check_variants(terms: Terms, shape: Shape) -> None:
    """Refuse a series whose variants could not be drawn.

    Parameters
    ----------
    terms
        The promise, and the most cases of one person.
    shape
        How releases share their noise.

    Raises
    ------
    InputError
        If a release, or the first accumulated log, could not be drawn.
    """
    if shape.factorized:
        raise InputError("variants are found in the data, so they cannot share correlated noise: use dp-synthetic")
    least_count(terms.epsilon / shape.levels, terms.delta_dp / 2, terms.cases_per_person)


def release_variants(
    log: EventLog,
    *,
    terms: Terms,
    shape: Shape,
    number: int,
    state: Mapping[str, Any] | None = None,
    draw: NoiseSource | None = None,
) -> Accumulated:
    """Release dp-variants of the cases of one release, and of all cases so far.

    Parameters
    ----------
    log
        The cases that belong to this release alone.
    terms
        Privacy of the whole series.
    shape
        How the counts of the releases add up.
    number
        Number of the release.
    state
        State that the release before left; None for the first one.
    draw
        Source of the noise; the cryptographic one if not given.

    Raises
    ------
    BoundError
        If the noisy counts add up to more events than a release may have.
    """
    draw = or_secure(draw)
    person = terms.cases_per_person
    least = least_count(terms.epsilon / shape.levels, terms.delta_dp / 2, person)
    kept = _Variants.continued_from(state, shape, scale_for(person * shape.levels, terms.epsilon), number)
    true = kept.counted(log, draw)
    noisy_counts = kept.counts.add(number, true, draw)
    shown = np.flatnonzero((true > 0) & (noisy_counts >= least))
    if _events(kept.variants, shown, noisy_counts) > MAX_EVENTS:
        raise BoundError("the noisy counts add up to too many events: raise epsilon or lower delta_dp")
    release = StrictRelease(
        kept.log(shown, noisy_counts, draw),
        terms,
        least,
        draw.private,
        coverage(true, NoisyCounts(shown, noisy_counts[shown], least)),
    )
    accumulated, public = kept.accumulated(terms, shape, draw)
    return Accumulated(release, accumulated, kept.state(), public)


@content_free()
@dataclass(slots=True)
class _Variants:
    """Variants by their labels, places in `alphabet`, in the order in which they were found, and their counts."""

    alphabet: list[str]
    variants: list[tuple[int, ...]]
    counts: Counts

    @classmethod
    def continued_from(
        cls,
        state: Mapping[str, Any] | None,
        shape: Shape,
        scale: float,
        number: int,
    ) -> _Variants:
        """Return the counts that an earlier release left.

        New counts begin without a state, and after one of another shape or of other noise.
        """
        if state is not None:
            variants = [tuple(variant) for variant in state["variants"]]
            counts = Counts.from_state(state["counts"], variants, shape, scale)
            if counts is not None:
                return cls(list(state["alphabet"]), variants, counts)
        return cls([], [], Counts.begin(shape, scale, number))

    def counted(self, log: EventLog, draw: NoiseSource) -> Ints:
        """Return true counts of the log by variant; variants that are new here are added."""
        simple = SimpleLog.from_log(log)
        place = {label: code for code, label in enumerate(self.alphabet)}
        for label in map(str, simple.alphabet):
            place.setdefault(label, len(place))
        self.alphabet = list(place)
        codes = [place[str(label)] for label in simple.alphabet]
        variants_of_log = [tuple(codes[label] for label in variant) for variant in simple.variants]
        code_of_variant = {variant: code for code, variant in enumerate(self.variants)}
        fresh = [variant for variant in variants_of_log if variant not in code_of_variant]
        self.counts.extend(fresh, draw, backlog=True)
        self.variants = self.counts.keys
        code_of_variant = {variant: code for code, variant in enumerate(self.variants)}
        true = np.zeros(len(self.variants), dtype=np.int64)
        rows = np.asarray([code_of_variant[variant] for variant in variants_of_log], dtype=np.int64)
        np.add.at(true, rows[simple.variant], simple.count)
        return true

    def log(self, shown: Ints, counts: Ints, draw: NoiseSource) -> EventLog:
        """Return the variants `shown` with these counts, without times."""
        chosen = [self.variants[place] for place in shown.tolist()]
        rows = ordinal_rows(zip(chosen, counts[shown].tolist(), strict=True))
        return assembled(self.alphabet, chosen, rows, draw)

    def accumulated(
        self,
        terms: Terms,
        shape: Shape,
        draw: NoiseSource,
    ) -> tuple[EventLog | None, dict[str, Any]]:
        """Return the log over all releases so far, and its part of the manifest."""
        counts, total = self.counts, self.counts.total
        draws = sum(counts.nodes)
        section = counts.section()
        delta = delta_of(counts.last, terms.delta_dp / 2, shape.horizon)
        if not delta:
            return None, {**section, "status": "ended: the horizon is over, and with it the delta of accumulated logs"}
        least = threshold(counts.scale, draws, delta, terms.cases_per_person)
        shown = np.flatnonzero(total >= least)
        if _events(self.variants, shown, total) > MAX_EVENTS:
            return None, {**section, "status": "too large"}
        return self.log(shown, total, draw), {**section, "status": "ok", "threshold": least}

    def state(self) -> dict[str, Any]:
        """Return the state for JSON."""
        return {
            "alphabet": self.alphabet,
            "variants": [list(v) for v in self.variants],
            "counts": self.counts.to_state(),
        }


def _events(variants: list[tuple[int, ...]], shown: Ints, counts: Ints) -> int:
    return sum(len(variants[place]) * int(counts[place]) for place in shown.tolist())
