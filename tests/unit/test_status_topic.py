"""The status on a topic: what is written, when, and what a reader on another host sees of it."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from kafka.errors import KafkaTimeoutError

from connectors.kafka.source import Source
from connectors.kafka.topics import check, permissions, plans, topic
from models.errors import InputError
from stream.commands import execute
from stream.config.settings import Settings
from stream.config.window import read_window
from stream.daemon import status_topic as module
from stream.daemon.coordinator import Coordinator
from stream.daemon.delta_topic import Anchor
from stream.daemon.status import CoordinatorSnapshot, Status, next_triggers, status
from stream.daemon.status_topic import StatusTopic, read_remote
from stream.fold.fold import Fold
from stream.fold.records import Delta
from stream.fold.rules import FoldRules, PublicationRules
from tests.patience import patient_time

SOURCE = Source(topics=("t",), heartbeat=0.01)
CASE, ACTIVITY, RESOURCE = "Kanarienvogel-1", "Kanarienvogel einsperren", "Kanarienvogel GmbH"


def _fold(window: dict[str, Any]) -> Fold:
    """A fold with two events of one case."""
    fold = Fold(FoldRules((PublicationRules("p", read_window(window)),)))
    rows = [(offset, CASE, ACTIVITY, offset, RESOURCE, {"event": {"note": CASE}}, None, False) for offset in (0, 1)]
    list(fold.apply(0, Delta(src="t", p=0, prev=-1, last=1, n=2, rows=rows)))
    return fold


def _status(**more: Any) -> Status:
    return {**status(CoordinatorSnapshot(_fold({"new_events": 5}), 0, -1, Anchor("log"), None), "active"), **more}  # type: ignore[typeddict-item, return-value]


class Broker:
    """Takes records, or is away; gives them back as a partition."""

    def __init__(self) -> None:
        self.away = False
        self.records: list[tuple[bytes, bytes, float]] = []
        self.taken = threading.Event()

    @contextmanager
    def producer(self, _source: Source, **_: Any) -> Iterator[Any]:
        yield SimpleNamespace(send=self._send)

    def _send(self, name: str, value: bytes, key: bytes) -> Any:
        assert name == "veilstream.p.status"
        if self.away:
            raise KafkaTimeoutError
        self.records.append((key, value, time.time()))
        self.taken.set()
        return SimpleNamespace(get=lambda timeout: None)

    def reader(self, _name: str, _number: int, _source: Source) -> Any:
        def records(first: int, until: int) -> Iterator[Any]:
            for key, value, at in self.records[first:until]:
                yield SimpleNamespace(key=key, value=value, timestamp=at * 1000)

        return SimpleNamespace(begin=lambda: 0, end=lambda: len(self.records), records=records, close=lambda: None)


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    served = Broker()
    monkeypatch.setattr(module, "producer", served.producer)
    monkeypatch.setattr(module, "PartitionReader", served.reader)
    monkeypatch.setattr(module.topics, "require", lambda _source, _names: None)
    return served


def _until(condition: Callable[[], bool]) -> None:
    deadline = patient_time() + 60
    while not condition():
        assert patient_time() < deadline
        time.sleep(0.01)


def test_the_last_status_is_written_also_at_the_stop(broker: Broker) -> None:
    """A later status replaces one that was not sent yet; the start has a record of its own."""
    writer = StatusTopic("p", SOURCE)
    writer.start()
    for position in range(3):
        writer.write(_status(position=position))
    writer.watch()
    _until(lambda: len(broker.records) == 2)
    writer.write(_status(state="stopped"))
    writer.close()
    assert [key for key, _, _ in broker.records] == [b"start", b"status", b"status"]
    assert json.loads(broker.records[1][1])["position"] == 2
    assert json.loads(broker.records[-1][1])["state"] == "stopped"


def test_a_broker_that_is_away_stops_nothing_and_is_logged_once(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    """The daemon continues, and the status comes when the broker does."""
    broker.away = True
    writer = StatusTopic("p", SOURCE)
    writer.write(_status())
    writer.watch()
    _until(lambda: "the status cannot be written" in caplog.text)
    for _ in range(3):
        writer.write(_status())
        time.sleep(0.05)
    broker.away = False
    writer.write(_status(position=9))
    _until(lambda: bool(broker.records))
    writer.close()
    assert json.loads(broker.records[-1][1])["position"] == 9
    assert caplog.text.count("the status cannot be written") == 1


def test_a_status_holds_no_content_of_a_record() -> None:
    """Neither a case, an activity, a resource nor an attribute."""
    written = msgspec.json.encode(_status(), enc_hook=str).decode()
    assert "Kanarienvogel" not in written
    assert '"pending":2' in written  # it has seen the events


@pytest.mark.parametrize(
    ("window", "triggers"),
    [
        ({"new_events": 5}, [{"trigger": "new_events", "have": 2, "need": 5}]),
        ({"completed_cases": 3}, [{"trigger": "completed_cases", "have": 0, "need": 3}]),
        (
            {"new_cases": 4, "new_events": 9},
            [{"trigger": "new_cases", "have": 1, "need": 4}, {"trigger": "new_events", "have": 2, "need": 9}],
        ),
        ({"new_cases": 4, "first": {"new_cases": 7}}, [{"trigger": "new_cases", "have": 1, "need": 7}]),
        ({"manual": True}, []),
    ],
)
def test_the_next_release_is_named_by_its_trigger(window: dict[str, Any], triggers: list[dict[str, Any]]) -> None:
    """The counts since the last cut, and the counts that a trigger needs."""
    fold = _fold(window)
    assert next_triggers(fold.rules.publications[0], fold.publications["p"]) == triggers


@pytest.mark.parametrize(("lateness", "end"), [({}, 3600.0), ({"allowed_lateness": "10m"}, 4200.0)])
def test_a_window_is_due_when_it_may_close(lateness: dict[str, str], end: float) -> None:
    """An event-time window waits for late events."""
    window = read_window({"every": "1h", "time": "event", **lateness})
    rules = PublicationRules("p", window)
    counters = Fold(FoldRules((rules,))).publications["p"]
    assert next_triggers(rules, counters) == [{"trigger": "every"}]  # no event yet: no window is open
    counters.window_end = 3600 * 10**9
    assert next_triggers(rules, counters) == [{"trigger": "every", "due": end, "clock": "event"}]


def _put(broker: Broker, key: bytes, body: Any, ago: float = 0.0) -> None:
    broker.records.append((key, msgspec.json.encode(body), time.time() - ago))


START = {"at": 0.0, "pid": 7, "host": "b", "version": "1"}


def test_a_reader_has_the_last_status_and_a_start_that_is_later(broker: Broker) -> None:
    """A start before the last status is over."""
    assert (read_remote("p", SOURCE).status, read_remote("p", SOURCE).start) == (None, None)
    _put(broker, b"start", START, 50)
    assert (read_remote("p", SOURCE).status, read_remote("p", SOURCE).start is None) == (None, False)
    _put(broker, b"status", _status(position=4), 40)
    assert read_remote("p", SOURCE).start is None
    _put(broker, b"start", {**START, "host": "c"}, 5)
    remote = read_remote("p", SOURCE)
    assert (remote.status or {})["position"] == 4
    assert remote.start is not None
    assert remote.start.host == "c"
    assert 39 < time.time() - remote.stamped < 100


def _asked(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *options: str
) -> tuple[int, str]:
    monkeypatch.setattr(module, "status_processes", lambda _source: ["p"])
    monkeypatch.setenv("COLUMNS", "200")
    code = execute(["status", "--bootstrap", "broker:9092", *options])
    return code, capsys.readouterr().out


def _releases() -> dict[str, Any]:
    """Return the releases of a publication that released two hours ago."""
    return {
        "p": {
            "last": 3,
            "last_at": time.time() - 7200,
            "next": [{"trigger": "new_events", "have": 2, "need": 5}, {"trigger": "every"}],
            "withheld_streak": 1,
            "withheld_for": ["cases", "ka"],
            "budget": {"spent_epsilon": 0.5, "max_epsilon": 2.0, "left_releases": 15},
        }
    }


LAG = {"source": {"t/0": 3, "t/1": 4}, "delta": 2, "dead_letters": 6}


def test_the_command_shows_lag_releases_budget_letters_and_checkpoint(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a folder and without a configuration."""
    assert _asked(broker, monkeypatch, capsys) == (4, "p: no coordinator has written a status yet\n")
    now, releases = time.time(), _releases()
    _put(broker, b"status", _status(releases=releases, lag=LAG, checkpoint_at=now - 30, heartbeat=300.0, moved=now))
    code, shown = _asked(broker, monkeypatch, capsys)
    assert code == 0
    assert "7 source records and 2 delta records wait; 6 dead letters are kept" in shown
    assert "checkpoint of the process before (3" in shown  # 30 seconds, or a little more
    next_release = "2 of 5 new_events or when its first window has begun"
    for cell in ("3, 2.0 h ago", next_release, "1 (cases, ka)", "0.5 of 2", "15"):
        assert cell in shown
    code, shown = _asked(broker, monkeypatch, capsys, "--json")
    (document,) = json.loads(shown)["processes"]
    assert (document["process"], document["lag"], document["releases"]) == ("p", LAG, releases)


def test_of_a_coordinator_that_is_away_the_age_is_shown(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The figures stay as they were written; exit 4. A successor that opens its state is named, and is no fault."""
    an_hour_ago = time.time() - 3600
    _put(broker, b"status", _status(releases=_releases(), at=an_hour_ago, host="elsewhere"), 3600)
    code, shown = _asked(broker, monkeypatch, capsys)
    assert code == 4
    assert " on elsewhere, 360" in shown
    assert "has not been heard of since" in shown
    assert "2 of 5 new_events" in shown
    _put(broker, b"start", {**START, "host": "next"}, 20)
    code, shown = _asked(broker, monkeypatch, capsys)
    assert code == 0
    assert "a coordinator opens its state: process 7 on next, since 2" in shown
    assert "the figures are those of the coordinator before" in shown


@pytest.mark.parametrize("seconds", [-3600, 3600])
def test_a_host_whose_clock_is_wrong_is_not_silent(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], seconds: int
) -> None:
    """Its status came a second ago by the broker's stamp. An alarm at night that it was not heard of would be false."""
    at = time.time() + seconds
    status_of_host = _status(at=at, moved=at, broker_contact=at, checkpoint_at=at - 30, heartbeat=300.0, host="h")
    _put(broker, b"status", status_of_host, 1)
    code, shown = _asked(broker, monkeypatch, capsys)
    assert code == 0, shown
    assert "not been heard of" not in shown
    assert "checkpoint of the process before (3" in shown  # 30 seconds, or a little more
    broker.records[:] = [(key, value, stamp - 3600) for key, value, stamp in broker.records]
    code, shown = _asked(broker, monkeypatch, capsys)
    assert code == 4
    assert "360" in shown
    assert "has not been heard of since" in shown


def test_a_start_that_failed_is_a_fault_with_its_reason(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A host without a status of its own had shown that it opens its state, with exit 0, for ever."""
    host: Any = SimpleNamespace(
        settings=Settings.model_validate({"process": {"name": "p"}}), source=SOURCE, output=tmp_path, watch=None
    )
    app = SimpleNamespace(add_future=lambda step: step.close())
    standby, starting = Coordinator(app, host), Coordinator(app, host)  # type: ignore[arg-type]
    standby.status_topic.watch()
    standby.close(InputError("a standby"))
    assert not broker.records
    starting.status_topic.watch()
    starting.assigned({starting.partition})
    starting.close(InputError("the pseudonym key is another one"))
    remote = read_remote("p", SOURCE)
    assert remote.start is not None
    assert remote.start.ended_by == "the pseudonym key is another one"
    code, shown = _asked(broker, monkeypatch, capsys)
    assert code == 4
    assert "p: a coordinator ended before its state was open: the pseudonym key is another one (process" in shown
    # With the figures of a coordinator before it, too.
    broker.records.insert(0, (b"status", msgspec.json.encode(_status()), time.time() - 100))
    code, shown = _asked(broker, monkeypatch, capsys)
    assert code == 4
    assert "the pseudonym key is another one" in shown


def test_a_start_is_written_again_until_the_state_is_open(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is killed meanwhile writes no more. Nothing follows a status: it would hide an open state."""
    monkeypatch.setattr(module, "LEAST_SECONDS", 0.05)
    writer = StatusTopic("p", SOURCE)
    writer.start()
    writer.watch()
    _until(lambda: len(broker.records) >= 3)
    writer.write(_status())
    _until(lambda: broker.records[-1][0] == b"status")
    count = len(broker.records)
    writer.write(_status(state="stopped"))
    _until(lambda: len(broker.records) > count)
    writer.close()
    starts = [json.loads(value) for key, value, _ in broker.records[: count - 1]]
    assert [key for key, _, _ in broker.records] == [b"start"] * len(starts) + [b"status"] * 2
    assert all(start["heartbeat"] == SOURCE.heartbeat for start in starts)
    assert [start["seconds"] for start in starts] == sorted({start["seconds"] for start in starts})


@pytest.mark.parametrize("with_figures", [False, True])
def test_a_process_that_was_killed_while_its_state_opened_is_a_fault(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], with_figures: bool
) -> None:
    """After kill -9 or by the kernel's end for memory it was opening its state, with exit 0, until the next start.

    The clock of its host is wrong, which does not matter.
    """
    if with_figures:
        _put(broker, b"status", _status(releases=_releases()), 9000)
    start = {**START, "at": time.time() + 9000, "heartbeat": 300.0, "seconds": 120.0}
    _put(broker, b"start", start, 800)
    code, shown = _asked(broker, monkeypatch, capsys)
    assert code == 0
    opening = re.search(r"a coordinator opens its state: process 7 on b, since (\d+) s", " ".join(shown.split()))
    assert opening is not None
    assert int(opening[1]) >= 120 + 800
    broker.records[-1] = (b"start", msgspec.json.encode(start), time.time() - 1000)
    code, shown = _asked(broker, monkeypatch, capsys)
    assert code == 4
    shown = " ".join(shown.split())
    assert "its state was not open: its process was killed" in shown
    assert "(process 7 on b, 1" in shown
    assert ("2 of 5 new_events" in shown) == with_figures
    code, shown = _asked(broker, monkeypatch, capsys, "--json")
    (document,) = json.loads(shown)["processes"]
    assert "its process was killed" in document["start_failure"]


def test_topics_that_may_not_be_described_are_no_missing_topics(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A broker leaves them out of its list, so a reader without a permission was sent to create what exists."""
    monkeypatch.setattr(module, "status_processes", lambda _source: [])
    assert execute(["status", "--bootstrap", "broker:9092"]) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "broker broker:9092: shows no status topic: none exists (`veilstream topics create` makes it), or" in error
    assert "none may be described" in error


def test_figures_are_found_before_many_starts(broker: Broker) -> None:
    """A state that opens for half an hour repeats its start some hundred times."""
    _put(broker, b"status", _status(position=4), 5000)
    for _ in range(2 * module.TAIL_RECORDS + 1):
        _put(broker, b"start", {**START, "heartbeat": 5.0})
    assert (read_remote("p", SOURCE).status or {})["position"] == 4


def test_the_topic_is_compacted_and_an_earlier_installation_may_lack_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its absence stops no daemon, and neither does a missing permission on it."""
    (plan,) = [plan for plan in plans("p", SOURCE) if plan.name == topic("p", "status")]
    assert (plan.partitions, plan.config["cleanup.policy"], "retention.ms" in plan.config) == (1, "compact", False)

    class Admin:
        def __init__(self, error: int) -> None:
            self._error = error

        def describe_topics(self, names: list[str]) -> list[dict[str, Any]]:
            return [{"name": names[0], "error_code": self._error, "partitions": []}]

    for error, line in ((3, "missing"), (29, "cannot be described")):
        (problem,) = check(Admin(error), [plan])
        assert line in problem.text
        assert not problem.fatal
        assert not problem.forbidden


def test_only_coordinators_write_it_and_only_operators_read_it() -> None:
    """Its counts are exact: recipients of releases have no use for it, and need no permission."""
    name = topic("p", "status")
    operations = {}
    for role in ("ingest", "coordinator", "operator"):
        granted = [one.operations for one in permissions("p", SOURCE, role) if name in one.names]  # type: ignore[arg-type]
        operations[role] = {operation for words in granted for operation in words}
    assert ("Write" in operations["coordinator"], "Read" in operations["coordinator"]) == (True, False)
    assert ("Write" in operations["operator"], "Read" in operations["operator"]) == (False, True)
    assert operations["ingest"] == {"Describe", "DescribeConfigs"}


def test_a_configuration_without_a_source_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It names no broker."""
    path = tmp_path / "c.toml"
    path.write_text('[process]\nname = "p"\n')
    assert execute(["status", "-c", str(path)]) == 2
    assert "no [source] table" in capsys.readouterr().err
