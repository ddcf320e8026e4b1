"""Folders that a run writes: nobody else reads the operator's part, and no checkout takes any of it."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from stream.commands import execute
from stream.ledger.folder import OperatorFolder
from stream.ledger.sqlite import SqliteLedger


@pytest.fixture(params=[0o000, 0o077], ids=["umask 000", "umask 077"])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def rows(path: Path) -> Path:
    """Sixty cases of two events."""
    lines = ["case,act,time"]
    for number in range(60):
        lines += [
            f"c{number},in,2025-01-01T{number % 24:02}:00:00Z",
            f"c{number},out,2025-01-02T{number % 24:02}:00:00Z",
        ]
    path.write_text("\n".join(lines) + "\n")
    return path


def replayed(folder: Path) -> Path:
    log = rows(folder / "log.csv")
    columns = "case=case,activity=act,time=time"
    table = 'window = { new_cases = 20 }\nmechanism = { kind = "identity" }'
    (folder / "c.toml").write_text(f'[process]\nname = "ward"\n[[publication]]\nname = "p"\n{table}\n')
    command = ["replay", str(log), "--columns", columns, "-c", str(folder / "c.toml")]
    assert execute([*command, "-o", str(folder / "first")]) == 0
    return folder / "first"


def modes(folder: Path) -> dict[str, int]:
    """The mode of each file and folder below, by path."""
    return {str(path.relative_to(folder)): stat.S_IMODE(path.stat().st_mode) for path in sorted(folder.rglob("*"))}


@pytest.mark.usefixtures("umask")
def test_only_the_owner_reads_the_operators_files(tmp_path: Path) -> None:
    """The umask does not matter: folders have 0700, files 0600."""
    operator = replayed(tmp_path) / "operator"
    found = modes(operator)
    assert {"ledger.sqlite", "checkpoints", "key", "lock"} <= set(found)
    assert any(name.startswith("checkpoints/") for name in found)
    assert any(name.endswith("audit.json") for name in found)
    expected = {name: 0o700 if (operator / name).is_dir() else 0o600 for name in found}
    assert found == expected
    assert stat.S_IMODE(operator.stat().st_mode) == 0o700


@pytest.mark.usefixtures("umask")
def test_the_files_next_to_the_open_ledger_are_private_too(tmp_path: Path) -> None:
    """SQLite makes -wal and -shm while it is open."""
    ledger = SqliteLedger(tmp_path / "ledger.sqlite", "ward")
    found = modes(tmp_path)
    ledger.close()
    assert set(found) == {"ledger.sqlite", "ledger.sqlite-shm", "ledger.sqlite-wal"}
    assert set(found.values()) == {0o600}


def test_folders_of_earlier_versions_are_closed_at_the_next_start(tmp_path: Path) -> None:
    """They were as open as the umask let them be."""
    operator = replayed(tmp_path) / "operator"
    for path in operator.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    OperatorFolder(tmp_path / "first").close()
    found = modes(operator)
    assert found.pop("key") == 0o644  # a host may mount it for a group
    assert found == {name: 0o700 if (operator / name).is_dir() else 0o600 for name in found}


def ignored(repository: Path, *paths: Path) -> bool:
    """Whether git takes none of the paths into the repository."""
    subprocess.run(["git", "-C", str(repository), "add", "-A"], check=True)
    shown = subprocess.run(["git", "-C", str(repository), "ls-files"], check=True, capture_output=True, text=True)
    return not any(str(path.relative_to(repository)) in shown.stdout for path in paths)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    return tmp_path


def test_git_takes_nothing_of_a_replay(repository: Path) -> None:
    """`first/operator` holds the key of the pseudonyms. A second run into the folder works as before."""
    output = replayed(repository)
    assert (output / ".gitignore").read_text() == "*\n"
    assert ignored(repository, output)
    OperatorFolder(output).close()


def test_git_takes_no_key(repository: Path) -> None:
    """In a folder of its own all is ignored; among other files the key alone, and a .gitignore that exists stays."""
    (repository / "own").mkdir()
    assert execute(["key", "create", str(repository / "own" / "key")]) == 0
    assert (repository / "own" / ".gitignore").read_text() == "*\n"
    (repository / "notes.txt").write_text("mine")
    assert execute(["key", "create", str(repository / "secret.key")]) == 0
    assert (repository / ".gitignore").read_text() == "/secret.key\n"
    assert ignored(repository, repository / "own", repository / "secret.key")
    assert not ignored(repository, repository / "notes.txt")
    assert execute(["key", "create", str(repository / "other.key")]) == 0
    assert (repository / ".gitignore").read_text() == "/secret.key\n"


def test_git_takes_no_proposal(repository: Path) -> None:
    """A proposed configuration names columns of the source."""
    (repository / "out").mkdir()
    columns = "case=case,activity=act,time=time"
    command = ["advise", str(rows(repository / "log.csv")), "--columns", columns, "--K", "2"]
    assert execute([*command, "-o", str(repository / "out" / "proposed.toml")]) in (0, 3)
    if (repository / "out" / "proposed.toml").exists():
        assert (repository / "out" / ".gitignore").read_text() == "*\n"
