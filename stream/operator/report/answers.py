"""Answers to the questions that a report begins with, each from audits, ledger and verdict; nothing is measured anew.

Is it safe? What is left of the budget, and until when? What did it cost the analysts? What happened?
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import Any, cast

from models.dp.budget import Charge, exact
from models.dp.zcdp import Accounting
from stream.ledger.entries import ApprovalEntry, Entry, ErasedEntry, NoteEntry, SealEntry, WithheldEntry
from stream.operator.report.document import (
    AnonymityRow,
    AttemptRow,
    BudgetAnswer,
    CostAnswer,
    HappenedRow,
    KeptRow,
    SafeAnswer,
    WorstRow,
)
from stream.operator.report.knowledge import Names
from stream.release.documents import AuditDocument, Budget, LossSection, Zcdp
from stream.release.gate import MEASURES, Measure, fitting
from stream.release.verdict import Verdict, Word

MEANING: Mapping[Word, str] = {
    "SAFE": "Bounds on all four attacks were set, and all releases together hold them.",
    "LIMITED": "Something was not bounded, not measured, or only warned about, or holds only against somebody who does "
    "not know the public rules. Read what it is before you rely on it.",
    "WAITING": "Nothing of this publication is released yet: a person decides, or too few cases have come.",
    "WITHHELD": "Nothing of this publication is released: the mechanism, the gate or a person refused it.",
    "NOTHING RELEASED": "Nothing of this publication is released, and nothing waits to be.",
    "DP VOID": "The noise protects only people who never see another publication of the same cases.",
}
SAFE_BY_NOISE = "A limit of epsilon was set, and all releases together stay within it. No record is a person."
SAFE_ONCE = "Each case is in one release, and every release keeps its epsilon. No record is a person."
"""SAFE where noise protects: there are no groups, so there is no bound on the attacks that count them."""
ADVERSARY: Mapping[Measure, str] = {
    "ka": "holds release {release} alone",
    "fa": "holds releases {against} and {release} and looks in release {against} for a person who is in both",
    "ca": "holds releases {against} and {release} and looks in release {release} for a person who is in both",
    "ba": "holds releases {against} and {release} and looks for a person who is new in release {release}",
}
"""correspondence-attacks-2021: the forward, cross and backward attack differ in where the person is looked for."""


def safe(
    verdict: Verdict,
    rows: Sequence[AnonymityRow],
    bounds: Mapping[str, float],
    series: Any,
    budget: Budget | None = None,
) -> SafeAnswer:
    """The verdict with the worst number of each attack: at which release, against which, and by whom. `budget`: of the
    last release, where noise protects."""
    standing = [row for row in rows if row["label"].isdigit()]
    worst = [row for measure in MEASURES if (row := _worst(standing, measure, bounds)) is not None]
    together = [row["value"] for row in worst]
    if series.get("status") == "ok" and series.get("worst") is not None:
        together.append(series["worst"])
    return {
        "verdict": verdict.verdict,
        "meaning": _meaning(verdict.verdict, budget),
        "sentence": verdict.sentence,
        "rules": verdict.rules,
        "worst": worst,
        "together": min(together, default=None),
    }


def _meaning(word: Word, budget: Budget | None) -> str:
    if word == "SAFE" and budget:
        return SAFE_ONCE if budget.get("scope") == "cases" else SAFE_BY_NOISE
    return MEANING[word]


def _worst(rows: Sequence[AnonymityRow], measure: Measure, bounds: Mapping[str, float]) -> WorstRow | None:
    measured = [row for row in rows if row["worst"].get(measure) is not None]
    if not measured:
        return None
    row = min(measured, key=lambda one: cast(int, one["worst"][measure]))
    value = cast(int, row["worst"][measure])
    against, knowledge = (None, []) if measure == "ka" else _where(row, measure, value)
    many = row.get("bk_length")
    knows = f"knows up to {many} items of a person" if many else "knows something of a person"
    left = f"{value} case{'s' * (value != 1)}"
    holds = ADVERSARY[measure].format(release=row["label"], against=against)
    return {
        "measure": measure.upper(),
        "value": value,
        "bound": bounds.get(f"min_{measure}"),
        "release": row["label"],
        "against": against,
        "knowledge": knowledge,
        "sentence": f"In the worst case {left} fit. The adversary {knows}, and {holds}.",
    }


def _where(row: AnonymityRow, measure: Measure, value: int) -> tuple[str | None, list[str]]:
    """The earlier release that gives the value, and what is known of the person there."""
    for true in row.get("true_linker") or []:
        if true.get(measure) == value:
            return _named(true), list(true.get("worst", {}).get(measure) or [])
    for pair in row["pairs"]:
        for one in pair["results"]:
            if one.get(measure) == value and one.get("linker") != "none":
                return _named(pair), list(one.get("worst", {}).get(measure) or [])
    return None, []


def _named(pair: Any) -> str:
    other = pair.get("publication")
    return f"{pair['earlier']} of {other}" if other else str(pair["earlier"])


def budget(attempts: Sequence[AttemptRow], last: AuditDocument) -> BudgetAnswer | None:
    """What is spent and left, how many releases that pays for, and when the last of them is due at the pace so far;
    None where nothing is ever spent."""
    stated: Budget = last.get("budget") or Budget()
    if not stated:
        return None
    each, spent = stated["epsilon"], stated["spent"]["epsilon"] or 0.0
    rests = [limit - used for used, limit in _limits(stated) if limit is not None]
    left = max(0.0, min(rests)) if rests else None
    more = int(left / each + 1e-9) if left is not None and each > 0 else None
    if (stated_rho := stated.get("zcdp")) is not None and more is not None:
        more = _by_rho(stated, stated_rho)
    moments = [_moment(row["time"]) for row in attempts if row["label"].isdigit() and row["time"]]
    steps = [(later - earlier).total_seconds() for earlier, later in pairwise(moments)]
    last_paid = None
    if more is not None and steps:
        last_paid = (moments[-1] + timedelta(seconds=more * median(steps))).isoformat(timespec="minutes")
    return {
        "spent": spent,
        "limit": stated["limit"],
        "each": each,
        "left": left,
        "releases_left": more,
        "last_paid": last_paid,
    }


def _by_rho(stated: Budget, zcdp: Zcdp) -> int | None:
    """How many releases are left where rho adds up, by epsilon."""
    adds, each = Accounting("zcdp", exact(zcdp["conversion_delta"])), Charge(rho=exact(zcdp["rho"]))
    process = stated.get("process")
    rules = [(stated["limit"], zcdp["spent"]), (process["limit"]["epsilon"] if process else None, zcdp["process"])]
    found = [fitting(adds, (exact(limit), None), Charge(rho=exact(rho)), each) for limit, rho in rules if limit]
    return min((one for one in found if one is not None), default=None)


def _limits(stated: Budget) -> Iterator[tuple[float, float | None]]:
    yield stated["spent"]["epsilon"] or 0.0, stated["limit"]
    process = stated.get("process")
    if process is not None:
        yield process["spent"]["epsilon"] or 0.0, process["limit"]["epsilon"]


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def cost(audits: Mapping[str, AuditDocument], labels: Names) -> CostAnswer | None:
    """What the last release keeps of the events seen, by activity, and every release in all; None without a measure."""
    measured = {label: found for label, document in audits.items() if (found := _loss(document)) and label.isdigit()}
    if not measured:
        return None
    label, last = list(measured.items())[-1]
    rows = cast(Sequence[Mapping[str, Any]], last.get("activities") or [])
    return {
        "label": label,
        "kept": last.get("kept"),
        "activities": [_kept(row, labels) for row in rows],
        "frequent": cast(int | None, last.get("frequent")),
        "lost": labels.labels(last.get("lost")),
        "variants_in": cast(int | None, last.get("variants_in")),
        "variants_kept": cast(int | None, last.get("variants_kept")),
        "cases_as_they_were": cast(float | None, last.get("cases_as_they_were")),
        "by_release": [(one, found.get("kept")) for one, found in measured.items()],
    }


def _loss(document: AuditDocument) -> LossSection | None:
    found = document.get("loss")
    return found if found and found.get("status") == "ok" else None


def _kept(row: Mapping[str, Any], labels: Names) -> KeptRow:
    return {
        "activity": labels.label(row["activity"]),
        "events": row["events"],
        "released": row["released"],
        "kept": row["kept"],
    }


def happened(found: Sequence[Entry], attempts: Mapping[str, Sequence[AttemptRow]]) -> list[HappenedRow]:
    """Everything of the ledger that somebody has to know, in its order: releases, what was withheld, burned numbers,
    erasures, accepted gaps. Erasures and gaps have no time of their own: they stand where they were recorded."""
    rows = {name: iter(own) for name, own in attempts.items()}
    return [row for entry in found if (row := _happened(entry, rows)) is not None]


def _happened(entry: Entry, attempts: Mapping[str, Iterator[AttemptRow]]) -> HappenedRow | None:
    if isinstance(entry, SealEntry | WithheldEntry):
        row = next(attempts[entry.publication])
        if row["status"] == "burned":
            return _line("number lost", entry.publication, row["label"], row["time"], None, _BURNED)
        what = "released, with a warning" if row["warned"] else _WHAT[row["status"]]
        why = "; ".join(row["reasons"])
        if row["repaired"]:
            what, why = "released after a repair", f"more events were removed, since {why}"
        return _line(what, entry.publication, row["label"], row["time"], row["cases"], why)
    if isinstance(entry, ApprovalEntry) and entry.body.decision in ("approved", "refused"):
        body, label = entry.body, str(entry.sequence)
        what = "approved" if body.decision == "approved" else "approval refused by the gate"
        why = f"by {body.by}: {body.why}" + (f" ({'; '.join(body.reasons)})" if body.reasons else "")
        return _line(what, entry.publication, label, None, None, why)
    if isinstance(entry, ErasedEntry):
        many, held = entry.body.cases, ", ".join(map(str, entry.body.releases))
        why = f"{many} case{'s' * (many != 1)} erased; " + (f"held by release {held}" if held else "in no release")
        return _line("erasure", entry.publication, "", None, None, why)
    if isinstance(entry, NoteEntry) and entry.body.gap is not None:
        return _line("gap accepted", entry.publication, "", None, None, _GAP)
    return None


_WHAT = {
    "withheld": "withheld",
    "sealed": "sealed, not yet public",
    "published": "released",
    "held": "held for approval",
    "rejected": "rejected",
    "superseded": "superseded",
}
_BURNED = "a crash came between sealing and publishing; the number is not used again"
_GAP = "source events are missing; the operator went on without them"


def _line(what: str, publication: str, label: str, time: str | None, cases: int | None, why: str) -> HappenedRow:
    return {
        "what": what,
        "publication": publication,
        "label": label,
        "time": time or None,
        "cases": cases,
        "why": why,
    }
