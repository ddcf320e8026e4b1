"""Part 4 of the dossier: each decision, and what the alternatives would have done on this log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stream.operator.dossier.criteria import family
from stream.operator.dossier.evidence import DossierEvidence
from stream.operator.dossier.texts import DossierTexts, English
from stream.operator.report.statement import Section


def sections(
    evidence: DossierEvidence, alternatives: Mapping[str, Any] | None, texts: DossierTexts
) -> Iterator[Section]:
    """Yield the decisions, and the table of alternatives.

    Parameters
    ----------
    evidence
        The evidence.
    alternatives
        The figures of `alternatives.compute`; None if nobody computed them.
    texts
        The texts of one language.
    """
    head = tuple(texts.say(f"four.columns.{name}") for name in ("decision", "value", "meaning"))
    yield Section(texts.say("four.title"), rows=(head, *_decisions(evidence, texts)))
    if alternatives is None:
        yield Section("", points=(texts.question(texts.say("four.missing")),))
        return
    notes = [texts.say("four.alternatives")]
    if alternatives["noise"]:
        notes.append(texts.say("four.alternatives_private"))
    names = ("alternative", "released", "kept", "least", "risk", "verdict")
    head = tuple(texts.say(f"four.columns.{name}") for name in names)
    rows = tuple(_alternative(row, texts) for row in alternatives["rows"])
    yield Section("", paragraphs=tuple(notes), rows=(head, *rows))


def _decisions(evidence: DossierEvidence, texts: DossierTexts) -> Iterator[tuple[str, str, str]]:
    """Yield name, chosen value and consequence of each decision of this configuration."""
    kind, parameters = family(evidence.document), evidence.parameters
    meaning = texts.say(f"four.kind_{kind}" if kind in ("groups", "noise") else "four.kind_other")
    yield texts.say("four.kind"), evidence.kind, meaning
    if kind == "groups":
        for name in ("K", "L"):
            yield texts.say(f"four.{name}"), texts.number(parameters[name]), texts.say(f"four.{name}_meaning")
        if parameters.get("C", 1.0) < 1.0:
            yield texts.say("four.C"), texts.percent(parameters["C"]), texts.say("four.C_meaning")
        suppression = str(parameters.get("suppression", ""))
        if suppression:
            way = "local" if suppression == "local" else "whole"
            yield texts.say("four.suppression"), suppression, texts.say(f"four.suppression_{way}")
    if kind == "noise":
        yield from _spending(evidence, texts)
    basis = evidence.document.get("time_basis")
    if basis is not None:
        yield texts.say("four.times"), str(parameters.get("times", basis)), texts.translated("times", basis)
    yield from _process(evidence, texts)


def _spending(evidence: DossierEvidence, texts: DossierTexts) -> Iterator[tuple[str, str, str]]:
    budget = evidence.budget
    yield texts.say("four.epsilon"), texts.amount(budget["epsilon"]), texts.say("four.epsilon_meaning")
    limit = budget["limit"]
    if limit is None:
        yield texts.say("four.max_epsilon"), texts.say("page.not_set"), texts.say("four.max_epsilon_missing")
    else:
        yield texts.say("four.max_epsilon"), texts.amount(limit), texts.say("four.max_epsilon_meaning")


def _process(evidence: DossierEvidence, texts: DossierTexts) -> Iterator[tuple[str, str, str]]:
    """Yield who or what decides about a release."""
    if evidence.publication is not None:
        action = evidence.publication.gate.on_violation
        yield texts.say("four.gate"), action, texts.say(f"four.gate_{action}")
    else:
        yield texts.say("four.gate"), texts.say("page.not_set"), texts.say("four.gate_unknown")
    approved = "yes" if evidence.document.get("approval") else "no"
    yield texts.say("four.approval"), texts.say(f"page.{approved}"), texts.say(f"four.approval_{approved}")


def _alternative(row: Mapping[str, Any], texts: DossierTexts) -> tuple[str, ...]:
    """Return the cells of one alternative."""
    value = row["value"]
    shown = texts.number(value) if isinstance(value, int | float) else str(value)
    name = texts.say(f"four.alternative_{row['name']}", value=shown)
    if row["chosen"]:
        name = texts.say("four.chosen", value=name)
    if row["refused"]:
        return name, "", "", "", "", English(texts.say("four.refused", reason=row["refused"]))
    released = texts.say("four.released", released=row["released"], cuts=row["cuts"])
    kept = texts.say("four.no_risk") if row["released"] else ""
    if row["kept"] is not None:
        kept = texts.share(row["kept"])
    least = "" if row["least"] is None else str(row["least"])
    if row["epsilon"] is not None:
        least = texts.say("four.alternative_epsilon", value=texts.amount(row["epsilon"]))
    return name, released, kept, least, _risk(row, texts), str(row["verdict"])


def _risk(row: Mapping[str, Any], texts: DossierTexts) -> str:
    """Return the risk of an alternative in words, or why it could not be measured."""
    risk = row["risk"]
    if risk is None and row["no_risk"]:
        return English(texts.say("four.no_risk_because", reason=row["no_risk"]))
    if risk is None:
        return texts.say("four.no_risk")
    attack, result = texts.translated("attack", risk["attack"]), texts.translated("result", risk["result"])
    values = {name: texts.share(risk[name]) for name in ("risk", "low", "high")}
    return texts.say("four.risk", attack=attack, result=result, **values)
