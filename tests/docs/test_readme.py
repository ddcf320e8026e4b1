"""The commands of the README: those of seconds run and say what is claimed, the others exist; links lead somewhere."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from stream.release.gate import worst_anonymity
from tests.conftest import ROOT
from tests.docs.command_lines import PAGES, faults

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
CLAIMS = re.findall(r"^\|.*\| `([^`]+)` \|$", README, re.MULTILINE)
COMMANDS = list(dict.fromkeys([line for block in BLOCKS for line in block.splitlines() if line] + CLAIMS))
RUN = [line for line in COMMANDS if (line.startswith("veilstream") and "examples/" in line) or "demo-out" in line]
"""In the order of the README: the first makes what the others look at."""


def run(words: list[str], folder: Path, code: int = 0) -> str:
    """Run a command of the program in `folder`, where `examples` is the checkout's."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("VEILSTREAM_")}
    environment |= {"PYTHONPATH": str(ROOT), "COLUMNS": "200", "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, "-m", "stream.commands", *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == code, f"{words}: exit {done.returncode}\n{done.stderr}"
    return done.stdout


def test_the_readme_has_commands_and_claims() -> None:
    """The walk below is not empty: both commands, the example, and a command for every claim."""
    assert COMMANDS[:2] == ["make demo", "make test"]
    assert len(RUN) >= 5
    claims = README.split("## Claims")[1].split("## ")[0]
    rows = [line for line in claims.splitlines() if line.startswith("| ")][2:]
    assert len(rows) == len(CLAIMS) >= 10


def test_the_worked_example_runs_and_prints_what_is_shown(tmp_path: Path) -> None:
    """Every command on the bundled log works, in order; the verdicts and rows of the example are those shown."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    printed = [run(shlex.split(line)[1:], tmp_path) for line in RUN]
    shown = re.findall(r"^(?: \d+ +20\d\d-.*|\[.\] .*)$", README, re.MULTILINE)
    assert len(shown) == 6
    everything = " ".join(" ".join(printed).split())  # a long verdict goes over several lines, here and there
    assert [row for row in shown if " ".join(row.split()) not in everything] == []
    assert (tmp_path / "demo-out" / "report.html").stat().st_size > 0


@pytest.mark.parametrize("line", [line for line in COMMANDS if line not in RUN])
def test_what_does_not_run_above_exists(line: str) -> None:
    """make targets, commands with their options, benchmarks and test files that the README names exist."""
    assert faults(line) == []


def claim(words: str) -> list[str]:
    """The words of the one command of the claims that holds `words`."""
    (line,) = [line for line in CLAIMS if words in line]
    return shlex.split(line)[1:]


@pytest.mark.parametrize(
    ("words", "shorter", "verdict"),
    [("--mechanism amun", {}, "unbounded"), ("--mechanism dp-variants", {"2000": "200"}, "consistent")],
)
def test_attacks_on_the_program_end_as_claimed(
    words: str, shorter: dict[str, str], verdict: str, tmp_path: Path
) -> None:
    """`audit-epsilon` as printed, but `dp-variants` with a tenth of the runs."""
    line = [shorter.get(word, word) for word in claim(words)]
    assert json.loads(run([*line, "--json"], tmp_path))["verdict"] == verdict
    (row,) = [row for row in README.splitlines() if f"{words} " in row]
    assert f"| `{verdict}`" in row


def test_the_default_on_sepsis_is_as_claimed(logs: Path, tmp_path: Path) -> None:
    """Eleven releases with nothing configured, and no attack over the series leaves fewer than 20 cases."""
    line = [str(logs / Path(word).name) if word.endswith(".xes.gz") else word for word in claim("sepsis-out")]
    found = json.loads(run([*line, "--json"], tmp_path))
    anonymity = [release["anonymity"] for release in found["releases"]]
    assert len(anonymity) == 11
    for measure in ("ka", "fa", "ca", "ba"):
        assert min(filter(None, (worst_anonymity(one, measure) for one in anonymity))) >= 20
    assert [one["verdict"] for one in found["verdicts"]] == ["SAFE"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link of README and docs names a file or folder of the checkout."""
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
    relative = [link for link in links if "://" not in link]
    assert [link for link in relative if not (page.parent / link).exists()] == []
