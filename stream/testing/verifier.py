"""An independent look at the result of a run: it reads only the output folders, and shares no code with the pipeline.

It parses the ledger's rows, the public folders and the operator's folders by itself, so that a mistake of the program
does not become a mistake of its judge. `verify` may look at a dead folder (after a crash) or a living one.
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


class Left:
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
        sealed = [seal for seal in self.of("seal") if (seal["publication"], seal["sequence"]) not in self.burned]
        return [seal for seal in sealed if self.ruling(seal) in ("", "approved")]

    def ruling(self, seal: dict[str, Any]) -> str:
        """Return `held` for a release that waits for approval, else the first decision; empty if it needs none."""
        if seal["body"].get("held_at") is None:
            return ""
        key = (seal["publication"], seal["sequence"])
        decisions = [
            entry["body"]["decision"]
            for entry in self.of("approval")
            if (entry["publication"], entry["sequence"]) == key
        ]
        return next((word for word in decisions if word != "refused"), "held")


def verify(output: Path, *, finished: bool = True) -> list[str]:
    """List every broken promise, one line each; empty if all hold.

    Parameters
    ----------
    output
        Folder of the run.
    finished
        Whether the run ended by itself, so that nothing may be left unfinished.
    """
    left = Left(output)
    faults = [*_unique(left), *_bytes(left), *_charges(left), *_unknown(left), *_held(left)]
    return faults + (list(_half_way(left)) if finished else [])


def contents(output: Path) -> dict[str, Counter[tuple[Any, ...]]]:
    """Return, by cut id, the bag of (trace, sensitive values) of its release: two runs must agree on it."""
    left = Left(output)
    return {
        seal["cut"]: _bag(left.releases[seal["publication"], seal["sequence"]])
        for seal in left.released
        if (seal["publication"], seal["sequence"]) in left.releases
    }


def decisions(output: Path) -> dict[str, str]:
    """Cut id -> "sealed" or "withheld"; of a release that needs an approval: "held", "rejected" or "superseded"."""
    left = Left(output)
    sealed = {seal["cut"]: "sealed" for seal in left.released}
    hidden = {seal["cut"]: left.ruling(seal) for seal in left.of("seal") if left.ruling(seal) not in ("", "approved")}
    return {**hidden, **{entry["cut"]: "withheld" for entry in left.of("withheld")}, **sealed}


def digests(output: Path) -> dict[tuple[str, int], dict[str, str]]:
    """(publication, number) -> sha256 by file: sealed bytes never change."""
    return {
        key: {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
        for key, folder in Left(output).releases.items()
    }


def _unique(left: Left) -> Iterator[str]:
    """One content per number, one decision per cut."""
    numbers = Counter((seal["publication"], seal["sequence"]) for seal in left.of("seal"))
    yield from (f"number {key} was sealed {count} times" for key, count in numbers.items() if count > 1)
    cuts = Counter(seal["cut"] for seal in left.released)
    yield from (f"cut {cut} was released {count} times" for cut, count in cuts.items() if count > 1)
    both = set(cuts) & {entry["cut"] for entry in left.of("withheld")}
    yield from (f"cut {cut} was both withheld and released" for cut in sorted(both))


def _bytes(left: Left) -> Iterator[str]:
    """Check that the visible files are what was sealed, to the byte."""
    for seal in left.released:
        key = (seal["publication"], seal["sequence"])
        if key not in left.releases:
            continue
        folder = left.releases[key]
        sealed = {file["path"]: file["sha256"] for file in seal["body"]["files"]}
        sealed["manifest.json"] = seal["body"]["manifest"]
        digests = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
        if sealed != digests:
            yield f"release {key} is not what was sealed"


def _charges(left: Left) -> Iterator[str]:
    """Check that the ledger never under-counts.

    A charge precedes every draw for its cut. Each sealed draw has its own, also if its bytes were lost then (somebody
    may have them).
    """
    charged: dict[str, Fraction] = {}
    spent: Counter[str] = Counter()
    for entry in left.entries:
        name, cut = entry["publication"], entry["cut"]
        if entry["kind"] == "charge":
            if cut in charged:
                yield f"cut {cut} was charged twice"
            charged[cut] = Fraction(entry["body"]["epsilon"])
            spent[name] += charged[cut]  # type: ignore[assignment]
        if entry["kind"] == "seal":
            yield from _covered(left, entry, charged, Fraction(spent[name]))
        if entry["kind"] == "burned":
            charged.pop(cut, None)
    for audit in _unsealed(left):
        asked = (audit.get("budget") or {}).get("epsilon", 0)
        cut = audit["cut"]["id"]
        if asked and cut not in charged:
            yield f"cut {cut} was drawn before it was charged"


def _covered(left: Left, seal: dict[str, Any], charged: dict[str, Fraction], spent: Fraction) -> Iterator[str]:
    folder = left.releases.get((seal["publication"], seal["sequence"]))
    manifest = json.loads((folder / "manifest.json").read_bytes()) if folder else {}
    budget = manifest.get("budget")
    if not budget:
        return
    if seal["cut"] not in charged:  # never, or for a draw that was burned since
        yield f"cut {seal['cut']} was sealed before it was charged"
    elif float(spent) < budget["spent"]["epsilon"] - 1e-12 or float(charged[seal["cut"]]) < budget["epsilon"] - 1e-12:
        yield f"release {seal['sequence']} of {seal['publication']} says that more was spent than was charged"


def _unsealed(left: Left) -> Iterator[dict[str, Any]]:
    """Audits of attempts that died between their files and their seal."""
    for path in sorted((left.output / "operator").glob("*/.*.tmp/audit.json")):
        try:
            yield json.loads(path.read_bytes())
        except ValueError:
            continue


def _unknown(left: Left) -> Iterator[str]:
    """Check that nothing is visible that the ledger did not seal."""
    sealed = {(seal["publication"], seal["sequence"]) for seal in left.of("seal")}
    for key in left.releases:
        if key not in sealed:
            yield f"release {key} is visible and was never sealed"
        if key in left.burned:
            yield f"release {key} is visible and was burned"


def _held(left: Left) -> Iterator[str]:
    """Check that nothing is visible without approval, held releases are complete, and rejected ones are gone."""
    for seal in left.of("seal"):
        key, ruling = (seal["publication"], seal["sequence"]), left.ruling(seal)
        if ruling in ("", "approved") or key in left.burned:
            continue
        if key in left.releases:
            yield f"release {key} is visible, and {ruling}"
        folder = left.output / "operator" / key[0] / "held" / seal["body"]["temporary"]
        if ruling != "held":
            continue
        for name, sealed in [(file["path"], file["sha256"]) for file in seal["body"]["files"]]:
            path = folder / name
            if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != sealed:
                yield f"release {key} is held, and {name} is not what was sealed"


def _half_way(left: Left) -> Iterator[str]:
    published = {(entry["publication"], entry["sequence"]) for entry in left.of("published")}
    for seal in left.released:
        key = (seal["publication"], seal["sequence"])
        if key not in left.releases:
            yield f"release {key} was sealed and is not there"
        if key not in published:
            yield f"release {key} was never marked as published"
        operator_folder = left.output / "operator" / key[0] / f"{key[1]:06d}"
        for name in ("audit.json", "variants.parquet"):
            if not (operator_folder / name).is_file():
                yield f"{operator_folder / name} is missing"
    for folder in left.output.glob("public/*/.*.tmp"):
        yield f"{folder} was left behind"
    waiting = {seal["body"]["temporary"] for seal in left.of("seal") if left.ruling(seal) == "held"}
    for folder in left.output.glob("operator/*/held/*"):
        if folder.name not in waiting:
            yield f"{folder} was left behind"
    for seal in left.of("seal"):
        operator_folder = left.output / "operator" / seal["publication"] / f"{seal['sequence']:06d}"
        if left.ruling(seal) in ("rejected", "superseded") and (operator_folder / "variants.parquet").exists():
            yield f"{operator_folder} still names the cases of a rejected release"


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
    """Traces with their case attributes, read by a few lines of our own: ids and order do not count."""
    from lxml import etree

    bag: Counter[tuple[Any, ...]] = Counter()
    with gzip.open(folder / "log.xes.gz") as stream:
        for trace in etree.parse(stream).getroot().iter("{*}trace"):
            values = {child.get("key"): child.get("value") for child in trace if not str(child.tag).endswith("event")}
            values.pop("concept:name", None)
            events = tuple(
                tuple(sorted((item.get("key"), item.get("value")) for item in event))
                for event in trace.iterfind("{*}event")
            )
            bag[tuple(sorted(values.items())), events] += 1
    return bag
