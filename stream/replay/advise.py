"""`veilstream advise`: candidate settings replayed on a historical log, and the one that keeps most of what holds.

A candidate holds when nothing was withheld. Among those the one that keeps most is proposed; a setting that the log
refutes is shown with the reason. What is measured is this log's past: no promise about its future.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from models.errors import VeilstreamError
from models.eventlog import EventLog
from stream.config.settings import Publication, Settings
from stream.release.gate import GatePolicy, worst_anonymity
from stream.replay.replay import Outcome, Replay

RELEASES = 10
"""Windows of a replay: enough to see what a series gives away, few enough to wait for."""

MEASURES = ("ka", "fa", "ca", "ba")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A setting to try: `why` says what it is for."""

    why: str
    publication: Publication


@dataclass(frozen=True, slots=True)
class Trial:
    """What a candidate would have done. `kept`: events of the last release / events seen (None: nothing came out);
    `worst`: least KA, FA, CA, BA over all releases; `refused`: why it could not be replayed at all."""

    candidate: Candidate
    releases: int
    withheld: int
    kept: float | None
    worst: dict[str, int | None]
    reasons: tuple[str, ...]
    refused: str = ""

    @property
    def holds(self) -> bool:
        """Whether every cut became a release, and there was one."""
        return not self.refused and self.releases > 0 and not self.withheld


def candidates(log: EventLog, K: int, sensitive: Sequence[str]) -> list[Candidate]:
    """A handful, from what protects most over a series to what keeps most of one release.

    `K` is the least group; the windows bring a `RELEASES`-th of the cases, and at least K, since BA cannot reach K with
    fewer new cases. C = 1/2 where there is a sensitive attribute, else no share is bounded.
    """
    new_cases = max(K, math.ceil(log.n_cases / RELEASES))
    bounds = {"knowledge": "seq", "attribute": "ac", "L": 2, "K": K, "C": 0.5 if sensitive else 1.0}
    series = {"min_ka": K, "min_fa": K, "min_ca": K, "min_ba": K}
    table: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
        ("cohorts", "holds over all releases", {"kind": "tlkc-cohorts", **bounds}, series),
        ("series", "re-anonymized each time, gated on F, C and B", {"kind": "tlkc", **bounds}, series),
        ("single", "each release alone", {"kind": "tlkc", **bounds}, {"min_ka": K}),
        ("local", "each release alone, events removed case by case", _local(bounds), {"min_ka": K}),
        ("sets", "each release alone, against who knows no order", _set(bounds), {"min_ka": K}),
    ]
    audit = {"bk_length": 2, "n": [0, 1]}
    return [
        Candidate(
            why,
            Publication(
                name=name,
                window={"new_cases": new_cases},
                mechanism=mechanism,
                audit=audit,
                gate=GatePolicy(**gate),
            ),
        )
        for name, why, mechanism, gate in table
    ]


def _local(bounds: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "tlkc", **bounds, "suppression": "local"}


def _set(bounds: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "tlkc", **bounds, "knowledge": "set"}


def attempt(candidate: Candidate, log: EventLog, settings: Settings, folder: Path) -> Trial:
    """Replay one candidate into `folder` (of its own)."""
    chosen = settings.model_copy(update={"publication": (candidate.publication,)})
    try:
        outcome = Replay(chosen, folder).run(log, final=True)
    except VeilstreamError as error:
        return Trial(candidate, 0, 0, None, dict.fromkeys(MEASURES), (), str(error))
    return _trial(candidate, outcome, log)


def _trial(candidate: Candidate, outcome: Outcome, log: EventLog) -> Trial:
    released = [dict(decision.audit) for _, decision in outcome.decisions if decision.status == "sealed"]
    counts = (released[-1].get("counts") or {}) if released else {}
    worst = {name: _least(released, name) for name in MEASURES}
    reasons = dict.fromkeys(reason for decision in outcome.withheld for reason in decision.reasons)
    return Trial(
        candidate,
        releases=len(released),
        withheld=len(outcome.withheld),
        kept=counts["released"] / log.n_events if "released" in counts else None,
        worst=worst,
        reasons=tuple(reasons),
    )


def _least(audits: Sequence[dict[str, Any]], measure: str) -> int | None:
    found = [worst_anonymity(audit.get("anonymity") or {}, measure) for audit in audits]
    return min((value for value in found if value is not None), default=None)


def propose(
    log: EventLog, settings: Settings, K: int, folder: Path, step: Callable[[str], None] = lambda _name: None
) -> tuple[list[Trial], Trial | None]:
    """All trials, and the proposed one.

    Of those that hold over the series the one that keeps most; where none does, of those that bound single releases.
    None: nothing held.
    """
    trials = []
    for candidate in candidates(log, K, settings.process.sensitive):
        step(candidate.publication.name)
        trials.append(attempt(candidate, log, settings, folder / candidate.publication.name))
    holding = [trial for trial in trials if trial.holds]
    series = [trial for trial in holding if trial.candidate.publication.gate.min_ba is not None]
    return trials, max(series or holding, key=lambda trial: trial.kept or 0.0, default=None)


def as_toml(settings: Settings, publication: Publication) -> str:
    """The proposed configuration file."""
    process = settings.process
    lines = ["[process]", f"name = {_value(process.name)}", f"sensitive = {_value(list(process.sensitive))}"]
    if process.timezone:
        lines.append(f"timezone = {_value(process.timezone)}")
    if process.columns.changed:
        lines.append(f"columns = {_value(process.columns.changed)}")
    if process.completion.log_end:
        lines.append(
            'completion = { inactivity = "30d" }  # the log\'s end is not known to a daemon: choose what ends a case'
        )
    lines += ["", "[[publication]]", f"name = {_value(publication.name)}"]
    gate = publication.gate.model_dump(exclude_defaults=True)
    for key, table in (
        ("window", publication.window),
        ("mechanism", publication.mechanism),
        ("audit", publication.audit),
    ):
        lines.append(f"{key} = {_value(table)}")
    return "\n".join([*lines, f"gate = {_value(gate)}"]) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_value(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'
