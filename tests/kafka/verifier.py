"""An independent verifier: it reads only topics, store and ledger topic, and shares no code with the daemon.

It recounts what one `new_cases = x` window must do from the source topic and the recorded deltas, and returns every
disagreement as one line. An empty list means: nothing lost, nothing doubled, one content per release, every draw paid.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from tests.kafka.site import Site

Row = list[Any]


def verify(site: Site, *, window: int, plain: str, noisy: str | None, host: str = "a") -> list[str]:
    """All disagreements of a stopped process. `plain`: an identity publication, `noisy`: a dp one, both new_cases."""
    return [
        *_intake(site),
        *_decisions(site, window, [name for name in (plain, noisy) if name]),
        *_store(site, window, plain, site.output(host) / "public"),
        *_charges(site, noisy),
        *_published(site, site.output(host) / "public"),
    ]


def accepted(site: Site) -> list[tuple[int, int, str, int, Row]]:
    """(delta offset, row, source, partition, row values) in topic order, repeats dropped by offset. A delta behind a
    gap does not count: `gap rewind` brings its events again."""
    high: dict[tuple[str, int], int] = {}
    found = []
    for offset, record in site.json("delta"):
        if record["t"] != "delta":
            continue
        key = (record["src"], record["p"])
        if record["prev"] > high.get(key, -1):
            continue
        for number, row in enumerate(record["rows"]):
            if row[0] > high.get(key, -1):
                found.append((offset, number, *key, row))
                high[key] = row[0]
        high[key] = max(high.get(key, -1), record["last"])
    return found


def source_events(site: Site) -> tuple[dict[tuple[int, int], dict[str, Any]], set[tuple[int, int]]]:
    """Good events and bad offsets of the source topic, judged by the simplest reading of the schema."""
    good: dict[tuple[int, int], dict[str, Any]] = {}
    bad = set()
    for partition, offset, value in site.records(site.topic):
        try:
            event = json.loads(value or b"")
            assert event["case:concept:name"]
            assert event["concept:name"]
            assert event["time:timestamp"] < "2090"
            assert _within_64_bits(event)
            good[partition, offset] = event
        except (ValueError, KeyError, TypeError, AssertionError, RecursionError):
            bad.add((partition, offset))
    return good, bad


def _within_64_bits(value: Any) -> bool:
    if isinstance(value, dict | list):
        return all(map(_within_64_bits, value.values() if isinstance(value, dict) else value))
    return not isinstance(value, int) or -(2**63) <= value < 2**63


def _intake(site: Site) -> Iterator[str]:
    good, bad = source_events(site)
    rows = accepted(site)
    seen = Counter((partition, row[0]) for _, _, _, partition, row in rows)
    for place in sorted(good.keys() - seen.keys()):
        yield f"lost: source event {place} is in no delta"
    for place, count in seen.items():
        if count > 1:
            yield f"doubled: source event {place} counts {count} times"
        if place in bad:
            yield f"a bad record was taken for an event: {place}"
    names: dict[str, str] = {}
    for _, _, _, partition, row in rows:
        event = good.get((partition, row[0]))
        if event is None:
            continue
        if row[2] != event["concept:name"]:
            yield f"another activity at {(partition, row[0])}"
        if names.setdefault(event["case:concept:name"], row[1]) != row[1]:
            yield f"another pseudonym for the same case at {(partition, row[0])}"
    if len(set(names.values())) != len(names):
        yield "two cases share a pseudonym"
    letters = {(record["p"], record["offset"]) for _, record in site.json("dlq")}
    for place in sorted(bad - letters):
        yield f"lost: bad record {place} is not in the dlq"
    for place in sorted(letters - bad):
        yield f"a good record is in the dlq: {place}"


def expected_cuts(site: Site, window: int) -> list[tuple[str, list[tuple[int, int, str, int, Row]]]]:
    """(delta offset/row, the rows exposed) of each cut: right after the event of the x-th unseen case."""
    cases: set[str] = set()
    cuts, rows, fresh = [], [], 0
    for one in accepted(site):
        rows.append(one)
        if one[4][1] not in cases:
            cases.add(one[4][1])
            fresh += 1
            if fresh == window:
                cuts.append((f"{one[0]}/{one[1]}", list(rows)))
                fresh = 0
    return cuts


def _released(site: Site) -> tuple[dict[str, dict[int, Any]], dict[str, dict[str, Any]], set[tuple[str, int]]]:
    """Seals by number (the first wins), refusals by cut, burned numbers."""
    seals: dict[str, dict[int, Any]] = {}
    withheld: dict[str, dict[str, Any]] = {}
    burned = set()
    for entry in site.ledger():
        name, number = entry["publication"], entry.get("sequence", 0)
        if entry["kind"] == "seal":
            seals.setdefault(name, {}).setdefault(number, entry)
        elif entry["kind"] == "withheld":
            withheld.setdefault(name, {}).setdefault(entry["cut"], entry)
        elif entry["kind"] == "burned":
            burned.add((name, number))
    return seals, withheld, burned


def _decisions(site: Site, window: int, names: list[str]) -> Iterator[str]:
    seals, withheld, burned = _released(site)
    wanted = [place for place, _ in expected_cuts(site, window)]
    for name in names:
        alive = {number: seal for number, seal in seals.get(name, {}).items() if (name, number) not in burned}
        decided = Counter(seal["cut"] for seal in alive.values()) + Counter(withheld.get(name, {}).keys())
        for place in wanted:
            if decided[f"{name}/{place}/0"] != 1:
                yield f"{name}: cut {place} has {decided[f'{name}/{place}/0']} decisions"
        for cut in decided.keys() - {f"{name}/{place}/0" for place in wanted}:
            yield f"{name}: {cut} is a cut that nothing calls for"
        numbers = sorted(seals.get(name, {}))
        if numbers != list(range(1, len(numbers) + 1)):
            yield f"{name}: sealed numbers have holes: {numbers}"
        order = [alive[number]["cut"].split("/")[1:3] for number in sorted(alive)]
        if order != sorted(order, key=lambda pair: (int(pair[0]), int(pair[1]))):
            yield f"{name}: numbers do not follow the cuts"


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _store(site: Site, window: int, plain: str, public: Path) -> Iterator[str]:
    seals, _, burned = _released(site)
    there = {folder.name for folder in public.iterdir()} if public.exists() else set()
    for name in sorted(there | seals.keys()):
        by_number = seals.get(name, {})
        stand = {int(folder.name[8:]) for folder in (public / name).glob("release-*")}
        wanted = {number for number in by_number if (name, number) not in burned}
        if stand != wanted:
            yield f"{name}: releases {sorted(stand)} exist, the ledger sealed {sorted(wanted)}"
        for number in stand & wanted:
            folder = public / name / f"release-{number:06d}"
            if _sha((folder / "manifest.json").read_bytes()) != by_number[number]["body"]["manifest"]:
                yield f"{name}: the manifest of release {number} is not the sealed one"
            for file in by_number[number]["body"]["files"]:
                if _sha((folder / file["path"]).read_bytes()) != file["sha256"]:
                    yield f"{name}: {file['path']} of release {number} is not the sealed one"
    cuts = {f"{plain}/{place}/0": rows for place, rows in expected_cuts(site, window)}
    for number, seal in seals.get(plain, {}).items():
        folder = public / plain / f"release-{number:06d}"
        if folder.exists() and seal["cut"] in cuts and _traces(folder / "log.xes.gz") != _bag(cuts[seal["cut"]]):
            yield f"{plain}: release {number} does not hold the events up to its cut"


def _bag(rows: list[tuple[int, int, str, int, Row]]) -> Counter[tuple[str, ...]]:
    by_case: dict[str, list[Any]] = {}
    for _, _, source, partition, row in rows:
        by_case.setdefault(row[1], []).append((row[3], source, partition, row[0], row[2]))
    return Counter(tuple(event[4] for event in sorted(events)) for events in by_case.values())


def _traces(path: Path) -> Counter[tuple[str, ...]]:
    tree = ET.fromstring(gzip.decompress(path.read_bytes()))
    found = []
    for trace in (node for node in tree if node.tag.endswith("trace")):
        events = [node for node in trace if node.tag.endswith("event")]
        found.append(
            tuple(
                next(item.get("value") or "" for item in event if item.get("key") == "concept:name") for event in events
            )
        )
    return Counter(found)


def _charges(site: Site, noisy: str | None) -> Iterator[str]:
    """Every noisy build is paid for before it is sealed, once."""
    if noisy is None:
        return
    paid: set[str] = set()
    for entry in site.ledger():
        if entry["publication"] != noisy:
            continue
        if entry["kind"] == "charge":
            paid.add(entry["cut"])
        elif entry["kind"] == "seal" and entry["cut"] not in paid:
            yield f"{noisy}: release {entry['sequence']} was sealed before its charge"
        elif entry["kind"] == "burned":  # somebody may have seen it: its charge pays for nothing else
            paid.discard(entry["cut"])
    amounts: dict[str, set[str]] = {}
    for entry in site.ledger("charge"):
        redraw = entry["body"].get("redraw", 0)
        amounts.setdefault(f"{entry['cut']}, draw {redraw + 1}", set()).add(json.dumps(entry["body"], sort_keys=True))
    for cut, bodies in amounts.items():
        if len(bodies) > 1:
            yield f"{noisy}: {cut} was charged with two amounts"


def _published(site: Site, public: Path) -> Iterator[str]:
    """The topics announced one content for each number, and the store has this content."""
    seals, _, burned = _released(site)
    announced: dict[tuple[str, int], set[str]] = {}
    for _, record in site.json("releases"):
        manifest = record["manifest"]
        body = json.dumps(manifest["files"], sort_keys=True)
        announced.setdefault((manifest["publication"], manifest["sequence"]), set()).add(body)
    for place, contents in announced.items():
        if len(contents) > 1:
            yield f"{place}: announced with {len(contents)} contents"
        folder = public / place[0] / f"release-{place[1]:06d}"
        if not folder.exists():
            yield f"{place}: announced, and it is not in the store"
    for name, by_number in seals.items():
        for number in by_number:
            if (name, number) not in burned and (name, number) not in announced:
                yield f"{(name, number)}: sealed and never announced"
    yield from _frames(site)


def _frames(site: Site) -> Iterator[str]:
    """Framed events: the whole release is between `begin` and `end`, each time that it is announced."""
    for (name, number), frames in _by_release(site).items():
        whole = 0
        for frame in frames:
            if frame["t"] == "begin":
                rows, digest = 0, hashlib.sha256()
            elif frame["t"] == "events":
                rows += len(frame["rows"])
                digest.update(json.dumps(frame["rows"], separators=(",", ":"), ensure_ascii=False).encode())
            elif rows != frame["events"] or digest.hexdigest() != frame["sha256"]:
                yield f"{(name, number)}: its framed events are not whole"
            else:
                whole += 1
        if not whole:
            yield f"{(name, number)}: no whole frame sequence"


def _by_release(site: Site) -> dict[tuple[str, int], list[dict[str, Any]]]:
    found: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for _, frame in site.json("released-events"):
        found.setdefault((frame["publication"], frame["sequence"]), []).append(frame)
    return found
