"""The schema of source events, without a broker."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.columns import ColumnNames
from connectors.kafka.events import POISONS, Headers, JsonDecoder, Poison, Schema, SourceEvent
from models.errors import InputError
from tests.source_records import Message, events_of

PLAIN = {
    "case:concept:name": "A7",
    "concept:name": "ER Registration",
    "time:timestamp": "2014-10-22T11:15:41.250+02:00",
    "org:resource": "desk",
    "case:Age": 85,
    "Diagnose": "C",
    "Leucocytes": 9.6,
}
TIME = 1_413_969_341_250_000_000


def decoder(schema: Schema) -> Callable[[bytes | None, Headers], SourceEvent]:
    """From the value and the headers of one record to its event."""
    decode = JsonDecoder(schema).decode

    def decode_one(value: bytes | None, headers: Headers) -> SourceEvent:
        (event,) = events_of(decode, Message("t", None, value, headers))
        return event

    return decode_one


def _bytes(**changes: Any) -> bytes:
    body = {**PLAIN, **changes}
    return json.dumps({key: value for key, value in body.items() if value != "drop"}).encode()


def test_xes_names_are_the_defaults() -> None:
    """A flat object with XES names is an event; only wanted attributes are read, case-level ones by their prefix."""
    decode = decoder(Schema(attributes=("Diagnose", "Age")))
    expected = {"event": {"Diagnose": "C"}, "case": {"Age": 85}}
    assert decode(_bytes(), None) == SourceEvent("A7", "ER Registration", TIME, "desk", expected, None, False)


def test_mapped_names_ids_and_ends() -> None:
    """Columns, the event id and the explicit end are read where the configuration says."""
    names = ColumnNames(case="patient", activity="step", time="when", resource="who")
    decode = decoder(Schema(names=names, event_id="id", end="last"))
    body = {"patient": 12, "step": "leave", "when": "2014-10-22T09:15:41.250Z", "id": "e1", "last": True}
    assert decode(json.dumps(body).encode(), None) == SourceEvent("12", "leave", TIME, None, None, "e1", True)


@pytest.mark.parametrize("form", ["structured", "structured by header", "binary"])
def test_cloud_events_give_the_same_event(form: str) -> None:
    """The envelope changes nothing but the id that it may give."""
    decode = decoder(Schema(event_id="ce:id"))
    envelope = {"specversion": "1.0", "id": "77", "type": "t", "source": "s", "data": PLAIN}
    value = _bytes() if form == "binary" else json.dumps(envelope).encode()
    headers = {
        "structured": None,
        "structured by header": [("content-type", b"application/cloudevents+json; charset=utf-8")],
        "binary": [("ce_specversion", b"1.0"), ("ce_id", b"77")],
    }[form]
    assert decode(value, headers) == SourceEvent("A7", "ER Registration", TIME, "desk", None, "77", False)


@pytest.mark.parametrize("name", ["content-type", "ce_specversion", "ce_id", "other"])
def test_a_header_without_a_value_is_no_header(name: str) -> None:
    """Kafka allows a null in a header; it must not end the worker, which would read the record again forever."""
    event = decoder(Schema())(_bytes(), None)
    assert decoder(Schema())(_bytes(), [(name, None)]) == event


@pytest.mark.parametrize(
    ("value", "headers", "kind"),
    [
        (None, None, "null_value"),
        (b"\xff", None, "not_json"),
        (b'{"deep": ' + b"[" * 100_000, None, "not_json"),
        (b"[]", None, "schema"),
        (_bytes(**{"case:concept:name": None}), None, "schema"),
        (_bytes(**{"case:concept:name": "drop"}), None, "schema"),
        (_bytes(**{"concept:name": ""}), None, "schema"),
        (_bytes(**{"time:timestamp": "noon"}), None, "time"),
        (_bytes(**{"time:timestamp": "9999-01-01T00:00:00Z"}), None, "time"),
        (_bytes(**{"time:timestamp": "2014-10-22T11:15:41"}), None, "zoneless_time"),
        (b'{"specversion": "2.0", "id": "1", "data": {}}', None, "version"),
        (b'{"specversion": "1.0", "id": "1", "data": ' + b"[" * 100_000, None, "not_json"),
        (_bytes(), [("ce_specversion", b"0.3")], "version"),
    ],
)
def test_what_is_no_event_has_a_class_and_nothing_more(
    value: bytes | None, headers: list[tuple[str, bytes]] | None, kind: str
) -> None:
    """Each fault has its class; the exception carries nothing of the record."""
    with pytest.raises(Poison) as error:
        decoder(Schema())(value, headers)
    assert error.value.kind == kind
    assert str(error.value) == kind
    assert error.value.__suppress_context__ or error.value.__context__ is None


@given(st.binary(max_size=200) | st.text(max_size=50).map(lambda text: _bytes(**{"time:timestamp": text})))
def test_any_bytes_are_an_event_or_a_known_poison(value: bytes) -> None:
    """Nothing but `Poison` of a bounded class leaves the decoder, whatever the bytes."""
    try:
        outcome = decoder(Schema())(value, None).time_ns
    except Poison as poison:
        outcome = POISONS.index(poison.kind)
    assert isinstance(outcome, int)


def test_a_field_plays_one_part() -> None:
    """A configuration that reads one field as two things is refused."""
    with pytest.raises(InputError, match="named for two purposes"):
        decoder(Schema(event_id="concept:name"))
