"""Somebody copies configuration and commands of the pages on the daemon, line by line, and has releases."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.docs.snippets import Snippet, snippets
from tests.kafka.broker import Broker, ForeignBroker
from tests.kafka.site import PATIENCE, Site

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1800), pytest.mark.slow]

DAEMON = "docs/daemon.md"
PUBLISH = "veilstream publish examples/hospital.xes.gz -c proposed.toml"
"""The page on Kafka says it in its text: a system that is there already sends events by itself."""

FOLDERS = ("out", "state")
"""Folders of the daemon, as the pages call them; other lines show further ways to start it."""


def configuration(page: str) -> str:
    """The configuration of a page; one that only adds a source is added to that of the daemon's page."""
    (text, *_) = [snippet.text for snippet in snippets(ROOT / page) if snippet.language == "toml"]
    if "[[publication]]" in text:
        return text
    before, _, after = configuration(DAEMON).partition("[source]")
    return f"{before}{text}\n[[{after.partition('[[')[2]}"


def lines(page: str) -> list[str]:
    """The commands of a page that need a broker, without those that start the daemon in a folder of a host."""
    blocks: list[Snippet] = [snippet for snippet in snippets(ROOT / page) if snippet.language == "sh"]
    commands = [line for block in blocks for line in block.commands() if line.startswith("veilstream ")]
    commands = [line for line in commands if "/var/lib/" not in line and "sepsis" not in line]
    return commands if any(" publish " in line for line in commands) else [*commands, PUBLISH]


@pytest.mark.parametrize("page", [DAEMON, "docs/howto/beside-kafka.md"])
def test_the_daemon_of_the_page_releases(page: str, broker: Broker | ForeignBroker, name: str, tmp_path: Path) -> None:
    """Topics, both roles in one command, the bundled log; the page's names are made this test's own."""
    site = Site(broker.bootstrap, name, tmp_path, "", topics=False)
    text = configuration(page).replace("hospital.events", site.topic).replace("localhost:9092", broker.bootstrap)
    site.config.write_text(text.replace('name = "hospital"', f'name = "{name}"'))
    places = {"veilstream.toml": str(site.config), "proposed.toml": str(site.config)}
    places |= dict.fromkeys(FOLDERS, str(site.output()))
    places["localhost:9092"] = broker.bootstrap
    places["examples/hospital.xes.gz"] = str(ROOT / "examples" / "hospital.xes.gz")
    process = None
    try:
        for line in lines(page):
            words = [places.get(word, word) for word in shlex.split(line.removesuffix("&"), comments=True)[1:]]
            if words[0] == "run":
                with (tmp_path / "all.log").open("wb") as log:
                    program = [sys.executable, "-m", "stream.commands", *words]
                    process = subprocess.Popen(program, cwd=ROOT, stdout=log, stderr=log)
                site.processes.append(process)
                continue
            if words[0] == "releases":
                _wait_for_two(site)
            if "--bootstrap" in words:
                # Other tests use the same broker: the worst of all processes decides the exit code.
                assert name in site.command(*words, expect=None, stdout=True)
                continue
            site.command(*words)
        _wait_for_two(site)
        assert process is not None
        process.terminate()
        assert process.wait(PATIENCE) == 0
    finally:
        site.close()
    shown = json.loads(site.command("releases", str(site.output()), "--json"))
    assert len(json.dumps(shown)) > 2
    assert all(record["manifest"]["publication"] == "research" for _, record in site.json("releases"))


def _wait_for_two(site: Site) -> None:
    site.wait(lambda: len(site.json("releases")) >= 2, "two releases", 480)  # the first one compiles
