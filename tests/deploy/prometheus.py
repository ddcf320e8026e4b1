"""A real Prometheus with short intervals, for tests; and which programs are missing here."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

from tests.conftest import missing
from tests.deploy.expressions import hurried
from tests.patience import patient_time
from tests.ports import free_ports


def program(name: str) -> str:
    """Return the path of `prometheus` or `promtool`."""
    path = shutil.which(name)
    if path is None:
        missing("prometheus", f"{name} is not installed (Debian package prometheus)")
    return str(path)


def eventually(check: Callable[[], Any], seconds: float = 240) -> Any:
    """Return the first true answer of `check`; fail after `seconds`."""
    deadline = patient_time() + seconds
    while not (found := check()):
        assert patient_time() < deadline, "did not happen in time"
        time.sleep(0.2)
    return found


EVERY = "500ms"
"""Seconds between two scrapes, between two evaluations, and limit of one: with less, a busy machine misses some."""


class Prometheus:
    """Scrapes `targets` and evaluates the hurried rules, or those of the file `rules`."""

    def __init__(self, folder: Path, targets: list[str], rules: Path | None = None) -> None:
        folder.mkdir()
        config = {
            "global": {"scrape_interval": EVERY, "scrape_timeout": EVERY, "evaluation_interval": EVERY},
            "rule_files": [str(rules or hurried(folder))],
            "scrape_configs": [{"job_name": "veilstream", "static_configs": [{"targets": targets}]}],
        }
        (folder / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
        self.address = f"127.0.0.1:{free_ports(1)[0]}"
        command = [
            program("prometheus"),
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address={self.address}",
        ]
        self.log = (folder / "log").open("wb")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        eventually(self._ready)

    def _ready(self) -> bool:
        assert self.process.poll() is None, "prometheus ended; see its log"
        try:
            with urlopen(f"http://{self.address}/-/ready") as answer:
                return bool(answer.status == 200)
        except (URLError, OSError):
            return False

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the samples of an instant query."""
        with urlopen(f"http://{self.address}/api/v1/query?{urlencode({'query': expression})}") as answer:
            found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        return found

    def value(self, expression: str) -> float | None:
        """Return the only sample of an instant query; None if there is none."""
        found = self.query(expression)
        assert len(found) < 2, f"{expression}: {len(found)} samples"
        return float(found[0]["value"][1]) if found else None

    def firing(self) -> set[str]:
        """Return the names of the alerts that fire now."""
        return {one["metric"]["alertname"] for one in self.query('ALERTS{alertstate="firing"}')}

    def evaluations(self) -> float:
        """Return how often the rules were evaluated so far, by the metrics of Prometheus."""
        with urlopen(f"http://{self.address}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        wanted = "prometheus_rule_group_iterations_total{"
        return min((float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(wanted)), default=0.0)

    def close(self) -> None:
        """End the process."""
        self.process.terminate()
        self.process.wait(120)
        self.log.close()


class Watcher:
    """Looks at a Prometheus again and again: which of the expressions it never answered, which alerts came and went."""

    def __init__(self, prometheus: Prometheus, expressions: dict[str, str]) -> None:
        self.prometheus, self.silent = prometheus, dict(expressions)
        self.fired: set[str] = set()
        self.cleared: set[str] = set()

    def __repr__(self) -> str:
        return f"never answered: {sorted(self.silent)}; fired: {sorted(self.fired)}; cleared: {sorted(self.cleared)}"

    def look(self) -> set[str]:
        """Return the alerts that fire now. An alert clears only while all targets answer."""
        firing = self.prometheus.firing()
        if not self.prometheus.query("up == 0"):
            self.cleared = (self.cleared | self.fired) - firing
        self.fired |= firing
        self.silent = {name: text for name, text in self.silent.items() if not self.prometheus.query(text)}
        return firing
