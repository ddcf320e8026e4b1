"""The page: data and figures through the template into one HTML file that needs nothing else.

`render` gives the template `page.html` the data of the report (`stream.operator.report.data`) and, for each
publication (`_shown`), the figures drawn from it (`stream.operator.report.figures`). The functions at the
end of the file format numbers and moments for the template.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from jinja2 import Environment
from markupsafe import Markup

from models.dp.account import RULE_TEXTS
from stream.operator.history import late_sentence
from stream.operator.papers import Links
from stream.operator.report import figures, plots
from stream.operator.report.document import AnonymityRow, AttemptRow, HappenedRow, PublicationReport, Report
from stream.operator.report.templates import environment_of
from stream.operator.report.words import every, sentence
from stream.release.manifest import software
from stream.release.verdict import LOOKS
from stream.values import graph_drawing

FOLDER = Path(__file__).parent
COLUMNS = {
    "releases": "releases",
    "withheld": "withheld",
    "ka": "KA",
    "fa": "FA",
    "ca": "CA",
    "ba": "BA",
    "events_kept": "events kept",
    "utility": "utility",
    "delay_days": "days of waiting",
    "held": "held back",
}
"""Columns of a comparison, next to the publication."""
SIGNS: Mapping[str, str] = {word: look.sign for word, look in LOOKS.items()}
"""Sign next to the word and the colour."""
MOST_RELEASES = 3
"""Releases that get a plot by n of their own; every release is in the tables."""


def render(data: Report, *, home: str | None = None, papers: Links | None = None) -> str:
    """Return the report as HTML.

    Parameters
    ----------
    data
        See `stream.operator.report.data.collect`.
    home
        A page to go back to.
    papers
        Addresses of dossiers and assessments.
    """
    style = Markup((FOLDER / "style.css").read_text(encoding="utf-8"))  # noqa: S704 - our own file
    template = _templates().get_template("page.html")
    return template.render(
        report=data,
        home=home,
        papers=papers or {},
        style=style,
        software=software(),
        compared=figures.comparison(data["comparison"]),
        columns=COLUMNS,
        shown=[_shown(publication) for publication in data["publications"]],
        kept=_figures(figures.kept(data["publications"])),
        timeline=_figures(figures.timeline(data["happened"])),
        quiet=_quiet(data["happened"]),
        words=every(),
        today=datetime.now(UTC).date().isoformat(),
    )


# Kept, because compiling the template takes longer than many a report. A template that changes is compiled again.
@cache
def _templates() -> Environment:
    """Return the templates with the functions that format numbers and moments."""
    environment = environment_of(FOLDER)
    environment.filters |= {"number": number, "pretty": _pretty, "moment": moment, "swatch": plots.swatch}
    environment.filters |= {"share": share, "sentence": sentence, "rule": RULE_TEXTS.__getitem__}
    return environment


def _shown(publication: PublicationReport) -> Mapping[str, Any]:
    """Return one publication with its figures, section by section."""
    measured = [entry for entry in publication["anonymity"] if entry["pairs"]]
    last = measured[-1] if measured else None

    # Both graphs have one scale, so that edges of the same width have the same count.
    counts = [edge["count"] for graph in publication["graphs"] for edge in graph["edges"]]
    largest_count = max(counts, default=None)
    graphs = [(graph, graph_drawing.draw(graph, largest_count)) for graph in publication["graphs"]]

    times_newest_first = [row["time"] for row in reversed(publication["attempts"]) if row["time"]]
    last_cut = times_newest_first[0][:10] if times_newest_first else ""
    return {
        "data": publication,
        "symbol": SIGNS[publication["safe"]["verdict"]],
        "counted": any(row["cases"] is not None for row in publication["attempts"]),
        "tally": _tally(publication["attempts"]),
        "late": late_sentence(publication["attempts"]),
        "cases": _figures(figures.cases(publication)),
        "anonymity": _figures(figures.anonymity(publication)),
        "by_n": _by_n(measured[-MOST_RELEASES:], publication["bounds"]),
        "proportions": figures.proportions(last) if last else [],
        "worst": _worst(measured[-1:]),
        "leakage": _figures(figures.leakage(publication)),
        "budget": _figures(figures.budget(publication)),
        "new_variants": _new_variants(publication),
        "last_cut": last_cut,
        "uniqueness": [*figures.uniqueness(publication), *figures.true_times(publication)],
        "upper_limit": figures.upper_limit(publication),
        "utility": _figures(figures.utility(publication)),
        "mining": _mining(publication["utility"]),
        "reading": (publication["manifest"] or {}).get("reading") or [],
        "graphs": graphs,
        "why_not": {name: why_not(publication[name]) for name in ("anonymity", "risk", "utility")},
    }


def _new_variants(publication: PublicationReport) -> int | None:
    """Return the variants of the last release that no source case has; None if that was not counted."""
    manifest, cost = publication["manifest"], publication["cost"]
    if manifest is None or cost is None or str(manifest["sequence"]) != cost["label"]:
        return None
    shown = (manifest.get("counts") or {}).get("variants")
    kept = cost["variants_kept"]
    if shown is None or kept is None:
        return None
    return shown - kept


def _mining(entries: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the sentences on the mining utility of the last release that was measured, if there is one."""
    measured = [entry for entry in entries if entry.get("mining")]
    if not measured:
        return []
    last = measured[-1]
    return [{"label": last["label"], "sentences": last["mining"]["sentences"]}]


def _figures(figure: figures.Figure | None) -> list[figures.Figure]:
    return [] if figure is None else [figure]


def _by_n(entries: Sequence[AnonymityRow], bounds: Mapping[str, float]) -> list[figures.Figure]:
    """Draw the worst pair of each release by n, on one axis, newest release first."""
    worst_pairs = [(entry, figures.worst_pair(entry)) for entry in entries]
    linked_pairs = [(entry, pair) for entry, pair in worst_pairs if pair]
    values_of_axis = figures.values_by_n([pair for _, pair in linked_pairs])
    drawn = [figures.by_n(entry, pair, bounds, values_of_axis) for entry, pair in linked_pairs]
    return [figure for figure in reversed(drawn) if figure is not None]


def _worst(entries: Sequence[AnonymityRow]) -> list[Mapping[str, Any]]:
    """Return the worst background knowledge of each attack for every pair and n of the given releases."""
    rows: list[Mapping[str, Any]] = []
    for entry in entries:
        for pair in entry["pairs"]:
            for result in pair["results"]:
                pair_and_n = {"label": entry["label"], "earlier": pair["earlier"], "n": result["n"]}
                for attack in ("fa", "ca", "ba"):
                    knowledge = result["worst"].get(attack)
                    if knowledge is not None:
                        left = result.get(attack)
                        rows.append({**pair_and_n, "attack": attack.upper(), "bk": knowledge, "left": left})
    return rows


def why_not(entries: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, list[str]]]:
    """Return (status, reason, releases) of missing or meaningless measures, equal ones together.

    Parameters
    ----------
    entries
        Measures of the releases, each with its status.
    """
    labels_by_reason: dict[tuple[str, str], list[str]] = {}
    for entry in entries:
        if entry["status"] == "ok":
            continue
        status = entry["status"].replace("_", " ")
        labels_by_reason.setdefault((status, entry["reason"]), []).append(entry["label"])
    return [(status, reason, labels) for (status, reason), labels in labels_by_reason.items()]


def _tally(attempts: Sequence[AttemptRow]) -> dict[str, int]:
    """Return the number of attempts by status, and of releases with a warning or a repair."""
    tally: dict[str, int] = Counter(row["status"] for row in attempts)
    warned = sum(row["warned"] for row in attempts)
    repaired = sum(row["repaired"] for row in attempts)
    if warned:
        tally["warned"] = warned
    if repaired:
        tally["repaired"] = repaired
    return tally


def _quiet(rows: Sequence[HappenedRow]) -> str:
    """Name the kinds of things that did not happen: an empty list could also be a forgotten one."""
    kinds = {row["what"] for row in rows}
    words = {
        "withheld": "no release was withheld",
        "erasure": "nothing was erased",
        "gap accepted": "no gap was accepted",
    }
    quiet = [text for word, text in words.items() if word not in kinds]
    return sentence(", ".join(quiet)) if quiet else ""


def share(value: float | None) -> str:
    """Return a share as per cent; a dash for none.

    Parameters
    ----------
    value
        0 to 1.
    """
    return "–" if value is None else f"{100 * value:.3g} %"


def number(value: Any) -> str:
    """Return a number for people: at most four digits that count; a dash for none.

    Parameters
    ----------
    value
        A number; a truth value or a text stays as it is.
    """
    if value is None:
        return "–"
    if isinstance(value, bool | str):
        return str(value)
    if value == int(value):
        return f"{int(value):,}".replace(",", "\u202f")
    return f"{value:.4g}"


def moment(text: str | None) -> str:
    """Shorten 2025-03-19T08:42:19.000+00:00 to 2025-03-19 08:42.

    Parameters
    ----------
    text
        Time in ISO 8601; a dash is shown for none.
    """
    return "–" if not text else text[:16].replace("T", " ")


def _pretty(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
