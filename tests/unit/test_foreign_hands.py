"""Files and folders that other users of the host can write: refused, or not used, each with one line."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from models.errors import InputError
from stream.commands import execute
from stream.config.sources import load
from stream.ledger.folder import OperatorFolder, create_key, read_key
from tests.conftest import ROOT

CONFIG = """
[process]
name = "p"
[[publication]]
name = "research"
window = { new_cases = 2 }
mechanism = { kind = "identity" }
"""


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    """The one line on stderr."""
    (line,) = capsys.readouterr().err.strip().splitlines()
    return line


@pytest.fixture
def replay(tmp_path: Path) -> list[str]:
    rows = [f"c{case},a,2025-01-01T00:00:0{case}Z" for case in range(4)]
    log = "case:concept:name,concept:name,time:timestamp\n" + "\n".join(rows) + "\n"
    (tmp_path / "log.csv").write_text(log)
    (tmp_path / "c.toml").write_text(CONFIG)
    return ["replay", str(tmp_path / "log.csv"), "-c", str(tmp_path / "c.toml"), "-o", str(tmp_path / "out")]


def test_a_key_that_everybody_can_write_is_refused(
    tmp_path: Path, replay: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The key in the operator's folder, and one that the environment names. Others may read it: secrets are mounted
    like that."""
    assert execute(replay) == 0
    capsys.readouterr()
    key = tmp_path / "out" / "operator" / "key"
    key.chmod(0o644)
    read_key(key)
    key.chmod(0o666)
    assert execute(replay) == 2
    assert "every user can write it" in one_line(capsys)
    create_key(tmp_path / "given")
    (tmp_path / "given").chmod(0o602)
    monkeypatch.setenv("VEILSTREAM_KEY_FILE", str(tmp_path / "given"))
    with pytest.raises(InputError, match="every user can write it"):
        load(tmp_path / "c.toml")


@pytest.mark.parametrize("part", ["operator", "public", "operator/checkpoints", "public/research", "operator/research"])
def test_a_part_of_the_folder_that_leads_elsewhere_is_refused(
    tmp_path: Path, replay: list[str], part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is written where a symbolic link leads to; the folder as a whole may be a link."""
    (tmp_path / "real").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "real")
    assert execute(replay) == 0
    capsys.readouterr()
    inside, elsewhere = tmp_path / "real" / part, tmp_path / "elsewhere"
    inside.rename(elsewhere)
    inside.symlink_to(elsewhere)
    before = sorted(elsewhere.rglob("*"))
    assert execute(replay) == 2
    assert "is a symbolic link out of" in one_line(capsys)
    assert sorted(elsewhere.rglob("*")) == before


def test_a_link_within_the_folder_and_a_linked_key_are_taken(tmp_path: Path) -> None:
    """Neither leads anything of ours to where others write."""
    (tmp_path / "out" / "public").mkdir(parents=True)
    (tmp_path / "out" / "operator").mkdir()
    (tmp_path / "out" / "operator" / "ledger.sqlite").touch()
    (tmp_path / "out" / "public" / "latest").symlink_to("../public")
    create_key(tmp_path / "mounted")
    (tmp_path / "out" / "operator" / "key").symlink_to(tmp_path / "mounted")
    folder = OperatorFolder(tmp_path / "out")
    assert folder.key() == read_key(tmp_path / "mounted")
    folder.close()


KERNEL = """
from models.compiled import kernel

@kernel
def plus(x):
    return x + 1

print(plus(1))
"""


class Planted:
    """Runs when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.marker),)


@pytest.mark.parametrize(
    ("mode", "runs"), [pytest.param(0o755, True, marks=pytest.mark.slow), (0o757, False)], ids=["own", "of others"]
)
def test_compiled_code_is_not_loaded_from_where_others_write(tmp_path: Path, mode: int, runs: bool) -> None:
    """A cache is code: what was planted in one runs, but in a folder that every user can write it is left alone, and
    nothing is kept there."""
    caches, marker = tmp_path / "caches", tmp_path / "marker"
    caches.mkdir()
    (tmp_path / "module.py").write_text(KERNEL)
    command = [sys.executable, str(tmp_path / "module.py")]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(caches), "PYTHONPATH": str(ROOT)}

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    assert run().stdout == "2\n"
    (index,) = caches.rglob("module.plus*.nbi")
    with index.open("rb") as file:
        version = pickle.load(file)
    index.write_bytes(pickle.dumps(version) + pickle.dumps(Planted(marker)))
    caches.chmod(mode)
    done = run()
    assert marker.exists() == runs
    if not runs:
        assert (done.returncode, done.stdout) == (0, "2\n")
        (line,) = done.stderr.splitlines()
        assert "other users can write here" in line
