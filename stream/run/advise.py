"""`veilstream advise`: candidate settings replayed on a historical log, and the one to propose.

A candidate holds if its releases keep its bounds, even if cuts were withheld: `replay` prints the same verdict for the
same releases. A candidate is proposed only if its verdict is SAFE, it bounds KA, FA, CA and BA, and every cut became a
release. If there is none, the nearest is named, with the reason against it. The measures describe the past of this log,
and promise nothing about its future.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from models.errors import VeilstreamError
from models.eventlog import EventLog
from stream.config.settings import Publication, Settings
from stream.release.documents import AuditDocument
from stream.release.gate import MEASURES, least_of_series
from stream.release.verdict import Word
from stream.run import presets
from stream.run.replay import Replay, ReplayOutcome
from stream.run.waits import median_wait, moments_of_cases

UNMEASURED = {"risk": False, "utility": False}
"""Audits that no gate of a candidate reads, and that trials leave out. The proposal contains them."""

LEAST = (10, 20)
"""Further values of K that are compared."""

LOST = 0.05
"""Cost of a lost activity of at least 5 % of the cases, as a share of the events. It decides between two settings that
keep nearly as many events."""

Goal = Literal["utility", "safety", "timeliness"]
GOALS: tuple[Goal, ...] = ("utility", "safety", "timeliness")


@dataclass(frozen=True, slots=True)
class AdviceCandidate:
    """A setting to try. `why`: its purpose; `least`: its K, 0 for mechanisms without one."""

    why: str
    publication: Publication
    least: int = 0


@dataclass(frozen=True, slots=True)
class CandidateTrial:
    """The result of replaying a candidate.

    Attributes
    ----------
    withheld
        Cuts that the mechanism or the gate refused.
    waiting
        Cuts that released nothing because they waited for more cases.
    kept
        Events of the last release / events seen. None: nothing was released, or records are not cases.
    wait_days
        Median days from the last event of a case to its first publication.
    loses
        Activities of at least 5 % of the cases that its last release lacks.
    worst
        Least KA, FA, CA, BA over all releases.
    refused
        Error that prevented the replay.
    """

    candidate: AdviceCandidate
    releases: int
    withheld: int
    kept: float | None
    worst: Mapping[str, int | None]
    reasons: tuple[str, ...]
    refused: str = ""
    wait_days: float | None = None
    loses: tuple[str, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    verdict: Word | None = None
    """Verdict that `replay` prints for the same releases; None if it could not be replayed."""
    waiting: int = 0

    @property
    def unreleased(self) -> int:
        """Cuts that released nothing."""
        return self.withheld + self.waiting

    @property
    def holds(self) -> bool:
        """Whether something was released. No candidate's gate only warns, so every release keeps its bounds."""
        return not self.refused and self.releases > 0

    @property
    def is_safe(self) -> bool:
        """Whether no cut was withheld, every attack over the series is bounded, and the verdict is SAFE."""
        return self.holds and not self.withheld and self.series and self.verdict in (None, "SAFE")

    @property
    def proposable(self) -> bool:
        """Whether it is safe, and every cut became a release."""
        return self.is_safe and not self.waiting

    @property
    def worth(self) -> float:
        """Events kept, less the cost of lost activities."""
        return (self.kept or 0.0) - LOST * len(self.loses)

    @property
    def series(self) -> bool:
        """Whether every attack over the series is bounded."""
        return set(presets.series_gate(1)) <= set(self.candidate.publication.gate.bounds)


def candidates(
    log: EventLog,
    K: int,
    sensitive: Sequence[str],
    C: float = presets.C,
) -> list[AdviceCandidate]:
    """Return the settings to try, from the most protection over a series to the most events in one release.

    They cover K, further values of it (`LEAST`), and two differentially private mechanisms.

    Parameters
    ----------
    log
        The source log.
    K
        Least number of cases that share any background knowledge.
    sensitive
        Sensitive attributes.
    C
        Bound on the confidence of a sensitive value.
    """
    proposed = []
    for least in sorted({K, *LEAST}, reverse=True):
        table = presets.bounds(log, sensitive, least, C)
        bounded = presets.series_gate(least)
        completed, started = presets.window(log, least), presets.growing_window(log, least)
        without_bins = {key: value for key, value in table.items() if key != "bins"}
        cohorts = [
            (
                "cohorts-local",
                "holds over all releases",
                _with(table, "tlkc-cohorts", "local"),
                presets.series_gate(least, local=True),
            ),
            ("cohorts-exact", "the same, whole items removed", _with(table, "tlkc-cohorts", "exact"), bounded),
        ]
        growing = [
            ("repair-local", "all cases again, repaired", _with(without_bins, "tlkc", "local"), _repair(bounded)),
            ("repair-exact", "the same, whole items removed", _with(without_bins, "tlkc", "exact"), _repair(bounded)),
            ("plain-local", "each release alone", _with(without_bins, "tlkc", "local"), {"min_ka": least}),
            ("plain-exact", "the same, whole items removed", _with(without_bins, "tlkc", "exact"), {"min_ka": least}),
        ]
        for cuts, rows in ((completed, cohorts), (started, growing)):
            proposed += [
                AdviceCandidate(why, presets.publication(f"{name}-{least}", cuts, mechanism, gate), least)
                for name, why, mechanism, gate in rows
            ]
    return [*proposed, *_dp(log)]


def _with(table: Mapping[str, Any], kind: str, suppression: str) -> Mapping[str, Any]:
    return {"kind": kind, **table, "suppression": suppression}


def _repair(gate: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**gate, "on_violation": "repair"}


def _dp(log: EventLog) -> list[AdviceCandidate]:
    """Return variants with noisy frequencies, and a synthetic log.

    The moments of their cuts are declared public, since those of a past log are known. The labels are declared public
    too.
    """
    gate = {"public_cut": True, "max_epsilon": 0.1 * (presets.RELEASES + 1)}
    terms, labels = {"epsilon": 0.1, "delta_dp": 1e-6}, sorted(map(str, log.activity.values))
    kinds: list[tuple[str, dict[str, Any]]] = [
        ("differentially private", {"kind": "dp-variants", **terms}),
        ("the same, synthetic; its labels are public", {"kind": "dp-synthetic", **terms, "activities": labels}),
    ]
    proposals = []
    for why, mechanism in kinds:
        publication = presets.publication(mechanism["kind"], presets.growing_window(log), mechanism, gate)
        proposals.append(AdviceCandidate(why, publication))
    return proposals


def attempt(candidate: AdviceCandidate, log: EventLog, settings: Settings, folder: Path) -> CandidateTrial:
    """Replay one candidate into `folder` (of its own).

    Parameters
    ----------
    candidate
        The settings to try.
    log
        The source log.
    settings
        The configuration of the process.
    folder
        An empty folder for the output.
    """
    table = candidate.publication.model_dump()
    tried = Publication.model_validate({**table, "audit": {**table["audit"], **UNMEASURED}})
    try:
        replay = Replay(settings.model_copy(update={"publication": (tried,)}), folder)
        outcome = replay.run(log, final=True)
    except VeilstreamError as error:
        return CandidateTrial(candidate, 0, 0, None, dict.fromkeys(MEASURES), (), str(error))
    records = replay.service.pipelines[candidate.publication.name].earlier
    ends = moments_of_cases(log, log.starts[1:] - 1, replay.service.pseudonyms)
    return _trial(candidate, outcome, log, median_wait(records, ends))


def _trial(
    candidate: AdviceCandidate,
    outcome: ReplayOutcome,
    log: EventLog,
    wait: float | None,
) -> CandidateTrial:
    released = [decision.audit for _, decision in outcome.decisions if decision.status == "sealed"]
    last = released[-1] if released else AuditDocument()
    released_events = last.get("counts", {}).get("released")
    kept: float | None = None
    lost: tuple[str, ...] = ()
    if released_events is not None:
        kept = released_events / log.n_events
        lost = tuple(last.get("loss", {}).get("lost", ()))
    # Cuts that only waited count too: a user of a setting needs a release at every cut.
    unreleased = [decision for _, decision in outcome.decisions if decision.status == "withheld"]
    waiting = sum(decision.waits for decision in unreleased)
    reasons = dict.fromkeys(reason for decision in unreleased for reason in decision.reasons)
    return CandidateTrial(
        candidate,
        releases=len(released),
        withheld=len(unreleased) - waiting,
        waiting=waiting,
        kept=kept,
        worst={name: least_of_series(released, name) for name in MEASURES},
        reasons=tuple(reasons),
        wait_days=wait,
        loses=lost,
        data={"covered": last.get("dp", {}).get("coverage_cases")},
        verdict=next((verdict.verdict for verdict in outcome.verdicts()), None),
    )


def propose(
    log: EventLog,
    settings: Settings,
    K: int,
    folder: Path,
    step: Callable[[str], None] = lambda _name: None,
    *,
    C: float = presets.C,
    goal: Goal = "utility",
) -> tuple[list[CandidateTrial], CandidateTrial | None]:
    """Replay all candidates; return their trials, and the one to propose.

    Parameters
    ----------
    log, settings
        The historical log, and the process that the publications belong to.
    K, C
        Least cases that must match, and largest share of a sensitive value.
    folder
        Folder for the replays.
    step
        Called with the name of each candidate before its replay.
    goal
        Measure by which the best of the possible proposals is chosen.

    Returns
    -------
    tuple
        The trials, and the proposal: the best candidate with at least K that released at every cut; without one, the
        best of those whose other cuts only waited for more cases. None if there is none of these either.
    """
    trials = []
    for candidate in candidates(log, K, settings.process.sensitive, C):
        step(candidate.publication.name)
        trials.append(attempt(candidate, log, settings, folder / candidate.publication.name))
    safe = [trial for trial in trials if trial.is_safe and trial.candidate.least >= K]
    released_at_every_cut = [trial for trial in safe if trial.proposable]
    # A cut that waited breaks no bound, and its cases leave later. In a short log no candidate may be without one.
    best = max(released_at_every_cut or safe, key=lambda trial: _rank(trial, goal), default=None)
    return trials, best


def _rank(trial: CandidateTrial, goal: Goal) -> tuple[float, ...]:
    worth, wait, least = trial.worth, -(trial.wait_days or 0.0), float(trial.candidate.least)
    return {"utility": (worth, wait), "safety": (least, worth), "timeliness": (wait, worth)}[goal]


def nearest(trials: Sequence[CandidateTrial], K: int) -> CandidateTrial | None:
    """Return the nearest trial with bounds on the whole series and at least K: safe, with fewest unreleased cuts."""
    bounded = [trial for trial in trials if trial.series and trial.candidate.least >= K and not trial.refused]
    return min(bounded, key=_distance, default=None)


def _distance(trial: CandidateTrial) -> tuple[bool, int, int]:
    """Return the sort key of `nearest`: trials that are not safe come last, even with more released cuts."""
    unsafe = trial.verdict not in (None, "SAFE")
    return unsafe, trial.unreleased - trial.releases, trial.unreleased


def frontier(trials: Sequence[CandidateTrial]) -> list[CandidateTrial]:
    """Return the proposable trials that no other one surpasses in both events kept and waiting.

    Trials with most events kept come first.
    """
    measured = [
        (trial.kept, trial.wait_days, trial)
        for trial in trials
        if trial.proposable and trial.kept is not None and trial.wait_days is not None
    ]

    def is_surpassed(kept: float, wait: float) -> bool:
        return any(
            other_kept >= kept and other_wait <= wait and (other_kept, other_wait) != (kept, wait)
            for other_kept, other_wait, _ in measured
        )

    best = [entry for entry in measured if not is_surpassed(entry[0], entry[1])]
    best.sort(key=lambda entry: (-entry[0], entry[1]))
    return [trial for _, _, trial in best]


NAME = "research"
"""Name of the proposed publication, and of the one that `replay` makes without a configuration, so that commands of the
documentation work with both. The name of the candidate is in a comment."""


def as_toml(settings: Settings, publication: Publication) -> str:
    """Return the proposed configuration file."""
    import tomli_w

    process = settings.process
    body: dict[str, Any] = {"name": process.name, "sensitive": list(process.sensitive)}
    if process.timezone:
        body["timezone"] = process.timezone
    if process.columns.changed:
        body["columns"] = process.columns.changed
    if process.completion.log_end:
        body["completion"] = {"inactivity": "30d"}
    table: dict[str, Any] = {"name": NAME}
    for key in ("window", "mechanism", "audit"):
        table[key] = _with_lists(getattr(publication, key))
    table["gate"] = publication.gate.model_dump(exclude_defaults=True)
    file = settings.file.model_dump(exclude_none=True)
    text = tomli_w.dumps({"process": body, **({"file": file} if file else {}), "publication": [table]})
    text = text.replace("[[publication]]", f"# {publication.name} of veilstream advise\n[[publication]]")
    if process.completion.log_end:
        note = "# Rule that ends a case. A daemon reads no end of the log: choose inactivity or end_activities.\n"
        text = text.replace("[process.completion]", note + "[process.completion]")
    return text


def _with_lists(value: Any) -> Any:
    """Return a value of the configuration with lists in place of tuples, as TOML has it."""
    if isinstance(value, Mapping):
        return {key: _with_lists(item) for key, item in value.items()}
    return [_with_lists(item) for item in value] if isinstance(value, list | tuple) else value
