"""`veilstream audit-epsilon`: bound epsilon from below by runs on neighbouring logs.

A mechanism runs, or the whole pipeline around it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from models.errors import InputError, check_choice
from stream.commands import _options as options
from stream.commands._output import emit_json, progress, tables

if TYPE_CHECKING:
    from models.dp.audit import Finding, NeighbourPair, Power
    from models.dp.budget import Charge
    from models.dp.synthesis.neighbours import StagePair
    from stream.release.contract import Mechanism

PANEL = "Measure"

TERMS = ("epsilon", "delta_dp")
TAKES = {
    "amun": ("delta", "variant"),
    "dp-log": TERMS,
    "dp-variants": TERMS,
    "dp-synthetic": TERMS,
    "dp-model": TERMS,
}
"""Options that each kind takes."""

WITH_TIMES = ("amun", "dp-log", "dp-synthetic")

WITH_STAGES = ("dp-synthetic", "dp-model")


def command(
    mechanism: Annotated[
        str, typer.Option(help="amun, dp-log, dp-variants, dp-synthetic or dp-model (both with their stages).")
    ] = "dp-variants",
    epsilon: Annotated[
        str | None, typer.Option(help="epsilon of the dp kinds (default 1; with --pipeline 0.1 a release).")
    ] = None,
    delta_dp: Annotated[str, typer.Option("--delta-dp", help="delta of the dp kinds.")] = "0.01",
    delta: Annotated[float, typer.Option(help="Guessing advantage of amun.")] = 0.2,
    variant: Annotated[str, typer.Option(help="Design of amun: sampling, filtering or oversampling.")] = "sampling",
    pipeline: Annotated[
        bool, typer.Option("--pipeline", help="Audit the whole pipeline: moments, withheld attempts, manifests, files.")
    ] = False,
    cases: Annotated[
        str, typer.Option(help="With --pipeline: all, or completed (five releases, each case counts once).")
    ] = "all",
    rho: Annotated[
        str | None, typer.Option(help="dp-variants: Gaussian noise of this rho (zCDP) instead of epsilon.")
    ] = None,
    counts: Annotated[
        bool, typer.Option("--counts", help="dp-variants: its noisy counts alone, in bulk: a million runs in minutes.")
    ] = False,
    runs: Annotated[
        int | None, typer.Option(help="Runs on each of the two logs of a pair (default 1000; with --pipeline 200).")
    ] = None,
    alpha: Annotated[float, typer.Option(help="Chance that the bound is too high.")] = 0.01,
    json: options.Json = False,
) -> int:
    """Try to refute a claim of differential privacy by running the mechanism many times; exit 3 if it is refuted.

    A bound below the claim proves nothing. A bound above it, or an output that the neighbour cannot have, refutes it.
    """
    from models.dp.synthesis.neighbours import StagePair

    default_runs, default_epsilon = (200, "0.1") if pipeline else (1000, "1")
    runs = default_runs if runs is None else runs
    if runs < 20 or not 0 < alpha < 1:
        raise InputError("--runs must be at least 20 and --alpha between 0 and 1")
    if rho is not None and (mechanism != "dp-variants" or epsilon is not None or pipeline):
        raise InputError("--rho needs dp-variants, replaces --epsilon, and excludes --pipeline")
    if counts and (mechanism != "dp-variants" or pipeline):
        raise InputError("--counts needs dp-variants, and excludes --pipeline")
    epsilon = default_epsilon if epsilon is None else epsilon
    parameters: dict[str, Any] = {"epsilon": epsilon, "delta_dp": delta_dp, "delta": delta, "variant": variant}
    built = _mechanism(mechanism, parameters if rho is None else parameters | {"rho": rho})
    check_choice("--cases", cases, ("all", "completed"))
    if cases != "all" and not pipeline:
        raise InputError("--cases concerns a series of releases: add --pipeline")
    if pipeline:
        pairs, claim = _pipeline(built, cases)
        _refuse_blindness(claim, pairs, runs, alpha)
        claimed_pairs = [StagePair(pair, claim) for pair in pairs]
    else:
        claim = _claim(built)
        claimed_pairs = []
        if built.kind != "dp-model":  # a release of it is no log; its whole is among its stages
            claimed_pairs += [StagePair(pair, claim) for pair in _pairs(built, counts)]
        if built.kind in WITH_STAGES:
            claimed_pairs += _stages(built.kind, claim)
    audited = _audited(claimed_pairs, runs, alpha)
    document = _document(built, claim, audited, runs, alpha, pipeline=pipeline)
    if json:
        emit_json(document)
    else:
        _table(document)
    return 3 if document["verdict"] == "refuted" else 0


def _mechanism(kind: str, parameters: Mapping[str, Any]) -> Mechanism:
    from stream.release.single import mechanism_of

    check_choice("--mechanism", kind, TAKES)
    # The logs of the audit have two or three labels, and a small sample shows as much of the model as a large one.
    if "rho" in parameters:
        return mechanism_of(kind, {"rho": parameters["rho"], "delta_dp": parameters["delta_dp"]})
    further: dict[str, Any] = {}
    if kind in WITH_STAGES:
        further["activities"] = ["A", "B", "C"]
    if kind == "dp-synthetic":
        further |= {"sample": 200, "traces": 20, "max_duration": "30d"}
    return mechanism_of(kind, {name: parameters[name] for name in TAKES[kind]} | further)


def _claim(built: Mechanism) -> Charge:
    """Return the claim of one release.

    For rho its (epsilon, delta), at a conversion that spends as much delta again.
    """
    from models.dp.zcdp import Accounting

    charge = built.charge()
    return Accounting("zcdp", charge.delta).loss(charge) if charge.rho else charge


def _pairs(built: Mechanism, counts: bool) -> list[NeighbourPair]:
    from models.dp.neighbours import count_pairs, pairs

    if counts:
        return count_pairs(_counting(built), _stage(built).common)
    has_times, is_amun = built.kind in WITH_TIMES, built.kind == "amun"
    return pairs(partial(_run, built), _stage(built), times=has_times, rule=is_amun)


def _counting(built: Mechanism) -> Any:
    """Return the counts of a release of dp-variants, as its mechanism draws them."""
    from models.dp.counts import release_counts
    from models.dp.noise import SECURE
    from models.dp.strict import Terms, gaussian

    charge, person = built.charge(), int(getattr(built, "cases_per_person", 1))
    if charge.rho:
        noise = gaussian(charge.rho, charge.delta, person)
        return lambda true: noise.counts(true, SECURE)
    terms = Terms.of(charge.epsilon, charge.delta, person)
    return lambda true: release_counts(true, terms.epsilon, terms.delta_dp, SECURE, person)


def _stages(kind: str, claim: Charge) -> list[StagePair]:
    """Return the pairs of each stage of a kind alone, with the whole epsilon and delta; of dp-model the whole too."""
    from models.dp.synthesis.neighbours import map_stage_pairs, stage_pairs

    pairs_of_kind = map_stage_pairs if kind == "dp-model" else stage_pairs
    return pairs_of_kind(claim.epsilon, claim.delta)


def _pipeline(built: Mechanism, cases: str) -> tuple[list[NeighbourPair], Charge]:
    """Return runs of the whole pipeline, and the charge of all releases of a run."""
    from stream.run.pipeline_audit import (
        BYTE_VICTIMS,
        SERIES,
        SERIES_VICTIMS,
        VICTIMS,
        Scene,
        claimed,
        pipeline_pairs,
        small_configuration,
    )

    if built.charge().epsilon == 0:
        raise InputError(f"--pipeline needs a mechanism with a promise for a whole release, not {built.kind}")
    common = max(100, 2 * _least(built))
    if cases == "completed":
        settings = small_configuration(built.model_dump(mode="json"), cases=cases)
        series = replace(SERIES, common=common)
        return pipeline_pairs(settings, series, (*SERIES_VICTIMS, *BYTE_VICTIMS)), claimed(settings, series)
    settings = small_configuration(built.model_dump(mode="json"))
    scene = Scene(common=common)
    return pipeline_pairs(settings, scene, (*VICTIMS, *BYTE_VICTIMS)), claimed(settings, scene)


@dataclass(frozen=True, slots=True)
class AuditedPair:
    """The audit of one pair of neighbouring logs.

    Parameters
    ----------
    pair
        The two logs.
    finding
        Lower bound on epsilon.
    power
        What the runs can show.
    refuted_epsilon
        The least true epsilon of a step that they refute with chance .95; None without a claim, or if
        there is none.
    """

    pair: NeighbourPair
    finding: Finding
    power: Power
    refuted_epsilon: float | None

    def json(self, claimed: float | None) -> Mapping[str, Any]:
        """Return the row of `audit-epsilon --json`.

        Parameters
        ----------
        claimed
            Claimed epsilon of one step. None without a claim.
        """
        excess = None
        if self.refuted_epsilon is not None and claimed:
            excess = self.refuted_epsilon / claimed - 1.0
        return {
            "pair": self.pair.name,
            "steps": self.pair.steps,
            "epsilon_lower": None if math.isinf(self.finding.epsilon) else self.finding.epsilon,
            "unbounded": self.finding.unbounded,
            "witness": self.finding.witness,
            "power": {
                "largest_epsilon": self.power.epsilon,
                "least_probability": None if claimed is None else self.power.probability,
                "epsilon_seen_95": self.refuted_epsilon,
                "excess_seen_95": excess,
            },
        }


def _audited(claimed_pairs: Sequence[StagePair], runs: int, alpha: float) -> list[AuditedPair]:
    """Audit each pair against its claim."""
    from models.dp.audit import audit, power, seen_epsilon

    audited = []
    level = alpha / len(claimed_pairs)  # of each pair, so that all together keep alpha
    with progress() as bar:
        for claimed_pair in bar.track(claimed_pairs, description="neighbouring logs"):
            pair, claim = claimed_pair.pair, claimed_pair.claim
            epsilon, delta = float(claim.epsilon), _delta(claim, pair)
            finding = audit(pair, runs, delta=delta, alpha=level)
            power_of_runs = power(runs, epsilon, delta=delta, alpha=level, steps=pair.steps)
            refuted_epsilon = seen_epsilon(runs, epsilon, delta=delta, alpha=level, steps=pair.steps)
            if not claim.epsilon:
                refuted_epsilon = None
            audited.append(AuditedPair(pair, finding, power_of_runs, refuted_epsilon))
    return audited


def _delta(claim: Charge, pair: NeighbourPair) -> float:
    from models.dp.audit import group_delta

    return group_delta(float(claim.epsilon), float(claim.delta), pair.steps)


def _stage(built: Mechanism) -> Any:
    """Return logs with enough cases for the common variant to pass a threshold, in spite of the noise."""
    from models.dp.neighbours import Stage

    return Stage(common=max(20, _least(built) + 6))


def _least(built: Mechanism) -> int:
    """Return the threshold of counts, 0 if there is none."""
    from models.dp.neighbours import Stage

    if built.kind == "amun":
        return 0
    build = built.build(_exposure(Stage().log(1)))
    return int(build.public.get("threshold", 0))


def _run(built: Mechanism, log: Any) -> Any:
    return built.build(_exposure(log)).log


def _exposure(log: Any) -> Any:
    import numpy as np

    from stream.release.contract import Exposure

    return Exposure(log, np.ones(log.n_cases, dtype=np.bool_), (), 0)


def _document(
    built: Mechanism,
    claim: Charge,
    audited: Sequence[AuditedPair],
    runs: int,
    alpha: float,
    *,
    pipeline: bool,
) -> Mapping[str, Any]:
    claimed = float(claim.epsilon) if claim.epsilon else None
    unbounded = any(row.finding.unbounded for row in audited)
    verdict = "no claim" if claimed is None else "consistent"
    if unbounded:
        verdict = "unbounded"
    if claimed is not None and any(row.finding.refutes(claimed, row.pair.steps) for row in audited):
        verdict = "refuted"
    largest = None
    if not unbounded:
        largest = max(row.finding.epsilon / row.pair.steps for row in audited)
    return {
        "mechanism": built.model_dump(mode="json"),
        "audited": "pipeline" if pipeline else "mechanism",
        "claimed": None if claimed is None else {"epsilon": claimed, "delta": float(claim.delta)},
        "runs": runs,
        "alpha": alpha,
        "pairs": [row.json(claimed) for row in audited],
        "epsilon_lower": largest,
        "unbounded": unbounded,
        "verdict": verdict,
    }


def _refuse_blindness(claim: Charge, pairs: list[NeighbourPair], runs: int, alpha: float) -> None:
    """Refuse an audit that could not even detect a certain event: its answer would always be "consistent"."""
    from models.dp.audit import power

    pair = pairs[0]
    delta, alpha_of_pair = _delta(claim, pair), alpha / len(pairs)
    most = power(runs, float(claim.epsilon), delta=delta, alpha=alpha_of_pair, steps=pair.steps)
    if most.probability is None:
        raise InputError(
            f"--runs {runs} show an epsilon of {most.epsilon:.2f} at most, and the releases of a run claim "
            f"{float(claim.epsilon):g} together: nothing could be refuted; raise --runs or lower --epsilon"
        )


def _table(document: Mapping[str, Any]) -> None:
    from rich.table import Table

    claimed = document["claimed"]
    kind, audited = document["mechanism"]["kind"], document["audited"]
    named = kind if audited == "mechanism" else f"pipeline of {kind}"
    table = Table(title=f"{named}: {document['verdict']}", title_justify="left")
    for name in ("neighbours", "epsilon >=", "may be", "seen up to", "witness"):
        table.add_column(name)
    for row in document["pairs"]:
        bound = "unbounded" if row["unbounded"] else f"{row['epsilon_lower']:.3f}"
        allowed = "no claim" if claimed is None else f"{claimed['epsilon'] * row['steps']:g}"
        table.add_row(row["pair"], bound, allowed, f"{row['power']['largest_epsilon']:.2f}", row["witness"])
    tables().print(table)
    chances = [row["power"]["least_probability"] for row in document["pairs"]]
    if claimed is not None:
        event = "no event"
        if all(chances):
            event = f"an event of frequency {max(chances):.2f} on one log and 0 on the other"
        tables().print(f"power at {document['runs']} runs: {event} refutes the claim")
        excess = [row["power"]["excess_seen_95"] for row in document["pairs"]]
        if any(value is not None for value in excess):
            least = min(value for value in excess if value is not None)
            seen = f"a true epsilon {100 * least:.0f} % above the claim is refuted with chance .95"
        else:
            seen = "no excess over the claim is refuted with chance .95; raise --runs"
        tables().print(f"excess seen: {seen}")
