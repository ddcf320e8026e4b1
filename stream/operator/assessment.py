"""Assess releases: read them with what they promise, choose the attackers, and write the page.

The attacks and their figures are `models.disclosure`. An assessment reads the original, so its page is for the operator
and the officer, and not for recipients.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from connectors import read_log
from connectors.logs import SUFFIXES
from connectors.reading import Reading
from models.disclosure.assessment import Assessment, Measure, ProfileResult, assess
from models.disclosure.material import MOST_KNOWN, Profile, pooled
from models.errors import InputError
from models.eventlog import EventLog
from models.knowledge import Knowledge
from stream.operator.history import read_json
from stream.operator.report.statement import Section, Statement
from stream.release.contract import Mechanism
from stream.release.manifest import promise, software
from stream.release.public_files import public_log
from stream.release.single import exposure_of, release_once

NEWEST = "newest release alone"
POOLED = "all releases together"


@dataclass(frozen=True, slots=True)
class AssessedRelease:
    """A release as it is attacked.

    Parameters
    ----------
    name
        Its file or folder, as it was given.
    log
        Its cases.
    manifest
        Its manifest; None for a file alone or a release of another program.
    digest
        sha256 of its `manifest.json`; None without one.
    """

    name: str
    log: EventLog
    manifest: Mapping[str, Any] | None
    digest: str | None = None


def read_release(path: Path, reading: Reading) -> AssessedRelease:
    """Read a log file, or the folder of a release with its manifest.

    Raises
    ------
    InputError
        The folder holds no manifest or no log, or the file cannot be read.
    """
    if not path.is_dir():
        return AssessedRelease(str(path), read_log(path, reading=reading), None)
    if not (path / "manifest.json").is_file():
        raise InputError(
            f"{path}: no manifest.json; give one release (public/PUBLICATION/release-NNNNNN), or the file of a log"
        )
    manifest = read_json(path / "manifest.json")
    names = [str(entry["path"]) for entry in manifest.get("files", [])]
    logs = [name for name in names if name.lower().endswith(SUFFIXES)]
    if not logs:
        raise InputError(f"{path}: the manifest names no log ({', '.join(names) or 'no file'})")
    digest = hashlib.sha256((path / "manifest.json").read_bytes()).hexdigest()
    return AssessedRelease(str(path), read_log(path / logs[0]), manifest, digest)


def promised_profile(manifest: Mapping[str, Any] | None) -> Profile | None:
    """Return the attacker that a promise by groups names; None for other releases.

    The promise covers `L` items of a declared kind; more than 8 are attacked as 8.
    """
    mechanism = manifest["mechanism"] if manifest else {}
    # The JSON of `anonymize` has the parameters beside the kind, a manifest has them in a table of their own.
    parameters = mechanism.get("parameters", mechanism)
    if "L" not in parameters:
        return None
    knowledge = Knowledge(
        parameters.get("knowledge", "seq"),
        parameters.get("attribute", "ac"),
        parameters.get("T", "minutes"),
        parameters.get("clock", "utc"),
    )
    return Profile(min(int(parameters["L"]), MOST_KNOWN), knowledge, name="promised")


def declared_profile(
    m: int | None, structure: str | None, attribute: str | None, T: str | None, case_attributes: Sequence[str]
) -> Profile | None:
    """Return the attacker that options declare; None if no option is set."""
    if m is None and structure is None and attribute is None and T is None and not case_attributes:
        return None
    knowledge = Knowledge(
        structure or "seq",  # type: ignore[arg-type] # checked inside
        attribute or "ac",  # type: ignore[arg-type]
        T or "minutes",  # type: ignore[arg-type]
    )
    return Profile(Profile().m if m is None else m, knowledge, tuple(case_attributes))


def profiles_of(declared: Profile | None, releases: Sequence[AssessedRelease], original: EventLog) -> list[Profile]:
    """Return the attackers: the declared one, else that of the promise, else one who knows three activities in order.

    One stronger attacker is added. They know the case attributes that all releases and the original carry.
    """
    promised = promised_profile(releases[-1].manifest)
    first = declared or promised or Profile(name="default")
    carried = [set(release.log.case_attributes) for release in releases]
    shown = sorted(set(original.case_attributes).intersection(*carried))
    stronger = first.stronger(shown)
    is_same = (stronger.m, stronger.knowledge, stronger.attributes) == (first.m, first.knowledge, first.attributes)
    return [first] if is_same else [first, stronger]


def held_out(log: EventLog, seed: int) -> tuple[EventLog, EventLog]:
    """Return two random halves of a log: one to make a release from, and the control."""
    if log.n_cases < 2:
        raise InputError("a control is half of the log: give a log of at least two cases")
    shuffled = np.random.default_rng(seed).permutation(log.n_cases)
    middle = (log.n_cases + 1) // 2
    return log.select_cases(np.sort(shuffled[:middle])), log.select_cases(np.sort(shuffled[middle:]))


def release_of_half(
    log: EventLog, mechanism: Mechanism, sensitive: Sequence[str], seed: int
) -> tuple[AssessedRelease, EventLog, EventLog]:
    """Make the release of a random half of a log.

    Returns
    -------
    AssessedRelease, EventLog, EventLog
        The release, the half that it was made from, and the other half, which is the control.
    """
    half, control = held_out(log, seed)
    released = [name for name in sensitive if mechanism.releases_attributes]
    exposure = exposure_of(half, sensitive, released, mechanism)
    build, _ = release_once(mechanism, exposure, keep_resources=False, released=released)
    manifest = {
        "mechanism": {"kind": mechanism.kind, "parameters": mechanism.model_dump(mode="json")},
        "promise": promise(mechanism, build, sensitive=bool(sensitive)),
    }
    return AssessedRelease(f"a release by {mechanism.kind}", public_log(build), manifest), half, control


def assess_releases(
    releases: Sequence[AssessedRelease],
    original: EventLog,
    control: EventLog | None,
    profiles: Sequence[Profile],
    *,
    sensitive: Sequence[str],
    targets: int | None,
    seed: int,
    say: Callable[[str], None],
) -> dict[str, Assessment]:
    """Attack the newest release, and all releases together if there are several.

    Returns
    -------
    dict
        The assessment by what was attacked: `NEWEST`, `POOLED`.
    """
    attacked = {NEWEST: releases[-1].log}
    if len(releases) > 1:
        attacked[POOLED] = pooled([release.log for release in releases])
    result = {}
    for name, log in attacked.items():
        result[name] = assess(
            original,
            log,
            control,
            profiles,
            sensitive=sensitive,
            targets=targets,
            seed=seed,
            say=lambda attack, name=name: say(f"{name}: {attack}"),  # type: ignore[misc]
        )
    return result


def document(releases: Sequence[AssessedRelease], assessments: Mapping[str, Assessment]) -> dict[str, Any]:
    """Return the documented JSON."""
    return {
        "version": 1,
        "software": software(),
        "releases": [_release_document(release) for release in releases],
        "assessments": [{"attacked": name, **assessment.json()} for name, assessment in assessments.items()],
        "warnings": list(warnings(assessments)),
    }


def _release_document(release: AssessedRelease) -> dict[str, Any]:
    """Return which release was attacked. The digest of its manifest tells a dossier whether it is about these bytes."""
    manifest = release.manifest or {}
    return {
        "name": release.name,
        "cases": release.log.n_cases,
        "promise": manifest.get("promise"),
        "mechanism": manifest.get("mechanism"),
        "publication": manifest.get("publication"),
        "sequence": manifest.get("sequence"),
        "manifest_sha256": release.digest,
    }


def warnings(assessments: Mapping[str, Assessment]) -> Iterator[str]:
    """Yield what weakens the figures: no control, a control of another kind, a control that was released."""
    first = next(iter(assessments.values()))
    if not first.control_cases:
        yield (
            "There is no control, so rates are compared with the best guess without the release. General knowledge "
            "that the release contains also raises the rates above that guess, and is no leak. Give --control, "
            "cases that did not enter the release."
        )
    if first.drift is not None and first.drift.clear:
        yield (
            "Original and control can be distinguished without any release (area under the"
            f" curve {first.drift.rate:.2f}; "
            "alike logs have .5): the control is of another time or process. That difference looks like a leak."
        )
    for name, assessment in assessments.items():
        backwards = [measure for result in assessment.results for measure in result.measures if _is_backwards(measure)]
        if backwards:
            yield (
                f"{name}: the control is nearer to the release than the original is ({backwards[0].attack}, "
                f"{backwards[0].how}). Was the release made from cases of the control?"
            )


def _is_backwards(measure: Measure) -> bool:
    return measure.attack == "membership" and measure.risk is not None and (measure.risk.high or 0.0) < 0


def page(releases: Sequence[AssessedRelease], assessments: Mapping[str, Assessment]) -> Statement:
    """Return the page for the operator and the officer, for the renderers of the statement."""
    return Statement(
        f"Assessment of {', '.join(release.name for release in releases)}",
        "Knowledge about people that attackers gain from the release, measured by attacks that read the original. "
        "The page is for the operator and the officer, and not for recipients.",
        tuple(_sections(releases, assessments)),
        document(releases, assessments),
    )


def _sections(releases: Sequence[AssessedRelease], assessments: Mapping[str, Assessment]) -> Iterator[Section]:
    promise = (releases[-1].manifest or {}).get("promise")
    if promise is not None:
        facts = (("Guaranteed", promise["guaranteed"]), ("Against whom", promise["against_whom"]))
        yield Section("What is promised", facts=facts)
    warnings_of_all = tuple(warnings(assessments))
    if warnings_of_all:
        yield Section("Read this first", points=warnings_of_all)
    for name, assessment in assessments.items():
        yield _summary(name, assessment)
        for result in assessment.results:
            yield _table(name, result)
    yield Section("How to read the figures", points=READING)


READING = (
    "Rate: share of the attacked people for whom the attack succeeds. Control: the same on people who are not in the "
    "release. An attack that works on them too uses knowledge of the process, not of a person.",
    "Risk: (rate - control) / (1 - control), with its 95 % interval. For membership the rate is the area under the "
    "curve and the control .5.",
    "Seen: the lower bound stays above 0 even though many measures were taken (Bonferroni over all of them).",
    "Would see: the least risk that this run would have seen in 95 of 100 cases. A failed attack proves nothing beyond "
    "that, and a better attack may exist: no line says that a release is safe.",
    "Black-box attacks are weak against differential privacy: for such releases the proven epsilon comes first.",
)


def _summary(name: str, assessment: Assessment) -> Section:
    seen = [measure for result in assessment.results for measure in result.seen]
    text = "No attack found a leak. This shows no more than each attack would have found."
    if not assessment.control_cases:
        text = "Nothing can be called a leak without a control."
    if seen:
        attacks = list(dict.fromkeys(measure.attack for measure in seen))
        text = f"A leak was seen by: {', '.join(attacks)}."
    control = f"{assessment.control_cases} cases" if assessment.control_cases else "none (best guess)"
    facts = (
        ("Original", f"{assessment.original_cases} cases"),
        ("Release", f"{assessment.released_cases} cases"),
        ("Control", control),
        ("Seed", str(assessment.seed)),
    )
    return Section(f"Attacked: {name}", paragraphs=(text,), facts=facts)


COLUMNS = ("attack", "how", "targets", "rate", "control", "risk", "95 %", "would see", "result")


def _table(name: str, result: ProfileResult) -> Section:
    rows = tuple(row(measure) for measure in result.measures)
    title = f"{name}, {result.profile.name} attacker"
    knowledge = f"Knows {result.profile.sentence()}; for membership the whole case."
    return Section(title, paragraphs=(knowledge,), points=tuple(not_run(result)), rows=(COLUMNS, *rows))


def not_run(result: ProfileResult) -> Iterator[str]:
    """Yield why attacks could not be run."""
    for measure in result.measures:
        if measure.risk is None:
            yield f"{measure.attack}, {measure.how}: {measure.sentence()}"


def row(measure: Measure) -> tuple[str, ...]:
    """Return one line of a table, cells as `COLUMNS`."""
    risk = measure.risk
    if risk is None:
        return (measure.attack, measure.how, *("",) * 6, measure.result)
    interval = "" if risk.low is None or risk.high is None else f"{risk.low:.3f} to {risk.high:.3f}"
    return (
        measure.attack,
        measure.how,
        str(risk.targets),
        f"{risk.rate:.3f}",
        _number(risk.control),
        _number(risk.risk),
        interval,
        _number(risk.power),
        measure.result,
    )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
