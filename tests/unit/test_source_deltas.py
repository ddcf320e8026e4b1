"""From records that make several events, or none, to deltas, and from these to the fold."""

from __future__ import annotations

import asyncio
import json
import re
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from connectors.columns import ColumnNames
from connectors.kafka.events import POISONS, JsonDecoder, Schema, SourceEvent, decode_one_by_one
from connectors.kafka.formats import EventDecoder, event_decoder
from connectors.kafka.mapping import EventMapping
from connectors.lifecycle import Lifecycle
from models.errors import RefusedError, UnavailableError
from stream.daemon import ingest as ingest_module
from stream.daemon.delta_topic import decode_record
from stream.daemon.deltas import DeltaWriter
from stream.fold.fold import Fold
from stream.fold.records import Delta
from stream.fold.rules import FoldRules
from stream.values.pseudonym import Pseudonyms
from tests.conftest import ROOT
from tests.debezium_records import customer, encoded, postgres
from tests.source_records import Message, source_record
from tests.unit.test_ingest_batches import App, Log, worker

CLOCK = 4_000_000_000 * 10**9
BOTH = EventMapping(column=("status", "email"), activity="{column} set", case="row.id")


REFUSALS = r'(?:raise Poison\(|untimely\.setdefault\(place, |too_large = \{place: )"(\w+)"'
"""How a decoder and the writer of deltas refuse a record."""


def writer(limit: int = 64_000, mapping: EventMapping = BOTH) -> DeltaWriter:
    """Return a writer that turns changes of customers into deltas."""
    schema = Schema(format="debezium")
    return DeltaWriter(event_decoder(schema, mappings=(mapping,)), Pseudonyms(bytes(32)), 0, limit)


def records(count: int) -> list[Message]:
    """Updates that change both columns, each at a place of its own."""
    change = (customer(), customer(status="paid", email="new@noanswer.org"))
    return [source_record(i, encoded(postgres("u", *change, lsn=100 + i))) for i in range(count)]


def deltas(given: list[Message], limit: int = 64_000) -> list[dict[str, Any]]:
    encoded_deltas, letters = writer(limit).write("t", 0, -1, given, CLOCK)
    assert letters == []
    return [msgspec.json.decode(one) for one in encoded_deltas]


def folded(found: list[dict[str, Any]]) -> Fold:
    """A fold that has taken these deltas."""
    fold = Fold(FoldRules(()))
    for place, one in enumerate(found):
        assert list(fold.apply(place, msgspec.convert(one, Delta))) == []
    return fold


def test_the_events_of_one_record_stand_in_one_delta() -> None:
    """However a batch is split, a delta never ends between two events of an offset: the next one begins behind it."""
    for limit in (1_500, 2_000, 2_300, 64_000):
        found = deltas(records(9), limit)
        assert sorted(row[0] for one in found for row in one["rows"]) == [i // 2 for i in range(18)]
        assert [one["prev"] for one in found] == [-1, *[one["last"] for one in found[:-1]]]
        assert all(one["several"] for one in found)


def test_the_fold_takes_all_events_of_a_record_once() -> None:
    """Both events of each offset count; the same deltas again, or split otherwise after a crash, add nothing."""
    fold = folded(deltas(records(9), 2_000))
    assert fold.state.events.size == 18
    again = deltas(records(9), 2_300)
    for place, one in enumerate(again, 100):
        list(fold.apply(place, msgspec.convert(one, Delta)))
    assert fold.state.events.size == 18


def test_rows_of_one_offset_are_repeats_where_nothing_else_is_said() -> None:
    """Deltas of plain events keep their rule: an offset counts once."""
    (found,) = deltas(records(3))
    assert folded([{**found, "several": False}]).state.events.size == 3


def test_deltas_whose_rows_share_an_offset_have_version_2() -> None:
    """A program that would take them as repeats refuses them; deltas with one row for each record stay of version 1."""
    (several,) = deltas(records(2))
    (alone,) = deltas([source_record(0, encoded(postgres("u", customer(), customer(status="paid"))))])
    assert [(one["v"], one["several"]) for one in (several, alone)] == [(2, True), (1, False)]
    for one in (several, alone):
        assert decode_record(0, msgspec.json.encode(one)) == msgspec.convert(one, Delta)
    with pytest.raises(RefusedError, match="delta offset 7: version 3; this program reads versions 1 and 2"):
        decode_record(7, msgspec.json.encode({**several, "v": 3}))


def test_each_reason_is_on_the_list() -> None:
    """The counter of each reason exists from the start; one that is not listed shows only after its first record."""
    folders = (ROOT / "connectors" / "kafka", ROOT / "stream" / "daemon")
    texts = [path.read_text(encoding="utf-8") for folder in folders for path in folder.glob("*.py")]
    raised = {kind for text in texts for kind in re.findall(REFUSALS, text)}
    assert {"past", "too_large"} <= raised
    assert raised <= set(POISONS)


@pytest.mark.parametrize("time_ns", [1 << 63, -(1 << 63) - 1, 1 << 80])
def test_a_time_that_no_fold_holds_is_refused_twice(time_ns: int) -> None:
    """Ingest makes a dead letter of it whatever decoder let it pass; of a delta that has one already the fold takes the
    other rows, and the watermark of what it took."""
    event = SourceEvent("c", "a", time_ns, None, None, None, False)
    one = DeltaWriter(EventDecoder(decode_one_by_one(lambda _: [event])), Pseudonyms(bytes(32)), 1 << 90, 64_000)
    (delta,), letters = one.write("t", 0, -1, [source_record(0, b"")], CLOCK)
    assert [letter.error for letter in letters] == ["time"]
    assert msgspec.json.decode(delta)["rows"] == []
    (found,) = deltas(records(3))
    found["rows"][2][3], found["wm"] = time_ns, max(time_ns, found["wm"])
    fold = folded([found])
    assert (fold.state.events.size, fold.state.refused) == (5, 1)
    assert fold.state.partitions["t", 0].latest == max(row[3] for row in found["rows"] if row[3] != time_ns)
    found["rows"] = [[*row[:3], time_ns, *row[4:]] for row in found["rows"]]
    fold = folded([found])
    assert (fold.state.events.size, fold.state.refused, fold.state.partitions["t", 0].hwm) == (0, 6, 2)


def test_what_becomes_no_event_is_covered_and_counted() -> None:
    """Left out records have neither row nor dead letter, the delta reaches behind them, and each kind is counted."""
    one = writer()
    values = [
        encoded(postgres("r", None, customer())),
        None,
        encoded(postgres("u", customer(), customer(first_name="Ann"))),
        encoded(postgres("t", None, None)),
        b"{",
    ]
    given = [source_record(i, value) for i, value in enumerate(values)]
    (delta,), letters = one.write("t", 0, -1, given, CLOCK)
    found = msgspec.json.decode(delta)
    assert (found["last"], found["rows"], found["dlq"]) == (4, [], [4])
    assert [letter.error for letter in letters] == ["not_json"]
    assert one.left_out == {"snapshot": 1, "tombstone": 1, "unchanged": 1, "no_mapping": 1}


@pytest.mark.parametrize(
    ("lifecycle", "kept"),
    [
        (None, ["a", "a", "a", "b"]),
        ("complete", ["a", "b"]),
        ("start", ["a"]),
        ("both", ["a+start", "a+complete", "b+complete"]),
    ],
)
def test_transitions_of_a_topic(lifecycle: Lifecycle | None, kept: list[str]) -> None:
    """Without the key every event is one; with it the transitions that are not asked for are counted. An event without
    a transition is a completion. Plain JSON and records read by columns agree."""
    steps = [("a", "start"), ("a", "suspend"), ("a", "COMPLETE"), ("b", None)]
    body = {"case:concept:name": "c", "time:timestamp": "2024-01-01T00:00:00Z"}
    values = [
        json.dumps({**body, "concept:name": name} | ({"lifecycle:transition": step} if step else {})).encode()
        for name, step in steps
    ]
    given = [source_record(i, value) for i, value in enumerate(values)]
    for unit in (None, "ms"):
        schema = Schema(ColumnNames(), lifecycle=lifecycle, time_unit=unit)
        one = DeltaWriter(event_decoder(schema), Pseudonyms(bytes(32)), 0, 64_000)
        (delta,), letters = one.write("t", 0, -1, given, CLOCK)
        assert [row[2] for row in msgspec.json.decode(delta)["rows"]] == kept
        assert letters == []
        assert one.left_out == ({} if len(kept) == 4 else {"lifecycle": 4 - len(kept)})


def test_ingest_waits_for_the_registry_and_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the registry is away a batch is neither sent nor acknowledged nor refused; then it continues as it was."""
    monkeypatch.setattr(ingest_module, "LogClient", lambda _source: Log())
    outages, naps = iter([True, True, False]), []

    def prepare(messages: Any, answered: Any = None) -> None:
        assert [message.value for message in messages]
        if next(outages):
            raise UnavailableError("http://registry: does not answer (ConnectError)")
        answered()

    real = asyncio.sleep

    async def sleep(seconds: float) -> None:
        assert app.producer.sent == []
        naps.append(seconds)
        await real(0)

    async def scenario() -> None:
        monkeypatch.setattr(ingest_module.asyncio, "sleep", sleep)
        await ingest.batch(events)

    app = App()
    ingest, moves = worker(app), []
    monkeypatch.setattr(ingest.check, "moved", lambda: moves.append(len(naps)))
    decoder = EventDecoder(JsonDecoder(Schema()).decode, prepare)
    ingest.writer = DeltaWriter(decoder, Pseudonyms(bytes(32)), CLOCK, 512 * 1024)
    events = app.events(0, 3)
    for place, records in events.records.items():
        events.records[place] = [SimpleNamespace(**{**vars(one), "key": None, "topic": place.topic}) for one in records]
    asyncio.run(scenario())
    assert naps == [1.0, 1.0]
    assert moves == [2]  # the answer is progress, the outage none
    assert [(one["prev"], one["last"], one["n"]) for one in app.producer.sent] == [(-1, 2, 3)]
    assert app.acknowledged == []
