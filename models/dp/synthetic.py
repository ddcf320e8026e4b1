"""dp-synthetic: a log drawn from noisy models, (epsilon, delta_dp)-differentially private as a whole release.

Unit: one person, with at most c = `cases_per_person` cases. Neighbours: logs with and without that person's cases
(unbounded). Adversary: knows all other cases, the code and the parameters, and has any computing power.

Stages, each with its share of epsilon; a later one may use what an earlier one gave (adaptive composition).

0. Labels, unless `activities` declares them (`synthesis.labels`). Events of other labels are dropped, or get the
   declared label `other`, case by case.
1. Frequent variants: noisy counts above a threshold (`models.dp.zcdp.Gaussian`). Below an epsilon of `SMALL` a noisy
   preview of stage 2 decides whether they are counted; if not, stage 2 has their part.
2. Context model of the cases whose variant stage 1 did not give (`synthesis.contexts`, with `root_weights`); noise
   that does not fit is taken out of its first level (`synthesis.flows`).
3. Re-weighting: how many cases are nearest to each of stage 1's variants, of the declared candidates, and of traces
   that represent a large sample of the model (`synthesis.candidates`). These counts are spread over drawn traces near
   them (`synthesis.spreading`) and fitted to the counts of stage 2 too (`synthesis.fitting`): the release.
4. Times, where bounds are declared: noisy histograms (`synthesis.times`), from which times of the released traces are
   drawn (`synthesis.drawn_times`).

Stages 0, 1, 2 and 4 draw Gaussian noise. Their part of epsilon together is one rho (`models.dp.zcdp.rho_of`), which
they divide as their shares. Stage 3 is (epsilon_i, 0)-DP. Added up, all this is more than (epsilon, delta_dp)-DP
requires: the privacy losses of all stages are composed exactly (`models.dp.privacy_loss`), and every stage draws less
noise by one factor, the `gain`, the largest with which the whole is (epsilon, d)-DP. Each threshold of labels and of
variants has a part t of delta_dp (`THRESHOLD_SHARE`): with chance at most t one of its new labels or variants is
released, and otherwise the composition holds. d is the remainder of delta_dp, so the release is (epsilon, delta_dp)-DP.

**A series in which each case is in one release** costs what one release costs. Let a person have k of c cases in a
release:

* a Gaussian stage of distance m moves by at most m k / c, and the squares over all releases add up to at most m^2;
* a pure stage is (epsilon_i k / c)-DP in that release, and these parts compose to at most epsilon_i (one randomized
  response of a sum dominates the randomized responses of its terms);
* a threshold fails with chance at most t k / c (`models.dp.zcdp.threshold`), and at most t in all.

So the pair that dominates one release dominates the series, as long as gain, rho, d and t are the same in all releases.
A release that counts no variants has a pair of no larger distance (`StageBudget.without_variants`).
Only one release selects labels. In later ones stages 1 and 2 divide the rho of stage 0, and the threshold of variants
has its delta (`StageBudget.after_labels`). Both kinds of release use the smaller one of their two gains.

Not guaranteed: that a released case is the case of a person; its variant may be one that nobody had. Declared
labels, bounds, candidates, shares and all other parameters count as public; chosen by looking at the data they void
the promise.

Plan of the file: `Shares` divides epsilon, `Design` holds the public parameters, `StageBudget` gives each
stage its noise. `release_synthetic` calls the stages in their order; each stage is a function below it, and
states its number.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from models.content_free import content_free
from models.dp.budget import Draw, exact
from models.dp.noise import NoiseSource, checked_scale, or_secure, scale_for
from models.dp.privacy_loss import Composition, gaussian_distance
from models.dp.strict import MAX_EVENTS, MAX_THRESHOLD, StrictRelease, Terms, assembled, ordinal_rows
from models.dp.synthesis import candidates, contexts, drawn_times, times
from models.dp.synthesis.drawn_times import TimedTraces
from models.dp.synthesis.fitting import FAITH, fit, fitted, follows, nearby
from models.dp.synthesis.flows import thinned, thinned_by_labels
from models.dp.synthesis.labels import LabelRule
from models.dp.synthesis.spreading import POOL, Spread, affordable_pool, pool_size
from models.dp.synthesis.table import Variant, VariantCounts, merged, only
from models.dp.zcdp import MAX_SCALE, Gaussian, rho_of, scale_of
from models.errors import BoundError, InputError
from models.eventlog import EventLog, Ints
from models.variants import total

STAGES = ("labels", "variants", "model", "weights", "times")

GAUSSIAN = ("labels", "variants", "model", "times")
"""Stages that divide one rho."""

THRESHOLD_SHARE = Fraction(1, 20)
"""Part of delta_dp for each stage that selects by a threshold. The composition of all stages has the remainder, and
sets the noise of all of them. A smaller part raises the threshold only a little."""

GAINS = 1 << 10
"""The gain of exact composition is rounded down to so many parts of 1."""

MAX_GAIN = 2
"""A gain is searched below this number; two stages of equal epsilon have less than the square root of 2."""

SMALL = Fraction(1, 2)
"""Epsilon below which the model comes before the weights by default: candidates of a poor model are worth no counts."""

MANY_LABELS = 100
"""Declared labels from which contexts have two labels by default, not three: the cells of contexts of three would take
the time of a release."""

CASES_A_CELL = 1.4
"""Cases that a candidate needs on average, in scales of its noise. With 1 or 2 the similarity of Sepsis at
epsilon 1 is .001 less."""

CASES_A_CELL_BELOW = 2.0
"""The same below `SMALL`. With fewer, cells that only noise fills would hold a good part of the release:
with 1.4 the similarity of BPIC 2012 and BPIC 2013 at epsilon .1 is .005 less."""

STEPS_A_CELL = 1.6
"""Longer contexts are counted if a pair of labels has at least so many steps on average, in scales of the noise.
With fewer steps the cells of these contexts would hold more noise than steps."""

SURE_STEPS_A_CELL = 5.7
"""From here on longer contexts have all of the rho that the first level leaves. With fewer steps they share it with a
second measurement of the first level (`PARTS`, `PARTS_BELOW`)."""

PARTS = (Fraction(1, 3),)
"""Parts of the rho of the model for contexts of two labels on, below `SURE_STEPS_A_CELL`: none for three labels."""

PARTS_BELOW = (Fraction(3, 10), Fraction(1, 5))
"""The same below `SMALL`, for two labels and for three. With half of the rho for two labels and none for three, the
similarity of BPIC 2012 at epsilon .1 is .009 less."""

PART_OF_PREVIEW = Fraction(1, 24)
"""Part of the rho of the model, below `SMALL`, for a first measurement of the first level of all cases. It decides
whether variants are counted at all."""

PREVIEW_STEPS_A_CELL = 1.0
"""No variants are counted if a pair of labels has fewer steps on average than this, in scales of the noise of the
preview: few or none would reach their threshold. Longer contexts would be mostly noise too, so the first level has all
that is left."""

PRICE = 1.6
"""Factor of the price of the first level (`thinned`): traces of few and sure steps are nearer to the cases."""

ONE_LEVEL_PRICE = 1.15
"""The same below `SMALL`, if the first level alone was measured: a higher price leaves out steps that the weights
cannot bring back. Cells then pay by their labels (`thinned_by_labels`; docs/decisions/143)."""

FIRST_SAMPLE = 2_000
"""Draws of the first of two models, which only show how many steps a unit of weight is. With 5,000 or
20,000 releases of Sepsis and of BPIC 2012 at epsilon 1 are no better."""

PART_OF_WAY = 0.5
"""Part of the way from weights to numbers of steps that the second model goes below `SMALL`, as an exponent of their
ratio. Noise in the cell of a step from a label to itself makes traces that repeat it, and a model of numbers of steps
repeats it more: with the whole way one release of BPIC 2012 at epsilon .1 in two hundred has twice the DFG error, and
BPIC 2013 one of .037, not .026 (docs/decisions/137)."""

SMALL_EPSILON_POOL = 5_000
"""Most draws that cases are spread over below `SMALL`."""

SURE_SCALE = 13.5
"""Scale of the noise of the weights up to which the last fit gives its prior the weight `FAITH`, if longer contexts
were measured (`weight_of_prior`). At epsilon .1 the scale is 45. Then `FAITH` keeps the cases too near to the prior."""


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares of epsilon by stage: exact parts that add up to 1."""

    labels: Fraction
    variants: Fraction
    model: Fraction
    weights: Fraction
    times: Fraction

    @classmethod
    def usual(cls, *, labels: bool, times: bool, epsilon: Fraction = SMALL) -> Shares:
        """Return the default shares; they read no data.

        Three tenths go to times if bounds are declared. The other stages divide what remains in hundredths:

        =============  ========  =====  =======  ======
        epsilon        variants  model  weights  labels
        =============  ========  =====  =======  ======
        >= `SMALL`     5         57     38       5
        below          5         75     20       10
        =============  ========  =====  =======  ======

        The part of labels is taken from that of the model if labels are selected, since both divide one rho.
        """
        timed = Fraction(3, 10) if times else Fraction(0)
        part = (1 - timed) / 100
        if epsilon >= SMALL:
            variants, model, weights, selected = 5, 57, 38, 5
        else:
            variants, model, weights, selected = 5, 75, 20, 10
        if not labels:
            selected = 0
        return cls(
            labels=part * selected,
            variants=part * variants,
            model=part * (model - selected),
            weights=part * weights,
            times=timed,
        )

    @classmethod
    def adding_up(cls, *, times: bool, labels: bool = False) -> Shares:
        """Return the default shares if releases add up.

        A fifth goes to times if bounds are declared. Of the rest seven tenths go to the model, from which both logs are
        drawn, and three tenths to the weights. If labels are selected, the model passes a tenth of the rest on to them.
        """
        timed = Fraction(1, 5) if times else Fraction(0)
        remaining = 1 - timed
        selected = remaining / 10 if labels else Fraction(0)
        return cls(
            labels=selected,
            variants=Fraction(0),
            model=remaining * 7 / 10 - selected,
            weights=remaining * 3 / 10,
            times=timed,
        )

    @classmethod
    def of(cls, declared: Mapping[str, Any], *, labels: bool, times: bool) -> Shares:
        """Read shares as written, by stage; a stage that is not named gets nothing.

        Raises
        ------
        InputError
            If they do not add up to 1, a required stage gets nothing, or a stage that is off gets something.
        """
        unknown = sorted(set(declared) - set(STAGES))
        if unknown:
            raise InputError(f"shares: unknown stage {unknown[0]}; use {', '.join(STAGES)}")
        parts = {stage: exact(declared.get(stage, 0), f"shares.{stage}") for stage in STAGES}
        total = sum(parts.values())
        if total != 1:
            raise InputError(f"shares add up to {float(total):.6g}, not to 1")
        # Variants may have a share or none; every other stage needs one if it runs, and must have none otherwise.
        runs = {"labels": labels, "model": True, "weights": True, "times": times}
        why_it_runs = {"labels": "no activities are declared", "times": "max_duration asks for times"}
        why_not = {
            "labels": "activities declares the labels",
            "times": "no max_duration is declared, so no times leave",
        }
        for stage, does_run in runs.items():
            if does_run and not parts[stage]:
                reason = why_it_runs.get(stage, "no release without it")
                raise InputError(f"shares.{stage} must be above 0: {reason}")
            if parts[stage] and not does_run:
                raise InputError(f"shares.{stage} must be 0: {why_not[stage]}")
        return cls(**parts)


@dataclass(frozen=True, slots=True)
class Design:
    """Public parameters of a release, none of them read off the data.

    Attributes
    ----------
    activities
        Declared labels. If None, labels are selected.
    other
        The label of events whose own label may not leave. If None, these events are dropped.
    max_labels
        Distinct labels of a case that count when labels are selected: its first ones.
    order
        Labels of the longest context of the model; a release that does not add up has `usual_order`. Contexts have one
        or two labels if the noisy first level is too weak for longer ones.
    case_weight
        The most that one case adds to a level in L2 (B). If releases do not add up, only times depend on it: weights
        and noise of the model are both proportional to it.
    candidates
        Most traces of the model that are counted.
    max_length
        Events of the longest trace that the model gives.
    sample
        Number of traces that the model gives, to choose candidates from.
    given
        Further traces that are counted, from a public file.
    bounds
        Bounds of times. If None, no times leave.
    shares
        Declared shares of epsilon. If None, the usual ones.
    """

    activities: tuple[str, ...] | None = None
    other: str | None = None
    max_labels: int = 64
    order: int = 2
    case_weight: int = 3
    candidates: int = 1_000
    max_length: int = 200
    sample: int = 10_000
    given: tuple[tuple[str, ...], ...] = ()
    bounds: times.PublicTimeBounds | None = None
    shares: Shares | None = None

    def __post_init__(self) -> None:
        """Check the design; InputError names the parameter that cannot be one."""
        for name, least, most in (
            ("max_labels", 1, 10_000),
            ("order", 1, 4),
            ("case_weight", 1, 1_000),
            ("candidates", 1, candidates.POOL),
            ("max_length", 1, 10_000),
            ("sample", 1, 1_000_000),
        ):
            if not least <= getattr(self, name) <= most:
                raise InputError(f"{name} must be between {least} and {most}")
        if self.activities is not None and not self.activities:
            raise InputError("activities declares no label; leave it out to select labels")
        if self.other is not None and self.other in (self.activities or ()):
            raise InputError("other is also one of activities: choose a label that no activity has")

    @property
    def times_norm(self) -> int:
        """The most that one case adds to all histograms of times in L2, in units of 1 / UNIT."""
        return times.case_norm(self.case_weight)

    def extended(self, alphabet: tuple[str, ...]) -> tuple[str, ...]:
        """Return the alphabet, then the further labels of declared candidates, sorted."""
        labels_of_given = {label for trace in self.given for label in trace}
        return (*alphabet, *sorted(labels_of_given - set(alphabet)))

    def coded_given(self, alphabet: tuple[str, ...]) -> list[Variant]:
        """Return the declared candidates as codes of an alphabet that has all their labels."""
        code_of = {label: code for code, label in enumerate(alphabet)}
        return [tuple(code_of[label] for label in trace) for trace in self.given]

    def split(self, epsilon: Fraction) -> Shares:
        """Return the shares of epsilon: the declared ones, else the usual ones of the stages that run."""
        return self.shares or Shares.usual(
            labels=self.activities is None, times=self.bounds is not None, epsilon=epsilon
        )


@dataclass(frozen=True, slots=True)
class StageBudget:
    """Exact epsilon and delta of each stage.

    Attributes
    ----------
    labels, variants, model, weights, times : Fraction
        Epsilon of the stage, as if epsilons were added up.
    delta_labels, delta_variants : Fraction
        Delta of the threshold of labels, and of that of variants.
    delta_composed : Fraction
        Delta of the composition of all stages.
    gain : Fraction
        Factor by which the noise of every stage is lower than if epsilons were added up.
    """

    labels: Fraction
    variants: Fraction
    model: Fraction
    weights: Fraction
    times: Fraction
    delta_labels: Fraction
    delta_variants: Fraction
    delta_composed: Fraction
    gain: Fraction = Fraction(1)

    @classmethod
    def of(cls, terms: Terms, design: Design) -> StageBudget:
        """Split the terms over the stages; InputError if the noise of a stage would not fit, or be 0."""
        summed = cls.summed(terms, design)
        summed.check(terms, design)
        gain = summed.exact_gain(terms, design)
        if summed.labels:
            # Releases of a series with and without selected labels share a gain, so that they compose.
            gain = min(gain, summed.after_labels().exact_gain(terms, design))
        return replace(summed, gain=gain)

    @classmethod
    def summed(cls, terms: Terms, design: Design) -> StageBudget:
        """Split the terms over stages whose epsilons are added up: without a gain."""
        shares = design.split(terms.epsilon)
        parts = {stage: terms.epsilon * getattr(shares, stage) for stage in STAGES}
        deltas = {}
        for stage in ("labels", "variants"):
            deltas[f"delta_{stage}"] = terms.delta_dp * THRESHOLD_SHARE if parts[stage] else Fraction(0)
        return cls(**parts, **deltas, delta_composed=terms.delta_dp - sum(deltas.values()))

    def exact_gain(self, terms: Terms, design: Design) -> Fraction:
        """Return the largest factor, in `GAINS` parts of 1, by which all stages together may lower their noise.

        It is 1 if the noise of a stage has so small a scale that its privacy loss is not known exactly.
        """

        def too_much(step: int) -> bool:
            scaled = replace(self, gain=Fraction(step, GAINS))
            try:
                composition = scaled.composition(terms, design)
            except InputError:
                return True
            return composition.delta(terms.epsilon) > float(self.delta_composed) * (1.0 - 1e-9)

        allowed = bisect_left(range(GAINS + 1, MAX_GAIN * GAINS), True, key=too_much)
        return Fraction(GAINS + allowed, GAINS)

    def composition(self, terms: Terms, design: Design) -> Composition:
        """Return the privacy loss of all stages together.

        Raises
        ------
        InputError
            If the noise of a stage has so small a scale that its privacy loss is not known exactly.
        """
        distances, epsilons = [], []
        for draw in self.draws(terms, design):
            if draw.kind == "gaussian":
                distances.append(gaussian_distance(draw.scale, draw.sensitivity))
            else:
                epsilons.append(draw.epsilon)
        return Composition.of(distances, epsilons)

    def draws(self, terms: Terms, design: Design) -> tuple[Draw, ...]:
        """Return the noise of all stages; all numbers are public.

        The levels of the model count as one measurement of the whole rho. Several measurements have a wider
        noise each, and together a smaller loss. A release that counts no variants has the loss of
        `without_variants`, which is no larger.
        """
        person = terms.cases_per_person
        drawn = []
        if self.labels:
            rule = self.label_rule(terms, design)
            drawn.append(Draw("gaussian", Fraction(rule.scale), Fraction(rule.sensitivity), self.delta_labels))
        if self.variants:
            scale = Fraction(self.frequent(terms).scale)
            drawn.append(Draw("gaussian", scale, Fraction(person), self.delta_variants))
        if self.model:
            sensitivity = design.case_weight * contexts.UNIT * person
            scale = Fraction(scale_of(self.rho("model"), sensitivity))
            drawn.append(Draw("gaussian", scale, Fraction(sensitivity)))
        if self.times:
            sensitivity = design.times_norm * person
            scale = Fraction(self.times_scale(terms, design))
            drawn.append(Draw("gaussian", scale, Fraction(sensitivity)))
        if self.weights:
            drawn.append(Draw("pure", Fraction(1), self.pure("weights")))
        return tuple(drawn)

    def pure(self, stage: str) -> Fraction:
        """Return the epsilon of a stage that draws Laplace noise."""
        epsilon: Fraction = getattr(self, stage)
        return epsilon * self.gain

    def times_scale(self, terms: Terms, design: Design) -> float:
        """Return the scale of the noise of all histograms of times, in units of 1 / UNIT."""
        return scale_of(self.rho("times"), design.times_norm * terms.cases_per_person)

    def after_labels(self) -> StageBudget:
        """Return the budget of a release that uses the labels which an earlier release of its series selected.

        All Gaussian stages together keep their epsilon, their rho and their delta.
        """
        variants_and_model = self.variants + self.model
        # They divide the part of the labels in the same shares.
        factor = (self.labels + variants_and_model) / variants_and_model
        delta_variants = self.delta_labels + self.delta_variants if self.variants else Fraction(0)
        return replace(
            self,
            labels=Fraction(0),
            variants=self.variants * factor,
            model=self.model * factor,
            delta_labels=Fraction(0),
            delta_variants=delta_variants,
        )

    def without_variants(self) -> StageBudget:
        """Return the budget of a release that counts no variants: the model has their part.

        The privacy loss is no larger than with variants, so both have one gain: the Gaussian pair of a stage has less
        noise than the stage, by 9/4 of a squared unit of its counts (`models.dp.privacy_loss.gaussian_distance`), and
        the unit of a count of cases is 2^16 times that of a weight of the model. Scales are floats that are rounded up;
        the margin of `exact_gain` covers what that may add.
        """
        return replace(self, variants=Fraction(0), model=self.variants + self.model, delta_variants=Fraction(0))

    def rho(self, stage: str) -> Fraction:
        """Return the part of a Gaussian stage in the rho of all of them."""
        together = sum((getattr(self, name) for name in GAUSSIAN), start=Fraction(0))
        rho_together = rho_of(together, self.delta_composed)
        stage_rho: Fraction = rho_together * getattr(self, stage) / together * self.gain**2
        if not stage_rho:
            raise InputError("epsilon is too small: noise of the model does not fit 64 bits; raise epsilon")
        return stage_rho

    def label_rule(self, terms: Terms, design: Design) -> LabelRule:
        """Return the rule by which labels leave."""
        return LabelRule(self.rho("labels"), self.delta_labels, design.max_labels, terms.cases_per_person)

    def frequent(self, terms: Terms) -> Gaussian:
        """Return the rule by which variants leave."""
        return Gaussian(self.rho("variants"), self.delta_variants, terms.cases_per_person)

    def check(self, terms: Terms, design: Design) -> None:
        """Raise InputError before anything is drawn if a stage could not draw."""
        person, unit = terms.cases_per_person, contexts.UNIT
        if self.labels:
            checked_scale(self.label_rule(terms, design).scale, "epsilon")
        if self.variants:
            scale = scale_of(self.rho("variants"), person)
            least = self.frequent(terms).threshold if scale <= MAX_SCALE else MAX_THRESHOLD + 1
            if least > MAX_THRESHOLD:
                raise InputError(f"epsilon is too small: a variant would need more than {MAX_THRESHOLD} cases to leave")
        for rho in self._ends_of_the_rhos(design):
            scale_of(rho, design.case_weight * unit * person)
        checked_scale(scale_for(person, self.pure("weights")))
        if design.bounds is not None:
            checked_scale(self.times_scale(terms, design), "epsilon")

    def _ends_of_the_rhos(self, design: Design) -> tuple[Fraction, Fraction]:
        """Return the least and the largest rho of a measurement of the model, however the noisy counts decide."""
        model = self.rho("model")
        of_first = model / design.order
        rhos = {of_first, model - of_first}
        for parts in (PARTS, PARTS_BELOW):
            longer = [model * part for part in parts_of(parts, design.order)]
            rhos |= {*longer, model - sum(longer) - of_first}
        if self.variants:
            of_preview = model * PART_OF_PREVIEW
            rhos |= {of_preview, of_first - of_preview, self.without_variants().rho("model") - of_preview}
        possible = [rho for rho in rhos if rho > 0]
        return min(possible), max(possible)

    def thresholds(self, terms: Terms, design: Design) -> dict[str, int]:
        """Return the least noisy counts of labels and of variants, if a stage selects them: public.

        That of labels is in cases of a single label, rounded up; a case of k labels counts 1 / sqrt(k) for each.
        """
        thresholds: dict[str, int] = {}
        if self.labels:
            thresholds["label_threshold"] = self.label_rule(terms, design).least_cases
        if self.variants:
            thresholds["threshold"] = self.frequent(terms).threshold
        return thresholds


def usual_order(activities: Sequence[str] | None) -> int:
    """Return the default order of the model: 3, or 2 for more than `MANY_LABELS` declared labels."""
    return 2 if activities is not None and len(set(activities)) > MANY_LABELS else 3


def series_draws(budget: StageBudget, terms: Terms, design: Design) -> tuple[Draw, ...]:
    """Return the noise of each release of a series, whether or not the release selects labels.

    Releases before and after the selection of labels divide one rho and one delta, so that they count alike. The one
    with the larger privacy loss represents both. The result is empty if the privacy loss is not known exactly.
    """
    try:
        largest = budget
        if budget.labels:
            later = budget.after_labels()
            if later.composition(terms, design).distance > budget.composition(terms, design).distance:
                largest = later
        largest.composition(terms, design)
    except InputError:  # noise of so small a scale has no Gaussian pair
        return ()
    return largest.draws(terms, design)


def release_synthetic(
    log: EventLog,
    *,
    epsilon: Any,
    delta_dp: Any,
    design: Design | None = None,
    cases_per_person: int = 1,
    draw: NoiseSource | None = None,
    cases: Ints | None = None,
    kept_labels: tuple[str, ...] | None = None,
) -> StrictRelease:
    """Release drawn traces with noisy counts (dp-synthetic).

    Times are noisy if the design has bounds of them, else ordinal.

    Parameters
    ----------
    cases : int64[C], optional
        Number of cases that each case of `log` represents (a table of variants, for a design without times).
    kept_labels : optional
        Labels that an earlier release of the series selected: this one selects none.
    """
    draw = or_secure(draw)
    plan = design or Design()
    if cases is not None and plan.bounds is not None:
        raise InputError("times of dp-synthetic are read off the cases themselves, not off their variants")
    terms = Terms.of(epsilon, delta_dp, cases_per_person)
    budget = StageBudget.of(terms, plan)
    if plan.activities is None and kept_labels is not None:
        budget = budget.after_labels()

    # Stage 0: labels. From here on the log is read over these labels alone.
    may_leave = chosen_labels(log, plan, budget, terms, draw, cases, kept_labels)
    kept, table = over_labels(log, may_leave, plan, cases)

    # Stages 1 and 2: frequent variants, and a model of all other cases.
    frequent, levels = variants_and_model(table, plan, budget, terms, draw)

    # Stage 3: cases near each candidate, fitted to the counts of stages 1 and 2.
    listed = candidate_list(levels, frequent, table.alphabet, plan, budget, terms, draw)
    counts = candidates.reweigh(table, listed.traces, budget.pure("weights"), draw, cases_per_person, drop=listed.drop)
    scale = scale_for(cases_per_person, budget.pure("weights"))
    released = listed.fitted(counts, scale, levels, frequent, plan.case_weight, draw)
    events = sum(len(variant) * n for variant, n in released)
    if events > MAX_EVENTS:
        raise BoundError(f"the noisy counts add up to {events} events: raise epsilon")

    # Stage 4: times. They are read from the log over the labels, and drawn for the released traces.
    times_scale = budget.times_scale(terms, plan) if plan.bounds is not None else None
    timed = release_times(kept, listed.alphabet, released, plan, times_scale, draw)

    out = assembled(listed.alphabet, [variant for variant, _ in released], timed.rows, draw)
    dropped = total(log.lengths, cases) - total(kept.lengths, cases)
    operator = _operator(total(log.lengths, cases), dropped, table, frequent, released)
    threshold = budget.thresholds(terms, plan).get("threshold", 0)
    return StrictRelease(out, terms, threshold, draw.private, operator, may_leave, timed.facts)


def chosen_labels(
    log: EventLog,
    design: Design,
    budget: StageBudget,
    terms: Terms,
    draw: NoiseSource,
    cases: Ints | None = None,
    kept_labels: tuple[str, ...] | None = None,
) -> tuple[str, ...]:
    """Return the labels that may leave, sorted (stage 0).

    They are the declared ones, else those of an earlier release, else they are selected with noise.

    Parameters
    ----------
    log
        The true cases.
    design, budget, terms
        Public parameters, epsilon of each stage, and privacy of the release.
    draw
        Source of the noise.
    cases
        int64[C], cases that each case of `log` represents; one each if not given.
    kept_labels
        Labels that an earlier release of the series selected.
    """
    if design.activities is not None:
        return tuple(sorted(set(design.activities)))
    if kept_labels is not None:
        return kept_labels
    candidates_to_leave = (str(value) for value in log.activity.values if str(value) != design.other)
    all_variants = VariantCounts.of(only(log, candidates_to_leave), cases=cases)
    return budget.label_rule(terms, design).select(all_variants, draw)


def over_labels(
    log: EventLog, may_leave: tuple[str, ...], design: Design, cases: Ints | None = None
) -> tuple[EventLog, VariantCounts]:
    """Restrict a log to the labels that may leave.

    Parameters
    ----------
    log, design, cases
        As `chosen_labels` takes them.
    may_leave
        The labels that may leave, sorted.

    Returns
    -------
    log : EventLog
        The log over the public alphabet alone: these labels, and the one of `design.other`.
    table : VariantCounts
        The variants of that log, over this alphabet.
    """
    alphabet = may_leave
    if design.other is not None:
        alphabet = tuple(sorted({*may_leave, design.other}))
        log = merged(log, may_leave, design.other)
    kept = only(log, alphabet)
    return kept, VariantCounts.of(kept, alphabet, cases)


def variants_and_model(
    table: VariantCounts, design: Design, budget: StageBudget, terms: Terms, draw: NoiseSource
) -> tuple[dict[Variant, int], list[contexts.ContextLevel]]:
    """Return the frequent variants and the noisy levels of all other cases (stages 1 and 2).

    Below an epsilon of `SMALL` a preview comes first: a measurement of the first level of all cases. If it shows hardly
    more than noise, no variants are counted, and all that is left goes to the first level.

    Parameters
    ----------
    table
        Variants of all true cases.
    design, budget, terms
        Public parameters, epsilon of each stage, and privacy of the release.
    draw
        Source of the noise.

    Returns
    -------
    frequent : dict of Variant to int
        Noisy counts of the frequent variants (`frequent_variants`).
    levels : list of ContextLevel
        The noisy levels (`residual_model`).
    """
    if terms.epsilon >= SMALL or not budget.variants:
        frequent = frequent_variants(table, budget, terms, draw)
        return frequent, residual_model(table, frequent, design, budget, terms, draw)
    rho_of_preview = budget.rho("model") * PART_OF_PREVIEW
    preview = _first_level(table, rho_of_preview, design, terms, draw)
    if steps_a_cell(preview) < PREVIEW_STEPS_A_CELL:
        rest = budget.without_variants().rho("model") - rho_of_preview
        again = _first_level(table, rest, design, terms, draw)
        return {}, [contexts.together(preview, again)]
    frequent = frequent_variants(table, budget, terms, draw)
    return frequent, residual_model(table, frequent, design, budget, terms, draw, preview)


def _first_level(
    table: VariantCounts, rho: Fraction, design: Design, terms: Terms, draw: NoiseSource
) -> contexts.ContextLevel:
    """Measure the noisy first level of all cases of a table."""
    (level,) = contexts.measure(
        table.variants,
        table.counts,
        len(table.alphabet),
        [rho],
        design.case_weight,
        draw,
        terms.cases_per_person,
        weigh=contexts.root_weights,
    )
    return level


def frequent_variants(table: VariantCounts, budget: StageBudget, terms: Terms, draw: NoiseSource) -> dict[Variant, int]:
    """Return the variants above the threshold with their noisy counts (stage 1).

    There are none if the stage has no share of epsilon.

    They come in the order of their labels, never in that of the log: stage 3 settles ties by the order of its list, and
    one person who changed that order could move many cases at once.
    """
    if not budget.variants:
        return {}
    noisy = budget.frequent(terms).counts(table.counts, draw)
    pairs = zip(noisy.variants.tolist(), noisy.counts.tolist(), strict=True)
    return dict(sorted((table.variants[variant], count) for variant, count in pairs))


def residual_model(
    table: VariantCounts,
    frequent: Mapping[Variant, int],
    design: Design,
    budget: StageBudget,
    terms: Terms,
    draw: NoiseSource,
    preview: contexts.ContextLevel | None = None,
) -> list[contexts.ContextLevel]:
    """Measure the noisy levels of the cases whose variant is not frequent (stage 2).

    Parameters
    ----------
    table
        Variants of all true cases.
    frequent
        The variants of stage 1, whose cases are left out, and their noisy counts.
    design, budget, terms
        Public parameters, epsilon of each stage, and privacy of the release.
    draw
        Source of the noise.
    preview
        A noisy first level of all cases, if there is one. Its rho is part of that of the first level.
    """
    other_cases, counts = table.without(frequent)
    whole = budget.rho("model")
    rho_of_levels = [whole / design.order] * design.order
    if preview is not None:
        rho_of_levels[0] -= whole * PART_OF_PREVIEW
        # The other cases are what noisy counts of the frequent variants leave of all cases.
        preview = contexts.without_counted(preview, frequent, design.case_weight, contexts.root_weights)
    parts = PARTS if terms.epsilon >= SMALL else PARTS_BELOW
    rhos_if_unsure = [whole * part for part in parts_of(parts, design.order)]
    return contexts.measure(
        other_cases,
        counts,
        len(table.alphabet),
        rho_of_levels,
        design.case_weight,
        draw,
        terms.cases_per_person,
        partial(divided, rhos_if_unsure=rhos_if_unsure),
        weigh=contexts.root_weights,
        earlier=preview,
    )


def parts_of(parts: tuple[Fraction, ...], order: int) -> tuple[Fraction, ...]:
    """Return the parts of a model whose contexts have at most `order` labels.

    Its longest contexts have the parts of all that would be longer.

    Parameters
    ----------
    parts
        Parts of the rho for contexts of two labels, of three, and so on.
    order
        Labels of the longest context.
    """
    n_levels = order - 1
    if n_levels >= len(parts):
        return parts
    if n_levels == 0:
        return ()
    return (*parts[: n_levels - 1], sum(parts[n_levels - 1 :], start=Fraction(0)))


def divided(
    level: contexts.ContextLevel, rhos: Sequence[Fraction], rhos_if_unsure: Sequence[Fraction]
) -> list[Fraction]:
    """Divide the rho that a noisy first level has left.

    The number of steps that a cell holds on average decides (`steps_a_cell`). Below `STEPS_A_CELL` the first level is
    measured again with all of the rest. Below `SURE_STEPS_A_CELL` it shares the rest with longer contexts. Otherwise
    the longer contexts have all of it.

    Parameters
    ----------
    level
        The noisy first level; nothing else is read.
    rhos
        The rho of each level, that of the first one included.
    rhos_if_unsure
        The rho of each level of longer contexts, if they share the rest with the first level.

    Returns
    -------
    list of Fraction
        The rho of a second measurement of the first level, then that of each level of longer contexts. They add up to
        what is left.
    """
    left = sum(rhos[1:], start=Fraction(0))
    steps = steps_a_cell(level)
    if steps < STEPS_A_CELL:
        return [left]
    if steps < SURE_STEPS_A_CELL:
        return [left - sum(rhos_if_unsure), *rhos_if_unsure]
    return [Fraction(0), *rhos[1:]]


def steps_a_cell(level: contexts.ContextLevel) -> float:
    """Return how many steps a cell of a noisy first level holds on average, in scales of its noise.

    Noise that contradicts a flow is taken out first; cells that hold no steps then do not count.

    Parameters
    ----------
    level
        A noisy first level; its cells have one scale.
    """
    cells = thinned(level).cells
    n_cells = max(int(np.count_nonzero(cells)), 1)
    return float(cells.sum()) / (float(level.scale[0]) * n_cells)


@content_free()
@dataclass(frozen=True, slots=True)
class CandidateList:
    """Candidates that stage 3 counts, and the traces near them that their cases are spread over.

    Attributes
    ----------
    traces
        The candidates, each once, as codes of the alphabet.
    alphabet
        The labels that the log may have, then further ones of declared candidates.
    drawn
        The sample of the model: how often each trace was drawn.
    pool
        How many of these draws the cases of a candidate are spread over.
    declared
        The candidates that a public file declares.
    drop
        Scales of the noise below which the count of a candidate is dropped.
    """

    traces: list[Variant]
    alphabet: tuple[str, ...]
    drawn: dict[Variant, int]
    pool: int
    declared: frozenset[Variant] = frozenset()
    drop: float = candidates.DROP

    def fitted(
        self,
        counts: Ints,
        scale: float,
        levels: Sequence[contexts.ContextLevel],
        frequent: Mapping[Variant, int],
        bound: int,
        draw: NoiseSource,
    ) -> list[tuple[Variant, int]]:
        """Return the cases of each released trace.

        The counts of stage 3 are spread over the drawn traces, and fitted to all levels too.

        Parameters
        ----------
        counts, scale
            Noisy number of cases near each candidate, and the scale of its noise.
        levels, frequent
            As `candidate_list` takes them.
        bound
            The most that one case adds to a level (B).
        draw
            Source of the random choices.
        """
        shown = [(variant, n) for variant, n in zip(self.traces, counts.tolist(), strict=True) if n and variant]
        near = Spread.of(shown, self.traces, self.drawn, draw, frequent, self.pool, self.declared)
        # The noisy counts that the cases should agree with: those of stage 3, then each level of stage 2.
        cells = [nearby(near, counts, np.full(len(counts), scale))]
        for order, level in enumerate(levels, start=1):
            cells.append(follows(near, level, bound, contexts.root_weights, frequent, order))
        return fit(near, cells, draw, weight_of_prior(scale, len(levels)))


def candidate_list(
    levels: Sequence[contexts.ContextLevel],
    frequent: Mapping[Variant, int],
    alphabet: tuple[str, ...],
    design: Design,
    budget: StageBudget,
    terms: Terms,
    draw: NoiseSource,
) -> CandidateList:
    """Return the candidates that stage 3 counts.

    The candidates are the frequent variants, the declared traces, and representatives of a sample of the
    model. Labels of declared candidates follow the other labels. Outputs of earlier stages and declarations
    are read, never the log.

    Parameters
    ----------
    levels
        Noisy levels of stage 2.
    frequent
        Variants of stage 1 with their noisy counts.
    alphabet
        Labels that the log may have.
    design, budget, terms
        Public parameters, epsilon of each stage, and privacy of the release.
    draw
        Source of the random choices.
    """
    extended = design.extended(alphabet)
    declared = design.coded_given(extended)
    listed = list(dict.fromkeys([*frequent, *declared]))

    # A sample of the model, and how many cases the model describes.
    is_small = terms.epsilon < SMALL
    drawn, residual_cases, pool = model_sample(levels, design, draw, is_small=is_small)

    # As many representatives as there are cases enough for.
    cases = sum(frequent.values()) + residual_cases
    scale = scale_for(terms.cases_per_person, budget.pure("weights"))
    cases_a_cell = CASES_A_CELL_BELOW if is_small else CASES_A_CELL
    affordable = max(int(cases / (cases_a_cell * scale)), 1)
    most = min(design.candidates, affordable)
    represented = candidates.POOL if is_small else candidates.pool_size(most)
    listed += candidates.representative(drawn, listed, most, represented)
    has_few_variants = not is_small and pool == POOL
    drop = candidates.LOW_DROP if has_few_variants else candidates.DROP
    return CandidateList(listed, extended, drawn, affordable_pool(pool, len(listed)), frozenset(declared), drop)


def model_sample(
    levels: Sequence[contexts.ContextLevel], design: Design, draw: NoiseSource, *, is_small: bool
) -> tuple[dict[Variant, int], float, int]:
    """Draw traces from the noisy levels of stage 2.

    Levels hold weights of steps, which a first model takes for numbers of steps. If longer contexts were measured, the
    traces of that model show how many steps a unit of weight is in each cell, and a second model is built of numbers of
    steps; below `SMALL` it goes only a part of the way (`PART_OF_WAY`). A single level may hold hardly more than noise,
    and a second model would repeat what noise the first one has.

    Parameters
    ----------
    levels
        Noisy levels of stage 2.
    design
        Public parameters.
    draw
        Source of the random choices.
    is_small
        Whether epsilon is below `SMALL`.

    Returns
    -------
    drawn : dict of Variant to int
        The traces, as often as the first level asks for (`like_level`).
    cases : float
        Number of cases of the model.
    pool : int
        How many draws are weighted, and how many the cases of candidates are spread over.
    """
    if is_small and len(levels) == 1:
        first = thinned_by_labels(levels[0], ONE_LEVEL_PRICE)
    else:
        first = thinned(levels[0], PRICE)

    def draw_from(of_model: Sequence[contexts.ContextLevel], size: int) -> tuple[dict[Variant, int], float, int]:
        drawn = contexts.Model.of(of_model).sample(size, design.max_length, draw)
        pool = pool_size(drawn)
        if is_small:
            pool = min(pool, SMALL_EPSILON_POOL)
        cases = contexts.cases(first, drawn, design.case_weight, contexts.root_weights)
        return *like_level(drawn, cases, levels[0], design, draw, pool), pool

    if len(levels) == 1:
        return draw_from([first], design.sample)
    drawn, *_ = draw_from([first, *levels[1:]], min(FIRST_SAMPLE, design.sample))
    part_of_way = PART_OF_WAY if is_small else 1.0
    in_steps = []
    for order, level in enumerate(levels, start=1):
        ratios = contexts.step_ratios(level, order, drawn, design.case_weight, contexts.root_weights) ** part_of_way
        if order == 1:
            in_steps.append(thinned(level, PRICE, ratios))
            continue
        above_noise = np.where(level.cells >= contexts.DROP * level.scale[:, None], level.cells, 0)
        in_steps.append(replace(level, cells=np.rint(above_noise * ratios).astype(np.int64)))
    return draw_from(in_steps, design.sample)


def weight_of_prior(scale: float, n_levels: int) -> float:
    """Return the weight of the prior in the last fit, `FAITH` or less.

    The prior is noisy counts, spread over drawn traces: the more noise they have, the less it is worth. If the first
    level alone was measured, releases are better with the full weight (docs/decisions/133).

    Parameters
    ----------
    scale
        Scale of the noise of the weights.
    n_levels
        Number of levels of stage 2.
    """
    if n_levels == 1:
        return FAITH
    return FAITH * min(SURE_SCALE / scale, 1.0)


def like_level(
    drawn: Mapping[Variant, int],
    cases: float,
    level: contexts.ContextLevel,
    design: Design,
    draw: NoiseSource,
    pool: int,
) -> tuple[dict[Variant, int], float]:
    """Return some of the drawn traces, as often as the noisy first level asks for.

    A model in which each label depends on the one before cannot have all steps of the level at once: noise that was
    taken out, and steps that end a trace, change how often steps are drawn.

    Parameters
    ----------
    drawn
        Traces of the model, and how often each was drawn.
    cases
        Estimated number of cases of the model.
    level
        The noisy first level.
    design
        Public parameters.
    draw
        Source of the random choices.
    pool
        How many of the draws are weighted.

    Returns
    -------
    drawn : dict of Variant to int
        The traces as often as they are taken.
    cases : float
        Number of cases by the fit.
    """
    near = Spread.like_drawn(drawn, cases, draw, pool)
    if not near.traces or cases < 1:
        return dict(drawn), cases
    cells = follows(near, level, design.case_weight, contexts.root_weights)
    fitted_cases = fitted(near.cases, [cells])
    n_cases = fitted_cases.sum()
    resampled = near.whole_cases(fitted_cases * design.sample / n_cases, draw)
    return dict(resampled), float(n_cases)


def release_times(
    log: EventLog,
    alphabet: tuple[str, ...],
    released: list[tuple[Variant, int]],
    design: Design,
    scale: float | None,
    draw: NoiseSource,
) -> TimedTraces:
    """Return times of the released traces (stage 4).

    Without declared bounds they are ordinal: one second from event to event.

    Parameters
    ----------
    log
        The true cases, over the labels of the alphabet.
    alphabet
        All labels of the released traces.
    released
        Released variants, as places in the alphabet, and their cases.
    design
        Public parameters.
    draw
        Source of the noise and of the random choices.
    scale
        Scale of the noise of all histograms, in units of 1 / UNIT; None if no bounds are declared.
    """
    if design.bounds is None or scale is None:
        return TimedTraces(ordinal_rows(released), {})
    pairs = drawn_times.pairs_of(released, len(alphabet))
    norm = design.times_norm
    noisy = times.measure(log, alphabet, pairs, design.bounds, norm, scale, draw)
    return drawn_times.draw_times(noisy, released, alphabet, design.bounds, norm, draw)


def _operator(
    events: int,
    dropped: int,
    table: VariantCounts,
    frequent: Mapping[Variant, int],
    released: list[tuple[Variant, int]],
) -> dict[str, Any]:
    """Return what only the operator may see, since it is read off raw data."""
    counts = dict(zip(table.variants, table.counts.tolist(), strict=True))
    out = {variant for variant, _ in released}
    warnings = []
    if events and dropped == events:
        warnings.append("no event of the log has a label that may leave: declare activities, or raise epsilon")
    elif dropped:
        warnings.append(
            f"{dropped} of {events} events have labels that are not declared or not frequent enough, and were "
            f"dropped: {len(table.alphabet)} labels may leave"
        )
    return {
        "variants": {"in": len(counts), "out": len(out), "invented": len(out - set(counts))},
        "cases": {
            "in": int(table.counts.sum()),
            "frequent": sum(counts[v] for v in frequent),
            "out": sum(n for _, n in released),
        },
        "labels": {"may_leave": len(table.alphabet), "dropped_events": dropped},
        "frequent_variants": len(frequent),
        "warnings": warnings,
    }
