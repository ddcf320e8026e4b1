"""The statement on a release or a series: one page for recipients, officers and records of processing.

It is made from the public manifests, so that everybody who has the releases can make the same page and compare it.
The files of each release are compared with the sums of its manifest. Of a release with noise, the log or map is
opened as well, to see whether it is empty. No audit, no ledger and no source data are read: the statement may go
wherever the release goes.

The steps are the parts of the file: `releases_of` reads the manifests, `statement` makes sections of text
from them, `html` and `markdown` write the sections as a page.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NoReturn

from connectors.logs import has_no_event
from connectors.store.base import PUBLIC, digest
from models.dp.account import RULE_TEXTS
from models.dp.budget import format_amount
from models.errors import BoundError, InputError
from stream.ledger.layout import OperatorLayout
from stream.operator import approval
from stream.operator.history import read_json, verdicts_of
from stream.operator.report.words import explained, sentence
from stream.release import membership
from stream.release.looser import looser_mechanism
from stream.release.manifest import MAP, VERSION, software
from stream.release.public_files import FILES

TIMES = {
    "ordinal": "No times. The time column holds the place of an event in its case, counted in seconds from 1970-01-01.",
    "relative": "Times since the start of the case, cut off to the unit T of the table below. No dates.",
    "microaggregated": "Dates and times made of means over groups of cases, dealt out to the cases at random. A mean "
    "over a frequent step is near the truth, a single time reveals nothing about its case. The manifest calls these "
    "times relative_time.",
    "noised": "Times with random noise.",
}

OPTIONAL_FACTS = (
    ("audience", "Audience"),
    ("relation", "Logs that differ in one"),
    ("employees", "Employees"),
    ("intake", "Reading"),
    ("public_cut", "Moments"),
)
"""Parts of a promise that only some promises have, and their names on the page."""

MAP_FILES = (
    ("dfg.json", "How often each activity directly follows each, with intervals, and the number of cases."),
    ("model.bpmn, model.pnml", "A process model, discovered from noisy numbers alone."),
    ("map.svg, map.html", "The counts as a picture, and as a page with a table."),
    ("Events and cases", "None. No record of a case is in a release."),
)


@dataclass(frozen=True, slots=True)
class PublishedRelease:
    """One release as its public folder shows it.

    Attributes
    ----------
    number, manifest
        Number of the release, and its manifest.
    digest
        sha256 of manifest.json.
    is_empty
        Whether noise left nothing: the files are at hand, and hold a log without a trace or a map without a step.
    folder
        Folder of the files; None if they are not public yet.
    """

    number: int
    manifest: Mapping[str, Any]
    digest: str
    is_empty: bool = False
    folder: Path | None = None

    @property
    def has_files(self) -> bool:
        """Whether any of its files is at hand."""
        return self.folder is not None and any((self.folder / file["path"]).is_file() for file in self._files)

    @property
    def changed_files(self) -> list[str]:
        """Files that are missing, or have another sum than the manifest lists; empty if none is at hand."""
        if self.folder is None or not self.has_files:
            return []
        changed = []
        for file in self._files:
            path = self.folder / file["path"]
            if not path.is_file() or digest(path) != file["sha256"]:
                changed.append(str(file["path"]))
        return changed

    @property
    def _files(self) -> Sequence[Mapping[str, Any]]:
        files: Sequence[Mapping[str, Any]] = self.manifest["files"]
        return files


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, and the content below it in the order of the attributes.

    Attributes
    ----------
    facts
        Pairs of a name and a value.
    points
        Items of a list.
    rows
        Rows of a table, its head first.
    """

    title: str
    paragraphs: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    points: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Statement:
    """The page, for one renderer or another; `data` is what `--json` prints."""

    title: str
    lead: str
    sections: tuple[Section, ...]
    data: Mapping[str, Any]


def releases_of(folder: Path, publication: str | None, number: int | None) -> list[PublishedRelease]:
    """Return the public releases of one publication, in order.

    Parameters
    ----------
    folder
        An output folder, or its `public` folder alone.
    publication
        May be None if the folder has one publication.
    number
        The number of one release, or None for all.

    Raises
    ------
    InputError
        If there is no such release, if a manifest is of a later version, or if the publication is not named and there
        are several.
    BoundError
        If the folder is an operator's, and nothing of it is public yet.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; give the output folder of a replay or daemon")
    root = _public_folder(folder)
    manifests: dict[str, list[Path]] = {}
    for place in _folders(root):
        paths = _manifests(place)
        if paths:
            manifests[place.name] = paths

    if publication is None:
        if len(manifests) > 1:
            raise InputError(f"{root}: holds {', '.join(manifests)}; name the publication that the statement is about")
        publication = next(iter(manifests), None)
    if publication not in manifests:
        _refuse_unpublished(folder, publication, list(manifests))
    series = [_read(path) for path in manifests[publication]]
    if number is None:
        return series
    chosen = [release for release in series if release.number == number]
    if not chosen:
        have = ", ".join(str(release.number) for release in series)
        raise InputError(f"{root}: no release {number} of {publication}; there are {have}")
    return chosen


def _refuse_unpublished(folder: Path, publication: str | None, public: Sequence[str]) -> NoReturn:
    """Refuse a statement on a publication of which nothing is public, and say why nothing is.

    Parameters
    ----------
    folder
        The folder that was given.
    publication
        The publication; None if none was named, and nothing is public.
    public
        The publications with a public release.

    Raises
    ------
    BoundError
        If a release of it is held, or if nothing in an operator's folder is public.
    InputError
        Otherwise.
    """
    held_numbers = _held(folder)
    name = next(iter(held_numbers), "") if publication is None else publication
    if name in held_numbers:
        raise BoundError(_only_held(folder, name, held_numbers[name]))
    if not public:
        verdicts = _nothing_released(folder, name)
        if verdicts:
            raise BoundError(f"{folder}: a statement is about what is public. {verdicts}")
    have = f"it holds {', '.join(public)}" if public else "it holds no release"
    raise InputError(f"{_public_folder(folder)}: no release of publication {name!r}; {have}")


def _public_folder(folder: Path) -> Path:
    """Return the folder of the publications: `public` in an output folder, or the folder itself."""
    public = folder / PUBLIC
    return public if public.is_dir() else folder


def _folders(root: Path) -> list[Path]:
    return sorted(path for path in root.iterdir() if path.is_dir())


def _manifests(place: Path) -> list[Path]:
    """Return the manifests of one publication, in order of the numbers of their releases."""
    return sorted(place.glob("release-*/manifest.json"))


def _nothing_released(folder: Path, publication: str) -> str:
    """Return the verdicts of an operator's folder in which nothing is public.

    The text is empty if it is no such folder, or if the named publication is unknown.
    """
    if not OperatorLayout(folder).root.is_dir():
        return ""
    verdicts = verdicts_of(folder)
    named = [verdict for verdict in verdicts if publication in ("", verdict.publication)]
    return "; ".join(verdict.line() for verdict in named)


def _has_no_step(path: Path) -> bool:
    """Return whether a map has no step; a file that is gone or damaged counts as one that has."""
    try:
        counts = read_json(path)
    except InputError:
        return False
    return isinstance(counts, dict) and counts.get("steps") == []


def other_publications(folder: Path, series: Sequence[PublishedRelease]) -> list[PublishedRelease]:
    """Return the last release of each other publication of the process that shows exact counts.

    No budget protects the cases of such a publication. `series`: the releases that the statement is about.
    """
    process, publication = series[-1].manifest["process"], series[-1].manifest["publication"]
    last_releases = []
    for place in _folders(_public_folder(folder)):
        releases = []
        for release in map(_read, _manifests(place)):
            is_of_process = release.manifest["process"] == process
            is_other = release.manifest["publication"] != publication
            shows_exact_counts = release.manifest.get("budget") is None
            if is_of_process and is_other and shows_exact_counts:
                releases.append(release)
        last_releases += releases[-1:]
    return last_releases


def _held(folder: Path) -> Mapping[str, list[int]]:
    """Return the numbers of held releases by publication; none if this is not an operator's folder."""
    numbers: dict[str, list[int]] = {}
    if OperatorLayout(folder).root.is_dir():
        for release in approval.held(folder):
            numbers.setdefault(release.publication, []).append(release.number)
    return numbers


def _only_held(folder: Path, publication: str, numbers: Sequence[int]) -> str:
    number = numbers[0]
    return (
        f"{folder}: nothing of {publication} is public yet, and a statement is about what is. Release "
        f"{_ranges(numbers)} is held for approval: look at it (veilstream report {folder}, or veilstream serve "
        f"{folder}), then veilstream approve {publication} {number} -o {folder} --by NAME --why TEXT, or reject"
    )


def _read(path: Path) -> PublishedRelease:
    manifest = read_json(path)
    if not isinstance(manifest, dict) or not {"version", "sequence", "promise", "mechanism"} <= set(manifest):
        raise InputError(f"{path}: is not a manifest of a release")
    if manifest["version"] > VERSION:
        raise InputError(f"{path}: manifest version {manifest['version']}; this program reads version {VERSION}")
    is_empty = _is_empty(path.parent, manifest)
    return PublishedRelease(int(manifest["sequence"]), manifest, digest(path), is_empty, path.parent)


def _is_empty(folder: Path, manifest: Mapping[str, Any]) -> bool:
    """Return whether the noise left no case. Only releases with noise can be sealed without one."""
    if manifest.get("budget") is None:
        return False
    if manifest.get("content") == MAP:
        return _has_no_step(folder / "dfg.json")
    logs = [folder / file["path"] for file in manifest["files"] if file["path"] in FILES.values()]
    return any(has_no_event(path) for path in logs)


def statement(
    series: Sequence[PublishedRelease], *, alone: bool, other_releases: Sequence[PublishedRelease] = ()
) -> Statement:
    """Return the statement on releases of one publication.

    Parameters
    ----------
    series
        The releases, in order.
    alone
        Whether the statement is on one release of a series, and not on the whole series.
    other_releases
        See `other_publications`.
    """
    last = series[-1].manifest
    named = f"publication “{last['publication']}” of process “{last['process']}”"
    subject = f"Release {series[-1].number} of {named}" if alone else f"The releases of {named}"
    program = last["software"]
    contents = "this release contains" if alone else "these releases contain"
    lead = (
        f"This page explains what {contents}, what is promised to the people in the data, and what is not. Every "
        "figure is taken from the public manifests; no source data were read to write this page."
    )
    changed = {release.number: files for release in series if (files := release.changed_files)}
    content: tuple[Section, ...] = (
        _released(series),
        _contents(last),
        *_reading(last),
        *_promises(series),
        *_together(last, other_releases),
        *_budget(last),
        _method(last),
        _checks(series, changed, alone=alone),
    )
    words = tuple(explained(" ".join(map(_text, content))))
    sections = (
        *content,
        Section("Words of this page", facts=words),
        Section("Signature", facts=(("Name and role", " "), ("Date", " "), ("Signature", " "))),
    )
    # Exact counts can be subtracted from noisy ones; without noise there is nothing to remove.
    has_noise = last.get("budget") is not None
    subtracted_by = [release.manifest["publication"] for release in other_releases] if has_noise else []
    data = {
        "process": last["process"],
        "publication": last["publication"],
        "audience": last.get("audience"),
        "releases": [{"sequence": release.number, "manifest_sha256": release.digest} for release in series],
        "mechanism": last["mechanism"],
        "promise": last["promise"],
        "budget": last.get("budget"),
        "subtracted_by": subtracted_by,
        "missing": _missing(series) if not alone else [],
        "chain_holds": _chain(series) if not alone else None,
        "changed_files": [{"sequence": number, "files": files} for number, files in changed.items()],
        "released_by": program,
        "written_by": software(),
    }
    return Statement(subject, lead, sections, data)


def _text(section: Section) -> str:
    cells = chain.from_iterable((*section.facts, *section.rows))
    return "\n".join((*section.paragraphs, *section.points, *cells))


def _released(series: Sequence[PublishedRelease]) -> Section:
    counted = {"Cases": "cases", "Events": "events", "Variants": "variants"}
    if all(release.manifest.get("content") == MAP for release in series):
        counted = {}  # a map has its noisy counts in its own files
    head = ("Release", "Published (UTC)", *counted, "Files")
    rows = []
    for release in series:
        published = release.manifest["published"][:16].replace("T", " ")
        counts = [_count(release.manifest, name) for name in counted.values()]
        files = ", ".join(file["path"] for file in release.manifest["files"])
        rows.append((str(release.number), published, *counts, files))
    notes = tuple(_notes_on_releases(series, has_counts=bool(counted)))
    return Section("Releases", paragraphs=notes, rows=(head, *rows))


def _notes_on_releases(series: Sequence[PublishedRelease], *, has_counts: bool) -> Iterator[str]:
    """Yield the sentences below the table of releases; `has_counts`: whether it has columns of counts."""
    if has_counts and any("counts" not in release.manifest for release in series):
        yield "“Not said”: the manifest of a release with noise holds no count of the data."
    has_increments = any("increment" in release.manifest for release in series)
    if has_increments:
        yield (
            "Counts of an increment are those of its whole set. Its files hold the new cases alone: read the files of "
            "the set together."
        )
    is_each_case_once = any(release.manifest.get("cases") == "completed" for release in series)
    if has_counts and is_each_case_once:
        yield "No case is in two of these releases: their counts add up."
    if len(series) > 1 and not is_each_case_once and not has_increments:
        yield (
            "Each release has the cases of earlier releases again, except those that were removed since: "
            "read the newest alone, and add no counts of several releases."
        )
    empty = [release.number for release in series if release.is_empty]
    if empty:
        subject = "This release is empty" if len(series) == 1 else f"Empty releases: {_ranges(empty)}"
        yield f"{subject}. Nothing in the data exceeds the noise."
    simulated = [release.number for release in series if release.manifest.get("clock") == "simulated"]
    if simulated:
        subject = "These releases were" if len(simulated) == len(series) else f"Release {_ranges(simulated)}:"
        yield f"{subject} made from a recorded log; “published” is a moment of a simulated clock."
    if any(release.manifest.get("approval") for release in series):
        releases = "this release" if len(series) == 1 else "each of these releases"
        yield (
            f"A person approved {releases} before it left. “Published” is when it was ready for that; it "
            "left at that time or later."
        )
    yield from _looser_releases(series)
    gaps = series[-1].manifest.get("gaps_accepted")
    if gaps:
        yield f"Source events are missing: the operator accepted {gaps} gap(s) in the source and continued."


def _looser_releases(series: Sequence[PublishedRelease]) -> Iterator[str]:
    """Yield a sentence for each release whose mechanism protects less than that of the release before it."""
    for before, release in pairwise(series):
        earlier = before.manifest["mechanism"]
        terms = looser_mechanism(release.manifest["mechanism"], earlier, f"in release {before.number}")
        if terms:
            yield f"Release {release.number} protects less than the one before it: {'; '.join(terms)}."


def _count(manifest: Mapping[str, Any], name: str) -> str:
    return str(manifest["counts"][name]) if "counts" in manifest else "not said"


IDS = "New and random in every release. A person has another id in each."
IDS_OF_SET = "New and random in every release. Each case is in one release of its set."


def _contents(manifest: Mapping[str, Any]) -> Section:
    if manifest.get("content") == MAP:
        return Section("Files of a release", facts=MAP_FILES)
    carries = manifest["carries"]
    return Section(
        "Columns of an event",
        facts=(
            ("Columns", ", ".join(carries) if carries else "none"),
            ("Times", TIMES.get(manifest["time_basis"], manifest["time_basis"])),
            ("Case ids", IDS_OF_SET if "increment" in manifest else IDS),
        ),
    )


def _reading(manifest: Mapping[str, Any]) -> Iterator[Section]:
    """Yield notes for people who mine the log; manifests of earlier versions have none."""
    notes = manifest.get("reading")
    if notes:
        content = "map" if manifest.get("content") == MAP else "log"
        yield Section(f"How to read the {content}", points=tuple(notes))


def _together(manifest: Mapping[str, Any], other_releases: Sequence[PublishedRelease]) -> Iterator[Section]:
    """Yield the effect of other publications on a promise by noise.

    A promise by groups names them already.
    """
    if manifest.get("budget") is None or not other_releases:
        return
    points = []
    is_any_for_same = False
    for release in other_releases:
        name, audience = release.manifest["publication"], release.manifest.get("audience")
        is_for_same = audience == manifest.get("audience")
        is_any_for_same = is_any_for_same or is_for_same
        recipients = "the same audience" if is_for_same else f"audience “{audience}”"
        points.append(
            f"Publication “{name}” for {recipients} shows exact counts of cases of this process, without noise."
        )
    points.append("A recipient of both can subtract: the noise then protects nobody any more.")
    if is_any_for_same:
        points.append(
            "The verdict is therefore DP VOID: the promise holds only against people who never see the other one."
        )
    else:
        points.append("The promise above holds for recipients who never see the other one.")
    yield Section("Together with other publications", points=tuple(points))


def _method(manifest: Mapping[str, Any]) -> Section:
    mechanism = manifest["mechanism"]
    rows = [(name, _short(value)) for name, value in mechanism["parameters"].items()]
    return Section(
        "How it was made",
        paragraphs=(f"Mechanism {mechanism['kind']}, with these parameters:",),
        rows=(("Parameter", "Value"), *rows),
    )


def _short(value: Any) -> str:
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_short(item)}" for key, item in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(map(_short, value)) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _promises(series: Sequence[PublishedRelease]) -> Iterator[Section]:
    """Yield what is promised and what is not, once for each wording of the promise."""
    wordings: dict[tuple[tuple[str, Any], ...], list[int]] = {}
    for release in series:
        wordings.setdefault(tuple(release.manifest["promise"].items()), []).append(release.number)
    for items, numbers in wordings.items():
        promise = dict(items)
        of_releases = f" (release {_ranges(numbers)})" if len(wordings) > 1 else ""
        facts = [
            ("Guaranteed", promise["guaranteed"]),
            ("To whom", promise["to_whom"]),
            ("Against whom", promise["against_whom"]),
            ("Unit of protection", promise["unit"]),
        ]
        for key, name in OPTIONAL_FACTS:
            if promise.get(key):
                facts.append((name, promise[key]))
        sentences = tuple((name, sentence(text)) for name, text in facts)
        yield Section(f"Promises{of_releases}", facts=sentences)

        points = [sentence(point) for point in promise["not_guaranteed"].split("; ") if point.strip()]
        if numbers[-1] == series[-1].number:
            whole_trace = _whole_trace(series[-1].manifest)
            if whole_trace:
                points.append(whole_trace)
        yield Section(f"Not promised{of_releases}", points=tuple(points))


def _whole_trace(manifest: Mapping[str, Any]) -> str | None:
    """Return a sentence on membership by an adversary whom no promise of groups covers; None for noise."""
    mechanism = manifest["mechanism"]
    if manifest.get("budget"):
        return None
    measured = membership.sentence({**mechanism["parameters"], "kind": mechanism["kind"]})
    return None if measured is None else sentence(measured)


def _budget(manifest: Mapping[str, Any]) -> Iterator[Section]:
    budget = manifest.get("budget")
    if budget is None:
        return
    spent = budget["spent"]
    delta, spent_delta = format_amount(budget["delta"], 6), format_amount(spent["delta"], 6)
    unit = manifest["promise"]["unit"].removeprefix("one ")
    paragraphs = [
        f"Take two source logs that differ in one {unit}. No result of this release is more than "
        f"{_factor(budget['epsilon'])} times as likely with the one as with the other (e to the power epsilon), "
        f"apart from a probability of delta = {delta}. For all releases of the publication so far together: "
        f"{_factor(spent['epsilon'])} times, delta {spent_delta}."
    ]
    if budget.get("scope") == "cases":
        paragraphs.append("Each case is in one release of the publication, so what releases spend does not add up.")

    limit = "no limit is set"
    if budget["limit"] is not None:
        limit = f"of at most {format_amount(budget['limit'], 6)}"
    facts = [
        ("This release", f"epsilon {format_amount(budget['epsilon'], 6)}, delta {delta}"),
        ("All releases so far", f"epsilon {format_amount(spent['epsilon'], 6)} ({limit}), delta {spent_delta}"),
    ]
    if budget.get("process") is not None:
        process_spent = budget["process"]["spent"]
        process_epsilon = format_amount(process_spent["epsilon"], 6)
        process_delta = format_amount(process_spent["delta"], 6)
        facts.append(("All publications of the process", f"epsilon {process_epsilon}, delta {process_delta}"))
    facts += _rules(budget)
    yield Section("Privacy budget", paragraphs=tuple(paragraphs), facts=tuple(facts))


def _rules(budget: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield how the epsilon of several releases was computed, which earlier manifests do not state."""
    rule = budget["spent"].get("rule")
    if rule is None:
        return
    text = RULE_TEXTS[rule]
    process_rule = (budget.get("process") or {}).get("spent", {}).get("rule", rule)
    if process_rule != rule:
        text = f"{text}; of all publications: {RULE_TEXTS[process_rule]}"
    yield "Epsilon of several releases", text


def _factor(epsilon: float) -> str:
    return format_amount(math.exp(epsilon), 3) if epsilon < 50 else f"e^{format_amount(epsilon, 6)}"


def _checks(
    series: Sequence[PublishedRelease],
    changed: Mapping[int, Sequence[str]],
    *,
    alone: bool,
) -> Section:
    last = series[-1].manifest
    program = last["software"]
    notes = [
        "Every recipient can check a release: its manifest lists the sums of its files, this page lists the sum of "
        "the manifest, and each manifest names the one before it.",
    ]
    if not alone:
        notes += _on_series(series)
    notes += _on_files(series, changed)
    files = [(file["path"], file["sha256"]) for file in last["files"]] if alone else []
    rows = [(f"release {release.number}, manifest.json", release.digest) for release in series]
    return Section(
        "How to check it",
        paragraphs=tuple(notes),
        facts=(
            ("Made by", f"{program['name']} {program['version']}"),
            ("Configuration (sha256)", str(last["config_digest"])),
        ),
        rows=(("What", "sha256"), *rows, *files),
    )


def _on_series(series: Sequence[PublishedRelease]) -> Iterator[str]:
    missing = _missing(series)
    if missing:
        yield (
            f"Missing: release {_ranges(missing)}. A number is missing if a person rejected the release, if a newer "
            "one took its place before anybody decided, if it was lost in a crash before anybody could have it, or if "
            "this folder is not complete."
        )
    holds = _chain(series)
    if holds is False:
        yield "The chain is broken: a manifest does not name the one before it. Ask the operator why."
    elif holds:
        yield "The chain holds: each manifest names the one before it."


def _on_files(series: Sequence[PublishedRelease], changed: Mapping[int, Sequence[str]]) -> Iterator[str]:
    """Yield whether the files that are at hand are those of the manifests."""
    for number, files in changed.items():
        yield (
            f"Release {number} is damaged or changed: {', '.join(files)} is missing, or has another sum than its "
            "manifest lists. Do not use it; ask the operator for it again."
        )
    numbers = [release.number for release in series if not release.has_files]
    if numbers:
        yield f"The files of release {_ranges(numbers)} are not in this folder, and were not compared."
    if not changed and not numbers:
        yield "Every file was compared, and has the sum that its manifest lists."


def _missing(series: Sequence[PublishedRelease]) -> list[int]:
    return sorted(set(range(1, series[-1].number + 1)) - {release.number for release in series})


def _chain(series: Sequence[PublishedRelease]) -> bool | None:
    """Return whether each manifest names the digest of the one before; None if there is nothing to compare."""
    pairs = [(previous, release) for previous, release in pairwise(series) if "chain" in release.manifest]
    if not pairs:
        return None
    for previous, release in pairs:
        names_number = release.manifest["previous"] == previous.number
        names_digest = release.manifest["chain"]["previous_manifest"] == previous.digest
        if not names_number or not names_digest:
            return False
    return True


def consecutive_ranges(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return the first and the last number of each run: (1, 3) and (5, 5) for 1, 2, 3, 5.

    Parameters
    ----------
    numbers
        Numbers, ascending.
    """
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ranges


def _ranges(numbers: Sequence[int]) -> str:
    """Return `1 to 3, 5` for 1, 2, 3, 5."""
    texts = []
    for first, last in consecutive_ranges(numbers):
        texts.append(str(first) if first == last else f"{first} to {last}")
    return ", ".join(texts)


# pages


def html(page: Statement) -> str:
    """Return the statement as a single HTML file for screen and paper.

    Parameters
    ----------
    page
        The statement.
    """
    from markupsafe import Markup

    from stream.operator.report.templates import environment_of

    folder = Path(__file__).parent
    style = Markup((folder / "style.css").read_text(encoding="utf-8"))  # noqa: S704 - our own file
    return environment_of(folder).get_template("statement.html").render(page=page, style=style)


def markdown(page: Statement) -> str:
    """Return the same in Markdown. Text of a manifest is text: none of it becomes markup.

    Parameters
    ----------
    page
        The statement.
    """
    lines = [f"# {_escaped(page.title)}", "", _escaped(page.lead), ""]
    for section in page.sections:
        if section.title:
            lines += [f"## {_escaped(section.title)}", ""]
        for paragraph in section.paragraphs:
            lines += [_escaped(paragraph), ""]
        lines += _table(("", ""), section.facts, lambda cells: (f"**{cells[0]}**", cells[1]))
        if section.points:
            lines += [f"* {_escaped(point)}" for point in section.points]
            lines.append("")
        if section.rows:
            lines += _table(section.rows[0], section.rows[1:], tuple)
    return "\n".join(lines).rstrip() + "\n"


def _table(
    head: Sequence[str], rows: Sequence[Sequence[str]], form: Callable[[Sequence[str]], Sequence[str]]
) -> list[str]:
    if not rows:
        return []
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    for row in rows:
        cells = form([_cell(cell) for cell in row])
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]


def _cell(text: str) -> str:
    """Return the lines of a cell in one, since a row of a Markdown table has one line."""
    return "; ".join(_escaped(line) for line in text.splitlines())


def _escaped(text: str) -> str:
    return re.sub(r"([\\`*_{}\[\]<>#|~])", r"\\\1", " ".join(text.split()))
