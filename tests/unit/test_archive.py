"""Segments of the archive: how they are divided, when they expire, what an erasure opens and refuses."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

from connectors.store.blobs import FolderBlobs, open_blobs
from models.errors import InputError, RefusedError
from models.eventlog import Column
from stream.config import sources
from stream.config.lint import notes, warnings
from stream.fold.fold import Fold
from stream.fold.named_events import NamedEvents
from stream.fold.records import Command, Tick
from stream.fold.state import digest
from stream.ledger import archive as archives
from stream.ledger.archive import DAY, Archive
from stream.ledger.checkpoints import Checkpoints, SavedState
from stream.ledger.envelope import KEY_BYTES, Keys, unseal
from stream.ledger.layout import ARCHIVE, ARCHIVE_ERASED, ARCHIVE_LISTED, ArchiveSegment
from stream.operator.held_events import as_log
from stream.run.keeper import StateKeeper
from stream.run.service import archive_of, mirror_of
from tests.conftest import ROOT
from tests.unit.test_forgotten_cases import Process, once, rules

FIXTURES = ROOT / "tests" / "fixtures"
MONDAY = 20_000
"""A day, in days since 1970-01-01."""


def events(cases: dict[str, int], number: int = 1) -> NamedEvents:
    """Two events of each case, whose last one is on the given day."""
    names = [name for name in cases for _ in "ab"]
    last = np.array([day * DAY + 1 for day in cases.values() for _ in "ab"], dtype=np.int64)
    size = len(names)
    return NamedEvents(
        number=number,
        case=Column.encode(names),
        activity=Column.encode(["a", "z"] * len(cases)),
        resource=Column.encode([None, "Ann"] * len(cases)),
        source=Column.encode(["t"] * size),
        partition=np.zeros(size, dtype=np.int32),
        time=last - np.tile([1, 0], len(cases)),
        last=last,
        attributes={("case", "age"): Column.encode([7, None] * len(cases))},
    )


def archive(folder: Path, keep: int | None = None, keys: Keys | None = None) -> Archive:
    return Archive(open_blobs(folder, "operator"), keys or Keys(), keep)


def cases_in(some: Archive) -> list[str]:
    return [case for table in some.read(until=99) for case in table.column("case").to_pylist()]


def test_a_segment_keeps_what_the_state_held(tmp_path: Path) -> None:
    """Pseudonym, activity, time, resource and typed attributes; a missing value stays missing."""
    some = archive(tmp_path)
    some.write([events({"c1": MONDAY})], now=None)
    log = as_log(list(some.read(until=1)))
    assert (log.case_ids, log.traces(), log.resource.decode()) == (("c1",), [("a", "z")], [None, "Ann"])
    assert log.time.tolist() == [MONDAY * DAY, MONDAY * DAY + 1]
    assert log.case_attributes["age"].decode() == [7]


def test_a_name_says_day_drop_and_bucket() -> None:
    """And is read back; other files are no segments."""
    segment = ArchiveSegment(MONDAY, 12, "3f")
    assert segment.path == f"{ARCHIVE}/2024-10-04.00000012.3f.sealed"
    assert ArchiveSegment.parse("2024-10-04.00000012.3f.sealed") == segment
    assert ArchiveSegment.parse("2024-10-04.00000012.sealed") == ArchiveSegment(MONDAY, 12)
    assert ArchiveSegment.parse("erased.sealed") is None


def test_segments_expire_by_the_clock_of_the_fold(tmp_path: Path) -> None:
    """Thirty days after the last event of a case, at most a day later; again and again does nothing more."""
    some = archive(tmp_path, keep=30 * DAY)
    some.write([events({"early": MONDAY, "late": MONDAY + 1})], now=MONDAY * DAY)
    some.expire(None)
    some.expire((MONDAY + 30) * DAY + 5)
    assert sorted(set(cases_in(some))) == ["early", "late"]
    for _ in range(2):
        some.expire((MONDAY + 31) * DAY)
        assert set(cases_in(some)) == {"late"}
    some.write([events({"expired": MONDAY, "kept": MONDAY + 1}, number=2)], now=(MONDAY + 31) * DAY)
    assert set(cases_in(some)) == {"late", "kept"}
    archive(tmp_path, keep=None).expire((MONDAY + 9999) * DAY)
    assert set(cases_in(some)) == {"late", "kept"}


def test_a_tick_removes_what_has_expired(tmp_path: Path) -> None:
    """The clock of ticks alone moves it, with the next checkpoint."""
    some = archive(tmp_path, keep=2 * DAY)
    keeper = StateKeeper(Checkpoints(tmp_path), archive=some)
    process = Process(Fold(rules(once("p"), archive=True)))
    process.events("c1 a", "c1 z", "c2 a")
    process.release("p")
    keeper.save(process.fold, SavedState("daemon", b"", 0, process.fold.position))
    assert cases_in(some) == ["c1", "c1"]
    assert not process.fold.dropped
    process.take(Tick(at=3 * DAY))
    keeper.save(process.fold, SavedState("daemon", b"", 0, process.fold.position))
    assert cases_in(some) == []


def test_an_erasure_opens_the_segments_of_its_bucket_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A day with many events is divided by the digests of cases."""
    monkeypatch.setattr(archives, "EVENTS_PER_SEGMENT", 4)
    some = archive(tmp_path)
    some.write([events({f"c{number}": MONDAY for number in range(40)})], now=None)
    segments = some.segments()
    assert {len(segment.bucket) for segment in segments} == {2}
    read: list[str] = []

    class Watched(FolderBlobs):
        def get(self, name: str) -> bytes | None:
            read.append(name)
            return super().get(name)

    watched = Archive(Watched(some.blobs.root, some.blobs._ops), Keys())  # type: ignore[attr-defined]
    erased = digest("c7")
    watched.erase({erased})
    assert {name for name in read if name not in (ARCHIVE_ERASED, ARCHIVE_LISTED)} == {
        segment.path for segment in segments if segment.bucket == erased.hex()[:2]
    }
    assert set(cases_in(some)) == {f"c{number}" for number in range(40)} - {"c7"}


def test_no_byte_of_an_erased_case_stays_in_a_rewritten_segment(tmp_path: Path) -> None:
    """Not in a dictionary and not in statistics: names that no row has are not written."""
    some = archive(tmp_path)
    secret, kept = "CANARY" * 4, "REMAINS" * 4
    both = events({secret: MONDAY, kept: MONDAY})
    resources = Column.encode(["CANARYNURSE", "CANARYNURSE", "Ann", "Ann"])
    object.__setattr__(both, "resource", resources)
    some.write([both], now=None)
    some.erase({digest(secret)})
    (segment,) = some.segments()
    table = next(iter(some.read(until=1)))
    assert set(table.column("case").to_pylist()) == {kept}
    body = bytes(unseal(io.BytesIO(some.blobs.get(segment.path) or b""), Keys(), archives.FORMAT).body)
    assert kept.encode() in body  # short pages are stored as they are, in a dictionary or in statistics
    assert b"CANARY" not in body


def test_what_was_erased_is_not_written_again(tmp_path: Path) -> None:
    """A fold that continues from an older state may drop the case once more."""
    some = archive(tmp_path)
    some.erase({digest("c1")})
    some.write([events({"c1": MONDAY, "c2": MONDAY})], now=None)
    assert set(cases_in(some)) == {"c2"}


def test_an_erasure_in_the_fold_reaches_events_on_their_way_to_the_archive() -> None:
    """They have left the state, and no checkpoint and no segment has them yet."""
    process = Process(Fold(rules(once("p"), archive=True)))
    process.events("c1 a", "c1 z", "c2 z", "c3 a")
    process.release("p")
    process.take(Command(name="erase", arguments={"cases": ["c1"]}))
    (dropped,) = process.fold.dropped
    assert dropped.case.decode() == ["c2"]
    assert "c1" not in dropped.case.values


def test_a_segment_that_cannot_be_opened_stops_an_erasure(tmp_path: Path) -> None:
    """It may have the case: the erasure is not reported as done."""
    keys = Keys(bytes(KEY_BYTES))
    some = archive(tmp_path, keys=keys)
    some.write([events({"c1": MONDAY})], now=None)
    with pytest.raises(RefusedError, match="restore the file from a backup"):
        archive(tmp_path, keys=Keys(b"x" * KEY_BYTES)).erase({digest("c1")})
    archive(tmp_path, keys=keys).erase({digest("c1")})
    assert cases_in(some) == []


def test_a_drop_of_another_course_is_replaced(tmp_path: Path) -> None:
    """A fold continued from an older state, and its drop with this number has other days."""
    some = archive(tmp_path)
    some.write([events({"c1": MONDAY, "c2": MONDAY + 1})], now=None)
    some.write([events({"c2": MONDAY + 1})], now=None)
    assert set(cases_in(some)) == {"c2"}


def test_an_archive_moves_to_a_mirror_and_is_erased_there(tmp_path: Path) -> None:
    """A store was configured later. Its list of erased cases does not cover what comes now."""
    former = archive(tmp_path / "a")
    former.write([events({"c1": MONDAY, "c2": MONDAY})], now=None)
    mirror = archive(tmp_path / "b")
    mirror.write([events({"c3": MONDAY}, number=2)], now=None)
    mirror.erase({digest("c1")})
    mirror.move_from(former.blobs)
    assert former.blobs.names(ARCHIVE) == []
    assert set(cases_in(mirror)) == {"c1", "c2", "c3"}
    mirror.erase({digest("c1")})
    assert set(cases_in(mirror)) == {"c2", "c3"}


@pytest.mark.parametrize(("name", "key"), [("plain", None), ("encrypted", bytes(range(32)))])
def test_the_first_segments_are_read(name: str, key: bytes | None) -> None:
    """Two cases of two days in two drops, as the first program with an archive wrote them."""
    first = Archive(open_blobs(FIXTURES / "archive_1", name), Keys(key))
    assert [(segment.day - MONDAY, segment.number) for segment in first.segments()] == [(0, 1), (1, 2)]
    log = as_log(list(first.read(until=2)))
    assert (log.case_ids, log.traces()) == (("c1", "c2"), [("a", "z"), ("a", "z")])
    assert log.resource.decode() == [None, "Ann", None, "Ann"]
    assert log.case_attributes["age"].decode() == [7, 7]
    assert as_log(list(first.read(until=1))).case_ids == ("c1",)


CONFIG = """
{key}
{store}
[process]
completion = {{ end_activities = ["z"] }}
archive = {archive}
{retention}
[source]
topics = ["t"]
bootstrap = "localhost:9092"
[[publication]]
name = "p"
start = "2024-01-01T00:00:00Z"
window = {{ every = "7d", time = "wall" }}
{cases}
mechanism = {{ kind = "dp-variants", epsilon = 1, delta_dp = 1e-6 }}
"""


def loaded(folder: Path, archive: str, **more: str) -> sources.Settings:
    path = folder / "c.toml"
    fields = {"key": "", "store": "", "retention": "", "cases": 'cases = "completed"', **more}
    path.write_text(CONFIG.format(archive=archive, **fields))
    return sources.load(path)


def test_a_configuration_says_how_long(tmp_path: Path) -> None:
    """A duration, or for ever; never longer than retention; another value names both forms."""
    assert loaded(tmp_path, '"30d"').process.archive == 30 * DAY
    assert loaded(tmp_path, '"for ever"').process.archive == "for ever"
    assert loaded(tmp_path, '"30d"', retention='retention = "30d"').process.archive == 30 * DAY
    with pytest.raises(InputError, match="would keep events longer than retention"):
        loaded(tmp_path, '"for ever"', retention='retention = "30d"')
    with pytest.raises(InputError, match="would keep events longer than retention"):
        loaded(tmp_path, '"31d"', retention='retention = "30d"')
    with pytest.raises(InputError, match="for ever"):
        loaded(tmp_path, '"always"')


def test_check_config_states_cost_and_what_is_in_the_clear(tmp_path: Path) -> None:
    """Bytes a year; without a storage key, where the events can be read; and a key that has no effect."""
    said = notes(loaded(tmp_path, '"for ever"'))
    assert any("MB each year" in note for note in said)
    assert any("not encrypted" in note for note in said)
    key = f'checkpoint_key = "{"ab" * 32}"'
    assert not any("not encrypted" in note for note in notes(loaded(tmp_path, '"73d"', key=key)))
    assert any("nothing is archived" in text for text in warnings(loaded(tmp_path, '"30d"', cases="")))


def test_with_a_mirror_the_archive_is_there(tmp_path: Path) -> None:
    """Another host that takes over has the same segments: there is one archive of a process."""
    settings = loaded(tmp_path, '"30d"', store=f'store = "{tmp_path / "shared"}"')
    hosts = [archive_of(settings, tmp_path / name, mirror_of(settings, tmp_path / name)) for name in ("a", "b")]
    hosts[0].write([events({"c1": MONDAY})], now=None)
    assert cases_in(hosts[1]) == ["c1", "c1"]
    assert (tmp_path / "shared" / "operator" / "log" / ARCHIVE).is_dir()
    assert not (tmp_path / "a").exists()


def test_a_deleted_segment_is_missed_and_a_removed_one_is_not(tmp_path: Path) -> None:
    """Somebody deletes a file; expiry, an erasure and another course of the fold remove theirs in good order."""
    keep = 10 * DAY
    some = archive(tmp_path, keep)
    some.write([events({"c1": MONDAY, "c2": MONDAY + 1, "c3": MONDAY + 2})], now=None)
    some.write([events({"c4": MONDAY + 2, "c5": MONDAY + 3}, number=2)], now=None)
    some.write([events({"c4": MONDAY + 2}, number=2)], now=None)
    some.erase({digest("c2")})
    some.expire((MONDAY + 1) * DAY + keep)
    assert some.missing() == []
    lost, kept = some.segments()
    some.blobs.delete(lost.path)
    assert archive(tmp_path, keep).missing() == [lost]
    some.write([events({"c6": MONDAY + 3}, number=3)], now=None)
    assert some.missing() == [lost]  # later changes do not hide it
    some.expire((lost.day + 1) * DAY + keep)
    assert some.missing() == []  # its time was over anyway
    assert kept not in some.segments()


def test_an_archive_without_a_list_gets_one_with_its_next_change(tmp_path: Path) -> None:
    """That of an earlier program, or of a backup."""
    some = archive(tmp_path)
    some.write([events({"c1": MONDAY})], now=None)
    some.blobs.delete(ARCHIVE_LISTED)
    assert some.missing() == []
    some.write([events({"c2": MONDAY}, number=2)], now=None)
    first, _second = some.segments()
    some.blobs.delete(first.path)
    assert some.missing() == [first]


def test_a_move_to_a_mirror_lists_what_has_moved(tmp_path: Path) -> None:
    """The list of the mirror names segments of both places."""
    former, mirror = archive(tmp_path / "a"), archive(tmp_path / "b")
    former.write([events({"c1": MONDAY})], now=None)
    mirror.write([events({"c2": MONDAY}, number=2)], now=None)
    mirror.move_from(former.blobs)
    assert mirror.missing() == []
    first, _second = mirror.segments()
    mirror.blobs.delete(first.path)
    assert mirror.missing() == [first]
