"""A real Prometheus with short intervals, for tests; and which programs are missing here."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

from tests.conftest import missing


def program(name: str) -> str:
    """The path of `prometheus` or `promtool`."""
    path = shutil.which(name)
    if path is None:
        missing("prometheus", f"{name} is not installed (Debian package prometheus)")
    return str(path)


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def eventually(check: Callable[[], Any], seconds: float = 40) -> Any:
    """The first true answer of `check`; fails after `seconds`."""
    deadline = time.monotonic() + seconds
    while not (found := check()):
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.2)
    return found


class Prometheus:
    """Scrapes `targets` every second and evaluates `rules` every second."""

    def __init__(self, folder: Path, targets: list[str], rules: Path) -> None:
        folder.mkdir()
        config = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(rules)],
            "scrape_configs": [{"job_name": "veilstream", "static_configs": [{"targets": targets}]}],
        }
        (folder / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
        self.address = f"127.0.0.1:{free_port()}"
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
        """Samples of an instant query."""
        with urlopen(f"http://{self.address}/api/v1/query?{urlencode({'query': expression})}") as answer:
            found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        return found

    def firing(self) -> set[str]:
        """Names of the alerts that fire now."""
        return {one["metric"]["alertname"] for one in self.query('ALERTS{alertstate="firing"}')}

    def close(self) -> None:
        """End it."""
        self.process.terminate()
        self.process.wait(10)
        self.log.close()
