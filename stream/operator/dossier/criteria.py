"""Part 2 of the dossier: each criterion of the law as promised, as measured, and what remains.

Singling out, linkability and inference are the criteria of Opinion 05/2014 (Article 29 Working Party). Each is answered
for one release, for the series and for audiences that pool what they received. The fourth criterion is relative to the
recipient (CJEU, EDPS v SRB, C-413/23 P), so only people can answer it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from stream.operator.dossier.evidence import AssessedAttack, AssessmentFile, DossierEvidence
from stream.operator.dossier.texts import DossierTexts
from stream.operator.report.data import series_minima
from stream.operator.report.document import SeriesMinimum
from stream.release.documents import AuditDocument
from stream.release.gate import Measure

Family = Literal["groups", "noise", "nothing", "other"]
"""Protection of a mechanism: groups of cases that fit, noise with an epsilon, none, or another one."""

Scope = Literal["one", "series", "pooled"]

SCOPES: tuple[Scope, ...] = ("one", "series", "pooled")

CRITERIA: Mapping[str, str] = {
    "singling_out": "singling out",
    "linkability": "linkability",
    "inference": "inference",
}
"""Criterion of the law, and the attack of an assessment that tries it."""

FURTHER_ATTACKS = ("membership", "reconstruction")
"""Attacks of an assessment beyond the three criteria."""

COMPARED: tuple[Measure, ...] = ("fa", "ca", "ba")
"""Counts of somebody who compares two releases."""

SERIES_BOUNDS = ("min_fa", "min_ca", "min_ba")


def family(document: AuditDocument) -> Family:
    """Return how the mechanism of a release protects.

    Parameters
    ----------
    document
        Manifest or audit of the release.
    """
    mechanism = document["mechanism"]
    if document.get("budget") is not None:
        return "noise"
    if {"L", "K"} <= set(mechanism["parameters"]):
        return "groups"
    return "nothing" if mechanism["kind"] == "identity" else "other"


def compares_releases(evidence: DossierEvidence) -> bool:
    """Return whether the manifest promises groups also to somebody who compares any two releases.

    Parameters
    ----------
    evidence
        Files and ledger of the publication.
    """
    return "cohorts" in evidence.kind


def unbounded_comparisons(document: AuditDocument) -> list[str]:
    """Return FA, CA and BA, as far as the gate has no bound for them.

    Parameters
    ----------
    document
        Manifest or audit of the release.
    """
    bounds = document.get("bounds") or {}
    return [name.removeprefix("min_").upper() for name in SERIES_BOUNDS if name not in bounds]


def persons(evidence: DossierEvidence, texts: DossierTexts) -> str:
    """Return how many cases of a person the promise covers.

    Parameters
    ----------
    evidence
        Files and ledger of the publication.
    texts
        Texts of the language.
    """
    return texts.count("cases", int(evidence.parameters.get("cases_per_person", 1)))


def rows(evidence: DossierEvidence, facts: Mapping[str, str], texts: DossierTexts) -> list[tuple[str, ...]]:
    """Return the table of part 2, its head first.

    Columns: criterion, against somebody with, promise, measured, what remains.

    Parameters
    ----------
    evidence
        Files and ledger of the publication.
    facts
        Facts that people know, by key.
    texts
        Texts of the language.
    """
    head = ("criterion", "scope", "promise", "measured", "remains")
    table = [tuple(texts.say(f"two.columns.{name}") for name in head)]
    for criterion in CRITERIA:
        table += [_criterion_row(evidence, texts, criterion, scope) for scope in SCOPES]
    table.append(_further_attacks(evidence, texts))
    table.append(_recipient(facts, texts))
    return table


def _criterion_row(
    evidence: DossierEvidence,
    texts: DossierTexts,
    criterion: str,
    scope: Scope,
) -> tuple[str, ...]:
    return (
        texts.say(f"two.{criterion}"),
        texts.say(f"two.{scope}"),
        _promise(evidence, texts, criterion, scope),
        _measured(evidence, texts, criterion, scope),
        _remains(evidence, texts, criterion, scope),
    )


def _recipient(facts: Mapping[str, str], texts: DossierTexts) -> tuple[str, ...]:
    """Return the row of the recipient-relative criterion: contract, keys, means; each a fact or an open question."""
    cells = []
    for key in ("contract", "key_holder", "recipient_means"):
        cell = fact(facts, texts, key)
        if key in facts:
            cell = f"{texts.say(f'facts.{key}.label')}: {cell}"
        cells.append(cell)
    return (texts.say("two.relative"), "", *cells)


def fact(facts: Mapping[str, str], texts: DossierTexts, key: str) -> str:
    """Return a fact that people know; if it is missing, its question.

    Parameters
    ----------
    facts
        Facts that people know, by key.
    texts
        Texts of the language.
    key
        Key of the fact.
    """
    if key in facts:
        return facts[key]
    return texts.question(texts.say(f"facts.{key}.question"))


# promises


def _promise(evidence: DossierEvidence, texts: DossierTexts, criterion: str, scope: Scope) -> str:
    kind = family(evidence.document)
    if kind == "nothing":
        return texts.say("promise.nothing")
    if kind == "other":
        return texts.say("promise.other" if scope == "one" else "promise.nothing")
    if scope == "pooled":
        return _pooled_promise(evidence, texts, kind)
    if kind == "noise":
        return _noise_promise(evidence, texts, criterion, scope)
    return _groups_promise(evidence, texts, criterion, scope)


def _pooled_promise(evidence: DossierEvidence, texts: DossierTexts, kind: Family) -> str:
    audiences = {other.audience for other in evidence.others}
    if not audiences - {evidence.audience}:
        return texts.say("promise.no_other")
    process = evidence.budget.get("process")
    if kind == "noise" and process:
        return texts.say("promise.noise_pooled", spent=texts.amount(process["spent"]["epsilon"] or 0.0))
    return texts.say("promise.nothing")


def _noise_promise(evidence: DossierEvidence, texts: DossierTexts, criterion: str, scope: Scope) -> str:
    budget = evidence.budget
    if criterion == "linkability":
        return texts.say("promise.see_above")
    if criterion == "inference":
        return texts.say("promise.noise_inference" if scope == "one" else "promise.see_above")
    if scope == "one":
        epsilon, delta = texts.amount(budget["epsilon"]), texts.amount(budget["delta"])
        return texts.say("promise.noise_one", epsilon=epsilon, delta=delta)
    if evidence.is_once:
        return texts.say("promise.noise_once")
    spent = texts.amount(budget["spent"]["epsilon"] or 0.0)
    delta = texts.amount(budget["spent"]["delta"] or 0.0)
    if budget["limit"] is None:
        return texts.say("promise.noise_series_unlimited", spent=spent, delta=delta)
    return texts.say("promise.noise_series", spent=spent, delta=delta, limit=texts.amount(budget["limit"]))


def _groups_promise(evidence: DossierEvidence, texts: DossierTexts, criterion: str, scope: Scope) -> str:
    parameters, bounds = evidence.parameters, evidence.document.get("bounds") or {}
    least = texts.number(parameters["K"])
    if criterion == "inference":
        return _share_promise(evidence, texts, scope)
    if criterion == "singling_out":
        if scope == "series":
            return texts.say("promise.groups_singling_series")
        length, items = texts.number(parameters["L"]), texts.say(f"items.{parameters['attribute']}")
        return texts.say("promise.groups_singling_one", L=length, items=items, K=least)
    if scope == "one":
        return texts.say("promise.groups_linking_one", K=least)
    if evidence.is_once:
        return texts.say("promise.groups_linking_once")
    if compares_releases(evidence):
        return texts.say("promise.groups_linking_series", K=least)
    # The manifests of other kinds promise each release by itself. A bound of the gate is a check, and may only warn.
    missing = unbounded_comparisons(evidence.document)
    if missing:
        return texts.say("promise.groups_linking_unbounded", missing=texts.both(missing))
    return texts.say("promise.groups_linking_checked", bounds=_bound(bounds, SERIES_BOUNDS, texts))


def _share_promise(evidence: DossierEvidence, texts: DossierTexts, scope: Scope) -> str:
    share = float(evidence.parameters.get("C", 1.0))
    if share >= 1.0:
        return texts.say("promise.groups_inference_open")
    if scope == "series":
        if evidence.is_once:
            return texts.say("promise.groups_inference_once")
        return texts.say("promise.groups_inference_series")
    sensitive = texts.both(evidence.sensitive) or texts.say("promise.sensitive")
    return texts.say("promise.groups_inference_one", sensitive=sensitive, C=texts.percent(share))


# measurements


def _measured(evidence: DossierEvidence, texts: DossierTexts, criterion: str, scope: Scope) -> str:
    lines = [*_audited(evidence, texts, criterion, scope), *_attacked(evidence, texts, criterion, scope)]
    return "\n".join(lines)


def _audited(evidence: DossierEvidence, texts: DossierTexts, criterion: str, scope: Scope) -> Iterator[str]:
    """Yield what the audits of the releases measured for a criterion."""
    if not evidence.has_release:
        if scope == "one":
            yield texts.say("measured.no_release")
        return
    kind, document = family(evidence.document), evidence.document
    if kind == "noise" and criterion == "singling_out" and scope == "one":
        yield texts.say("measured.noise")
    if kind in ("noise", "nothing") or criterion == "inference" or scope == "pooled":
        return
    if criterion == "linkability":
        if scope == "series":
            yield from _compared(evidence, texts)
        return
    anonymity = document.get("anonymity") or {}
    least_group = evidence.least["ka"] if scope == "series" else anonymity.get("ka")
    if least_group is None:
        yield texts.say("measured.anonymity_off")
        return
    yield texts.say("measured.ka", value=least_group, bound=_bound(document.get("bounds") or {}, ["min_ka"], texts))
    # A least group below K breaks no promise if the audit assumes more knowledge than the promise does.
    length, promised = anonymity.get("bk_length"), evidence.parameters.get("L")
    if scope == "one" and promised is not None and length is not None and length != promised:
        yield texts.say("measured.other_length", length=length, L=promised)


def _compared(evidence: DossierEvidence, texts: DossierTexts) -> Iterator[str]:
    """Yield what the attacks on several releases left."""
    bounds, least = evidence.document.get("bounds") or {}, evidence.least
    if least["fa"] is None and least["ba"] is None:
        yield texts.say(f"measured.{_why_not_compared(evidence)}")
        return
    fa, ca, ba = (_count(least[name], texts) for name in ("fa", "ca", "ba"))
    yield texts.say("measured.comparing", fa=fa, ca=ca, ba=ba, bounds=_bound(bounds, SERIES_BOUNDS, texts))
    minima = list(series_minima(evidence.document.get("series") or {}))
    if minima:
        releases = texts.both([str(number) for number in minima[0]["releases"]])
        values = ", ".join(_series_value(minimum, bounds, texts) for minimum in minima)
        yield texts.say("measured.series", releases=releases, values=values)


def _why_not_compared(evidence: DossierEvidence) -> str:
    """Return the name of the text on why no two releases were compared."""
    if evidence.least["ka"] is None:
        return "anonymity_off"
    return "each_once" if evidence.is_once else "first_release"


def _series_value(minimum: SeriesMinimum, bounds: Mapping[str, float], texts: DossierTexts) -> str:
    """Return the least number of cases left at one n, and what it is worth."""
    judgement = "series_no_bound"
    if minimum["violated"]:
        judgement = "series_violated"
    elif "min_series" in bounds:
        judgement = "series_bound"
    worth = texts.say(f"measured.{judgement}", bound=_bound(bounds, ["min_series"], texts))
    return texts.say("measured.series_value", value=minimum["left"], n=minimum["n"], judgement=worth)


def _bound(bounds: Mapping[str, float], names: Sequence[str], texts: DossierTexts) -> str:
    """Return the bounds, one number if they are all the same."""
    not_set = texts.say("page.not_set")
    values = [texts.number(bounds[name]) if name in bounds else not_set for name in names]
    if len(set(values)) == 1:
        return values[0]
    return ", ".join(values)


def _count(value: int | None, texts: DossierTexts) -> str:
    return texts.say("page.none") if value is None else str(value)


def _attacked(evidence: DossierEvidence, texts: DossierTexts, criterion: str, scope: Scope) -> Iterator[str]:
    """Yield the attack of a criterion that learned most, and why there is none."""
    strongest_attack = strongest(evidence, CRITERIA[criterion], scope)
    if strongest_attack is not None:
        yield attack_line(*strongest_attack, texts)
    elif not evidence.has_release:
        return
    elif scope == "pooled":
        yield texts.say("measured.no_pooled")
    elif _was_tried(evidence, CRITERIA[criterion], scope):
        yield texts.say("measured.not_run")
    else:
        yield texts.say("measured.no_assessment" if scope == "one" else "measured.no_series")


def _was_tried(evidence: DossierEvidence, attack: str, scope: Scope) -> bool:
    """Return whether an assessment has results of an attack, though none that could be run."""
    results = [list(file.attacks(attack, together=scope != "one")) for file in evidence.assessments]
    return any(results)


def strongest(
    evidence: DossierEvidence,
    attack: str,
    scope: Scope,
) -> tuple[AssessmentFile, AssessedAttack] | None:
    """Return the attack that learned most, by the lower end of its risk.

    An attack with a control comes before one without.

    Parameters
    ----------
    evidence
        Files and ledger of the publication.
    attack
        Name of the attack.
    scope
        `one` release, the releases together (`series`), or their cases as one log (`pooled`).

    Returns
    -------
    tuple or None
        None if no assessment has such an attack that could be run.
    """
    best: tuple[AssessmentFile, AssessedAttack] | None = None
    best_rank = (False, -2.0)
    for file in evidence.assessments:
        if file.pooled != (scope == "pooled"):
            continue
        for assessed in file.attacks(attack, together=scope != "one"):
            if assessed.measure.get("rate") is None:
                continue
            low = assessed.measure.get("low")
            rank = (file.has_control, -1.0 if low is None else float(low))
            if rank > best_rank:
                best, best_rank = (file, assessed), rank
    return best


def attack_line(file: AssessmentFile, assessed: AssessedAttack, texts: DossierTexts) -> str:
    """Return the result of an attack in words: rate, control, risk with interval, result and power.

    Parameters
    ----------
    file, assessed
        The assessment, and the attack in it.
    texts
        Texts of the language.
    """
    measure = assessed.measure
    how = texts.translated("how", str(measure["how"]))
    # Membership is attacked by somebody who knows the whole case, whatever the profile.
    knows = texts.translated("knows", "whole" if measure["attack"] == "membership" else assessed.profile)
    rate, result = texts.share(measure["rate"]), texts.translated("result", str(measure["result"]))
    prefix = texts.say("measured.trial") if file.is_trial else ""
    if measure.get("risk") is None or measure.get("low") is None:
        return prefix + texts.say("measured.attack_alone", how=how, knows=knows, rate=rate, result=result)
    values: dict[str, Any] = {
        name: texts.share(measure[name]) for name in ("control", "risk", "low", "high") if measure[name] is not None
    }
    power = measure.get("power")
    shown_power = texts.say("page.none") if power is None else texts.share(power)
    compared_with = texts.say("measured.control" if measure.get("control_targets") else "measured.guess")
    return prefix + texts.say(
        "measured.attack",
        how=how,
        knows=knows,
        rate=rate,
        result=result,
        power=shown_power,
        beside=compared_with,
        **values,
    )


def _further_attacks(evidence: DossierEvidence, texts: DossierTexts) -> tuple[str, ...]:
    """Return the row on attacks beyond the three criteria."""
    lines = []
    for attack in FURTHER_ATTACKS:
        strongest_attack = strongest(evidence, attack, "one")
        if strongest_attack is not None:
            lines.append(attack_line(*strongest_attack, texts))
    nothing = texts.say("measured.no_assessment" if evidence.has_release else "measured.no_release")
    measured = "\n".join(lines) or nothing
    noisy = family(evidence.document) == "noise"
    promise = texts.say("promise.see_above" if noisy else "promise.nothing")
    remains = texts.say("remains.beside_noise" if noisy else "remains.beside")
    return (texts.say("two.beside"), texts.say("two.one"), promise, measured, remains)


# what remains


def _remains(evidence: DossierEvidence, texts: DossierTexts, criterion: str, scope: Scope) -> str:
    kind = family(evidence.document)
    if scope == "pooled":
        return _pooled_remains(evidence, texts, kind)
    if kind == "nothing":
        return texts.say("remains.nothing")
    if kind == "other":
        return texts.say("remains.other")
    if kind == "noise":
        if scope == "series":
            return texts.say("remains.noise_series") if criterion == "singling_out" else ""
        names = {"singling_out": "noise_one", "linkability": "noise_linking", "inference": "noise_inference"}
        return texts.say(f"remains.{names[criterion]}")
    return _groups_remains(evidence, texts, criterion, scope)


def _pooled_remains(evidence: DossierEvidence, texts: DossierTexts, kind: Family) -> str:
    exact = [other.name for other in evidence.others if other.exact]
    if kind == "noise" and exact:
        return texts.say("remains.noise_pooled_exact", others=texts.both(exact))
    if any(other.audience != evidence.audience for other in evidence.others):
        return texts.say("remains.pooled")
    noisy = [other.name for other in evidence.others if not other.exact]
    if kind == "groups" and noisy:
        return texts.say("remains.pooled_noise", others=texts.both(noisy))
    return ""


def _groups_remains(evidence: DossierEvidence, texts: DossierTexts, criterion: str, scope: Scope) -> str:
    if criterion == "singling_out":
        if scope == "series":
            return _rules(evidence, texts)
        risk = evidence.document.get("risk") or {}
        if risk.get("status") == "ok" and risk.get("worst") is not None:
            return texts.say("remains.groups_singling_one", unique=texts.share(risk["worst"]))
        return texts.say("remains.groups_singling_one_unmeasured")
    if criterion == "linkability":
        if scope == "one":
            return texts.say("remains.groups_linking_one")
        if evidence.is_once:
            return texts.say("remains.groups_linking_once")
        numbers = [evidence.least[name] for name in COMPARED]
        fewest = min((number for number in numbers if number is not None), default=None)
        if fewest is not None and fewest < evidence.parameters["K"]:
            return texts.say("remains.groups_linking_fewer", number=fewest, K=texts.number(evidence.parameters["K"]))
        bound = (evidence.document.get("bounds") or {}).get("min_series")
        if bound is None:
            return texts.say("remains.groups_linking_series")
        return texts.say("remains.groups_linking_series_bounded", bound=texts.number(bound))
    if scope == "one":
        return texts.say("remains.groups_inference_one")
    return "" if evidence.is_once else texts.say("remains.groups_inference_series")


def _rules(evidence: DossierEvidence, texts: DossierTexts) -> str:
    """Return what a reader of the public rules of suppression learns."""
    knowledge = evidence.verdict.minimality
    least = texts.number(evidence.parameters["K"])
    if knowledge is None:
        return texts.say("remains.rules_none")
    if knowledge.worst is None or knowledge.not_measured:
        return texts.say("remains.rules_unmeasured")
    if knowledge.worst:
        return texts.say("remains.rules_broken", K=least, number=knowledge.worst)
    return texts.say("remains.rules_hold", K=least)
