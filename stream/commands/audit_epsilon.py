"""`veilstream audit-epsilon`: run a mechanism on neighbouring logs and bound epsilon from below by what is seen."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from models.errors import InputError
from stream.commands import _options as options
from stream.commands._output import emit_json, progress, tables

if TYPE_CHECKING:
    from models.dp.audit import Finding, Pair
    from stream.release.contract import Mechanism

PANEL = "Measure"

TAKES = {"amun": ("delta", "variant"), "dp-log": ("epsilon", "delta_dp"), "dp-variants": ("epsilon", "delta_dp")}
"""Options that each kind takes."""


def command(
    mechanism: Annotated[str, typer.Option(help="amun, dp-log or dp-variants.")] = "dp-variants",
    epsilon: Annotated[str, typer.Option(help="epsilon of dp-log and dp-variants.")] = "1",
    delta_dp: Annotated[str, typer.Option("--delta-dp", help="delta of dp-log and dp-variants.")] = "0.01",
    delta: Annotated[float, typer.Option(help="Guessing advantage of amun.")] = 0.2,
    variant: Annotated[str, typer.Option(help="Design of amun: sampling, filtering or oversampling.")] = "sampling",
    runs: Annotated[int, typer.Option(help="Runs on each of the two logs of a pair.")] = 1000,
    alpha: Annotated[float, typer.Option(help="Chance that the bound is too high.")] = 0.01,
    json: options.Json = False,
) -> int:
    """Lower bounds on epsilon (Clopper-Pearson) over neighbouring logs of our own; exit 3 where the claim is refuted.

    A bound below the claim proves nothing; one above it, or support that the neighbour cannot have, refutes it.
    """
    built = _mechanism(mechanism, {"epsilon": epsilon, "delta_dp": delta_dp, "delta": delta, "variant": variant})
    if runs < 20 or not 0 < alpha < 1:
        raise InputError("--runs must be at least 20 and --alpha between 0 and 1")
    charge = built.charge()
    claimed = float(charge.epsilon) if charge.epsilon else None
    found = _findings(built, runs, alpha)
    document = _document(built, claimed, found, runs, alpha)
    if json:
        emit_json(document)
    else:
        _table(document)
    return 3 if document["verdict"] == "refuted" else 0


def _mechanism(kind: str, given: dict[str, Any]) -> Mechanism:
    from stream.commands._anonymize import chosen

    if kind not in TAKES:
        raise InputError(f"--mechanism {kind!r} is not one of {', '.join(TAKES)}")
    return chosen(kind, {name: given[name] for name in TAKES[kind]})


def _findings(built: Mechanism, runs: int, alpha: float) -> list[tuple[Pair, Finding]]:
    from models.dp.audit import audit, group_delta
    from models.dp.neighbours import pairs

    staged = pairs(
        lambda log: _run(built, log), _stage(built), times=built.kind != "dp-variants", rule=built.kind == "amun"
    )
    found, charge = [], built.charge()
    with progress() as bar:
        task = bar.add_task("neighbouring logs", total=len(staged))
        for pair in staged:
            delta = group_delta(float(charge.epsilon), float(charge.delta), pair.steps)
            found.append((pair, audit(pair, runs, delta=delta, alpha=alpha / len(staged))))
            bar.advance(task)
    return found


def _stage(built: Mechanism) -> Any:
    """As many cases as make the common variant pass a threshold, with room for the noise."""
    from models.dp.neighbours import Stage

    least = built.build(_exposure(Stage().log(1))).public.get("threshold", 0) if built.kind != "amun" else 0
    return Stage(common=max(20, least + 6))


def _run(built: Mechanism, log: Any) -> Any:
    return built.build(_exposure(log)).log


def _exposure(log: Any) -> Any:
    import numpy as np

    from stream.release.contract import Exposure

    return Exposure(log, np.ones(log.n_cases, dtype=np.bool_), (), 0)


def _document(
    built: Mechanism, claimed: float | None, found: list[tuple[Pair, Finding]], runs: int, alpha: float
) -> dict[str, Any]:
    unbounded = any(finding.unbounded for _, finding in found)
    refuted = claimed is not None and any(finding.refutes(claimed, pair.steps) for pair, finding in found)
    verdict = (
        "refuted" if refuted else "unbounded" if unbounded else "consistent" if claimed is not None else "no claim"
    )
    return {
        "mechanism": {**built.model_dump(mode="json")},
        "claimed": None if claimed is None else {"epsilon": claimed, "delta": float(built.charge().delta)},
        "runs": runs,
        "alpha": alpha,
        "pairs": [
            {
                "pair": pair.name,
                "steps": pair.steps,
                "epsilon_lower": None if math.isinf(finding.epsilon) else finding.epsilon,
                "unbounded": finding.unbounded,
                "witness": finding.witness,
            }
            for pair, finding in found
        ],
        "epsilon_lower": None if unbounded else max(finding.epsilon / pair.steps for pair, finding in found),
        "unbounded": unbounded,
        "verdict": verdict,
    }


def _table(document: dict[str, Any]) -> None:
    from rich.table import Table

    claimed = document["claimed"]
    table = Table(title=f"{document['mechanism']['kind']}: {document['verdict']}", title_justify="left")
    for name in ("neighbours", "epsilon >=", "may be", "witness"):
        table.add_column(name)
    for row in document["pairs"]:
        bound = "unbounded" if row["unbounded"] else f"{row['epsilon_lower']:.3f}"
        allowed = "no claim" if claimed is None else f"{claimed['epsilon'] * row['steps']:g}"
        table.add_row(row["pair"], bound, allowed, row["witness"])
    tables().print(table)
