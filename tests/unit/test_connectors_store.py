"""Releases in a store: at once or not at all, and never twice."""

from __future__ import annotations

import errno
import hashlib
import json
from pathlib import Path

import fsspec
import pytest

from connectors import files
from connectors.files import FileOps
from connectors.store.open import open_store
from models.errors import InputError, RefusedError


@pytest.fixture(params=["folder", "object store"])
def store(request, tmp_path):
    """A local store and one in fsspec's memory, with the same promises."""
    if request.param == "folder":
        return open_store(tmp_path / "out")
    fsspec.filesystem("memory").store.clear()
    return open_store("memory://bucket/prefix", private=tmp_path / "private")


def text(body: str):
    """A writer of one text file."""

    def write(path: Path) -> None:
        path.write_text(body)

    return write


def prepare(store, candidate: int, body: str = "events"):
    """A release of one file."""
    return store.prepare("research", candidate, {"log.csv": text(body)}, {"version": 1, "sequence": candidate})


def test_a_release_is_invisible_until_it_is_committed(store):
    """prepare shows nothing; commit shows everything, with digests that hold."""
    prepared = prepare(store, 1)
    assert (store.releases("research"), store.exists("research", 1)) == ([], False)
    assert len(store.leftovers("research")) == 1
    where = store.commit(prepared, 1)
    assert where.endswith("public/research/release-000001")
    assert (store.releases("research"), store.leftovers("research")) == ([1], [])
    manifest = store.read_manifest("research", 1)
    assert manifest["files"] == [{"path": "log.csv", "sha256": hashlib.sha256(b"events").hexdigest(), "bytes": 6}]
    assert store.manifest_sha256("research", 1) == prepared.manifest_sha256


def test_a_number_is_never_published_twice(store):
    """The second commit of a number is refused; the first one's bytes stay."""
    store.commit(prepare(store, 1, "first"), 1)
    second = prepare(store, 1, "second")
    with pytest.raises(RefusedError, match="exists already"):
        store.commit(second, 1)
    assert store.read_manifest("research", 1)["files"][0]["sha256"] == hashlib.sha256(b"first").hexdigest()
    kept = store.quarantine(second)
    assert (kept / "log.csv").read_text() == "second"
    assert store.leftovers("research") == []


def test_a_commit_that_a_crash_cut_off_is_resumed(store):
    """With the sealed digest the bytes are published; altered or missing bytes are not."""
    prepared, altered = prepare(store, 1), prepare(store, 2)
    (altered.tmp / "log.csv").write_text("others")
    assert store.resume("research", 1, prepared.name, prepared.manifest_sha256)
    assert not store.resume("research", 2, altered.name, altered.manifest_sha256)
    assert not store.resume("research", 2, altered.name, "0" * 64)
    assert not store.resume("research", 3, ".000003." + "0" * 32 + ".tmp", prepared.manifest_sha256)
    assert store.releases("research") == [1]


def test_leftovers_are_quarantined(store, tmp_path):
    """A file that no seal names leaves the public tree and is kept."""
    prepare(store, 1)
    store.clear_leftovers("research")
    assert store.leftovers("research") == []
    assert [path.read_text() for path in tmp_path.rglob("quarantine/research/*/log.csv")] == ["events"]


def test_free_space_is_reported(store):
    """The disk check of the pipeline has a number to look at."""
    assert store.free_bytes() > 0


@pytest.mark.parametrize("fallback", [False, True])
def test_the_rename_refuses_even_an_empty_directory(tmp_path, monkeypatch, fallback):
    """os.rename would replace it; renameat2 does not, nor does the fallback."""
    if fallback:
        monkeypatch.setattr(files, "_renameat2", lambda source, target: False)
    store = open_store(tmp_path)
    (tmp_path / "public" / "research" / "release-000001").mkdir(parents=True)
    prepared = prepare(store, 1)
    with pytest.raises(RefusedError):
        store.commit(prepared, 1)
    assert prepared.tmp.exists()
    assert store.commit(prepared, 2)
    assert sorted(path.name for path in (tmp_path / "public" / "research").iterdir()) == [
        "release-000001",
        "release-000002",
    ]


def test_a_lock_that_a_crash_left_is_named(tmp_path, monkeypatch):
    """Without renameat2 the lock decides; what refuses is the lock, not a release that is not there."""
    monkeypatch.setattr(files, "_renameat2", lambda source, target: False)
    store = open_store(tmp_path)
    prepared = prepare(store, 1)
    lock = prepared.tmp.with_name(".release-000001.lock")
    lock.touch()
    with pytest.raises(RefusedError, match=r"release-000001\.lock: .* then remove the file"):
        store.commit(prepared, 1)
    lock.unlink()
    assert store.commit(prepared, 1)


class FailingOps(FileOps):
    """Fails at the n-th call of one step; counts the calls."""

    def __init__(self, step: str, at: int) -> None:
        self.step, self.left = step, at

    def _reach(self, step: str) -> None:
        if step == self.step:
            self.left -= 1
            if self.left == 0:
                raise OSError(errno.ENOSPC, "No space left on device")

    def write(self, path, writer):
        super().write(path, writer)
        self._reach("write")

    def fsync(self, path):
        self._reach("fsync")
        super().fsync(path)

    def rename_noreplace(self, source, target):
        self._reach("rename")
        super().rename_noreplace(source, target)


@pytest.mark.parametrize(("step", "at"), [("write", 1), ("write", 2), *(("fsync", n) for n in range(1, 6))])
def test_a_full_disk_publishes_nothing_and_leaves_nothing(tmp_path, step, at):
    """Whichever file or fsync fails, no release and no temporary folder remains."""
    ops = FailingOps(step, at)
    store = open_store(tmp_path, ops)
    with pytest.raises(OSError, match="No space left"):
        prepare(store, 1)
    assert ops.left == 0
    assert (store.releases("research"), store.leftovers("research")) == ([], [])


def test_a_rename_that_fails_keeps_the_sealed_bytes(tmp_path):
    """After the seal nothing may be lost: the temporary folder can still be resumed."""
    ops = FailingOps("rename", 1)
    store = open_store(tmp_path, ops)
    prepared = prepare(store, 1)
    with pytest.raises(OSError, match="No space left"):
        store.commit(prepared, 1)
    assert store.releases("research") == []
    assert store.resume("research", 1, prepared.name, prepared.manifest_sha256)


def test_every_file_and_folder_is_made_durable_in_order(tmp_path):
    """Files, then the manifest, then the temporary folder, then its parent; after the rename the parent again."""
    seen = []

    class Watching(FileOps):
        def fsync(self, path):
            seen.append(path.name)
            super().fsync(path)

        def rename_noreplace(self, source, target):
            seen.append("rename")
            super().rename_noreplace(source, target)

    store = open_store(tmp_path, Watching())
    prepared = prepare(store, 1)
    store.commit(prepared, 1)
    assert seen[-6:] == ["log.csv", "manifest.json", prepared.name, "research", "rename", "research"]


def test_a_manifest_is_the_last_object(tmp_path):
    """An upload that dies before the manifest has published nothing."""
    fsspec.filesystem("memory").store.clear()
    store = open_store("memory://bucket", private=tmp_path)
    prepared = prepare(store, 1)
    real = store._fs.pipe_file

    class Dying:
        def __getattr__(self, name):
            return getattr(fsspec.filesystem("memory"), name)

        def pipe_file(self, path, *rest, **options):
            if path.endswith("manifest.json"):
                raise ConnectionError("gone")
            return real(path, *rest, **options)

    living, store._fs = store._fs, Dying()
    with pytest.raises(ConnectionError):
        store.commit(prepared, 1)
    store._fs = living
    assert living.exists("/bucket/public/research/release-000001/log.csv")
    assert store.releases("research") == []
    assert store.resume("research", 1, prepared.name, prepared.manifest_sha256)
    assert store.releases("research") == [1]


def test_bad_places_and_names_are_refused(tmp_path):
    """A file in the way, an unknown kind of URL, and names that leave the folder."""
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot hold releases"):
        open_store(tmp_path / "file")
    with pytest.raises(InputError, match="cannot be opened"):
        open_store("nosuchkind://bucket")
    for name in ("../x", "a/b", "", ".hidden"):
        with pytest.raises(InputError, match="letters"):
            open_store(tmp_path / "o").releases(name)


@pytest.mark.parametrize("body", [b"{", b"[]", b"\xff"])
def test_a_damaged_manifest_is_named(tmp_path, body):
    """No JSON, no object, no UTF-8: InputError with the place."""
    store = open_store(tmp_path)
    where = Path(store.commit(prepare(store, 1), 1))
    (where / "manifest.json").write_bytes(body)
    with pytest.raises(InputError, match="release-000001"):
        store.read_manifest("research", 1)
    with pytest.raises(InputError, match="cannot be read"):
        store.read_manifest("research", 2)


def test_the_manifest_takes_numpy_and_refuses_the_rest(tmp_path):
    """Plain values are written; an object without JSON form is a programming error, and nothing stays."""
    import numpy as np

    store = open_store(tmp_path)
    store.commit(store.prepare("p", 1, {}, {"n": np.int64(3)}), 1)
    assert json.loads((tmp_path / "public" / "p" / "release-000001" / "manifest.json").read_text())["n"] == 3
    with pytest.raises(TypeError):
        store.prepare("p", 2, {}, {"n": object()})
    assert store.leftovers("p") == []
