"""The public manifest of a release (docs/manifest.md)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from fractions import Fraction
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, cast

from models.dp.account import AccountedLoss, loss
from models.dp.budget import Charge, shown
from models.dp.spending import Spending
from stream.release.contract import Build, Mechanism
from stream.release.documents import Budget, Chain, Manifest, MechanismSection, Spent
from stream.release.once import OncePerCase
from stream.release.public_view import GROUP
from stream.release.spec import Intake, PublicationSpec
from stream.release.stages import Charged, PublicContent, ReleaseInputs

VERSION = 1


def software() -> dict[str, str]:
    """Return name and version of the program, for manifests."""
    return {"name": "veilstream", "version": _installed_version()}


@cache
def _installed_version() -> str:
    """Return the version of the running program. Its metadata is parsed once: each release would wait for that."""
    try:
        return version("veilstream")
    except PackageNotFoundError:
        # It runs from a checkout that is not installed.
        return "unknown"


DECIDED = (
    "whether and when a release leaves: a person decides it, who can see figures of the source data. The promise "
    "covers the files, and not that decision, its moment, and the numbers that are never used"
)
"""Sentence on what a dp promise does not cover if releases need an approval."""

PUBLIC_CUT = "the moment of each release is treated as public and is not protected"
"""Sentence of a dp promise whose releases leave at a moment that depends on the data (`gate.public_cut`)."""

_ROWS = (
    "the promise begins at the rows (XES: events) of the file: each is read by itself, as declared, and rows that "
    "cannot be read are left out one by one; a file that is damaged as a whole is refused, which is not covered"
)

INTAKE_STATEMENTS: Mapping[Intake, str] = {
    "rows": _ROWS,
    "rows to the last event": (
        f"{_ROWS}, and neither is how many releases a replay has: it ends with the last event unless its end is "
        "declared (--until)"
    ),
    "records": (
        "the promise begins at the records of the source topics: each is read by itself, by the configuration and the "
        "schema that it names, and records that cannot be read are left out one by one"
    ),
    "log": (
        "the promise begins at the log as it was read; how it was read (which rows, types, formats and zones) may "
        "depend on every row of the file, and is not covered"
    ),
}
"""Begin of the promise of epsilon, by how events came in: `promise.intake` of the manifest.

A reader that looks at all rows before it reads one (for the encoding, the order of day and month, the type of a column)
lets one person decide how everybody else is read, and no noise that is drawn later bounds that. So the manifest states
how the events came in (docs/decisions/029-what-no-row-decides.md).
"""


MAP = "map"
"""`content` of a manifest whose release holds the files of a process map, and no log."""


def manifest(
    spec: PublicationSpec,
    charged: Charged,
    build: Build,
    content: PublicContent,
    *,
    published: str,
    accepted_gaps: int,
    simulated: bool,
) -> Manifest:
    """Build the public manifest without its files (the store adds path, sha256 and bytes of each).

    For dp mechanisms it holds nothing that was computed from the data: no counts, no suppressed items.

    Parameters
    ----------
    spec
        Configuration of the publication.
    charged
        The attempt: number, earlier releases, and what was spent with its charge.
    build
        The build of the mechanism: everything released so far, if the release is an increment.
    content
        The part of it that the files hold.
    published
        Moment of publication (ISO 8601).
    accepted_gaps
        How many gaps in the source events the operator has accepted.
    simulated
        Whether the moment of publication is of a simulated clock.
    """
    mechanism, audience, inputs = spec.mechanism, spec.audience, charged.inputs
    parameters = public_parameters(mechanism, tuple(build.attributes))
    promised = dict(promise(mechanism, build, sensitive=bool(spec.sensitive), once=spec.once))
    promised["audience"] = audience
    if "resource" in build.carries:
        promised["employees"] = employees(spec)
    if not mechanism.reads_data_in_gate:
        promised["intake"] = INTAKE_STATEMENTS[spec.intake]
    if spec.gate.public_cut:
        promised["public_cut"] = PUBLIC_CUT
    if spec.approval and not mechanism.reads_data_in_gate:
        promised["not_guaranteed"] += f"; {DECIDED}"
    body: Manifest = {
        "version": VERSION,
        "process": spec.process,
        "publication": spec.name,
        "audience": audience,
        "sequence": inputs.number,
        "previous": None if inputs.previous is None else inputs.previous.sequence,
        "chain": chain(inputs),
        "published": published,
        "mechanism": cast(MechanismSection, {"kind": mechanism.kind, "parameters": parameters, **build.public}),
        "promise": promised,
        "budget": budget_section(spec, charged.spending, inputs.spending_elsewhere),
        "time_basis": build.time_basis,
        "reading": reading_notes(content.build),
        "carries": [*build.carries, *build.attributes],
        "config_digest": spec.config_digest,
        "software": software(),
    }
    if spec.once is not None:
        body["cases"] = "completed"
    if build.files is not None:
        body["content"] = MAP
    if simulated:
        body["clock"] = "simulated"
    if accepted_gaps:
        body["gaps_accepted"] = accepted_gaps
    if spec.approval:
        body["approval"] = "required"
    if mechanism.reads_data_in_gate:
        body["counts"] = public_counts(build)
    if content.increment is not None:
        body["increment"] = {**content.increment, "new": public_counts(content.build)}
    return body


CUT_OFF = (
    "Events were removed from single cases, their last events among them: a case that looks unfinished may have ended. "
    "Do not count unfinished cases, and do not take the last activity of a case for its outcome."
)
NOT_OVER = "Cases that were not over when the release was made may be in it; they look unfinished."
UNCERTAIN = "All counts carry noise. Each has an interval, which covers the true number with a chance of 95 %."
AFTER_THE_CUT = "Times carry noise: some are after the moment of the release."


ALONE = (
    "No other release of this publication holds a case of this one: put all its releases together for the whole log."
)


def part_note(since: int) -> str:
    """Return the sentence on the files of an increment, which hold a part of the log."""
    return (
        f"These files hold only the cases that are new since release {since}: read them together with all earlier "
        "releases of the set (`increment` in the manifest), which this release's promise and counts are about."
    )


def reading_notes(build: Build) -> list[str]:
    """Return sentences for people who mine the release.

    They leave with the release (manifest, log header): the files go to people who see no other page. Only `n_actual` is
    read off the data, which the manifest of a kind that removes events names anyway; kinds with noise have none.
    """
    notes = [CUT_OFF] if build.n_actual else []
    if not build.immutable:
        notes.append(NOT_OVER)
    if build.files is not None:
        notes.append(UNCERTAIN)
    if build.time_basis == "noised":
        notes.append(AFTER_THE_CUT)
    if build.alone:
        notes.append(ALONE)
    if build.since is not None:
        notes.append(part_note(build.since))
    return notes


def employees(spec: PublicationSpec) -> str:
    """Return the sentence on what a release means for those who did the events."""
    if spec.roles is not None:
        return (
            f"resources leave as roles; a role that fewer than {getattr(spec.mechanism, 'K', GROUP)} of them have is "
            "shown as other, which represents as many; not guaranteed: what a role reveals about an employee who is "
            "known to have worked on a case"
        )
    if spec.raw_resources:
        return "every event names who did it; nothing is guaranteed to employees"
    return (
        "every employee has one pseudonym, the same in all releases of the process; nothing is guaranteed to "
        "employees: who recognises one event of a person knows all of that person's events and cases, and with whom "
        "they worked; K counts cases"
    )


def chain(inputs: ReleaseInputs) -> Chain:
    """Return what ties the next release to those before it.

    The digest of the last manifest, and how many numbers the process has sealed, the next one included.
    """
    previous = inputs.previous
    return {
        "previous_manifest": None if previous is None else previous.body.manifest,
        "releases": inputs.sealed_numbers + 1,
    }


def promise(
    mechanism: Mechanism,
    build: Build,
    *,
    sensitive: bool,
    once: OncePerCase | None = None,
) -> dict[str, str]:
    """Return the mechanism's promise, with the limits of this build.

    Parameters
    ----------
    mechanism, build
        The build, and the mechanism that made it.
    sensitive
        Whether the log has sensitive attributes. Without them a bound on their values is not mentioned.
    once
        Terms of a series in which each case counts once.
    """
    if not sensitive and "C" in type(mechanism).model_fields:
        mechanism = mechanism.model_copy(update={"C": 1.0})
    body = dict(mechanism.promise() if once is None else mechanism.promise_once(once))
    return {**body, "not_guaranteed": "; ".join([body["not_guaranteed"], *build.not_guaranteed])}


def public_parameters(mechanism: Mechanism, shown: Collection[str]) -> dict[str, Any]:
    """Return the parameters of a mechanism as public documents may show them.

    Edges of classes (`bins`) of an attribute that does not leave are left out: recipients cannot use them, and they may
    have been chosen by looking at the data (`stream.run.presets`).

    Parameters
    ----------
    mechanism
        The mechanism with all its parameters.
    shown
        The attributes that leave with the cases.
    """
    parameters = mechanism.model_dump(mode="json", exclude={"kind"})
    if "bins" in parameters:
        parameters["bins"] = {name: edges for name, edges in parameters["bins"].items() if name in shown}
    return parameters


def public_counts(build: Build) -> dict[str, int]:
    """Count cases, events and variants of the release (mechanisms without a dp promise only)."""
    log = build.log
    codes = log.activity.codes
    variants = {codes[a:b].tobytes() for a, b in zip(log.starts[:-1], log.starts[1:], strict=True)}
    return {"cases": log.n_cases, "events": log.n_events, "variants": len(variants)}


def budget_section(spec: PublicationSpec, spending: Spending, elsewhere: Spending) -> Budget | None:
    """Return what a release spends, and what was spent with it; None if it spends nothing.

    Parameters
    ----------
    spec
        Configuration of the publication.
    spending, elsewhere
        Everything that was charged to the publication, and to the other publications of the process.
    """
    charge = spec.mechanism.charge()
    if charge == Charge():
        return None
    accounting = spec.accounting
    alone = accounting.loss(charge)
    by_process = elsewhere.together(spending)
    budget: Budget = {
        "epsilon": shown(alone.epsilon),
        "delta": shown(alone.delta),
        "spent": spent_section(loss(accounting, spending, spec.gate.max_delta)),
        "limit": _limit(spec.gate.max_epsilon),
        "process": {
            "spent": spent_section(loss(accounting, by_process, spec.max_delta)),
            "limit": {"epsilon": _limit(spec.max_epsilon), "delta": _limit(spec.max_delta)},
        },
    }
    if accounting.kind == "zcdp":
        budget["accounting"] = "zcdp"
        budget["zcdp"] = {
            "rho": shown(charge.rho),
            "spent": shown(spending.summed.rho),
            "process": shown(by_process.summed.rho),
            "conversion_delta": shown(accounting.conversion_delta),
        }
    if spec.once is not None:
        budget["scope"] = "cases"
    return budget


def spent_section(spent: AccountedLoss) -> Spent:
    """Return a loss as documents state it: never less than it is."""
    return {"epsilon": shown(spent.charge.epsilon), "delta": shown(spent.charge.delta), "rule": spent.rule}


def _limit(limit: Fraction | None) -> float | None:
    return None if limit is None else float(limit)
