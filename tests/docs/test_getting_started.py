"""The page for data managers, word for word: every command of it works, in order, and the miner's lines too."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.docs.test_readme import run

PAGE = (ROOT / "docs" / "getting-started.md").read_text(encoding="utf-8").split("## 6.")[0]
LINES = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
PROGRAM = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_page_has_commands_and_a_program() -> None:
    """The walk below is not empty, and begins with what puts the program on the path."""
    assert LINES[0] == ". .venv/bin/activate"
    commands = [line.split()[1] for line in LINES[1:]]
    assert commands == "inspect replay releases report statement verify advise check-config replay".split()  # noqa: SIM905
    assert len(PROGRAM) == 1


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_line_works_as_it_is_printed(tmp_path: Path) -> None:
    """In a folder with nothing but the examples; the statement on the proposal's replay goes by the promised name."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    printed = {line: run(shlex.split(line)[1:], tmp_path) for line in LINES[1:]}
    (first,) = [text for line, text in printed.items() if "-o first" in line and " replay " in line]
    assert first.startswith("[+] SAFE: research: 9 releases")
    assert (tmp_path / "first" / "report.html").stat().st_size > 0
    assert (tmp_path / "first" / "statement.html").stat().st_size > 0
    assert "veilstream statement second research" in PAGE
    assert "publication “research”" in run(["statement", "second", "research"], tmp_path)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM[0]], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    (cases,) = re.findall(r"^ 9 .*?completed_cases +(\d+)", first, re.MULTILINE)
    told = done.stdout.splitlines()
    assert any(line.startswith(f"{cases} cases; Admission, Blood test, CT scan") for line in told), told
    assert not any("X-ray" in line for line in told)
