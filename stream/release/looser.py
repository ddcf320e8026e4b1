"""Terms of a publication that protect people less than those of its last release.

A configuration may lower K or a bound of the gate while a series is under way. Recipients, and a person who
approved the earlier releases, know the former terms only. So the start of a process, `check-config`, the
audit of the next release and the statement report each looser term.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast

from pydantic import ValidationError

from models.errors import InputError
from models.knowledge import NANOSECONDS, WEAKER, Structure, Unit
from stream.release.documents import AuditDocument
from stream.release.mechanisms import kinds

if TYPE_CHECKING:
    from stream.ledger.entries import SealEntry
    from stream.ledger.view import Account
    from stream.release.spec import PublicationSpec

LOOSER_WHEN_SMALLER = ("K", "L", "cases_per_person")
"""Parameters of mechanisms that protect less when they are smaller. One that is absent here is never reported."""

LOOSER_WHEN_LARGER = ("C", "epsilon", "rho", "delta_dp", "delta")
"""Parameters of mechanisms that protect less when they are larger."""


def last_seal(account: Account) -> SealEntry | None:
    """Return the seal of the newest release that has left, else of one that is held; None if there is neither.

    A held release is no measure for the next one: nobody has accepted its terms yet.
    """
    numbers = account.released_numbers or account.held
    return account.seals[max(numbers)] if numbers else None


def keeps_approval(spec: PublicationSpec, seal: SealEntry, earlier: AuditDocument) -> bool:
    """Return whether the next release needs an approval that the configuration has dropped.

    Releases were approved by a person up to now. Dropping this is itself a change that a person has to
    approve, once: the approved release is of the new configuration, and the ones after it need no approval.
    """
    was_approved = seal.body.held_at is not None
    return not spec.approval and was_approved and earlier.get("config_digest") != spec.config_digest


def looser_terms(spec: PublicationSpec, seal: SealEntry, earlier: AuditDocument) -> list[str]:
    """Return what the configuration allows and the last release did not, a sentence for each term.

    Parameters
    ----------
    spec
        The publication, as it is configured now.
    seal, earlier
        Seal and audit of its last release.

    Returns
    -------
    list of str
        For example "K is 5 (20 at release 7)". Empty if no term is looser.
    """
    if earlier.get("config_digest") == spec.config_digest:
        return []
    mechanism = {"kind": spec.mechanism.kind, "parameters": spec.mechanism.model_dump(mode="json")}
    place = f"at release {seal.sequence}"
    sentences = looser_mechanism(mechanism, earlier.get("mechanism") or {}, place)
    sentences += _looser_bounds(spec.gate.bounds, earlier.get("bounds") or {}, place)
    sentences += _looser_budget(spec, earlier, place)
    sentences += _looser_audit(spec, earlier, place)
    released = earlier.get("carries")
    if released is not None:
        more = [name for name in spec.attributes if name not in released]
        sentences += [f"{name} is released with the cases (it was not {place})" for name in more]
    sentences += _shown_more(spec, earlier, place)
    for name in earlier.get("bounded", ()):  # audits of earlier programs lack it
        if name not in spec.sensitive:
            sentences.append(f"values of {name} are not bounded by C (they were {place})")
    former_action = earlier.get("on_violation", "warn")  # audits of earlier programs lack it
    if spec.gate.on_violation == "warn" and former_action != "warn":
        sentences.append(f"a broken bound only warns, gate.on_violation is warn ({former_action} {place})")
    if seal.body.held_at is not None and not spec.approval:
        sentences.append(f"approval is not required (it was {place})")
    return sentences


RESOURCES_SHOW = {"roles": "roles", "process": "pseudonyms", "key": "pseudonyms", "raw": "names"}
"""The form in which resources leave, by `named_by` of an audit; a later form shows more of an employee."""


def _shown_more(spec: PublicationSpec, earlier: AuditDocument, place: str) -> list[str]:
    """Return the columns that leave now and did not, and those that show more than they did.

    A finer T also protects against finer knowledge. It is named, since each time shows more.
    """
    shown, former = spec.mechanism.perspective, _perspective(earlier.get("mechanism") or {})
    if shown is None or former is None:
        return []
    new_names = {*shown} - {*former}
    sentences = [f"{words} leave (they did not {place})" for name, words in COLUMNS.items() if name in new_names]
    unit, former_unit = _unit(shown), _unit(former)
    if unit is not None and former_unit is not None and NANOSECONDS[unit] < NANOSECONDS[former_unit]:
        sentences.append(f"times are in {unit} ({former_unit} {place})")
    resources = earlier.get("resources")
    former_form = None if resources is None else RESOURCES_SHOW.get(resources["named_by"])
    if "resource" in shown and "resource" in former and former_form is not None:
        forms = list(dict.fromkeys(RESOURCES_SHOW.values()))
        form = "names" if spec.raw_resources else "pseudonyms"
        if spec.roles is not None:
            form = "roles"
        if forms.index(form) > forms.index(former_form):
            sentences.append(f"resources leave as {form} ({former_form} {place})")
    return sentences


COLUMNS = {"activity": "activities", "resource": "resources", "relative_time": "times"}
"""Columns of a release that show something of a person."""


def _perspective(mechanism: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the columns that a section `mechanism` carries; None if this program cannot read it."""
    kind = kinds().get(mechanism.get("kind", ""))
    if kind is None:
        return None
    try:
        return kind.model_validate(mechanism.get("parameters") or {}).perspective
    except (ValidationError, InputError):
        return None  # parameters of another version of the program


def _unit(perspective: Sequence[str]) -> Unit | None:
    """Return the unit of the times among the columns of releases."""
    return next((cast(Unit, name) for name in perspective if name in NANOSECONDS), None)


def discontinued(spec: PublicationSpec, earlier: AuditDocument) -> str | None:
    """Return why no release can follow the last one under this configuration; None if one can.

    Such a publication is withheld at each cut, which may come days after the start.
    """
    former = earlier.get("mechanism") or {}
    if earlier.get("config_digest") == spec.config_digest or former.get("kind") != spec.mechanism.kind:
        return None
    changed = spec.mechanism.changed_terms(former.get("parameters") or {})
    if changes_cases(spec, earlier):
        changed = ", ".join(filter(None, (changed, f'cases = "{earlier.get("cases", "all")}"')))
    if not changed:
        return None
    return (
        f"its releases promise {changed}, and a series keeps these terms: with others each release is withheld; give "
        "them again, or configure another publication for the new ones"
    )


def changes_cases(spec: PublicationSpec, earlier: AuditDocument) -> bool:
    """Return whether the cases of a series begin to wait for the release that shows them, or no longer do.

    They wait with `cases = "completed"` and a mechanism that keeps cases: another value of either changes it.
    """
    former = kinds().get((earlier.get("mechanism") or {}).get("kind", ""))
    waited = former is not None and former.keeps_cases and earlier.get("cases") == "completed"
    return spec.waits != waited


def looser_mechanism(mechanism: Mapping[str, Any], earlier: Mapping[str, Any], place: str) -> list[str]:
    """Return the parameters that protect less than earlier ones; the kind alone, if that has changed.

    Parameters
    ----------
    mechanism, earlier
        Section `mechanism` of manifests or audits.
    place
        Names the earlier release, such as "at release 7".
    """
    if "kind" not in earlier:
        return []
    if mechanism["kind"] != earlier["kind"]:
        return [f"the mechanism is {mechanism['kind']} ({earlier['kind']} {place})"]
    parameters, former = mechanism.get("parameters") or {}, earlier.get("parameters") or {}
    sentences = []
    for name in (*LOOSER_WHEN_SMALLER, *LOOSER_WHEN_LARGER):
        value, former_value = parameters.get(name), former.get(name)
        if value is None or former_value is None:
            continue
        growth = Fraction(str(value)) - Fraction(str(former_value))
        is_looser = growth < 0 if name in LOOSER_WHEN_SMALLER else growth > 0
        if is_looser:
            sentences.append(f"{name} is {value} ({former_value} {place})")
    unprotected = [kind for kind in _knowledge(former) if kind not in _knowledge(parameters)]
    if unprotected:
        sentences.append(f"knowledge {', '.join(unprotected)} is not promised any more (it was {place})")
    return sentences


def _knowledge(parameters: Mapping[str, Any]) -> Sequence[Structure]:
    """Return the kinds of knowledge that a mechanism's parameters promise protection against."""
    if "knowledge" not in parameters:
        return ()
    strongest = parameters["knowledge"]
    return (strongest, *parameters.get("also", WEAKER.get(strongest, ())))


def _looser_bounds(bounds: Mapping[str, float], earlier: Mapping[str, float], place: str) -> list[str]:
    sentences = []
    for name, former_bound in earlier.items():
        bound = bounds.get(name)
        if bound is None:
            sentences.append(f"gate.{name} is not set ({former_bound:g} {place})")
        elif (bound < former_bound) if name.startswith("min_") else (bound > former_bound):
            sentences.append(f"gate.{name} is {bound:g} ({former_bound:g} {place})")
    return sentences


def _looser_budget(spec: PublicationSpec, earlier: AuditDocument, place: str) -> list[str]:
    """Compare the limits that all publications of the process share; manifests of earlier programs lack them."""
    process = (earlier.get("budget") or {}).get("process")
    if process is None:
        return []
    former = process["limit"]
    sentences = []
    for unit, limit, former_limit in (
        ("epsilon", spec.max_epsilon, former["epsilon"]),
        ("delta", spec.max_delta, former["delta"]),
    ):
        if former_limit is None:
            continue
        if limit is None:
            sentences.append(f"process.budget.max_{unit} is not set ({former_limit:g} {place})")
        elif float(limit) > former_limit:
            sentences.append(f"process.budget.max_{unit} is {float(limit):g} ({former_limit:g} {place})")
    return sentences


def _looser_audit(spec: PublicationSpec, earlier: AuditDocument, place: str) -> list[str]:
    """Compare what the attacks are measured with; a bound on less knowledge, or on fewer n, promises less."""
    # Not imported above: lists and reports import this module too, and the attacks load the compiler.
    from stream.release.audits.anonymity import CorrespondenceAudit

    anonymity = earlier.get("anonymity") or {}
    attacks = next((audit for audit in spec.audits if isinstance(audit, CorrespondenceAudit)), None)
    if attacks is None or not anonymity:
        return []
    sentences = []
    former_length = anonymity.get("bk_length", 0)
    if attacks.bk_length < former_length:
        sentences.append(f"audit.bk_length is {attacks.bk_length} ({former_length} {place})")
    # The gate uses the least value over all n, so each n that is measured no more is a condition less.
    dropped = [n for n in anonymity.get("n", ()) if n not in attacks.n]
    if dropped:
        sentences.append(f"audit.n lacks {', '.join(map(str, dropped))} (measured {place})")
    return sentences
