"""The two documents of a release: the public manifest and the operator's audit (docs/manifest.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from models.dp.budget import Charge, shown
from stream.release.contract import Build, Mechanism
from stream.release.gate import GatePolicy

VERSION = 1


def software() -> dict[str, str]:
    """Name and version of the program, for manifests."""
    try:
        return {"name": "veilstream", "version": version("veilstream")}
    except PackageNotFoundError:  # run from a checkout that is not installed
        return {"name": "veilstream", "version": "unknown"}


def manifest(
    *,
    process: str,
    publication: str,
    audience: str,
    sequence: int,
    previous: int | None,
    published: str,
    mechanism: Mechanism,
    policy: GatePolicy,
    build: Build,
    spent: Charge,
    process_budget: ProcessAccount,
    chain: Mapping[str, Any],
    config_digest: str,
    accepted_gaps: int = 0,
    simulated: bool = False,
) -> dict[str, Any]:
    """The public manifest without its files (the store adds path, sha256 and bytes of each).

    For dp mechanisms it holds nothing that was computed from the data: no counts, no suppressed items.
    """
    parameters = {key: value for key, value in mechanism.model_dump(mode="json").items() if key != "kind"}
    body: dict[str, Any] = {
        "version": VERSION,
        "process": process,
        "publication": publication,
        "audience": audience,
        "sequence": sequence,
        "previous": previous,
        "chain": dict(chain),
        "published": published,
        "mechanism": {"kind": mechanism.kind, "parameters": parameters, **build.public},
        "promise": {**promise(mechanism, build), "audience": audience},
        "budget": _budget(mechanism.charge(), spent, policy, process_budget),
        "time_basis": build.time_basis,
        "carries": [*build.carries, *build.attributes],
        "config_digest": config_digest,
        "software": software(),
    }
    if policy.public_cut:
        body["promise"]["public_cut"] = "the moment of each release is treated as public and is not protected"
    if simulated:
        body["clock"] = "simulated"
    if accepted_gaps:
        body["gaps_accepted"] = accepted_gaps
    if mechanism.reads_data_in_gate:
        body["counts"] = public_counts(build)
    return body


def promise(mechanism: Mechanism, build: Build) -> dict[str, Any]:
    """The mechanism's promise, with what this build in particular does not guarantee."""
    body = dict(mechanism.promise())
    return {**body, "not_guaranteed": "; ".join([body["not_guaranteed"], *build.not_guaranteed])}


def public_counts(build: Build) -> dict[str, int]:
    """Cases, events and variants of what is released (mechanisms without a dp promise only)."""
    log = build.log
    codes = log.activity.codes
    variants = {codes[a:b].tobytes() for a, b in zip(log.starts[:-1], log.starts[1:], strict=True)}
    return {"cases": log.n_cases, "events": log.n_events, "variants": len(variants)}


@dataclass(frozen=True, slots=True)
class ProcessAccount:
    """What all publications of the process spent together, former names included, and what caps them."""

    spent: Charge
    max_epsilon: Fraction | None
    max_delta: Fraction | None

    def json(self) -> dict[str, Any]:
        limits = {"epsilon": self.max_epsilon, "delta": self.max_delta}
        return {
            "spent": {"epsilon": shown(self.spent.epsilon), "delta": shown(self.spent.delta)},
            "limit": {name: None if limit is None else float(limit) for name, limit in limits.items()},
        }


def _budget(charge: Charge, spent: Charge, policy: GatePolicy, process_budget: ProcessAccount) -> dict[str, Any] | None:
    if charge == Charge():
        return None
    limit = policy.max_epsilon
    return {
        "epsilon": shown(charge.epsilon),
        "delta": shown(charge.delta),
        "spent": {"epsilon": shown(spent.epsilon), "delta": shown(spent.delta)},
        "limit": None if limit is None else float(limit),
        "process": process_budget.json(),
    }


def audit_document(public: Mapping[str, Any], **operator: Any) -> dict[str, Any]:
    """audit.json: the manifest and what only the operator may see."""
    return {**public, **operator}
