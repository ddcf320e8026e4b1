"""Faults that an outsider finds: by the independent verifier of topics and store, and by some checks of our own.

Nothing here knows which fault struck. A line is of one of these kinds: lost, doubled, under-counted, hung, refused (a
process is down until a person comes), wrong (anything else).
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.kafka import scenario, verifier
from tests.kafka.chaos.world import HOSTS, Witness, entries_of
from tests.oracles.privacy_loss import ball, precision, reference

KINDS = ("lost", "doubled", "under-counted", "hung", "refused", "wrong")

WORDS = {
    "lost": ("lost:", "has 0 decisions", "sealed and never announced", "no whole frame"),
    "doubled": ("doubled:", "decisions", "contents", "nothing calls for"),
    "under-counted": ("before its charge", "two amounts", "under-counted:"),
    "hung": ("hung:",),
    "refused": ("refused:",),
}


def kind_of(line: str) -> str:
    """Return the kind of a line of the verifier."""
    return next((kind for kind, words in WORDS.items() if any(word in line for word in words)), "wrong")


def disagreements(site: Witness) -> list[str]:
    """Return the lines of the verifier and of the budget about a settled site."""
    return [*scenario.disagreements(site, "shared"), *_budget(site), *_copies(site), *_each_once(site)]


def _budget(site: Witness) -> Iterator[str]:
    """A release says that at least as much was spent as the noise cost that was charged when it was sealed.

    Charges that a manifest adds up are added up here. Others are composed by the definition, in balls of 200 bits, at
    the delta that the manifest states next to those of the charges.
    """
    stages: dict[str, list[Fraction]] = defaultdict(list)
    deltas: dict[str, Fraction] = defaultdict(Fraction)
    charged: set[tuple[str, int]] = set()
    sealed: set[tuple[str, int]] = set()
    for entry in site.ledger():
        name, place = entry["publication"], (entry["publication"], entry.get("sequence", 0))
        draw = (entry.get("cut", ""), entry.get("body", {}).get("redraw", 0))
        if entry["kind"] == "charge" and draw not in charged:
            charged.add(draw)
            stages[name].append(Fraction(entry["body"]["epsilon"]))
            deltas[name] += Fraction(entry["body"]["delta"])
        if entry["kind"] == "seal" and place not in sealed:
            sealed.add(place)
            path = site.output("shared") / "public" / name / f"release-{place[1]:06d}" / "manifest.json"
            budget = json.loads(path.read_bytes()).get("budget") if path.exists() else None
            if not budget:
                stated, rule = {"epsilon": 0, "delta": 0}, "sum"
            else:
                stated, rule = budget["spent"], budget["spent"].get("rule", "sum")
            is_too_small = stated["epsilon"] < float(sum(stages[name])) - 1e-9
            if is_too_small and rule in ("composed", "parts"):
                own_delta = Fraction(repr(stated["delta"])) - deltas[name]
                with precision(200):
                    true_delta = reference(Fraction(0), stages[name], Fraction(repr(stated["epsilon"])))
                    is_too_small = own_delta <= 0 or bool(true_delta > ball(own_delta))
            if is_too_small:
                charges = f"{len(stages[name])} charges of {float(sum(stages[name]))}"
                yield f"under-counted: {place} says that {stated['epsilon']} was spent, the ledger had {charges}"


def _copies(site: Witness) -> Iterator[str]:
    """Check that the SQLite copy of a host is a prefix of the ledger topic: no entry is missing or different."""
    keyed: set[str] = set()
    topic = [entry for entry in site.ledger() if _first(entry, keyed)]
    for host in HOSTS:
        path = site.output(host) / "operator" / "ledger.sqlite"
        if not path.exists():
            continue
        try:
            copy = entries_of(path)
        except sqlite3.Error:
            continue  # its coordinator is just making it
        if copy == site.damaged.get(host):
            continue  # compared and rebuilt when its host becomes the active one
        if copy != topic[: len(copy)]:
            yield f"the ledger's copy of host {host} is not what the topic says"


def _first(entry: dict[str, Any], seen: set[str]) -> bool:
    """Return whether the copy takes this entry: of several with one key it keeps the first."""
    key = {
        "charge": f"charge/{entry.get('cut')}/{entry.get('body', {}).get('redraw', 0)}",
        "withheld": f"withheld/{entry.get('cut')}",
        "seal": f"number/{entry['publication']}/{entry.get('sequence')}",
        "published": f"published/{entry['publication']}/{entry.get('sequence')}",
    }.get(entry["kind"])
    if key is None:
        return True
    fresh = key not in seen
    seen.add(key)
    return fresh


def _each_once(site: Witness) -> Iterator[str]:
    """Check that no case is in two releases of `groups`, by the operator's files of the hosts that have them."""
    burned = {(entry["publication"], entry["sequence"]) for entry in site.ledger("burned")}
    sealed = {entry["sequence"] for entry in site.ledger("seal") if entry["publication"] == "groups"}
    releases_of_case: dict[str, set[int]] = defaultdict(set)
    for number in sealed - {number for name, number in burned if name == "groups"}:
        paths = [site.output(host) / f"operator/groups/{number:06d}/variants.parquet" for host in HOSTS]
        for path in filter(Path.exists, paths):
            try:
                cases = pq.read_table(path, columns=["case"]).column("case").to_pylist()
            except (OSError, pa.ArrowInvalid):
                continue  # a fault has damaged it, or removes it at this moment
            for case in cases:
                releases_of_case[case].add(number)
    repeated = sum(len(numbers) > 1 for numbers in releases_of_case.values())
    if repeated:
        yield f"doubled: {repeated} cases are in two releases that show each case once"


Trace = tuple[str, ...]


def truth(events: Collection[dict[str, Any]]) -> Counter[Trace]:
    """Return the traces of these source events, each event at its own time."""
    cases: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for event in events:
        cases[event["case:concept:name"]].append((event["time:timestamp"], event["concept:name"]))
    return Counter(tuple(activity for _, activity in sorted(one)) for one in cases.values())


def tally(site: Witness, number: int, events: Collection[dict[str, Any]]) -> list[str]:
    """Check that the plain release of this number holds exactly these events, whatever happened to topics before."""
    path = site.output("shared") / "public" / "plain" / f"release-{number:06d}" / "log.xes.gz"
    released, wanted = verifier._traces(path), truth(events)
    there, due = (sum(len(trace) * count for trace, count in bag.items()) for bag in (released, wanted))
    if released == wanted:
        return []
    lacking, surplus = sum((wanted - released).values()), sum((released - wanted).values())
    word = "lost" if there < due else "doubled"
    return [
        f"{word}: the last release has {there} events of {due}; {lacking} traces are not there, {surplus} are other"
    ]
