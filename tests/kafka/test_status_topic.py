"""`veilstream status --bootstrap`: a daemon seen from a host without its folder and without its configuration."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.kafka import scenario
from tests.kafka.broker import Broker, ForeignBroker
from tests.kafka.site import Site

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1800), pytest.mark.slow]

AnyBroker = Broker | ForeignBroker


def _asked(one: Site, folder: Path, *options: str) -> tuple[int, dict[str, Any]]:
    """Exit code of the command in a folder without releases, and its document about the process."""
    folder.mkdir(exist_ok=True)
    config = folder / "broker.toml"
    config.write_text(f'[process]\nname = "{one.name}"\n[source]\ntopics = ["any"]\nbootstrap = "{one.bootstrap}"\n')
    program = [sys.executable, "-m", "stream.commands", "status", *(options or ("-c", str(config))), "--json"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(program, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    documents = json.loads(done.stdout)["processes"] if done.stdout else []
    return done.returncode, next((each for each in documents if each["process"] == one.name), {})


def test_a_status_is_read_from_anywhere_and_outlives_its_coordinator(
    broker: AnyBroker, name: str, tmp_path: Path
) -> None:
    """Before the first event, while releases leave, after kill -9 (the age is shown, the figures stay), and after a
    stop. The topic holds no content of a record."""
    one = scenario.site(broker.bootstrap, name, tmp_path)
    elsewhere = tmp_path / "elsewhere"
    values = scenario.events(cases=2 * scenario.WINDOW)
    try:
        coordinator = one.start("coordinator")
        one.wait(lambda: _asked(one, elsewhere)[1].get("state") == "active", "a status before the first event")
        ingest = one.start("ingest")
        scenario.send(one, values)

        def released() -> bool:
            document = _asked(one, elsewhere)[1]
            if "releases" not in document:
                return False
            numbers = [release["last"] for release in document["releases"].values()]
            waiting = document.get("lag", {}).get("source", {"": 1})
            return numbers == [2, 2] and not any(waiting.values())

        one.wait(released, "the second release of each publication, and no lag")
        _, document = _asked(one, elsewhere, "--bootstrap", one.bootstrap)
        assert document["lag"]["dead_letters"] == len(scenario.BAD)
        assert set(document["lag"]["source"]) == {f"{one.topic}/0", f"{one.topic}/1"}
        noisy, plain = document["releases"]["noisy"], document["releases"]["plain"]
        assert plain["next"] == [{"trigger": "new_cases", "have": 0, "need": scenario.WINDOW}]
        assert (plain["budget"], noisy["budget"]["max_epsilon"]) == (None, 1000.0)
        assert 4.0 < noisy["budget"]["spent_epsilon"] <= 8.0  # two draws, added up or composed
        assert document["checkpoint_at"] is not None

        coordinator.kill()
        coordinator.wait()
        one.wait(lambda: _asked(one, elsewhere)[0] == 4, "the silence of the coordinator")
        _, silent = _asked(one, elsewhere)
        assert silent["standstill"] is not None
        assert silent["age_seconds"] > 3  # heartbeats of a second
        assert silent["releases"] == document["releases"]

        successor = one.start("coordinator")
        one.wait(lambda: _asked(one, elsewhere)[0] == 0, "a successor")
        assert one.stop(successor, ingest) == [0, 0]
        code, stopped = _asked(one, elsewhere)
        assert (code, stopped["state"]) == (4, "stopped")
    finally:
        one.close()
    raw = b"".join(value or b"" for _, _, value in one.records(f"veilstream.{name}.status"))
    assert b'"plain"' in raw
    for content in (b"case-", b"register", b"decide", b'reject"'):
        assert content not in raw
