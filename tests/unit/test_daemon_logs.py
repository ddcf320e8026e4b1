"""Log of the daemon: level and format, the fields of a decision, and errors of libraries.

A refusal is its own single line, a crash keeps its stack.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stream.daemon.state_machine import ActiveCoordinator
from stream.values.log_fields import add_log_fields, current_log_fields, log_fields
from tests.conftest import ROOT
from tests.unit.test_pipeline_rules import IDENTITY, _attempt, _service, _settings

PROGRAM = """
import logging, sys
from pathlib import Path
from aiokafka.errors import GroupCoordinatorNotAvailableError
from models.errors import RefusedError
from stream.daemon import logs
from stream.daemon.roles import ending

logs.configure()
faust, client = logging.getLogger("faust.worker"), logging.getLogger("aiokafka.consumer.group_coordinator")

def work():
    client.error("Group Coordinator Request failed: %s", GroupCoordinatorNotAvailableError())
    reason = {"refusal": RefusedError("delta offset 0"), "crash": KeyError("x")}[sys.argv[1]]
    try:
        raise reason
    except Exception:
        faust.exception("Crashed reason=%r", reason)
    faust.error("Error while stopping child")
    raise reason

sys.exit(ending(work, Path("out")))
"""


THREADS = """
import asyncio, threading
from stream.daemon import logs

logs.configure("info", "json")

def end(error):
    raise error

for error in (asyncio.CancelledError(), KeyError("x")):
    thread = threading.Thread(target=end, args=(error,))
    thread.start()
    thread.join()
"""


def test_a_thread_that_ends_by_an_error_is_one_line() -> None:
    """A stop while the broker was away printed a stack of thirty lines, which a collector of JSON cannot read."""
    done = subprocess.run([sys.executable, "-c", THREADS], cwd=ROOT, capture_output=True, text=True, check=True)
    (line,) = map(json.loads, done.stderr.splitlines())
    assert line["event"] == "a thread ended: KeyError"
    assert "Traceback" in line["exception"]


@pytest.mark.parametrize(("why", "code", "errors"), [("refusal", 4, 1), ("crash", 1, 3)])
def test_a_refusal_is_one_line_and_a_crash_has_its_traceback(why: str, code: int, errors: int) -> None:
    """A request that the client repeats is a warning in both."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, why], cwd=ROOT, capture_output=True, text=True, check=False)
    records = [json.loads(line) for line in done.stderr.splitlines()]
    assert done.returncode == code
    assert [one["level"] for one in records] == ["warning"] + ["error"] * errors
    assert any("exception" in one for one in records) == (why == "crash")


SETUP = """
import logging, sys
from pathlib import Path
from stream.daemon import logs
logs.configure(sys.argv[1], sys.argv[2])
log = logging.getLogger("veilstream")
log.debug("a debug line")
log.info("an info line")
logging.getLogger("aiokafka").debug("a record of a client")
logging.getLogger("some.library").debug("a record of a library")
secret = "Anna Muster"
try:
    raise KeyError("x")
except KeyError as error:
    log.error("crashed: %s", type(error).__name__, exc_info=error)
"""


def _written(level: str, log_format: str) -> str:
    """Return what a process with this level and format writes to a pipe."""
    command = [sys.executable, "-c", SETUP, level, log_format]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stderr


def test_json_is_one_object_a_line_and_text_is_readable_without_colours() -> None:
    """Text of an exception has its stack, and no value of a local variable."""
    events = [json.loads(line)["event"] for line in _written("info", "json").splitlines()]
    assert events == ["an info line", "crashed: KeyError"]
    assert _written("info", "auto").startswith("{")  # a pipe is not a terminal
    text = _written("info", "text")
    assert "an info line" in text
    assert "Traceback (most recent call last)" in text
    assert "Anna Muster" not in text
    assert "\x1b" not in text
    assert not text.startswith("{")


def test_a_level_concerns_our_lines_and_never_opens_those_of_clients() -> None:
    """A client prints records below its least level, which no configuration lowers."""
    assert [json.loads(line)["event"] for line in _written("warning", "json").splitlines()] == ["crashed: KeyError"]
    debug = _written("debug", "json")
    assert "a debug line" in debug
    assert "a record of" not in debug


REPEATED = """
import logging, sys
from pathlib import Path
from stream.daemon import logs
logs.REPEAT_SECONDS = float(sys.argv[1])
logs.configure()
client, ours = logging.getLogger("aiokafka.client"), logging.getLogger("veilstream")
console = logging.getLogger("stream.operator.console.guard")
for node in range(100):
    client.error("Unable connect to node with id %s", node)
    client.warning("Metadata refresh of %s failed", node)
    ours.warning("asking again")
    console.info("GET /%d", node)
"""


@pytest.mark.parametrize(("seconds", "times"), [("3600", 1), ("0", 100)])
def test_a_client_that_tries_again_and_again_does_not_fill_the_disk(seconds: str, times: int) -> None:
    """While the broker was away, two processes wrote 145 lines a second. Our own lines are never left out: one of the
    console is a request."""
    command = [sys.executable, "-c", REPEATED, seconds]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stderr
    events = Counter(json.loads(line)["event"].rstrip("0123456789") for line in printed.splitlines())
    assert events["Unable connect to node with id "] == times
    assert sum(count for event, count in events.items() if event.startswith("Metadata refresh")) == times
    assert events["asking again"] == events["GET /"] == 100


class _Collected(logging.Handler):
    """Keeps the text of each record with the fields that its line would carry."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[str, dict[str, str | int]]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append((record.getMessage(), dict(current_log_fields())))


@pytest.fixture
def collected() -> Iterator[_Collected]:
    handler, logger = _Collected(), logging.getLogger("veilstream")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(level)


def test_each_line_of_a_decision_names_publication_cut_and_release(tmp_path: Path, collected: _Collected) -> None:
    """The release is the number that the attempt would get; after the decision no line carries these fields."""
    log = logging.getLogger("veilstream")
    with _service(tmp_path, _settings({"mechanism": IDENTITY}), lambda point: log.info("at %s", point)) as service:
        engine: Any = ActiveCoordinator.__new__(ActiveCoordinator)
        attempt = _attempt()
        engine.service = service
        engine.host = SimpleNamespace(spans=None)
        collected.lines.clear()
        assert engine._decide(SimpleNamespace(id=attempt.cut, publication="p"), attempt)
        log.info("the next record")
    lines = dict(collected.lines)
    cut = {"publication": "p", "cut": attempt.cut}
    for point in ("opened", "charged", "built", "sealed", "published"):
        assert lines[f"at {point}"] == {**cut, "release": 1}
    (decided,) = [text for text in lines if "sealed as release 1" in text]
    assert lines[decided] == {**cut, "release": 1}
    assert any(text.startswith("stage build took ") for text in lines)
    assert lines["the next record"] == {}


def test_a_line_has_the_fields_of_its_own_thread_alone() -> None:
    """The coordinator decides in one thread while the event loop logs in another."""
    seen: list[Mapping[str, str | int]] = []
    with log_fields(cut="p/1/0/0"):
        other = threading.Thread(target=lambda: seen.append(current_log_fields()))
        other.start()
        other.join()
        assert current_log_fields() == {"cut": "p/1/0/0"}
    add_log_fields(release=1)  # outside of a block: nothing would remove the field again
    assert [*seen, current_log_fields()] == [{}, {}]


def test_fields_appear_in_the_lines() -> None:
    """A collector filters by them."""
    program = """
import logging
from stream.daemon import logs
from stream.values.log_fields import log_fields
logs.configure("info", "json")
with log_fields(publication="research", cut="research/7/0/0", release=3):
    logging.getLogger("veilstream").warning("a line")
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    line = json.loads(done.stderr)
    fields = (line["event"], line["publication"], line["cut"], line["release"])
    assert fields == ("a line", "research", "research/7/0/0", 3)
