"""Figures of part 4: the results of other values of the parameters on this log.

Each alternative is replayed through the whole release life into a folder that is removed afterwards. So the share that
is kept, the least group and the verdict are those that the publication would have had. Its risk is measured on
releases of two random halves of the log, each attacked with the other half as its control.

The original log is read, and the figures are for the operator. Those of mechanisms with noise are not private: they
compare releases that were never paid for.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import msgspec
from pydantic import ValidationError

from models.disclosure.assessment import Assessment, Attackers, Measure
from models.disclosure.material import Profile
from models.disclosure.membership import LIKELIHOOD
from models.errors import InputError, VeilstreamError
from models.eventlog import EventLog
from stream.config.faults import explain
from stream.config.settings import Publication, Settings
from stream.ledger.layout import OperatorLayout
from stream.ledger.view import LedgerView
from stream.operator.history import read_json
from stream.release.contract import Build, Exposure
from stream.release.documents import AuditDocument
from stream.release.gate import MEASURES, least_of_series
from stream.release.held_out import assess_mechanism, promised_profile
from stream.release.manifest import software
from stream.release.public_view import with_attributes
from stream.release.single import exposure_of, without_resource_names
from stream.run import presets
from stream.run.replay import Replay, ReplayOutcome, digest, within

VERSION = 2
"""1: the risk was that of one release, of one half."""

LEAST_GROUPS = (5, 10, 20, 50)
"""Values of K that are compared."""

EPSILONS = (0.1, 0.5, 1.0)
"""Values of epsilon that are compared."""

AUDIT_OF_BOUND = {"max_uniqueness": "risk", "min_utility": "utility"}
"""Audits that an alternative needs only if its gate has a bound on their figures."""

FOLLOWING = ("min_ka", "min_fa", "min_ca", "min_ba", "min_series")
"""Bounds of the gate that follow K if they have its value."""

NOISY = {"kind": "dp-variants", "epsilon": 0.5, "delta_dp": 1e-6}
"""The mechanism with noise that groups are compared with."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """One value of one decision.

    Parameters
    ----------
    name
        `K`, `L`, `suppression`, `epsilon` or `kind`.
    value
        Its value.
    table
        The publication with it, as the configuration has it.
    chosen
        Whether it is the value of the configuration.
    """

    name: str
    value: int | float | str
    table: Mapping[str, Any]
    chosen: bool = False


def alternatives(publication: Publication, settings: Settings, log: EventLog) -> list[Alternative]:
    """Return the alternatives of a publication, the configured one among them.

    Groups: K = 5, 10, 20, 50, one item more and less, whole items removed, and noise. Noise: epsilon = 0.1, 0.5, 1, and
    groups. Other mechanisms have none.

    Parameters
    ----------
    publication
        The publication, as it is configured.
    settings
        The whole configuration.
    log
        The original.
    """
    mechanism = publication.mechanism
    if "K" in mechanism and "L" in mechanism:
        return _of_groups(publication)
    if "epsilon" in mechanism:
        return _of_noise(publication, settings, log)
    return []


def _of_groups(publication: Publication) -> list[Alternative]:
    mechanism, K, L = publication.mechanism, int(publication.mechanism["K"]), int(publication.mechanism["L"])
    alternatives = []
    for least in sorted({*LEAST_GROUPS, K}):
        gate = dict(_gate(publication))
        for name, bound in gate.items():
            if name in FOLLOWING and bound == K:
                gate[name] = least
        table = _table(publication, mechanism={**mechanism, "K": least}, gate=gate)
        alternatives.append(Alternative("K", least, table, chosen=least == K))
    for length in (L - 1, L + 1):
        if length < 1:
            continue
        audit = dict(publication.audit)
        if audit.get("bk_length") == L:
            audit["bk_length"] = length
            # A tolerance as long as the knowledge would pass whatever is released.
            audit["n"] = [n for n in audit.get("n", [0]) if n < length]
        alternatives.append(
            Alternative("L", length, _table(publication, mechanism={**mechanism, "L": length}, audit=audit))
        )
    if mechanism.get("suppression") == "local":
        unbounded = {name: value for name, value in mechanism.items() if name != "max_minimality"}
        gate = {name: bound for name, bound in _gate(publication) if name != "max_minimality"}
        table = _table(publication, mechanism={**unbounded, "suppression": "exact"}, gate=gate)
        alternatives.append(Alternative("suppression", "exact", table))
    table = _table(publication, mechanism=NOISY, gate={"public_cut": True})
    alternatives.append(Alternative("kind", "dp-variants", _without_attributes(table)))
    return alternatives


def _of_noise(publication: Publication, settings: Settings, log: EventLog) -> list[Alternative]:
    mechanism, chosen = publication.mechanism, float(publication.mechanism["epsilon"])
    alternatives = []
    for epsilon in sorted({*EPSILONS, chosen}):
        table = _table(publication, mechanism={**mechanism, "epsilon": epsilon})
        alternatives.append(Alternative("epsilon", epsilon, table, chosen=epsilon == chosen))
    sensitive = settings.process.sensitive
    groups = {"kind": "tlkc-cohorts", **presets.bounds(log, sensitive), "suppression": "local"}
    table = _table(publication, mechanism=groups, gate=presets.series_gate(presets.K, local=True))
    alternatives.append(Alternative("kind", "tlkc-cohorts", _without_noise(table)))
    return alternatives


def _gate(publication: Publication) -> list[tuple[str, Any]]:
    return list(publication.gate.model_dump(mode="json", exclude_unset=True).items())


def _table(publication: Publication, **changed: Any) -> dict[str, Any]:
    """Return the table of a publication with other values.

    Nobody approves an alternative, and nobody reads its files: the figures of increments are those of their
    union, and other kinds make none.
    """
    table = publication.model_dump(mode="json", exclude_unset=True)
    for name in ("approval", "hold", "release"):
        table.pop(name, None)
    gate = changed.get("gate", table.get("gate", {}))
    audit = dict(changed.pop("audit", publication.audit))
    for bound, name in AUDIT_OF_BOUND.items():
        if bound not in gate:
            audit[name] = False
    return {**table, "audit": audit, **changed}


def _without_attributes(table: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what a release with noise does not show."""
    return {name: value for name, value in table.items() if name not in ("release_attributes", "resources")}


def _without_noise(table: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what only releases with noise have."""
    return {name: value for name, value in table.items() if name not in ("publish_after", "accumulate", "cases")}


def compute(
    publication: Publication,
    settings: Settings,
    log: EventLog,
    step: Callable[[str], None] = lambda _name: None,
    *,
    final: bool,
    today: date,
) -> dict[str, Any]:
    """Replay and attack every alternative on the original log.

    Parameters
    ----------
    publication, settings
        The configuration.
    log
        The original log.
    step
        Called with the name of each alternative before it is tried.
    final
        Whether the end of the log makes a last cut, as in the replay of the publication.
    today
        Date of the figures.
    """
    rows = []
    for alternative in alternatives(publication, settings, log):
        step(f"{alternative.name} = {alternative.value}")
        rows.append(_row(alternative, settings, log, publication, final=final))
    return {
        "version": VERSION,
        "software": software(),
        "day": today.isoformat(),
        "publication": publication.name,
        "config_digest": settings.digest,
        "log": digest(log),
        "cases": log.n_cases,
        "noise": publication.private,
        "rows": rows,
    }


def _row(
    alternative: Alternative, settings: Settings, log: EventLog, configured: Publication, *, final: bool
) -> dict[str, Any]:
    """Return the figures of one alternative."""
    row: dict[str, Any] = {"name": alternative.name, "value": alternative.value, "chosen": alternative.chosen}
    empty: dict[str, Any] = {"released": 0, "cuts": 0, "kept": None, "least": None, "epsilon": None}
    empty |= {"verdict": None, "risk": None, "no_risk": ""}
    try:
        tried = Publication.model_validate(dict(alternative.table))
        replayed = _replayed(tried, settings, log, final=final)
    except ValidationError as error:
        return {**row, **empty, "refused": "; ".join(explain(error))}
    except VeilstreamError as error:
        return {**row, **empty, "refused": str(error)}
    risk, no_risk = None, ""
    try:
        risk = _risk(tried, settings, log, configured)
    except VeilstreamError as error:  # half of the log is too small for it, or nothing of it is left to attack
        no_risk = str(error)
    return {**row, **replayed, "risk": risk, "no_risk": no_risk, "refused": ""}


def _replayed(tried: Publication, settings: Settings, log: EventLog, *, final: bool) -> dict[str, Any]:
    """Return what a publication would have released of the log.

    The configuration has no store, source or key of the real one, so all output stays in the folder.
    """
    alone = Settings(process=settings.process, file=settings.file, publication=(tried,))
    with tempfile.TemporaryDirectory() as folder:
        outcome = Replay(alone, Path(folder)).run(log, final=final)
    released = [decision.audit for _, decision in outcome.decisions if decision.status == "sealed"]
    least = [value for measure in MEASURES if (value := least_of_series(released, measure)) is not None]
    return {
        "released": len(released),
        "cuts": len(outcome.decisions),
        "kept": _kept(released[-1]) if released else None,
        "least": min(least, default=None),
        "epsilon": _spent(released[-1]) if released else None,
        "verdict": _verdict(outcome),
    }


def _kept(last: AuditDocument) -> float | None:
    """Return the share of events in the last release; with noise, of cases whose variant is in it."""
    if last.get("budget") is not None:
        covered: float | None = last.get("dp", {}).get("coverage_cases")
        return covered
    loss = last.get("loss") or {}
    return loss.get("kept") if loss.get("status") == "ok" else None


def _spent(last: AuditDocument) -> float | None:
    """Return the epsilon of all releases together; None without noise."""
    budget = last.get("budget")
    return None if budget is None else budget["spent"]["epsilon"]


def _verdict(outcome: ReplayOutcome) -> str | None:
    return next((verdict.verdict for verdict in outcome.verdicts()), None)


def _risk(
    tried: Publication,
    settings: Settings,
    log: EventLog,
    configured: Publication,
) -> dict[str, Any] | None:
    """Release two random halves of the log, and attack each release with the other half as control.

    The attacker is the same for all alternatives: the one of the configured promise.
    """
    mechanism, sensitive = tried.build_mechanism, settings.process.sensitive
    released = [name for name in tried.release_attributes if mechanism.releases_attributes]
    exposure = exposure_of(log, sensitive, released, mechanism)

    def finish(build: Build, part: Exposure) -> Build:
        return with_attributes(without_resource_names(build), released, part, mechanism)

    promise = {"mechanism": configured.build_mechanism.model_dump(mode="json")}
    declared = promised_profile(promise) or Profile(name="default")
    strongest = _strongest(assess_mechanism(mechanism, exposure, finish, Attackers((), sensitive), declared=declared))
    if strongest is None or strongest.risk is None:
        return None
    return {
        "attack": strongest.attack,
        "how": strongest.how,
        "risk": strongest.risk.risk,
        "low": strongest.risk.low,
        "high": strongest.risk.high,
        "result": strongest.result,
    }


def _strongest(assessment: Assessment) -> Measure | None:
    """Return the leak that is clearest; without any, the best guess at who is in the data.

    Membership can be attacked in every release, so the alternatives can be compared by it. The attacker who knows all
    other cases is left out: only noisy counts are tried by that attack, and would look worse than groups.
    """
    measures = [
        measure
        for result in assessment.results
        for measure in result.measures
        if measure.risk is not None and not measure.how.endswith(LIKELIHOOD)
    ]
    chosen = [measure for measure in measures if measure.result == "seen"]
    if not chosen:
        chosen = [measure for measure in measures if measure.attack == "membership"]
    best, best_risk = None, -2.0
    for measure in chosen:
        risk = None if measure.risk is None else measure.risk.risk
        if risk is not None and risk > best_risk:
            best, best_risk = measure, risk
    return best


# in the operator's folder


def check_original(log: EventLog, settings: Settings, view: LedgerView, folder: str) -> None:
    """Refuse a log other than the one that the folder's replay read. A daemon's folder names no log.

    Parameters
    ----------
    log
        The log.
    settings
        The configuration.
    view
        The facts of the folder's ledger.
    folder
        The folder, for the message.

    Raises
    ------
    InputError
        If the digests differ.
    """
    claim = view.claim
    if claim is None or claim.log is None:
        return
    until = None if claim.until is None else int(claim.until)
    if digest(within(log, settings, until)) != claim.log:
        raise InputError(f"{folder}: is not the log that this folder's replay read; give that one with --original")


def keep(output: Path, document: Mapping[str, Any]) -> None:
    """Keep the figures with the operator's files, so that a later dossier need not read the original.

    Parameters
    ----------
    output
        The output folder.
    document
        The figures, with the name of the publication.
    """
    path = OperatorLayout(output).alternatives(str(document["publication"]))
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(msgspec.json.encode(document))


def kept(output: Path, publication: str, config_digest: str) -> Mapping[str, Any] | None:
    """Return the figures that were kept; None if there are none for the configuration.

    Parameters
    ----------
    output
        The output folder.
    publication
        Name of the publication.
    config_digest
        Digest of the configuration now.
    """
    path = OperatorLayout(output).alternatives(publication)
    if not path.is_file():
        return None
    document: Mapping[str, Any] = read_json(path)
    is_current = document.get("version") == VERSION and document.get("config_digest") == config_digest
    return document if is_current else None
