"""A case id of blanks alone is missing at every door: it would make one case of all rows that have no id."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from connectors.kafka.events import Poison, Schema, SourceEvent
from connectors.kafka.formats import event_decoder
from connectors.kafka.mapping import EventMapping
from stream.commands import execute
from tests.source_records import events_of, source_record


def record(case: str) -> bytes:
    """A source record of this case."""
    return json.dumps(
        {"case:concept:name": case, "concept:name": "A", "time:timestamp": "2024-01-01T00:00:00Z"}
    ).encode()


def of_mapping(value: bytes) -> list[SourceEvent]:
    """The events of a record through a mapping."""
    one = EventMapping(activity="{concept:name}", case="case:concept:name", time="time:timestamp")
    return events_of(event_decoder(Schema(format="json"), mappings=(one,)).decode, source_record(0, value))


def by_columns(value: bytes) -> list[SourceEvent]:
    """The events of a record by its columns."""
    return events_of(event_decoder(Schema()).decode, source_record(0, value))


@pytest.mark.parametrize("read", [by_columns, of_mapping], ids=["columns", "mapping"])
def test_a_record_with_a_blank_case_goes_to_the_dead_letters(read: Callable[[bytes], object]) -> None:
    """By its columns and by a mapping; a case with a name is read."""
    assert read(record("7"))
    with pytest.raises(Poison, match="schema"):
        read(record("  "))


def test_a_blank_case_among_others_is_refused_alone() -> None:
    """The records around it are events."""
    batch = event_decoder(Schema()).decode([source_record(place, record(case)) for place, case in enumerate("7 8")])
    assert (batch.place, batch.case, batch.refused) == ([0, 2], ["7", "8"], {1: "schema"})


def test_an_engine_refuses_a_blank_case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the row, as for an empty field."""
    rows = [f"{case},A,2024-01-01T00:00:00Z" for case in ("1", "   ")]
    (tmp_path / "log.csv").write_text("\n".join(["case:concept:name,concept:name,time:timestamp", *rows]) + "\n")
    words = ["anonymize", str(tmp_path / "log.csv"), "-o", str(tmp_path / "out"), "--K", "1", "--engine", "duckdb"]
    assert execute(words) == 2
    assert "row 2: no case:concept:name" in " ".join(capsys.readouterr().err.split())
