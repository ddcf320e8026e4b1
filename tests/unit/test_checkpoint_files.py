"""Checkpoints on disk: durable, authenticated, one generation back."""

from __future__ import annotations

import pytest

from connectors.files import FileOps
from models.errors import RefusedError
from stream.fold.snapshot import STATE_VERSION
from stream.ledger.checkpoints import CURRENT, PREVIOUS, Checkpoints

KEY = bytes(range(32))


@pytest.fixture(params=[None, KEY], ids=["plain", "aes-gcm"])
def files(request, tmp_path):
    """A folder with two generations."""
    made = Checkpoints(tmp_path, request.param)
    made.save(b"one")
    made.save(b"two")
    return made


def test_nothing_saved_is_nothing_loaded(tmp_path):
    """A fresh folder starts a fresh fold."""
    assert Checkpoints(tmp_path).load() is None


def test_the_newest_generation_is_read_without_a_warning(files):
    """The last saved state comes back."""
    loaded = files.load()
    assert (loaded.state, loaded.generation, loaded.warning) == (b"two", 0, "")


@pytest.mark.parametrize("damage", [lambda raw: raw[:-1], lambda raw: raw[:-1] + bytes([raw[-1] ^ 1]), lambda raw: b""])
def test_a_damaged_newest_falls_back_one_generation_and_is_reported(files, damage):
    """Truncated, corrupt or empty: the generation before is taken, with the file and the reason."""
    path = files.folder / CURRENT
    path.write_bytes(damage(path.read_bytes()))
    loaded = files.load()
    assert (loaded.state, loaded.generation) == (b"one", 1)
    assert CURRENT in loaded.warning


def test_both_generations_damaged_is_one_clear_error(files):
    """Nothing readable: refuse, name both files."""
    for name in (CURRENT, PREVIOUS):
        (files.folder / name).write_bytes(b"something else\n")
    with pytest.raises(RefusedError, match=f"{CURRENT}.*{PREVIOUS}") as caught:
        files.load()
    assert caught.value.exit_code == 4


@pytest.mark.parametrize("key", [None, bytes(32)], ids=["no key", "another key"])
def test_without_the_key_nothing_opens_and_nothing_is_shown(tmp_path, key):
    """An encrypted state refuses the wrong key, and its bytes do not hold the plain state."""
    Checkpoints(tmp_path, KEY).save(b"state of patients")
    assert b"patients" not in (tmp_path / CURRENT).read_bytes()
    with pytest.raises(RefusedError, match="key"):
        Checkpoints(tmp_path, key).load()


def test_a_key_that_was_set_later_is_explained(tmp_path):
    """Plain files are not opened. They need not be thrown away: `migrate` encrypts them, if nobody replaced them."""
    Checkpoints(tmp_path).save(b"state of patients")
    with pytest.raises(RefusedError, match=r"is not encrypted, although .* is configured.*veilstream migrate"):
        Checkpoints(tmp_path, KEY).load()


@pytest.mark.parametrize(("version", "word"), [(99, "newer"), (0, "older")])
def test_a_state_of_another_version_is_refused_even_next_to_an_older_one(files, version, word):
    """Falling back behind another program's state would undo its decisions."""
    path = files.folder / CURRENT
    path.write_bytes(
        path.read_bytes().replace(f'"version":{STATE_VERSION}'.encode(), f'"version":{version}'.encode(), 1)
    )
    with pytest.raises(RefusedError, match=word):
        files.load()


def test_a_header_cannot_be_moved_to_another_body(tmp_path):
    """The header is authenticated: a changed field does not open."""
    Checkpoints(tmp_path, KEY).save(b"one")
    path = tmp_path / CURRENT
    path.write_bytes(path.read_bytes().replace(b'"sha256":""', b'"sha256":"0"'))
    with pytest.raises(RefusedError, match="does not open"):
        Checkpoints(tmp_path, KEY).load()


@pytest.mark.parametrize(("broken", "call"), [("write", 1), ("fsync", 1), ("fsync", 2), ("replace", 1), ("replace", 2)])
def test_whatever_fails_a_whole_generation_stays(tmp_path, broken, call):
    """A full disk or a failing fsync at any step leaves one of the last two states readable."""
    Checkpoints(tmp_path).save(b"one")
    Checkpoints(tmp_path).save(b"two")
    ops, calls = FileOps(), []
    operation = getattr(ops, broken)

    def failing(path, argument=None):
        calls.append(path)
        if len(calls) == call:
            if broken == "write":
                argument(path)
                path.write_bytes(path.read_bytes()[:5])
            raise OSError(28, "No space left on device")
        return operation(path) if argument is None else operation(path, argument)

    setattr(ops, broken, failing)
    with pytest.raises(OSError, match="No space left"):
        Checkpoints(tmp_path, ops=ops).save(b"three")
    assert Checkpoints(tmp_path).load().state in (b"two", b"three")
