"""Keep the last dossier with the operator's files, and a page on the attacks that it names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from stream.ledger.layout import OperatorLayout
from stream.operator.assessment import COLUMNS, READING, three_digits
from stream.operator.dossier.evidence import DossierEvidence
from stream.operator.report.statement import Section, Statement
from stream.operator.report.statement import html as statement_html


def keep(output: Path, evidence: DossierEvidence, dossier: str) -> None:
    """Keep the page of a dossier, and a page on the attacks that it names.

    Parameters
    ----------
    output
        The output folder.
    evidence
        The evidence of the dossier.
    dossier
        Its page as HTML.
    """
    layout = OperatorLayout(output)
    _write(layout.dossier(evidence.name), dossier)
    if evidence.assessments:
        _write(layout.assessment(evidence.name), statement_html(attacks(evidence)))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")


def attacks(evidence: DossierEvidence) -> Statement:
    """Return a page with every figure of the assessments of a dossier.

    Parameters
    ----------
    evidence
        Files and ledger of the publication.
    """
    sections = [section for file in evidence.assessments for section in _tables(file.document)]
    lead = (
        "Facts that attackers learn about people, measured by attacks that read the original. The page is for the "
        "operator and the officer, and not for recipients."
    )
    readings = Section("How to read the figures", points=READING)
    return Statement(f"Assessments of {evidence.name}", lead, (*sections, readings), {})


def _tables(document: Mapping[str, Any]) -> Iterator[Section]:
    warnings = tuple(document.get("warnings") or ())
    if warnings:
        yield Section("Read this first", points=warnings)
    named = ", ".join(str(release["name"]) for release in document.get("releases") or ())
    for entry in document["assessments"]:
        for profile in entry["profiles"]:
            title = f"{entry['attacked']}, {profile['profile']} attacker"
            rows = tuple(_row(measure) for measure in profile["measures"])
            knowledge = f"Knows {profile['knows']}; for membership the whole case."
            facts = (("Releases", named),) if named else ()
            yield Section(title, paragraphs=(knowledge,), facts=facts, rows=(COLUMNS, *rows))


def _row(measure: Mapping[str, Any]) -> tuple[str, ...]:
    """Return one line of a table, cells as `stream.operator.assessment.COLUMNS`."""
    low, high = measure.get("low"), measure.get("high")
    interval = "" if low is None or high is None else f"{low:.3f} to {high:.3f}"
    targets = measure.get("targets")
    return (
        str(measure["attack"]),
        str(measure["how"]),
        "" if targets is None else f"{targets:g}",
        three_digits(measure.get("rate")),
        three_digits(measure.get("control")),
        three_digits(measure.get("risk")),
        interval,
        three_digits(measure.get("power")),
        str(measure["result"]),
    )
