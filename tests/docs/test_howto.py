"""The how-to pages, word for word: every command works, in the order of the pages, in a folder with the examples."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.conftest import ROOT

PAGES = ("anonymize-one-export", "publish-every-week", "sign", "erase")
"""In this order: each works on what the one before it left. `beside-kafka` needs a broker."""


def _blocks(page: str, language: str) -> list[str]:
    text = (ROOT / "docs" / "howto" / f"{page}.md").read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.mark.slow
def test_every_command_of_the_pages_works(tmp_path: Path) -> None:
    """`veilstream` of the shell is the program under test; each line ends with 0."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (toml,) = _blocks("publish-every-week", "toml")
    (tmp_path / "weekly.toml").write_text(toml)
    program = f'veilstream() {{ PYTHONPATH={shlex.quote(str(ROOT))} {sys.executable} -m stream.commands "$@"; }}'
    printed = {}
    for page in PAGES:
        for line in "".join(_blocks(page, "sh")).splitlines():
            done = subprocess.run(["bash", "-c", f"{program}\n{line}"], cwd=tmp_path, capture_output=True, text=True)
            assert done.returncode == 0, f"{page}: {line}\n{done.stderr}"
            printed[line] = done.stdout + done.stderr
    assert len(printed) == 10
    assert "its budget allows 52 releases" in printed["veilstream check-config weekly.toml"]
    assert "1 of 1 cases were in the state" in printed["echo P00017 | veilstream erase -c weekly.toml -o out"]


def test_every_page_has_a_place_in_the_navigation_and_readers() -> None:
    """The site builds strictly in `make check`; here each part of its navigation names its readers."""
    text = re.sub(r"!!python/\S+", "", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    site = yaml.safe_load(text)
    parts = [next(iter(part)) for part in site["nav"] if isinstance(part, dict)]
    assert parts == ["Tutorial", "How to", "Concepts", "Reference", "Operating", "Research", "Contributing"]
    assert set(parts) <= set(site["extra"]["readers"])
