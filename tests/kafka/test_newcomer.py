"""Somebody copies the configuration and the commands of docs/daemon.md, and has releases."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.docs.test_daemon_page import block
from tests.kafka.broker import Broker, ForeignBroker
from tests.kafka.site import PATIENCE, Site

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1800), pytest.mark.slow]


def test_the_first_daemon_of_the_page_releases(broker: Broker | ForeignBroker, name: str, tmp_path: Path) -> None:
    """Topics, both roles in one command, the bundled log; the page's names are made this test's own."""
    one = Site(broker.bootstrap, name, tmp_path, "", topics=False)
    text = block("toml").replace("hospital.events", one.topic).replace("localhost:9092", broker.bootstrap)
    one.config.write_text(text.replace('name = "hospital"', f'name = "{name}"'))
    one.command("topics", "create", "-c", str(one.config), "--source-partitions", "1")
    program = [sys.executable, "-m", "stream.commands", "run", "-c", str(one.config), "-o", str(one.output())]
    with (tmp_path / "all.log").open("wb") as log:
        process = subprocess.Popen(program, cwd=ROOT, stdout=log, stderr=log)
    one.processes.append(process)
    try:
        one.command("publish", str(ROOT / "examples" / "hospital.xes.gz"), "-c", str(one.config))
        one.wait(lambda: len(one.json("releases")) >= 2, "two releases", 480)  # the first one compiles
        process.terminate()
        assert process.wait(PATIENCE) == 0
    finally:
        one.close()
    shown = json.loads(one.command("releases", str(one.output()), "--json"))
    assert len(json.dumps(shown)) > 2
    assert all(record["manifest"]["publication"] == "research" for _, record in one.json("releases"))
