"""Assess releases: read them with their promises, choose the attackers, and write the page.

The attacks and their figures are `models.disclosure`. An assessment reads the original, so its page is for the operator
and the officer, and not for recipients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from connectors import read_log
from connectors.logs import SUFFIXES, read_released
from connectors.reading import Reading
from connectors.store.base import MANIFEST, digest
from models.content_free import content_free
from models.disclosure.assessment import ATTACKS, Assessment, Attackers, Measure, ProfileResult, assess
from models.disclosure.material import Profile, pooled
from models.disclosure.membership import DISTANCE, FALSE_POSITIVES
from models.disclosure.release_links import ReleaseLinks, release_links
from models.errors import InputError
from models.eventlog import EventLog
from models.knowledge import Knowledge
from stream.ledger import release_record
from stream.ledger.layout import OperatorLayout
from stream.operator.history import read_json
from stream.operator.report.statement import Section, Statement
from stream.release.contract import Build, Exposure, Mechanism
from stream.release.documents import AnonymitySection
from stream.release.gate import worst_anonymity
from stream.release.held_out import assess_mechanism, known_noise, promised_profile, with_stronger
from stream.release.increments import log_files
from stream.release.manifest import promise, software
from stream.release.public_files import public_log
from stream.release.public_view import with_attributes
from stream.release.single import exposure_of, without_resource_names

NEWEST = "newest release alone"
POOLED = "all releases together"
BOTH_WAYS = "releases of both halves"


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
    partners
        The same cases under the operator's pseudonyms, by which cases of other releases are recognised; None if the
        operator's folder is not next to the release. The ids of `log` are used then.
    least_cases
        The least of FA, CA and BA that was measured against earlier releases; None if there is none.
    """

    name: str
    log: EventLog
    manifest: Mapping[str, Any] | None
    digest: str | None = None
    partners: EventLog | None = None
    least_cases: int | None = None


def read_release(path: Path, reading: Reading) -> AssessedRelease:
    """Read a log file, or the folder of a release with its manifest.

    Raises
    ------
    InputError
        The folder holds no manifest or no log, or the file cannot be read.
    """
    if not path.is_dir():
        return AssessedRelease(str(path), read_released(path, reading), None)
    manifest_file = path / MANIFEST
    if not manifest_file.is_file():
        raise InputError(
            f"{path}: no manifest.json; give one release (public/PUBLICATION/release-NNNNNN), or the file of a log"
        )
    manifest = read_json(manifest_file)
    names = [str(entry["path"]) for entry in manifest.get("files", [])]
    logs = [name for name in names if name.lower().endswith(SUFFIXES)]
    if not logs:
        raise InputError(f"{path}: the manifest names no log ({', '.join(names) or 'no file'})")
    files = [path / logs[0]]
    if "increment" in manifest:
        files = log_files(path, manifest)
    log = pooled([read_log(file) for file in files])
    return AssessedRelease(str(path), log, manifest, digest(manifest_file), *_operator_view(path, manifest))


def _operator_view(path: Path, manifest: Mapping[str, Any]) -> tuple[EventLog | None, int | None]:
    """Return the records of a release with their pseudonyms, and its least FA, CA or BA, from the operator's folder."""
    # .../public/PUBLICATION/release-NNNNNN
    output = path.resolve().parents[2]
    publication, number = str(manifest.get("publication", "")), int(manifest.get("sequence", 0))
    layout = OperatorLayout(output)
    variants, audit = layout.variants(publication, number), layout.audit(publication, number)
    if not variants.is_file() or not audit.is_file():
        return None, None
    anonymity = cast(AnonymitySection, read_json(audit).get("anonymity") or {})
    measured = [worst_anonymity(anonymity, name) for name in ("fa", "ca", "ba")]
    least = min((value for value in measured if value is not None), default=None)
    return release_record.read(variants).log, least


def declared_profile(
    m: int | None,
    structure: str | None,
    attribute: str | None,
    T: str | None,
    case_attributes: Sequence[str],
    start: str | None = None,
) -> Profile | None:
    """Return the attacker that options declare; None if no option is set.

    Parameters
    ----------
    m
        Number of events that the attacker knows.
    structure
        Knowledge of their order: `set`, `mult`, `seq` or `rel`.
    attribute
        Activities, resources, or both.
    T
        Unit of the times.
    case_attributes
        Attributes of cases that the attacker knows.
    start
        Unit in which the attacker knows the start of a case; None: not at all.
    """
    if (m, structure, attribute, T, start) == (None,) * 5 and not case_attributes:
        return None
    knowledge = Knowledge(
        structure or "seq",  # type: ignore[arg-type] # checked inside
        attribute or "ac",  # type: ignore[arg-type]
        T or "minutes",  # type: ignore[arg-type]
    )
    known_items = Profile().m if m is None else m
    return Profile(known_items, knowledge, tuple(case_attributes), start=start or "")  # type: ignore[arg-type]


def profiles_of(
    declared: Profile | None,
    releases: Sequence[AssessedRelease],
    original: EventLog,
) -> list[Profile]:
    """Return the attackers: the declared one, else that of the promise, else one who knows three activities in order.

    One stronger attacker is added. They know the case attributes that all releases and the original carry, and the day
    on which a case began if the newest release shows dates.
    """
    first = declared or promised_profile(releases[-1].manifest) or Profile(name="default")
    return with_stronger(first, [release.log for release in releases], original)


def assess_releases(
    releases: Sequence[AssessedRelease],
    original: EventLog,
    control: EventLog | None,
    attackers: Attackers,
    *,
    on_step: Callable[[str], None],
) -> dict[str, Assessment]:
    """Attack the newest release, and all releases together if there are several.

    Parameters
    ----------
    releases
        The releases of a publication, oldest first.
    original
        The log that they were made from.
    control
        Cases of the same kind that no release used; None for a guess as the control.
    attackers
        Profiles of the attackers, sensitive attributes, targets and seed.
    on_step
        Called with the name of each attack before it runs.

    Returns
    -------
    dict
        The assessment, by attacked release: `NEWEST`, `POOLED`.
    """
    has_several = len(releases) > 1
    attackers = replace(attackers, assessments=1 + has_several)
    newest = replace(attackers, noise=known_noise(releases[-1].manifest))
    attacked = {NEWEST: (releases[-1].log, newest)}
    if has_several:
        attacked[POOLED] = (pooled([release.log for release in releases]), attackers)
    result = {}
    for name, (log, attackers_of_log) in attacked.items():
        result[name] = assess(
            original,
            log,
            control,
            attackers_of_log,
            on_step=lambda attack, name=name: on_step(f"{name}: {attack}"),  # type: ignore[misc]
        )
    return result


def assess_mechanism_of(
    mechanism: Mechanism,
    log: EventLog,
    attackers: Attackers,
    *,
    declared: Profile | None,
    divisions: int,
    on_step: Callable[[str], None],
) -> tuple[AssessedRelease, dict[str, Assessment]]:
    """Release two random halves of a log, several times, and attack each release with the other half as control.

    Parameters
    ----------
    mechanism, log
        Makes the releases, of this log.
    attackers
        Sensitive attributes, targets and seed; the profiles are those of the mechanism.
    declared
        The attacker; None: the one of the promise.
    divisions
        How often the log is divided.
    on_step
        Called with the name of each attack before it runs.

    Returns
    -------
    AssessedRelease, dict
        The first release, and the assessment under `BOTH_WAYS`.
    """
    sensitive = attackers.sensitive
    released = [name for name in sensitive if mechanism.releases_attributes]
    exposure = exposure_of(log, sensitive, released, mechanism)
    builds: list[Build] = []

    def finish(build: Build, part: Exposure) -> Build:
        builds.append(with_attributes(without_resource_names(build), released, part, mechanism))
        return builds[-1]

    assessment = assess_mechanism(
        mechanism, exposure, finish, attackers, declared=declared, divisions=divisions, on_step=on_step
    )
    manifest = {
        "mechanism": {"kind": mechanism.kind, "parameters": mechanism.model_dump(mode="json")},
        "promise": promise(mechanism, builds[0], sensitive=bool(sensitive)),
    }
    release = AssessedRelease(f"releases of halves by {mechanism.kind}", public_log(builds[0]), manifest)
    return release, {BOTH_WAYS: assessment}


@content_free("earlier", "later")
@dataclass(frozen=True, slots=True)
class LinkedPair:
    """The newest release and an earlier one: how often their records of one case are linked.

    Parameters
    ----------
    earlier, later
        Names of the releases.
    links
        Result of the attack; None if no case is recognised in both.
    least_cases
        The least of FA, CA and BA of the newest release; None if it was not measured.
    """

    earlier: str
    later: str
    links: ReleaseLinks | None
    least_cases: int | None

    def json(self) -> dict[str, Any]:
        """Return the pair under its public names."""
        body: dict[str, Any] = {"earlier": self.earlier, "later": self.later, "least_of_fa_ca_ba": self.least_cases}
        if self.links is None:
            return body | {
                "reason": "no case is recognised in both: their ids differ, and no operator folder is next to them"
            }
        risk = self.links.risk
        figures = {"common_cases": self.links.common, "candidates": self.links.candidates, "by_chance": risk.control}
        return body | figures | {name: risk.json()[name] for name in ("rate", "targets", "risk", "low", "high")}

    def cells(self) -> tuple[str, ...]:
        """Return one line of a table, as `LINK_COLUMNS`."""
        bound = "" if self.least_cases is None else f"1 in {self.least_cases}"
        if self.links is None:
            return (self.earlier, "", "", "", "", bound, "not recognised")
        risk = self.links.risk
        rates = (f"{risk.rate:.3f}", three_digits(risk.control))
        return (self.earlier, str(self.links.common), str(risk.targets), *rates, bound, str(self.links.candidates))


LINK_COLUMNS = ("earlier release", "cases in both", "targets", "linked", "by chance", "bound (F, C, B)", "candidates")


def linked_pairs(releases: Sequence[AssessedRelease], attackers: Attackers) -> list[LinkedPair]:
    """Link the records of the newest release with those of each earlier one."""
    newest = releases[-1]
    pairs = []
    for number, earlier in enumerate(releases[:-1]):
        logs = [release.partners or release.log for release in (earlier, newest)]
        rng = np.random.default_rng([attackers.seed, len(ATTACKS) + 2, number])
        links = release_links(logs[0], logs[1], attackers.n_targets, rng)
        pairs.append(LinkedPair(earlier.name, newest.name, links, newest.least_cases))
    return pairs


def document(
    releases: Sequence[AssessedRelease],
    assessments: Mapping[str, Assessment],
    pairs: Sequence[LinkedPair] = (),
) -> dict[str, Any]:
    """Return the documented JSON."""
    return {
        "version": 1,
        "software": software(),
        "releases": [_release_document(release) for release in releases],
        "assessments": [{"attacked": name, **assessment.json()} for name, assessment in assessments.items()],
        "pairs": [pair.json() for pair in pairs],
        "warnings": list(warnings(assessments)),
    }


def _release_document(release: AssessedRelease) -> dict[str, Any]:
    """Return which release was attacked. A dossier compares the digest of the manifest."""
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
            "that the release contains also raises the rates above that guess, and is not a leak. Give --control, "
            "cases that did not enter the release."
        )
    if first.drift is not None and first.drift.clear:
        yield (
            "Original and control can be distinguished without any release (area under the"
            f" curve {first.drift.rate:.2f}; "
            "alike logs have .5): the control is of another time or process. That difference looks like a leak."
        )
    for name, assessment in assessments.items():
        measures = [measure for result in assessment.results for measure in result.measures]
        backwards = [measure for measure in measures if _is_backwards(measure)]
        # Halves that were original and control in turn were not mixed up: suppression can make the rare cases of a
        # release less like it.
        if backwards and not assessment.both_ways:
            yield (
                f"{name}: the control is nearer to the release than the original is ({backwards[0].attack}, "
                f"{backwards[0].how}). Was the release made from cases of the control?"
            )


_FEW = 20
"""Targets below which the interval of an area is too rough for a warning."""


def _is_backwards(measure: Measure) -> bool:
    # One score is enough for a warning. Each further one would warn by chance as well.
    if measure.attack != "membership" or not measure.how.endswith(DISTANCE) or measure.risk is None:
        return False
    is_known = min(measure.risk.targets, measure.risk.control_targets) >= _FEW
    return is_known and (measure.risk.high or 0.0) < 0


def page(
    releases: Sequence[AssessedRelease],
    assessments: Mapping[str, Assessment],
    pairs: Sequence[LinkedPair] = (),
) -> Statement:
    """Return the page for the operator and the officer, for the renderers of the statement."""
    return Statement(
        f"Assessment of {', '.join(release.name for release in releases)}",
        "Knowledge about people that attackers gain from the release, measured by attacks that read the original. "
        "The page is for the operator and the officer, and not for recipients.",
        tuple(_sections(releases, assessments, pairs)),
        document(releases, assessments, pairs),
    )


def _sections(
    releases: Sequence[AssessedRelease], assessments: Mapping[str, Assessment], pairs: Sequence[LinkedPair]
) -> Iterator[Section]:
    promise = (releases[-1].manifest or {}).get("promise")
    if promise is not None:
        facts = (("Guaranteed", promise["guaranteed"]), ("Against whom", promise["against_whom"]))
        yield Section("Promises", facts=facts)
    warnings_of_all = tuple(warnings(assessments))
    if warnings_of_all:
        yield Section("Read this first", points=warnings_of_all)
    for name, assessment in assessments.items():
        yield _summary(name, assessment)
        for result in assessment.results:
            yield _table(name, result)
    if pairs:
        rows = (LINK_COLUMNS, *(pair.cells() for pair in pairs))
        yield Section("Links from earlier releases to the newest one", paragraphs=(LINKED,), rows=rows)
    yield Section("How to read the figures", points=READING)


LINKED = (
    "For each case that both releases have, the attacker guesses its record in the newest release from its record in "
    "the earlier one. The bound is the least of FA, CA and BA: knowing a few events, no correspondence attack leaves "
    "fewer cases. Linking whole records may succeed more often, and says how well a person can be followed."
)

READING = (
    "Rate: share of the attacked people for whom the attack succeeds. Control: the same on people who are not in the "
    "release. An attack that works on them too uses knowledge of the process, not of a person.",
    "Risk: (rate - control) / (1 - control), with its 95 % interval. For membership the rate is the area under the "
    "curve and the control .5.",
    "Seen: the lower bound stays above 0 even though many measures were taken (Bonferroni over all of them).",
    "Would see: the least leak, as a share of the people, that this run would have seen in 95 of 100 cases. A smaller "
    "leak it might have missed. A failed attack proves nothing beyond that, and a better attack may exist: no line "
    "says that a release is safe.",
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
    if assessment.both_ways:
        control = "each half was released, and is the control of the other half's release"
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
    points = (*not_run(result), *further_figures(result))
    return Section(title, paragraphs=(knowledge,), points=points, rows=(COLUMNS, *rows))


def further_figures(result: ProfileResult) -> Iterator[str]:
    """Yield the figures of the attacks that are not risks: true positives, and what is released word for word."""
    for measure in result.measures:
        if measure.risk is None:
            continue
        texts = [_FIGURES[name](value) for name, value in (measure.details or {}).items() if name in _FIGURES]
        if texts:
            yield f"{measure.attack}, {measure.how}: {'; '.join(texts)}"


def _true_positives(share: float) -> Callable[[float | None], str]:
    """Return how the true-positive rate at a share of false positives is written."""

    def text(rate: float | None) -> str:
        if rate is None:
            return f"at {share:.1%} false positives unknown (too few cases outside)"
        return f"{rate:.1%} true positives at {share:.1%} false positives"

    return text


_FIGURES: Mapping[str, Callable[[Any], str]] = {
    **{f"true_positives_at_{share:g}": _true_positives(share) for share in FALSE_POSITIVES},
    "shown_traces": lambda cases: f"the release shows the traces of {cases} cases of the original",
    "shown_unique_traces": lambda cases: f"{cases} of them have a trace of their own",
    "longest": lambda events: f"the longest released piece that one case alone has: {events} events",
}
"""Functions that write a further figure of a measure for people, by its public name."""


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
        three_digits(risk.control),
        three_digits(risk.risk),
        interval,
        three_digits(risk.power),
        measure.result,
    )


def three_digits(value: float | None) -> str:
    """Return a figure for a table; empty if it was not measured."""
    return "" if value is None else f"{value:.3f}"
