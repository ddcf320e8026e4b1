"""A backup of a folder in use, or of one that a crash left, restores to something that continues."""

from __future__ import annotations

import io
import shutil
import stat
import tarfile
import threading
from pathlib import Path
from typing import Any

import pytest

from stream.commands import execute as veilstream
from stream.config import sources
from stream.ledger.change_log import logs
from stream.ledger.checkpoints import Checkpoints
from stream.ledger.folder import read_key
from stream.ledger.sqlite import open_readonly
from stream.operator import backup as backups
from stream.testing import verifier
from stream.testing.faults import Aborted, abort, at_nth
from stream.values.pseudonym import Pseudonyms
from tests.replay.crashing import configuration, replay


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backups, "PATIENCE", 0.2)


def restored(world: Path) -> None:
    """The operator's folder is lost; the backup takes its place, and the replay continues to its end."""
    shutil.rmtree(world / "out" / "operator")
    assert veilstream(["restore", str(world / "b.tar.gz"), str(world / "out")]) == 0
    replay(world)
    assert verifier.verify(world / "out") == []


def test_a_release_that_was_sealed_and_has_no_number_yet_is_in_the_backup(world: Path) -> None:
    """Its files are still in their temporary folder: without them nothing could be audited against it."""
    with pytest.raises(Aborted):
        replay(world, at=at_nth("sealed", 2, abort))
    assert veilstream(["backup", str(world / "out"), str(world / "b.tar.gz"), "--with-key"]) == 0
    restored(world)


def test_changes_after_a_checkpoint_are_in_the_backup(world: Path) -> None:
    """The state is read back as it was, with its newest change."""
    with pytest.raises(Aborted):
        replay(world, at=at_nth("checkpointed", 4, abort))
    folder = world / "out" / "operator" / "checkpoints"
    before = Checkpoints(folder).load()
    assert logs(folder)
    assert veilstream(["backup", str(world / "out"), str(world / "b.tar.gz"), "--with-key"]) == 0
    shutil.rmtree(world / "out" / "operator")
    assert veilstream(["restore", str(world / "b.tar.gz"), str(world / "out")]) == 0
    assert Checkpoints(folder).load() == before
    replay(world)
    assert verifier.verify(world / "out") == []


def test_a_release_that_gets_its_number_meanwhile_is_in_the_backup_once(world: Path) -> None:
    """The daemon is just renaming: the backup waits for it."""
    backups.PATIENCE = 600.0  # a busy machine may take longer than five seconds; the fixture gives it back
    with pytest.raises(Aborted):
        replay(world, at=at_nth("sealed", 2, abort))
    late = threading.Timer(0.3, lambda: replay(world))
    late.start()
    assert veilstream(["backup", str(world / "out"), str(world / "b.tar.gz"), "--with-key"]) == 0
    late.join()
    with tarfile.open(world / "b.tar.gz") as tar:
        assert [name for name in tar.getnames() if ".tmp" in name] == []


def test_a_checkpoint_in_a_backup_is_never_newer_than_its_ledger(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon releases and saves its state while the backup is made: what is taken of both fits together."""
    with pytest.raises(Aborted):
        replay(world, at=at_nth("checkpointed", 2, abort))
    ledger = backups._take_ledger

    def meanwhile(tar: tarfile.TarFile, path: Path) -> list[Any]:
        found = ledger(tar, path)
        replay(world)
        return found

    monkeypatch.setattr(backups, "_take_ledger", meanwhile)
    assert veilstream(["backup", str(world / "out"), str(world / "b.tar.gz"), "--with-key"]) == 0
    shutil.rmtree(world / "out" / "public")
    shutil.rmtree(world / "out" / "operator")
    assert veilstream(["restore", str(world / "b.tar.gz"), str(world / "out")]) == 0
    loaded = sources.load(world / "config3.toml")
    from stream.run.service import ReleaseService

    with pytest.raises(Exception, match="gone from the store"):  # and not: the ledger is older than the state
        ReleaseService(loaded, world / "out")


def test_it_is_private_from_its_first_byte(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The umask does not matter: the file holds variants, and with --with-key the key."""
    replay(world)
    seen = []
    real = backups._take_ledger

    def watching(tar: tarfile.TarFile, path: Path) -> list[Any]:
        seen.extend(stat.S_IMODE(one.stat().st_mode) for one in world.glob(".b.tar.gz*"))
        return real(tar, path)

    monkeypatch.setattr(backups, "_take_ledger", watching)
    assert veilstream(["backup", str(world / "out"), str(world / "b.tar.gz")]) == 0
    assert seen == [0o600]
    assert stat.S_IMODE((world / "b.tar.gz").stat().st_mode) == 0o600


@pytest.mark.parametrize("with_key", [True, False])
def test_restore_says_whether_the_key_is_missing(
    world: Path, capsys: pytest.CaptureFixture[str], with_key: bool
) -> None:
    """The folder looked restored, and the next start refused it."""
    replay(world)
    options = ["--with-key"] if with_key else []
    assert veilstream(["backup", str(world / "out"), str(world / "b.tar.gz"), *options]) == 0
    shutil.rmtree(world / "out" / "operator")
    capsys.readouterr()
    assert veilstream(["restore", str(world / "b.tar.gz"), str(world / "out")]) == 0
    printed = capsys.readouterr().out
    assert printed.count("the pseudonym key is not in the backup") == (0 if with_key else 1)
    assert (str(world / "out" / "operator" / "key") in printed) is not with_key


def test_a_backup_of_a_folder_without_a_key_does_not_claim_one(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The key was given from outside: whoever asked for it in the backup would look for it there in vain."""
    replay(world)
    (world / "out" / "operator" / "key").unlink()
    capsys.readouterr()
    assert veilstream(["backup", str(world / "out"), str(world / "b.tar.gz"), "--with-key"]) == 0
    assert "without the key" in capsys.readouterr().out


def test_a_header_with_an_absurd_number_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A damaged byte can make a length of it that no machine can count to."""
    extended = tarfile.TarInfo("././@PaxHeader")
    extended.type = tarfile.XHDTYPE
    body = b"999999999999999999999999 path=x\n" * 2
    extended.size = len(body)
    with tarfile.open(tmp_path / "b.tar.gz", "w:gz") as tar:
        tar.addfile(extended, io.BytesIO(body))
        tar.addfile(tarfile.TarInfo("x"), io.BytesIO(b""))
    assert veilstream(["restore", str(tmp_path / "b.tar.gz"), str(tmp_path / "new")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize("about", [b"{", b"[]", b'{"version": "x"}', b"\xff"])
def test_what_is_no_backup_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], about: bytes) -> None:
    """Another archive, one damaged in the middle, none at all: one line, exit 2, nothing unpacked."""
    (tmp_path / backups.ABOUT).write_bytes(about)
    with tarfile.open(tmp_path / "other.tar.gz", "w:gz") as tar:
        tar.add(tmp_path / backups.ABOUT, backups.ABOUT)
    damaged = bytearray((tmp_path / "other.tar.gz").read_bytes())
    damaged[len(damaged) // 2] ^= 0xFF
    (tmp_path / "damaged.tar.gz").write_bytes(damaged)
    for name in ("other.tar.gz", "damaged.tar.gz", backups.ABOUT, "none.tar.gz"):
        assert veilstream(["restore", str(tmp_path / name), str(tmp_path / "new")]) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1
        assert not (tmp_path / "new" / "operator").exists()


def test_what_cannot_be_backed_up_leaves_no_file(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A place that cannot be written, exit 2; a ledger that cannot be read, exit 4: one line, and nothing half made."""
    replay(world)
    assert veilstream(["backup", str(world / "out"), str(world / "nowhere" / "b.tar.gz")]) == 2
    for path in (world / "out" / "operator").glob("ledger.sqlite*"):
        path.write_bytes(b"no database")
    capsys.readouterr()
    assert veilstream(["backup", str(world / "out"), str(world / "b.tar.gz")]) == 4
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert list(world.glob("*b.tar.gz*")) == []


def test_a_backup_of_a_stopped_process_leaves_nothing_in_its_folder(world: Path) -> None:
    """SQLite would leave a log and an index of whoever makes the backup: a daemon of another user could not start."""
    replay(world)
    operator = world / "out" / "operator"
    before = {path: path.stat().st_mtime_ns for path in operator.rglob("*")}
    assert veilstream(["backup", str(world / "out"), str(world / "b.tar.gz")]) == 0
    assert {path: path.stat().st_mtime_ns for path in operator.rglob("*")} == before
    with tarfile.open(world / "b.tar.gz") as tar:
        assert "ledger.sqlite" in tar.getnames()


def test_a_backup_from_before_an_erasure_brings_the_case_back(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Old backups hold the erased case, as docs/limitations.md states; a backup made afterwards does not."""
    with pytest.raises(Aborted):
        replay(world, at=at_nth("checkpointed", 2, abort))
    for name, expected in (("before", True), ("after", False)):
        assert veilstream(["backup", str(world / "out"), str(world / f"{name}.tar.gz"), "--with-key"]) == 0
        with tarfile.open(world / f"{name}.tar.gz") as tar:
            tar.extractall(world / name, filter="data")
        pseudonym = Pseudonyms(read_key(world / name / "key")).case("case3").encode()
        assert any(pseudonym in path.read_bytes() for path in (world / name).rglob("fold.checkpoint*")) == expected
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"case3\n")))
        assert veilstream(["erase", "-c", str(world / "config3.toml"), "-o", str(world / "out")]) == 0


@pytest.mark.parametrize(("reached", "charges"), [("charged", 2), ("sealed", 1)])
def test_a_restored_charge_pays_for_nothing_more(world: Path, reached: str, charges: int) -> None:
    """The backup is made between charge and seal; the release goes out, then both folders are lost. Draws
    after the restore are charged again. (A seal in the backup has its bytes there, or burns its number.)"""
    configuration(world, 1)
    with pytest.raises(Aborted):
        replay(world, publications=1, at=at_nth(reached, 1, abort))
    assert veilstream(["backup", str(world / "out"), str(world / "b.tar.gz"), "--with-key"]) == 0
    if reached == "charged":
        replay(world, publications=1)
        shutil.rmtree(world / "out" / "public")
    shutil.rmtree(world / "out" / "operator")
    assert veilstream(["restore", str(world / "b.tar.gz"), str(world / "out")]) == 0
    with pytest.raises(Aborted):
        replay(world, publications=1, at=at_nth("published", 1, abort))
    entries = open_readonly(world / "out" / "operator" / "ledger.sqlite")
    cut = next(entry.cut for entry in entries if entry.kind == "charge")
    assert sum(entry.kind == "charge" and entry.cut == cut for entry in entries) == charges
    replay(world, publications=1)
    assert verifier.verify(world / "out") == []
