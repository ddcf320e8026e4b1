"""Folders, assessments and facts that dossiers are made of."""

from __future__ import annotations

from pathlib import Path

from stream.commands import execute

FACTS = {
    "controller": "University Hospital, Department of Medicine",
    "officer": "Dr. A. Officer, heard in October",
    "purpose": "research on waiting times",
    "legal_basis": "the hospital act of the state",
    "people": "patients, among them children",
    "recipients": "four analysts of the university",
    "storage_period": "until the project ends",
    "recipient_means": "no other data on these patients",
    "key_holder": "the IT department; no analyst has access",
    "contract": "yes: no identification, no passing on, no combining",
    "environment": "a server of the university",
    "incidents": "none known",
    "next_review": "next summer",
    "review_triggers": "nothing else",
    "approved_by": "the board, in its autumn meeting",
}

SMALL = """
[process]
name = "clinic"
[[publication]]
name = "{name}"
window = {{ new_cases = 10 }}
mechanism = {{ kind = "tlkc", knowledge = "set", attribute = "ac", L = 1, K = {K}, C = 1.0 }}
audit = {{ bk_length = 1, n = [0], risk = false, utility = false }}
gate = {{ min_ka = {least}, on_violation = "{action}" }}
{more}
"""


NOISE = """
[process]
name = "clinic"
[file]
encoding = "utf-8"
separator = "comma"
time_format = "iso"
[[publication]]
name = "counts"
window = { TRIGGER }
mechanism = { kind = "dp-variants", epsilon = 0.5, delta_dp = 1e-6 }
gate = { public_cut = true, max_epsilon = 2.0 }
"""
"""A publication with noise, of the small log."""


def write_facts(path: Path, facts: dict[str, str]) -> Path:
    """A `dossier.toml` with these facts."""
    path.write_text("".join(f'{key} = "{value}"\n' for key, value in facts.items()), encoding="utf-8")
    return path


def write_log(path: Path, activities: tuple[str, ...] = ("a", "b", "c"), cases: int = 30) -> Path:
    """A log in which every case has all activities once, and the last third a further one of its own kind."""
    lines = ["case:concept:name,concept:name,time:timestamp"]
    for case in range(cases):
        for place, activity in enumerate(activities):
            moment = f"2025-01-{1 + case % 28:02d}T{place:02d}:00:00Z"
            quoted = activity.replace('"', '""')
            lines.append(f'c{case},"{quoted}",{moment}')
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def small(*, K: int = 5, least: int = 5, action: str = "withhold", more: str = "") -> str:
    """A configuration of one publication, `steps`, that takes three releases of the small log."""
    return SMALL.format(name="steps", K=K, least=least, action=action, more=more)


def replayed(folder: Path, configuration: str, log: Path | None = None, code: tuple[int, ...] = (0,)) -> Path:
    """The output folder of a replay of a small log."""
    (folder / "clinic.toml").write_text(configuration, encoding="utf-8")
    log = log or write_log(folder / "clinic.csv")
    output = folder / "out"
    words = ["replay", str(log), "-c", str(folder / "clinic.toml"), "-o", str(output)]
    assert execute(words) in code
    return output
