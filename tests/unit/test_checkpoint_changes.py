"""Changes of a whole checkpoint: chained, sealed, durable before they count, and gone with what they changed."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import pytest

from connectors.files import FileOps, Writer
from models.errors import RefusedError
from stream.ledger import change_log
from stream.ledger.change_log import logs
from stream.ledger.checkpoints import CURRENT, PREVIOUS, TEMPORARY, Checkpoints, SavedChange, SavedState

KEY = bytes(range(32))


def whole(number: int, filler: int = 1000) -> bytes:
    """The state `number`, saved whole."""
    fold = msgspec.msgpack.encode({"n": number, "filler": b"f" * filler})
    return SavedState("daemon", fold, ledger=number, position=number, epoch=0).encode()


def change(number: int) -> bytes:
    """Return the change that makes the state `number` of any state before it."""
    return SavedChange(msgspec.msgpack.encode([["update", [], {"n": number}]]), number, number, 0).encode()


def number_in(checkpoints: Checkpoints) -> int:
    """Return the number of the loaded state; all its parts must have this number."""
    found = checkpoints.load()
    assert found is not None
    saved = SavedState.decode(found.state)
    number = msgspec.msgpack.decode(saved.fold)["n"]
    assert (saved.ledger, saved.position) == (number, number)
    return int(number)


@pytest.fixture(params=[None, KEY], ids=["plain", "aes-gcm"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Checkpoints:
    """Two generations, and three changes of the newest: the state 5."""
    made = Checkpoints(tmp_path, request.param)
    made.save(whole(1))
    made.save(whole(2))
    for number in (3, 4, 5):
        assert made.extensible
        made.append(change(number))
    return made


def test_changes_are_part_of_the_state(files: Checkpoints) -> None:
    """The last appended change comes back, also in another process; the reported size is that of both files."""
    again = Checkpoints(files.folder, files.keys)
    assert number_in(again) == 5
    assert again.load().warning == ""  # type: ignore[union-attr]
    expected = sum(path.stat().st_size for path in (files.folder / CURRENT, *logs(files.folder)))
    assert [one.newest().size for one in (files, again)] == [expected, expected]  # type: ignore[union-attr]


def test_a_process_appends_only_to_what_it_wrote(files: Checkpoints) -> None:
    """It cannot know how the log of another one ends; and a log of twice the length of its state is long enough."""
    again = Checkpoints(files.folder, files.keys)
    assert not again.extensible
    with pytest.raises(ValueError, match="no checkpoint of this process"):
        again.append(change(6))
    number = 6
    while files.extensible:
        files.append(change(number))
        number += 1
    assert 2000 < sum(path.stat().st_size for path in logs(files.folder)) < 3000
    assert number_in(again) == number - 1


def test_a_log_may_be_as_long_as_the_state_has_become(files: Checkpoints) -> None:
    """A state that grows as much as its changes are long is not written whole for that."""
    (log,) = logs(files.folder)
    for number in range(6, 60):
        before = log.stat().st_size
        files.append(change(number), grown=before)
        assert files.extensible


def test_the_log_goes_with_its_state(files: Checkpoints) -> None:
    """A whole state begins a new log; the one before keeps its own; older ones are removed."""
    files.save(whole(6, 900))
    files.append(change(7))
    assert (number_in(files), len(logs(files.folder))) == (7, 2)
    (files.folder / CURRENT).write_bytes(b"something else\n")
    assert number_in(files) == 5
    files = Checkpoints(files.folder, files.keys)
    files.save(whole(8))
    files.save(whole(9))
    assert (number_in(files), logs(files.folder)) == (9, [])


def test_a_state_that_cannot_be_read_does_not_replace_the_one_before(files: Checkpoints) -> None:
    """The good generation stays until there is another good one."""
    (files.folder / CURRENT).write_bytes(b"something else\n")
    again = Checkpoints(files.folder, files.keys)
    assert number_in(again) == 1
    again.save(whole(6))
    (files.folder / CURRENT).write_bytes(b"something else\n")
    assert number_in(again) == 1


def at_frame(raw: bytes | bytearray, number: int) -> int:
    """Return the begin of a frame."""
    place = 0
    for _ in range(number):
        place += 12 + int.from_bytes(raw[place : place + 8], "big")
    return place


@pytest.mark.parametrize("frame", [0, 1, 2])
@pytest.mark.parametrize("place", [0, 9, 40, -3], ids=["length", "check sum", "header", "body"])
def test_a_damaged_change_ends_the_log_and_is_said(files: Checkpoints, frame: int, place: int) -> None:
    """The state before it is read, never one behind it; the warning has the file and the number."""
    (log,) = logs(files.folder)
    raw = bytearray(log.read_bytes())
    begin = at_frame(raw, frame)
    end = at_frame(raw, frame + 1)
    raw[(end if place < 0 else begin) + place] ^= 1
    log.write_bytes(raw)
    assert number_in(files) == 2 + frame
    warning = files.load().warning  # type: ignore[union-attr]
    assert log.name in warning
    assert f"change {frame + 1} " in warning


def test_a_change_that_is_missing_or_foreign_ends_the_log(files: Checkpoints, tmp_path: Path) -> None:
    """A lost middle, two in another order, and the changes of another state do not fit."""
    (log,) = logs(files.folder)
    raw = log.read_bytes()
    first, second, third = (raw[at_frame(raw, n) : at_frame(raw, n + 1)] for n in range(3))
    for mixed in (first + third, first + third + second, first + first):
        log.write_bytes(mixed)
        assert number_in(files) == 3
        assert "change 2 does not follow" in files.load().warning  # type: ignore[union-attr]
    (tmp_path / "other").mkdir()
    other = Checkpoints(tmp_path / "other", files.keys)
    other.save(whole(7))
    other.append(change(8))
    log.write_bytes(logs(other.folder)[0].read_bytes())
    assert number_in(files) == 2
    assert "change 1 does not follow" in files.load().warning  # type: ignore[union-attr]


def test_a_change_that_was_cut_short_is_not_there(files: Checkpoints) -> None:
    """At every place at which a crash can interrupt its writing: the state before it, without a warning, since nothing
    relied on it."""
    (log,) = logs(files.folder)
    raw = log.read_bytes()
    for length in range(at_frame(raw, 2), len(raw)):
        log.write_bytes(raw[:length])
        assert number_in(files) == 4
        assert files.load().warning == ""  # type: ignore[union-attr]


def test_without_the_key_no_change_opens_and_nothing_is_shown(tmp_path: Path) -> None:
    """Encrypted as the state is; where a key is configured, plain changes are nobody's."""
    for name, key in (("plain", None), ("sealed", KEY)):
        (tmp_path / name).mkdir()
        made = Checkpoints(tmp_path / name, key)
        made.save(whole(1))
        made.append(change(123_456_789))
    (plain,), (sealed,) = logs(tmp_path / "plain"), logs(tmp_path / "sealed")
    number = msgspec.msgpack.encode(123_456_789)
    assert (number in plain.read_bytes(), number in sealed.read_bytes()) == (True, False)
    sealed.write_bytes(plain.read_bytes())
    assert number_in(Checkpoints(tmp_path / "sealed", KEY)) == 1


def test_a_log_of_a_later_version_is_refused(files: Checkpoints, monkeypatch: pytest.MonkeyPatch) -> None:
    """Falling back behind what a later program saved could undo its decisions: exit 4."""
    monkeypatch.setattr(change_log, "VERSION", 0)
    with pytest.raises(RefusedError, match="version 1, newer than 0") as caught:
        files.load()
    assert caught.value.exit_code == 4


class Unsynced(FileOps):
    """A process that dies loses nothing that it wrote."""

    def fsync(self, path: Path) -> None:
        """Do nothing."""


class Crash(BaseException):
    """The process died."""


class Disk(Unsynced):
    """Dies at the n-th operation; a write or an append that dies leaves a part of its bytes."""

    def __init__(self, nth: int, share: float) -> None:
        self.left, self.share = nth, share

    def _count(self) -> None:
        self.left -= 1
        if self.left <= 0:
            raise Crash

    def write(self, path: Path, writer: Writer) -> None:
        """Write or append."""
        if self.left == 1:
            before = 0 if path.name == TEMPORARY or not path.exists() else path.stat().st_size
            writer(path)
            written = path.read_bytes()
            path.write_bytes(written[: before + int(self.share * (len(written) - before))])
        self._count()
        writer(path)

    def fsync(self, path: Path) -> None:
        """Count, and sync nothing."""
        self._count()

    def replace(self, source: Path, target: Path) -> None:
        """Rename."""
        self._count()
        super().replace(source, target)

    def remove(self, path: Path) -> None:
        """Remove."""
        self._count()
        super().remove(path)


def lives(folder: Path, key: bytes | None, rng: random.Random, disk: Disk) -> tuple[int, int]:
    """Processes after each other save states 1, 2, 3 ... until the disk dies: the last state that was acknowledged,
    and the one that was being saved."""
    number = 0
    while True:
        one = Checkpoints(folder, key, disk)
        if number:
            assert number_in(one) == number
        for _ in range(rng.randint(1, 12)):
            try:
                if one.extensible and rng.random() < 0.8:
                    one.append(change(number + 1))
                else:
                    one.save(whole(number + 1, 300))
            except Crash:
                return number, number + 1
            number += 1


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "aes-gcm"])
@pytest.mark.parametrize("seed", range(3))
def test_a_crash_between_any_two_operations(tmp_path: Path, key: bytes | None, seed: int) -> None:
    """The acknowledged state is read back, or the one that was being saved; nothing else, and without a report of
    damage. The next process continues from it, and later damage costs one generation.
    """
    for nth in range(4 + seed, 90, 3):
        folder = tmp_path / str(nth)
        folder.mkdir()
        rng = random.Random(1000 * seed + nth)
        acknowledged, trying = lives(folder, key, rng, Disk(nth, rng.random()))
        after = Checkpoints(folder, key, Unsynced())
        if acknowledged == 0 and not (folder / CURRENT).exists():
            assert after.load() is None
            continue
        number = number_in(after)
        assert number in (acknowledged, trying)
        after.save(whole(number + 1, 300))
        after.append(change(number + 2))
        assert number_in(Checkpoints(folder, key)) == number + 2
        (folder / CURRENT).write_bytes(b"")
        assert number_in(Checkpoints(folder, key)) == number
        assert len(logs(folder)) <= 2
        assert (folder / PREVIOUS).exists()


def test_a_failing_append_makes_the_next_one_whole(files: Checkpoints) -> None:
    """A full disk amid a change: the state before it stays, and nothing is written behind the torn one."""

    class Full(FileOps):
        def write(self, path: Path, writer: Writer) -> None:
            """Append a part only; the whole state fits."""
            before = path.stat().st_size if path.exists() else 0
            writer(path)
            if path.name != TEMPORARY:
                path.write_bytes(path.read_bytes()[: before + 20])
                raise OSError(28, "No space left on device")

    one = Checkpoints(files.folder, files.keys, Full())
    one.save(whole(6))
    with pytest.raises(OSError, match="No space left"):
        one.append(change(7))
    assert (number_in(one), one.extensible) == (6, False)
    one.save(whole(8))
    assert number_in(one) == 8
