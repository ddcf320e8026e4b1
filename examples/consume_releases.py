"""A consumer of releases with kafka-python: `python examples/consume_releases.py localhost:9092 sepsis`.

`releases` has one record a release: its manifest and the location of its files. `released-events` has the events,
framed: `begin`, any number of `events` with rows [case, activity, time in ns, resource, {attributes}], `end` with a
count and a digest. Read committed records only: a release then comes whole or not at all. After a crash of the
coordinator a release may be announced a second time; it is the same (publication, sequence), with the same content.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from kafka import KafkaConsumer


def releases(bootstrap: str, process: str) -> Iterator[tuple[str, int, list[list[Any]]]]:
    """(publication, number, rows) of each whole release, each number once."""
    consumer = KafkaConsumer(
        f"veilstream.{process}.released-events",
        bootstrap_servers=bootstrap,
        group_id="my-mining",
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    )
    seen: set[tuple[str, int]] = set()
    rows: list[list[Any]] = []
    for record in consumer:
        frame = json.loads(record.value)
        number = (frame["publication"], frame["sequence"])
        if frame["t"] == "begin":
            rows = []
        elif frame["t"] == "events":
            rows += frame["rows"]
        elif number not in seen and len(rows) == frame["events"]:
            seen.add(number)
            yield (*number, rows)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python examples/consume_releases.py BOOTSTRAP PROCESS")
    for publication, sequence, events in releases(*sys.argv[1:3]):
        print(f"{publication} release {sequence}: {len(events)} events, {len({row[0] for row in events})} cases")
