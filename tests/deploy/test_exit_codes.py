"""One table of exit codes (docs/daemon.md), and what systemd, compose and chart make of each."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
import yaml

from models.errors import InputError
from stream.daemon import roles
from stream.daemon.roles import WAITING
from tests.conftest import ROOT
from tests.deploy import chart
from tests.ports import free_ports

DEPLOY = ROOT / "deploy"
FLAG = "--wait-on-refusal"


def table() -> dict[str, bool]:
    """Exit code -> whether a service manager starts the process again."""
    lines = (ROOT / "docs" / "daemon.md").read_text().splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith("| exit code |"))
    found = {}
    for line in lines[begin + 2 :]:
        if not line.startswith("|"):
            break
        code, _, again = (cell.strip() for cell in line.strip("|").split("|"))
        assert again in ("yes", "no")
        found[code] = again == "yes"
    return found


def test_the_table_is_what_the_program_does() -> None:
    """Every code that a daemon ends with has its row; the ones that wait for a person are those that `run` holds."""
    assert set(table()) == {"0", "1", "2", "4", "by a signal"}
    assert {int(code) for code, again in table().items() if code in "1234" and not again} == set(WAITING)


@pytest.mark.parametrize("path", sorted((DEPLOY / "systemd").glob("*.service")), ids=lambda path: path.stem)
def test_systemd_does_what_the_table_says(path: Path) -> None:
    """It starts again whatever ends by itself, but for the codes of the table; a stop that was asked for is none."""
    lines = path.read_text().splitlines()
    assert "Restart=always" in lines
    (prevented,) = [line.partition("=")[2].split() for line in lines if line.startswith("RestartPreventExitStatus=")]
    assert prevented == [code for code, again in table().items() if code in "1234" and not again]
    assert not any(line.startswith(("SuccessExitStatus", "RestartForceExitStatus")) for line in lines)
    assert FLAG not in path.read_text()


@pytest.mark.parametrize("role", ["ingest", "coordinator"])
def test_containers_do_what_the_table_says(role: str) -> None:
    """Docker and Kubernetes start any exit again: the process holds the ones that wait, alive and not ready."""
    service: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"][role]
    assert (service["restart"], FLAG in service["command"]) == ("unless-stopped", True)
    workload = yaml.safe_load(chart.flat((chart.CHART / "templates" / f"{role}.yaml").read_text()))
    pod = workload["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod.get("restartPolicy", "Always") == "Always"
    assert FLAG in container["args"]
    pages = {
        name: container[name]["exec"]["command"][-1] for name in ("startupProbe", "livenessProbe", "readinessProbe")
    }
    assert {name: "/healthz" in text for name, text in pages.items()} == {
        "startupProbe": True,
        "livenessProbe": True,
        "readinessProbe": False,
    }


def ask(port: int, page: str) -> tuple[int, Any]:
    """Status and body."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/{page}") as answer:
            return answer.status, json.load(answer)
    except HTTPError as error:
        with error:
            return error.code, json.load(error)


@pytest.mark.parametrize("role", ["all", "ingest"])
@pytest.mark.parametrize("fault", ["", "unknown = 1\n"], ids=["no source", "unknown key"])
def test_a_refusal_waits_for_a_person(tmp_path: Path, role: str, fault: str) -> None:
    """One line says what is wrong; alive, not ready; SIGTERM ends it with the code of the refusal."""
    (port,) = free_ports(1)
    (tmp_path / "c.toml").write_text(f'{fault}health_port = {port}\n[process]\nname = "p"\n')
    command = [sys.executable, "-m", "stream.commands", "run", "-c", str(tmp_path / "c.toml"), "--role", role, FLAG]
    environment = {"VEILSTREAM_HEALTH_PORT": str(port), "PYTHONPATH": str(ROOT), "PATH": ""}
    with subprocess.Popen(
        [*command, "-o", str(tmp_path / "out")], stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stderr is not None
        try:
            lines = []
            while not lines or "waits for SIGTERM" not in lines[-1]:
                lines.append(process.stderr.readline())
                assert lines[-1]
            assert ask(port, "healthz")[0] == 200
            assert ask(port, "readyz") == (503, {"role": role, "state": "refused", "exit_code": 2})
            time.sleep(0.2)
            assert process.poll() is None
            process.send_signal(signal.SIGTERM)
            assert process.wait() == 2
        finally:
            process.kill()
    said = [line for line in lines if ("no [source]" in line or "unknown key" in line)]
    assert len(said) == 1
    assert not any("Traceback" in line for line in lines)


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ("", r"c\.toml: no \[source\] table"),
        ('[source]\ntopics = ["t"]\nbootstrap = "127.0.0.1:1"\n', r"c\.toml: no \[\[publication\]\]"),
    ],
)
def test_what_both_roles_would_refuse_is_said_before_one_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tables: str, said: str
) -> None:
    """Two processes that refuse at once would say it twice."""
    (tmp_path / "c.toml").write_text(f'[process]\nname = "p"\n{tables}')
    monkeypatch.setattr(roles.signal, "signal", lambda *_given: None)
    monkeypatch.setattr(roles.subprocess, "Popen", lambda *_given, **_more: pytest.fail("a role began"))
    with pytest.raises(InputError, match=said):
        roles.run_all(tmp_path / "c.toml", tmp_path / "out")
