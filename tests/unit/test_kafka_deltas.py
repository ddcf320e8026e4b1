"""Delta records: every offset covered once, split below the limit, nothing raw."""

from __future__ import annotations

import json

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from connectors.kafka.events import Schema
from connectors.kafka.formats import event_decoder
from stream.daemon.deltas import DeltaWriter
from stream.fold.records import AnyRecord, Delta, Row
from stream.values.pseudonym import Pseudonyms
from tests.source_records import source_record

KEY = bytes(range(32))
NOW = 1_700_000_000_000_000_000


def _writer(limit: int = 4096) -> DeltaWriter:
    return DeltaWriter(event_decoder(Schema(event_id="id")), Pseudonyms(KEY), 60_000_000_000, limit)


def _value(case: str, activity: str = "a", moment: str = "2023-01-01T00:00:00Z") -> bytes:
    body = {"case:concept:name": case, "concept:name": activity, "time:timestamp": moment, "id": f"id of {case}"}
    return json.dumps(body).encode()


def _decode(encoded: list[bytes]) -> list[Delta]:
    return [msgspec.json.decode(one, type=AnyRecord) for one in encoded]  # type: ignore[misc]


values = st.one_of(
    st.none(),
    st.binary(max_size=20),
    st.builds(_value, st.text(min_size=1, max_size=5), st.text(min_size=1, max_size=3000)),
    st.just(_value("late", moment="2099-01-01T00:00:00Z")),
)


@given(st.lists(values, min_size=1, max_size=30), st.integers(-1, 1000))
def test_every_offset_is_a_row_or_a_dead_letter(records: list[bytes | None], prev: int) -> None:
    """Deltas chain from `prev` to the last offset, none above the limit, and each offset is in exactly one."""
    source = [source_record(prev + 1 + 2 * place, value) for place, value in enumerate(records)]
    encoded, letters = _writer().write("topic", 3, prev, source, NOW)
    deltas = _decode(encoded)
    assert [delta.prev for delta in deltas] == [prev, *(delta.last for delta in deltas[:-1])]
    assert deltas[-1].last == source[-1].offset
    assert all(len(one) <= 4096 for one in encoded)
    rows = [Row(*row).offset for delta in deltas for row in delta.rows]
    dead = [offset for delta in deltas for offset in delta.dlq]
    assert dead == [letter.offset for letter in letters]
    assert sorted(rows + dead) == [record.offset for record in source]
    assert all(delta.n == len(delta.rows) for delta in deltas)
    assert all(delta.wm == max((Row(*row).time_ns for row in delta.rows), default=None) for delta in deltas)


def test_identifiers_are_pseudonyms_under_the_key() -> None:
    """Case and event ids leave as keyed digests: equal for equal ids, other under another key."""
    record = source_record(0, _value("Jane Doe"))
    encoded, _ = _writer().write("topic", 0, -1, [record], NOW)
    assert b"Jane" not in encoded[0]
    row = Row(*_decode(encoded)[0].rows[0])
    assert row.case == Pseudonyms(KEY).case("Jane Doe")
    assert row.event_id == Pseudonyms(KEY).event("id of Jane Doe")
    assert row.case != Pseudonyms(bytes(32)).case("Jane Doe")


def test_an_event_before_the_earliest_is_a_dead_letter() -> None:
    """One of 1970 would open windows since then; at the bound itself an event counts."""
    moment = 1_672_531_200_000_000_000
    for earliest, dead in ((moment, []), (moment + 1, ["past"]), (None, [])):
        writer = DeltaWriter(event_decoder(Schema()), Pseudonyms(KEY), 0, 4096, earliest=earliest)
        deltas, letters = writer.write("topic", 0, -1, [source_record(0, _value("c"))], moment)
        assert [letter.error for letter in letters] == dead
        assert _decode(deltas)[0].dlq == ([0] if dead else [])


def test_an_event_from_the_future_is_a_dead_letter() -> None:
    """Up to the skew an event may run ahead of the clock, not a nanosecond more."""
    writer = DeltaWriter(event_decoder(Schema()), Pseudonyms(KEY), 0, 4096)
    moment = 1_672_531_200_000_000_000
    for clock, dead in ((moment, []), (moment - 1, ["future"])):
        _, letters = writer.write("topic", 0, -1, [source_record(0, _value("c"))], clock)
        assert [letter.error for letter in letters] == dead
