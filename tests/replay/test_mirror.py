"""The mirror: a host that has nothing but the ledger continues as the one before would have."""

from __future__ import annotations

import io
import logging
import shutil
import stat
import uuid
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from connectors import read_log
from connectors.store.blobs import open_blobs
from models.errors import RefusedError
from models.eventlog import EventLog
from stream.config import sources
from stream.config.settings import Settings
from stream.fold.fold import Fold
from stream.ledger import release_record
from stream.ledger.envelope import Keys, unseal
from stream.ledger.mirror import RELEASE, Mirror
from stream.release.failpoints import Faults
from stream.run.log_source import log_facts, records_from_log
from stream.run.service import ProcessContext, ReleaseService, mirror_of
from stream.testing.faults import Aborted, abort, at_nth
from tests.replay.crashing import configuration, sample

PLAIN = ("influenza", "anonymity", "parquet-cpp-arrow")
"""Words in files of the mirror. They are long: three or four bytes occur in encrypted files by chance."""

KEY, STORAGE, OTHER = "aa" * 32, "bb" * 32, "cc" * 32


@pytest.fixture
def log(tmp_path: Path) -> EventLog:
    return read_log(sample(tmp_path))


def configured(folder: Path, store: str, storage_key: str | None = STORAGE, former: str | None = None) -> Settings:
    given = {"store": store, "key": KEY, "checkpoint_key": storage_key, "checkpoint_key_former": former}
    return sources.load(configuration(folder, 3), {name: value for name, value in given.items() if value is not None})


def decide(
    loaded: Settings, output: Path, log: EventLog, releases: int, at: Callable[[str], None] = lambda _name: None
) -> ReleaseService:
    """Decide cuts of the log, from its begin, until that many releases exist; the service, closed."""
    service = ReleaseService(loaded, output, faults=Faults(at), context=ProcessContext(mirrored=True))
    try:
        fold = Fold(service.rules(embedded=True), log_facts(log))
        records = records_from_log(
            log, pseudonym=service.pseudonyms.case, attributes=("ill",), key=service.pseudonyms.id
        )
        for position, record in records:
            for cut in fold.apply(position, record):
                service.decide(fold, cut)
                if len(service.pipelines["plain"].account.released_numbers) == releases:
                    return service
    finally:
        service.close()
    raise AssertionError("the log is too short for that many releases")


def another_host(first: Path, second: Path) -> Path:
    """A fresh disk with the ledger alone: what the ledger topic gives the daemon."""
    (second / "operator").mkdir(parents=True)
    shutil.copy(first / "operator" / "ledger.sqlite", second / "operator" / "ledger.sqlite")
    shutil.rmtree(first)
    return second


@pytest.mark.parametrize("kind", ["folder", "object store"])
def test_a_second_host_continues_the_series(tmp_path: Path, log: EventLog, kind: str) -> None:
    """First host gone after two releases: the second's third and fourth are audited against the same earlier ones,
    with the same figures as without the failover."""
    store = str(tmp_path / "store") if kind == "folder" else f"memory://{uuid.uuid4().hex}"
    loaded = configured(tmp_path, store)
    first = decide(loaded, tmp_path / "a", log, 2)
    second = decide(loaded, another_host(tmp_path / "a", tmp_path / "b"), log, 4)
    control = decide(configured(tmp_path, str(tmp_path / "control")), tmp_path / "c", log, 4)
    ours, theirs = second.pipelines["plain"].earlier, control.pipelines["plain"].earlier
    assert [one.sequence for one in ours] == [1, 2, 3, 4]
    assert [one.log.case_ids for one in ours] == [one.log.case_ids for one in theirs]
    assert [one.log.traces() for one in ours] == [one.log.traces() for one in theirs]
    for number in (1, 2, 3, 4):
        here, there = (service.pipelines["plain"].audit_of(number) for service in (second, control))
        assert all(here[section] == there[section] for section in ("anonymity", "series", "counts"))
    assert ours[0].audit == first.pipelines["plain"].earlier[0].audit


def test_without_the_mirror_the_second_host_refuses(tmp_path: Path, log: EventLog) -> None:
    """A release that cannot be audited is not released."""
    loaded = configured(tmp_path, str(tmp_path / "store"))
    decide(loaded, tmp_path / "a", log, 1)
    shutil.rmtree(tmp_path / "store" / "operator")
    message = r"release 1 of plain: .*neither in .* nor in the mirror .* restore a backup"
    with pytest.raises(RefusedError, match=message):
        ReleaseService(loaded, another_host(tmp_path / "a", tmp_path / "b"), context=ProcessContext(mirrored=True))


def test_the_mirror_is_sealed_closed_to_others_and_not_public(tmp_path: Path, log: EventLog) -> None:
    """Nothing of it is in `public`, and with a key no file shows a pseudonym, a value or an activity."""
    loaded = configured(tmp_path, str(tmp_path / "store"))
    service = decide(loaded, tmp_path / "a", log, 2)
    mirrored = [path for path in (tmp_path / "store" / "operator").rglob("*") if path.is_file()]
    public = {path.name for path in (tmp_path / "store" / "public").rglob("*") if path.is_file()}
    assert public == {"log.xes.gz", "manifest.json"}
    assert mirrored
    for path in mirrored:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        body = path.read_bytes()
        assert not any(word.encode() in body for word in (service.pseudonyms.case("case3"), *PLAIN))


def test_without_a_key_the_mirror_of_a_folder_is_plain(tmp_path: Path, log: EventLog) -> None:
    """Else the test above could not fail."""
    decide(configured(tmp_path, str(tmp_path / "store"), storage_key=None), tmp_path / "a", log, 2)
    mirrored = [path for path in (tmp_path / "store" / "operator").rglob("*") if path.is_file()]
    bodies = b"".join(path.read_bytes() for path in mirrored)
    assert all(word.encode() in bodies for word in PLAIN)


def test_an_object_store_gets_nothing_unencrypted(
    tmp_path: Path, log: EventLog, caplog: pytest.LogCaptureFixture
) -> None:
    """The readers of a bucket are unknown to the program: without a storage key there is no mirror, and the log states
    this.
    """
    loaded = configured(tmp_path, f"memory://{uuid.uuid4().hex}", storage_key=None)
    with caplog.at_level(logging.WARNING, "veilstream"):
        assert mirror_of(loaded, tmp_path / "a") is None
    assert "no mirror" in caplog.text
    assert mirror_of(configured(tmp_path, str(tmp_path / "a")), tmp_path / "a") is None


def _cases(loaded: Settings, folder: Path, scratch: Path) -> set[str]:
    """Every case in the variants files of a mirror."""
    cases: set[str] = set()
    for path in folder.rglob("*"):
        if path.is_file():
            files = msgspec.msgpack.decode(unseal(io.BytesIO(path.read_bytes()), loaded.storage_keys, RELEASE).body)
            scratch.write_bytes(files["variants.parquet"])
            cases.update(release_record.read(scratch).log.case_ids)
    return cases


def test_an_erased_case_leaves_the_mirror(tmp_path: Path, log: EventLog) -> None:
    """Also where the process died between its own files and the mirror's: the next start ends it."""
    loaded = configured(tmp_path, str(tmp_path / "store"))
    decide(loaded, tmp_path / "a", log, 2)
    mirror = tmp_path / "store" / "operator"
    old = {path: path.read_bytes() for path in mirror.rglob("*") if path.is_file()}
    service = ReleaseService(loaded, tmp_path / "a", context=ProcessContext(mirrored=True))
    erased = service.pseudonyms.case("case3")
    assert erased in _cases(loaded, mirror, tmp_path / "one")
    service.erase(Fold(service.rules(embedded=True), log_facts(log)), [erased])
    service.close()
    assert erased not in _cases(loaded, mirror, tmp_path / "one")
    for path, body in old.items():
        path.write_bytes(body)
    for mark in (tmp_path / "a").rglob("mirrored"):
        mark.unlink()  # the crash fell before it was written
    ReleaseService(loaded, tmp_path / "a", context=ProcessContext(mirrored=True)).close()
    assert erased not in _cases(loaded, mirror, tmp_path / "one")


def test_what_was_never_sealed_is_removed(tmp_path: Path, log: EventLog) -> None:
    """A candidate whose process died before the seal leaves nothing in the mirror once the next start is through."""
    loaded = configured(tmp_path, str(tmp_path / "store"))
    with pytest.raises(Aborted):
        decide(loaded, tmp_path / "a", log, 2, at=at_nth("files_written", 2, abort))
    folder = tmp_path / "store" / "operator" / "crash"
    counted = len(list(folder.rglob("*.*"))), len([path for path in folder.rglob("*") if path.is_file()])
    assert counted == (0, 2)
    service = ReleaseService(
        loaded, another_host(tmp_path / "a", tmp_path / "b"), context=ProcessContext(mirrored=True)
    )
    service.close()
    released = sum(len(one.account.released_numbers) for one in service.pipelines.values())
    assert len([path for path in folder.rglob("*") if path.is_file()]) == released == 1


def test_a_damaged_release_in_the_mirror_is_named(tmp_path: Path, log: EventLog) -> None:
    """Bytes that somebody changed do not become an audit."""
    loaded = configured(tmp_path, str(tmp_path / "store"))
    decide(loaded, tmp_path / "a", log, 1)
    for path in (tmp_path / "store" / "operator").rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(RefusedError, match=r"release 1 of \w+: its file in the mirror .* does not open"):
        ReleaseService(loaded, another_host(tmp_path / "a", tmp_path / "b"), context=ProcessContext(mirrored=True))


def test_another_storage_key_renews_the_mirror(tmp_path: Path, log: EventLog) -> None:
    """Rotation: with the new key and the former one the next start seals everything again; then the former goes."""
    store = str(tmp_path / "store")
    decide(configured(tmp_path, store), tmp_path / "a", log, 2)
    ReleaseService(
        configured(tmp_path, store, OTHER, former=STORAGE), tmp_path / "a", context=ProcessContext(mirrored=True)
    ).close()
    alone = configured(tmp_path, store, OTHER)
    service = ReleaseService(alone, another_host(tmp_path / "a", tmp_path / "b"), context=ProcessContext(mirrored=True))
    service.close()
    assert [record.sequence for record in service.pipelines["plain"].earlier] == [1, 2]


@pytest.fixture
def mirror(tmp_path: Path) -> Mirror:
    return Mirror(open_blobs(tmp_path / "store", "operator/p"), Keys(bytes.fromhex(STORAGE)))


def test_the_newest_state_comes_back_also_from_a_fresh_host(mirror: Mirror) -> None:
    """Two states are kept, regardless of the host that wrote them; a host that takes over overwrites the older one."""
    assert mirror.load() is None
    for position in (4, 9, 13):
        mirror.save(position, b"state %d" % position)
    other = Mirror(mirror.blobs, mirror.keys)
    assert other.load() == b"state 13"
    other.save(20, b"state 20")
    newest = mirror.blobs.get("checkpoints/0"), mirror.blobs.get("checkpoints/1")
    states = [None if one is None else one.count(b"veilstream-checkpoint") for one in newest]
    assert states == [1, 1]
    assert Mirror(mirror.blobs, mirror.keys).load() == b"state 20"


def test_a_damaged_state_falls_back_to_the_other_and_two_are_refused(mirror: Mirror) -> None:
    """The one before is a valid state too: the deltas behind it are read again."""
    mirror.save(1, b"one")
    mirror.save(2, b"two")
    mirror.blobs.put("checkpoints/1", b"garbage")
    assert mirror.load() == b"one"
    mirror.blobs.put("checkpoints/0", b"garbage")
    with pytest.raises(RefusedError, match="no checkpoint can be read"):
        mirror.load()
