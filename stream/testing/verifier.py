"""An independent check of the result of a run: it reads only the output folders, and shares no code with the pipeline.

It parses the ledger's rows, the public folders and the operator's folders itself, so that a mistake of the program is
not repeated by its judge. `verify` may read the folder of a process that crashed, or of one that runs.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

_RELEASE = re.compile(r"release-(\d{6,})")


ReleaseKey = tuple[str, int]
"""Publication and number of a release."""


class OutputContents:
    """The content of the output folder of a run."""

    def __init__(self, output: Path) -> None:
        self.output = output
        self.entries = list(_entries(output / "operator" / "ledger.sqlite"))
        self.releases = dict(_releases(output / "public"))

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Return the entries of a kind, in order."""
        return [entry for entry in self.entries if entry["kind"] == kind]

    @property
    def burned(self) -> set[tuple[str, int]]:
        """The burned numbers, each with its publication."""
        return {(entry["publication"], entry["sequence"]) for entry in self.of("burned")}

    @property
    def released(self) -> list[dict[str, Any]]:
        """The seals of visible releases, in order: not burned, and approved if an approval is required."""
        sealed = [seal for seal in self.of("seal") if _key(seal) not in self.burned]
        return [seal for seal in sealed if self.ruling(seal) in ("", "approved")]

    def ruling(self, seal: dict[str, Any]) -> str:
        """Return `held` for a release that waits for approval, else the first decision; empty if it needs none."""
        if seal["body"].get("held_at") is None:
            return ""
        decisions = [entry["body"]["decision"] for entry in self.of("approval") if _key(entry) == _key(seal)]
        return next((decision for decision in decisions if decision != "refused"), "held")


def verify(output: Path, *, finished: bool = True) -> list[str]:
    """List every broken promise, one line each; empty if all hold.

    Parameters
    ----------
    output
        Folder of the run.
    finished
        Whether the run ended by itself, so that nothing may be left unfinished.
    """
    folder = OutputContents(output)
    faults = [*_unique(folder), *_bytes(folder), *_charges(folder), *_unknown(folder), *_held(folder)]
    if finished:
        faults += _unfinished(folder)
    return faults


def contents(output: Path) -> dict[str, Counter[tuple[Any, ...]]]:
    """Return, by cut id, the bag of (trace, sensitive values) of its release: two runs must agree on it."""
    folder = OutputContents(output)
    bags = {}
    for seal in folder.released:
        if _key(seal) in folder.releases:
            bags[seal["cut"]] = _bag(folder.releases[_key(seal)])
    return bags


def decisions(output: Path) -> dict[str, str]:
    """Return the decision by cut id: sealed, withheld, or (if an approval is needed) held, rejected or superseded."""
    folder = OutputContents(output)
    result = {}
    for seal in folder.of("seal"):
        ruling = folder.ruling(seal)
        if ruling not in ("", "approved"):
            result[seal["cut"]] = ruling
    for entry in folder.of("withheld"):
        result[entry["cut"]] = "withheld"
    for seal in folder.released:
        result[seal["cut"]] = "sealed"
    return result


def digests(output: Path) -> dict[ReleaseKey, dict[str, str]]:
    """Return the sha256 of each file of each release: sealed bytes never change."""
    return {key: _file_digests(folder) for key, folder in OutputContents(output).releases.items()}


def _key(entry: dict[str, Any]) -> ReleaseKey:
    return entry["publication"], entry["sequence"]


def _file_digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def _unique(folder: OutputContents) -> Iterator[str]:
    """Check that each number has one content, and each cut one decision."""
    numbers = Counter(_key(seal) for seal in folder.of("seal"))
    yield from (f"number {key} was sealed {count} times" for key, count in numbers.items() if count > 1)
    cuts = Counter(seal["cut"] for seal in folder.released)
    yield from (f"cut {cut} was released {count} times" for cut, count in cuts.items() if count > 1)
    both = set(cuts) & {entry["cut"] for entry in folder.of("withheld")}
    yield from (f"cut {cut} was both withheld and released" for cut in sorted(both))


def _bytes(folder: OutputContents) -> Iterator[str]:
    """Check that the visible files have the sealed bytes."""
    for seal in folder.released:
        key = _key(seal)
        if key not in folder.releases:
            continue
        sealed = {file["path"]: file["sha256"] for file in seal["body"]["files"]}
        sealed["manifest.json"] = seal["body"]["manifest"]
        if sealed != _file_digests(folder.releases[key]):
            yield f"release {key} is not what was sealed"


def _charges(folder: OutputContents) -> Iterator[str]:
    """Check that the ledger never under-counts.

    A charge precedes every draw for its cut. Each sealed draw has a charge of its own, even if its bytes were lost
    later (somebody may have them).
    """
    charged: dict[str, Fraction] = {}
    spent: Counter[str] = Counter()
    for entry in folder.entries:
        name, cut = entry["publication"], entry["cut"]
        if entry["kind"] == "charge":
            if cut in charged:
                yield f"cut {cut} was charged twice"
            charged[cut] = Fraction(entry["body"]["epsilon"])
            spent[name] += charged[cut]  # type: ignore[assignment]
        if entry["kind"] == "seal":
            yield from _covered(folder, entry, charged, Fraction(spent[name]))
        if entry["kind"] == "burned":
            charged.pop(cut, None)
    for audit in _unsealed(folder):
        epsilon = (audit.get("budget") or {}).get("epsilon", 0)
        cut = audit["cut"]["id"]
        if epsilon and cut not in charged:
            yield f"cut {cut} was drawn before it was charged"


def _covered(
    folder: OutputContents, seal: dict[str, Any], charged: dict[str, Fraction], spent: Fraction
) -> Iterator[str]:
    """Check that the charges before a seal cover what the manifest of the release states as spent."""
    release = folder.releases.get(_key(seal))
    manifest = json.loads((release / "manifest.json").read_bytes()) if release else {}
    budget = manifest.get("budget")
    if not budget:
        return
    if seal["cut"] not in charged:  # never, or for a draw that was burned since
        yield f"cut {seal['cut']} was sealed before it was charged"
        return
    states_more_spent = float(spent) < budget["spent"]["epsilon"] - 1e-12
    states_more_charged = float(charged[seal["cut"]]) < budget["epsilon"] - 1e-12
    if states_more_spent or states_more_charged:
        yield f"release {seal['sequence']} of {seal['publication']} states that more was spent than was charged"


def _unsealed(folder: OutputContents) -> Iterator[dict[str, Any]]:
    """Yield the audits of attempts that crashed between their files and their seal."""
    for path in sorted((folder.output / "operator").glob("*/.*.tmp/audit.json")):
        try:
            yield json.loads(path.read_bytes())
        except ValueError:
            continue


def _unknown(folder: OutputContents) -> Iterator[str]:
    """Check that nothing is visible that the ledger did not seal."""
    sealed = {_key(seal) for seal in folder.of("seal")}
    for key in folder.releases:
        if key not in sealed:
            yield f"release {key} is visible and was never sealed"
        if key in folder.burned:
            yield f"release {key} is visible and was burned"


def _held(folder: OutputContents) -> Iterator[str]:
    """Check that nothing is visible without approval, and that held releases are complete."""
    for seal in folder.of("seal"):
        key, ruling = _key(seal), folder.ruling(seal)
        if ruling in ("", "approved") or key in folder.burned:
            continue
        if key in folder.releases:
            yield f"release {key} is visible, and {ruling}"
        if ruling != "held":
            continue
        held_files = folder.output / "operator" / key[0] / "held" / seal["body"]["temporary"]
        for file in seal["body"]["files"]:
            path = held_files / file["path"]
            if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != file["sha256"]:
                yield f"release {key} is held, and {file['path']} is not what was sealed"


def _unfinished(folder: OutputContents) -> Iterator[str]:
    """Check that no step of a release is left undone, and no temporary file is left."""
    published = {_key(entry) for entry in folder.of("published")}
    for seal in folder.released:
        key = _key(seal)
        if key not in folder.releases:
            yield f"release {key} was sealed and does not exist"
        if key not in published:
            yield f"release {key} was never marked as published"
        operator_files = folder.output / "operator" / key[0] / f"{key[1]:06d}"
        for name in ("audit.json", "variants.parquet"):
            if not (operator_files / name).is_file():
                yield f"{operator_files / name} is missing"
    for path in folder.output.glob("public/*/.*.tmp"):
        yield f"{path} was left behind"
    waiting = {seal["body"]["temporary"] for seal in folder.of("seal") if folder.ruling(seal) == "held"}
    for path in folder.output.glob("operator/*/held/*"):
        if path.name not in waiting:
            yield f"{path} was left behind"
    for seal in folder.of("seal"):
        operator_files = folder.output / "operator" / seal["publication"] / f"{seal['sequence']:06d}"
        is_rejected = folder.ruling(seal) in ("rejected", "superseded")
        if is_rejected and (operator_files / "variants.parquet").exists():
            yield f"{operator_files} still names the cases of a rejected release"


def _entries(path: Path) -> Iterator[dict[str, Any]]:
    if not path.is_file():
        return
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as db, db:
        rows = db.execute("SELECT body FROM entries ORDER BY id").fetchall()
    db.close()
    for (raw,) in rows:
        yield {"publication": "", "cut": "", "sequence": 0, "body": {}, **json.loads(raw)}


def _releases(public: Path) -> Iterator[tuple[tuple[str, int], Path]]:
    for folder in sorted(public.glob("*/release-*")) if public.is_dir() else ():
        match = _RELEASE.fullmatch(folder.name)
        if match:
            yield (folder.parent.name, int(match[1])), folder


def _bag(folder: Path) -> Counter[tuple[Any, ...]]:
    """Return the traces with their case attributes, without ids and order. The parser is independent, too."""
    from lxml import etree

    bag: Counter[tuple[Any, ...]] = Counter()
    with gzip.open(folder / "log.xes.gz") as stream:
        for trace in etree.parse(stream).getroot().iter("{*}trace"):
            values = {child.get("key"): child.get("value") for child in trace if not str(child.tag).endswith("event")}
            values.pop("concept:name", None)
            events = []
            for event in trace.iterfind("{*}event"):
                items = [(item.get("key"), item.get("value")) for item in event]
                events.append(tuple(sorted(items)))
            bag[tuple(sorted(values.items())), tuple(events)] += 1
    return bag
