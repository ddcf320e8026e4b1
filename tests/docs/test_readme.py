"""The claims of the README: their commands exist, some run and say what is claimed; links lead somewhere."""

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
CLAIMS = re.findall(r"^\|.*\| `([^`]+)` \|$", README, re.MULTILINE)


def run(words: list[str], folder: Path, code: int = 0) -> str:
    """Run a command of the program in `folder`, where `examples` is the checkout's."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("VEILSTREAM_")}
    environment |= {"PYTHONPATH": str(ROOT), "COLUMNS": "200", "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, "-m", "stream.commands", *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == code, f"{words}: exit {done.returncode}\n{done.stderr}"
    return done.stdout


def test_every_claim_has_a_command() -> None:
    """The commands of the blocks run in test_snippets.py."""
    claims = README.split("## Claims")[1].split("## ")[0]
    rows = [line for line in claims.splitlines() if line.startswith("| ")][2:]
    assert len(rows) == len(CLAIMS) >= 10


@pytest.mark.parametrize("line", CLAIMS)
def test_the_command_of_a_claim_exists(line: str) -> None:
    """make targets, commands with their options, benchmarks and test files."""
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
