"""`veilstream dlq`: letters are listed, and their records sent again, each once, when the cause is gone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stream.commands import build_app
from stream.daemon import dead_letters
from stream.daemon.dead_letters import HEADER, SourcePlace, read_letters, replay_letters
from stream.daemon.start import daemon_settings
from tests.kafka import surgery
from tests.kafka.broker import Broker, ForeignBroker
from tests.kafka.site import Site, publication

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1800)]

AnyBroker = Broker | ForeignBroker

BROKEN = b"{"
CASES = 12


def _zoneless(case: int) -> bytes:
    body = {
        "case:concept:name": f"case-{case}",
        "concept:name": "register",
        "time:timestamp": f"2024-01-01T{case:02d}:00:00",
    }
    return json.dumps(body).encode()


def _site(broker: AnyBroker, name: str, folder: Path, source: str = "") -> Site:
    return Site(broker.bootstrap, name, folder, publication("plain", "{ new_cases = 1000 }"), source=source)


def _headers(one: Site) -> list[str]:
    """The headers of the records that were sent again."""
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(
        bootstrap_servers=one.bootstrap, auto_offset_reset="earliest", isolation_level="read_committed"
    )
    try:
        part = TopicPartition(one.topic, 0)
        consumer.assign([part])
        consumer.seek_to_beginning(part)
        end, headers = consumer.end_offsets([part])[part], []
        while consumer.position(part) < end:
            for records in consumer.poll(timeout_ms=500).values():
                headers += [value.decode() for record in records for key, value in record.headers if key == HEADER]
        return headers
    finally:
        consumer.close(autocommit=False)


@pytest.mark.slow
def test_letters_are_sent_again_when_their_cause_is_gone(broker: AnyBroker, name: str, tmp_path: Path) -> None:
    """Times without a zone become letters. With `process.timezone` and `dlq replay` their events are folded, each
    once, also if somebody asks twice; a record that is still no JSON stays where it is."""
    one = _site(broker, name, tmp_path)
    values = [_zoneless(case) for case in range(CASES)]
    command = ("-c", str(one.config))
    try:
        ingest = one.start("ingest")
        one.send([*values, BROKEN], 0, key=b"k")
        one.wait(lambda: one.covered() == CASES + 1, "letters of all records")
        assert one.stop(ingest) == [0]
        letters = json.loads(one.command("dlq", "list", *command, "--json"))["letters"]
        assert [(row["offset"], row["reason"], row["replayed"]) for row in letters] == [
            *((offset, "zoneless_time", False) for offset in range(CASES)),
            (CASES, "not_json", False),
        ]
        one.config.write_text(one.config.read_text().replace("[process]\n", '[process]\ntimezone = "UTC"\n', 1))
        assert json.loads(one.command("dlq", "replay", *command, "--reason", "zoneless_time", "--json")) == {
            "process": name,
            "sent": CASES,
            "gone": 0,
        }
        assert "0 records were sent again" in one.command("dlq", "replay", *command, "--reason", "zoneless_time")
        ingest = one.start("ingest")
        one.wait(lambda: one.covered() == 2 * CASES + 1, "the events that were sent again")
        assert one.stop(ingest) == [0]
    finally:
        one.close()
    deltas = [record for _, record in one.json("delta") if record["t"] == "delta"]
    assert sum(len(delta["rows"]) for delta in deltas) == CASES
    assert _headers(one) == [f"{one.topic}/0/{offset}" for offset in range(CASES)]
    shown = one.command("dlq", "list", *command)
    assert "zoneless_time" in shown
    assert "not_json" in shown
    assert "case-" not in shown


def _write_letters(one: Site, *offsets: int, payload: str = "") -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=one.bootstrap)
    for offset in offsets:
        letter = {"v": 1, "src": one.topic, "p": 0, "offset": offset, "error": "schema"}
        if payload:
            letter["payload"] = payload
        producer.send(f"veilstream.{one.name}.dlq", json.dumps(letter).encode(), partition=0).get(timeout=30)
    producer.close()


def test_a_replay_that_dies_sends_nothing_twice(
    broker: AnyBroker, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process ends after the records and before their transaction: readers of the topic see none of them, and the
    next replay sends each once. A letter that a crash of ingest repeated counts once."""
    from kafka import KafkaProducer

    one = _site(broker, name, tmp_path)
    one.send([_zoneless(case) for case in range(3)], 0)
    _write_letters(one, 0, 1, 2, 1)
    settings, source = daemon_settings(one.config)
    letters = read_letters(name, source)
    assert [letter.place for letter in letters] == [SourcePlace(one.topic, 0, offset) for offset in range(3)]

    def dies(_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(KafkaProducer, "commit_transaction", dies)
        with pytest.raises(KeyboardInterrupt):
            replay_letters(settings.process.name, source, letters, ["schema"])
    assert [letter.replayed for letter in read_letters(name, source)] == [False] * 3
    monkeypatch.setattr(dead_letters, "BATCH", 2)
    counts = replay_letters(name, source, read_letters(name, source), ["schema"])
    assert counts == (3, 0)
    assert [value for _, _, value in one.records(one.topic)] == [_zoneless(case) for case in range(3)] * 2
    again = read_letters(name, source)
    assert [letter.replayed for letter in again] == [True] * 3
    assert replay_letters(name, source, again, ["schema"])[0] == 0


def test_records_that_the_topic_no_longer_has_are_counted(broker: AnyBroker, name: str, tmp_path: Path) -> None:
    """Retention took the first two records. The bytes of one are in its letter; the other is reported, with exit 1."""
    one = _site(broker, name, tmp_path)
    one.send([_zoneless(case) for case in range(3)], 0)
    _write_letters(one, 0, 2)
    _write_letters(one, 1, payload="eyJhIjogMX0=")
    surgery.delete_records(one.bootstrap, one.topic, 2)
    result = CliRunner().invoke(build_app(), ["dlq", "replay", "-c", str(one.config), "--reason", "schema"])
    assert "2 records were sent again" in result.stdout
    assert "1 records are gone" in result.stdout
    values = [value for _, _, value in one.records(one.topic)]
    assert values == [_zoneless(2), b'{"a": 1}', _zoneless(2)]
    _, source = daemon_settings(one.config)
    assert {letter.place.offset: letter.replayed for letter in read_letters(name, source)} == {
        0: False,
        1: True,
        2: True,
    }


def test_reasons_that_make_no_sense_are_refused(broker: AnyBroker, name: str, tmp_path: Path) -> None:
    """`late` would be late again, and a reason without letters is a mistake; both are one line, and nothing is sent."""
    one = _site(broker, name, tmp_path)
    one.send([_zoneless(0)], 0)
    _write_letters(one, 0)
    replay = ("dlq", "replay", "-c", str(one.config), "--reason")
    assert "would be late again" in one.command(*replay, "late", expect=2)
    assert "no dead letter has the reason 'shema'; reasons in the dlq: schema" in one.command(
        *replay, "shema", expect=2
    )
    assert "name the reasons whose cause is gone" in one.command(*replay, ",", expect=2)
    assert len(list(one.records(one.topic))) == 1
