"""Every JSON value of a kept attribute goes to the dlq, or the state with it can be saved and restored."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from connectors.kafka.events import Schema
from connectors.kafka.formats import event_decoder
from stream.config.window import read_window
from stream.daemon.deltas import DeltaWriter
from stream.fold.fold import Fold
from stream.fold.records import AnyRecord, Delta
from stream.fold.rules import FoldRules, PublicationRules
from stream.values.pseudonym import Pseudonyms
from tests.source_records import Message, source_record

NOW = 1_800_000_000_000_000_000
EDGES = (2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64, 10**40)

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from(EDGES),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(),
)
values = st.one_of(
    st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)),
    st.integers(1, 1200).map(lambda depth: msgspec.Raw(b"[" * depth + b"]" * depth)),
    st.sampled_from(["9" * 400, "-" + "9" * 5000, "1e999", '"\\ud800"', "NaN"]).map(
        lambda one: msgspec.Raw(one.encode())
    ),
)


def record(offset: int, value: Any, attribute: str = "x") -> Message:
    """A source event of a case of its own, with any value in one attribute."""
    plain = {"case:concept:name": f"c{offset}", "concept:name": "a", "time:timestamp": "2025-01-01T00:00:00Z"}
    raw = bytes(value) if isinstance(value, msgspec.Raw) else json.dumps(value).encode()
    body = json.dumps(plain).encode()[:-1] + b', "' + attribute.encode() + b'": ' + raw + b"}"
    return source_record(offset, body)


def fold() -> Fold:
    return Fold(FoldRules((PublicationRules("p", read_window({"new_events": 2})),), embedded=False))


def writer() -> DeltaWriter:
    schema = Schema(attributes=("x",))
    return DeltaWriter(event_decoder(schema), Pseudonyms(bytes(32)), 60_000_000_000, 524_288)


@given(st.lists(st.tuples(values, st.sampled_from(["x", "case:x"])), min_size=1, max_size=6), st.booleans())
@example([(2**63, "x")], False)
@example([([-(2**63) - 1], "case:x")], False)
@example([({"a": 10**40}, "x")], True)
def test_what_ingest_accepts_can_be_saved_and_restored(given: list[tuple[Any, str]], behind_a_gap: bool) -> None:
    """decode -> delta -> fold -> snapshot -> restore -> the same snapshot; also for records that wait behind a gap."""
    records = [record(offset, *one) for offset, one in enumerate(given)]
    encoded, letters = writer().write("topic", 0, 4 if behind_a_gap else -1, records, NOW)
    state, rows = fold(), 0
    if behind_a_gap:
        list(state.apply(0, Delta(src="topic", p=0, prev=-1, last=0, n=0)))
    for position, one in enumerate(encoded, 1):
        delta = msgspec.json.decode(one, type=AnyRecord)  # type: ignore[misc]
        rows += len(delta.rows)
        for cut in state.apply(position, delta):
            state.exposed(cut)
            state.decided(cut, released=True)
    assert rows + len(letters) == len(records)
    saved = state.snapshot()
    assert Fold.restore(saved).snapshot() == saved


@pytest.mark.parametrize("value", ["9223372036854775808", "-9223372036854775809", "[9223372036854775808]"])
def test_an_integer_beyond_64_bits_goes_to_the_dlq(value: str) -> None:
    """A class without the value; the event behind it is taken."""
    records = [record(0, msgspec.Raw(value.encode())), record(1, 2**63 - 1)]
    (encoded,), letters = writer().write("topic", 0, -1, records, NOW)
    assert [(letter.offset, letter.error) for letter in letters] == [(0, "schema")]
    assert [row[5] for row in msgspec.json.decode(encoded, type=Delta).rows] == [{"event": {"x": 2**63 - 1}}]


def test_a_value_too_deep_goes_to_the_dlq() -> None:
    """Lists within lists: what one process can still read another, further down its own stack, cannot."""
    depths = (8, 32, 33, 900)
    records = [record(depth, msgspec.Raw(b"[" * depth + b"]" * depth)) for depth in depths]
    _, letters = writer().write("topic", 0, -1, records, NOW)
    assert [(letter.offset, letter.error) for letter in letters] == [(33, "schema"), (900, "schema")]


@pytest.mark.parametrize("held", [False, True])
def test_an_old_delta_with_such_an_integer_is_still_folded(held: bool) -> None:
    """Deltas of an ingest that let it pass are in topics: as text it can be saved, behind a gap too."""
    state = fold()
    row = [5, "c", "a", 1, None, {"event": {"x": 2**70, "y": [2**70]}, "case": {"x": -(2**70)}}, None, False]
    body = {"t": "delta", "v": 1, "src": "topic", "p": 0, "prev": -1, "last": 5, "n": 1, "rows": [row]}
    if held:
        list(state.apply(0, Delta(src="topic", p=0, prev=-1, last=0, n=0)))
        body["prev"] = 4
    list(state.apply(1, msgspec.json.decode(json.dumps(body).encode(), type=AnyRecord)))  # type: ignore[misc]
    again = Fold.restore(state.snapshot())
    assert again.snapshot() == state.snapshot()
    if not held:
        assert list(again.state.event_attributes["x"].values) == [str(2**70)]
        assert list(again.state.case_attributes["x"].values) == [str(-(2**70))]
