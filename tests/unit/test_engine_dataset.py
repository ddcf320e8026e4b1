"""Targets of a data set: nothing of others is ever removed, neither on an object store nor on disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from models.errors import InputError, RefusedError
from stream.engine import dataset
from stream.engine.source import url_of
from stream.engine.work import workspace

NAMES = ["part-00000.parquet", "manifest.json"]


@pytest.fixture
def store() -> Iterator[Any]:
    """An empty object store in memory."""
    system = fsspec.filesystem("memory")
    system.rm("/", recursive=True)
    yield system
    system.rm("/", recursive=True)


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """A folder with what is uploaded."""
    folder = tmp_path / "release"
    folder.mkdir()
    for name in NAMES:
        (folder / name).write_bytes(name.encode())
    return folder


@pytest.mark.parametrize("target", ["memory://bucket", "memory://bucket/events", "memory://bucket/events/"])
@pytest.mark.parametrize("name", ["events/y=1/a.parquet", "events/part-00000.parquet", "events/notes.txt"])
def test_what_others_wrote_is_refused_and_stays(target: str, name: str, store: Any, release: Path) -> None:
    """Also a part by its name: without our marker it is somebody else's."""
    store.pipe_file(f"/bucket/{name}", b"precious")
    with pytest.raises(InputError, match="name a"):
        dataset.refuse_existing(target)
    with pytest.raises(InputError, match="name a"):
        dataset._upload(release, target, NAMES)
    assert store.find("/bucket") == [f"/bucket/{name}"]
    assert store.cat_file(f"/bucket/{name}") == b"precious"


def test_a_neighbour_of_like_name_stays(store: Any, release: Path) -> None:
    """`out` is not `outer`."""
    store.pipe_file("/bucket/outer/part-00000.parquet", b"precious")
    dataset.refuse_existing("memory://bucket/out")
    dataset._upload(release, "memory://bucket/out", NAMES)
    assert store.find("/bucket") == [
        "/bucket/out/manifest.json", "/bucket/out/part-00000.parquet", "/bucket/outer/part-00000.parquet",
    ]  # fmt: skip


def test_only_what_a_killed_upload_left_is_removed(store: Any, release: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is written over by the next run; with a file of somebody else among it, nothing is touched."""
    whole = store.put_file

    def dies(here: str, there: str, **more: Any) -> None:
        if there.endswith("manifest.json"):
            raise KeyboardInterrupt
        whole(here, there, **more)

    many = ["part-00000.parquet", "part-00001.parquet", "manifest.json"]
    (release / "part-00001.parquet").touch()
    with monkeypatch.context() as patch:
        patch.setattr(store, "put_file", dies)
        with pytest.raises(KeyboardInterrupt):
            dataset._upload(release, "memory://bucket/out", many)
    store.pipe_file("/bucket/out/part-00007.txt", b"precious")
    before = store.find("/bucket")
    with pytest.raises(InputError, match="not veilstream's"):
        dataset.refuse_existing("memory://bucket/out")
    with pytest.raises(InputError, match="not veilstream's"):
        dataset._upload(release, "memory://bucket/out", NAMES)
    assert store.find("/bucket") == before
    store.rm_file("/bucket/out/part-00007.txt")
    dataset.refuse_existing("memory://bucket/out")
    dataset._upload(release, "memory://bucket/out", NAMES)
    assert store.find("/bucket") == ["/bucket/out/manifest.json", "/bucket/out/part-00000.parquet"]


def test_an_empty_bucket_may_be_written_and_no_release_is_written_over(store: Any, release: Path) -> None:
    """The second upload is refused, also if nobody has looked before."""
    dataset._upload(release, "memory://bucket", NAMES)
    with pytest.raises(InputError, match="a release already"):
        dataset._upload(release, "memory://bucket", NAMES)
    assert store.find("/bucket") == ["/bucket/manifest.json", "/bucket/part-00000.parquet"]


def test_of_two_runs_on_two_hosts_one_has_the_manifest(
    store: Any, release: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that another run wrote in the meantime are found before the manifest is written."""
    whole, at_once = store.put_file, [True]

    def other_first(here: str, there: str, **more: Any) -> None:
        whole(here, there, **more)
        if at_once.pop() if at_once else False:
            dataset._upload(release, "memory://bucket/out", NAMES)

    monkeypatch.setattr(store, "put_file", other_first)
    with pytest.raises(RefusedError, match="another run"):
        dataset._upload(release, "memory://bucket/out", NAMES)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("memory://bucket/log", "memory://bucket/log"),
        ("memory://bucket/log", "memory://bucket/log/out"),
        ("memory://bucket/log/a.parquet", "memory://bucket/log"),
        ("memory://bucket/log/*.parquet", "memory://bucket/log"),
        ("memory://bucket/log/y=*/a.parquet", "memory://bucket/log"),
        ("memory://bucket/*/*.parquet", "memory://bucket/out"),
        ("memory://bucket/**/*.parquet", "memory://bucket/a/out"),
        ("HERE/log", "HERE/log/out"),
        ("HERE/log", "HERE/link/out"),
        ("HERE/log", "file://HERE/log/out"),
        ("HERE/*/*.parquet", "HERE/out"),
    ],
)
def test_what_is_read_and_what_is_written_do_not_overlap(source: str, target: str, store: Any, tmp_path: Path) -> None:
    """A release in the folder of the log would be read as the log by the next run."""
    (tmp_path / "log").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "log")
    source, target = (text.replace("HERE", str(tmp_path)) for text in (source, target))
    with pytest.raises(InputError, match="overlaps"):
        dataset.refuse_existing(target, source)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("memory://bucket/log", "memory://bucket/logs"),
        ("memory://bucket/logs", "memory://bucket/log"),
        ("memory://bucket/log/*.parquet", "memory://bucket/log/out"),
        ("memory://bucket/log", "HERE/bucket/log"),
        ("HERE/log.csv", "HERE/log"),
        ("HERE/log/*.parquet", "HERE/out"),
    ],
)
def test_neighbours_do_not_overlap(source: str, target: str, store: Any, tmp_path: Path) -> None:
    """Names that begin alike, and what a pattern does not find."""
    source, target = (text.replace("HERE", str(tmp_path)) for text in (source, target))
    dataset.refuse_existing(target, source)


def test_a_link_to_nothing_has_the_name_already(tmp_path: Path) -> None:
    """It is not followed and not written over."""
    (tmp_path / "out").symlink_to(tmp_path / "nowhere")
    with pytest.raises(InputError, match="exists already"):
        dataset.refuse_existing(str(tmp_path / "out"))


@pytest.mark.parametrize("name", [".out.backup.tmp", ".out.abcdefgh.tmp", ".out.more.abcdefgh.tmp"])
def test_folders_of_others_stay(name: str, tmp_path: Path) -> None:
    """Of the user's own, and of a run for another name."""
    (tmp_path / name).mkdir()
    (tmp_path / name / "precious").touch()
    with workspace(str(tmp_path / "out")):
        assert (tmp_path / name / "precious").exists()
    assert sorted(os.listdir(tmp_path)) == [name]


def test_a_run_for_a_longer_name_keeps_its_folder(tmp_path: Path) -> None:
    """`out.more` is at work while `out` begins."""
    with workspace(str(tmp_path / "out.more")) as work:
        (work / "mine").touch()
        with workspace(str(tmp_path / "out")):
            assert (work / "mine").exists()


def test_a_lock_of_others_stays(tmp_path: Path) -> None:
    """A file with content is not a lock file of veilstream."""
    (tmp_path / ".out.lock").write_text("precious")
    with pytest.raises(InputError, match="not a lock file of veilstream"), workspace(str(tmp_path / "out")):
        pass
    assert (tmp_path / ".out.lock").read_text() == "precious"


@pytest.mark.parametrize("text", ["file:///data/log", "s3://bucket/log", "/data/log", "log"])
def test_a_url_that_was_a_path_is_one_again(text: str) -> None:
    """A path takes a slash away: of a file's URL it is the one that the path begins with."""
    assert url_of(Path(text)) == url_of(text) == text
