"""A restore and a whole checkpoint hold the state once: bytes in scratch memory, in parts, and in a process."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tracemalloc
from mmap import PAGESIZE
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.errors import RefusedError
from stream.fold.fold import Fold
from stream.fold.message_parts import Binary, encoded_parts
from stream.fold.records import Delta
from stream.fold.rules import FoldRules
from stream.fold.snapshot import merged
from stream.ledger.envelope import Damaged, Keys, seal, unseal
from stream.values.memory import PIECE, gathered, moved, pieces, release, scratch, slice_of
from tests.conftest import ROOT

KEY, OTHER_KEY = bytes(range(32)), bytes(32)


def in_scratch(content: bytes) -> memoryview:
    """Return bytes in scratch memory."""
    view = scratch(len(content))
    view[:] = content
    return view


def filled(size: int) -> bytes:
    """Return bytes without a repeated page."""
    return np.arange(-(-size // 8), dtype="<u8").tobytes()[:size]


@pytest.mark.parametrize("size", [0, 1, PIECE - 1, PIECE, 3 * PIECE + 5])
def test_moved_bytes_are_the_same_and_their_pages_are_gone(size: int) -> None:
    """A released page reads as zeros. Kept are only pages that a part or piece has in common with its neighbour."""
    content = filled(size)
    view = in_scratch(b"head" + content + b"tail")
    assert moved(view[4:-4]) == content
    assert (bytes(view[:4]), bytes(view[-4:])) == (b"head", b"tail")
    pages = [view[begin : begin + PAGESIZE] for begin in range(0, len(view), PAGESIZE)]
    kept_pages = sum(any(page) for page in pages)
    assert kept_pages <= 2 + size // PIECE


def test_bytes_that_are_not_scratch_memory_are_never_released() -> None:
    """Bytes of others stay as they are."""
    content = filled(2 * PIECE)
    kept = bytearray(content)
    assert b"".join(pieces(memoryview(kept))) == content
    release(memoryview(kept))
    assert kept == content


def test_gathered_parts_are_one_after_the_other() -> None:
    """Parts of all kinds are joined; the list of them is empty then."""
    content = filled(PIECE + 3)
    parts = [b"", b"a", in_scratch(content), bytearray(content), memoryview(b"z")]
    assert gathered(parts) == b"a" + content + content + b"z"
    assert parts == []


def test_a_decoded_part_is_found_in_its_source() -> None:
    """A view of a decoder has the decoder's object behind it; the slice has the memory itself."""
    raw = in_scratch(msgspec.msgpack.encode({"a": b"", "b": filled(100)}))
    decoded = msgspec.msgpack.decode(raw, type=dict[str, msgspec.Raw])
    found = slice_of(raw, msgspec.msgpack.decode(decoded["b"], type=memoryview))
    assert found == filled(100)
    assert found.obj is raw.obj
    assert slice_of(raw, msgspec.msgpack.decode(decoded["a"], type=memoryview)) == b""


SIZES = st.sampled_from([0, 1, 15, 16, 17, 300])
leaves = st.one_of(
    st.none(), st.booleans(), st.integers(-(1 << 63), (1 << 64) - 1), st.floats(allow_nan=False), st.text()
)
columns = st.binary(max_size=300).map(bytearray)
named = st.recursive(
    leaves | columns,
    lambda inner: st.one_of(
        st.dictionaries(st.text(), inner, max_size=20),
        st.lists(leaves, max_size=20),
        st.tuples(st.text(), columns).map(list),
        st.lists(st.tuples(st.text(), st.dictionaries(st.text(), columns, max_size=3)).map(list), max_size=3),
    ),
    max_leaves=20,
)


@given(named)
def test_parts_are_the_encoding_of_msgspec(value: Any) -> None:
    """Of maps, lists, columns and plain values."""
    assert b"".join(encoded_parts(value)) == msgspec.msgpack.encode(value, order="sorted")


@pytest.mark.parametrize("size", [0, 15, 16, 255, 256, 65_535, 65_536, 200_000])
def test_every_length_has_the_header_of_msgspec(size: int) -> None:
    """Lists, maps and binaries at the lengths at which their headers change."""
    content = filled(size)
    for value, expected in (
        (["x"] * size, ["x"] * size),
        ({str(number): bytearray(b"c") for number in range(size)},) * 2,
        (Binary([content[:7], b"", content[7:]]), content),
        (["x", "y", {"z": Binary([content[:7], content[7:]])}], ["x", "y", {"z": content}]),
    ):
        assert b"".join(encoded_parts(value)) == msgspec.msgpack.encode(expected, order="sorted")


def test_columns_are_parts_without_a_copy() -> None:
    """The part is the memory of the column."""
    column = np.arange(1000)
    parts = encoded_parts({"events": {"time": ["<i8", column.view(np.uint8).data]}})
    assert any(isinstance(part, memoryview) and np.shares_memory(np.asarray(part), column) for part in parts)


@pytest.mark.parametrize("keys", [Keys(), Keys(KEY)], ids=["plain", "aes-gcm"])
@pytest.mark.parametrize("size", [0, 1, PIECE, 2 * PIECE + 9])
def test_sealed_bytes_of_any_size_open(keys: Keys, size: int) -> None:
    """Also under the key before; cut short, or with one bit changed, they do not."""
    content = filled(size)
    sealed = seal(content, keys, "test", 1)
    assert unseal(io.BytesIO(sealed), keys, "test").body == content
    if keys.current is not None:
        opened = unseal(io.BytesIO(sealed), Keys(OTHER_KEY, KEY), "test")
        assert (opened.body, opened.protection) == (content, "former")
        assert size < PIECE or content[:100] not in sealed
    if not size:
        return
    damaged = bytearray(sealed)
    damaged[-1] ^= 1
    for wrong in (sealed[:-1], sealed[: len(sealed) // 2], sealed + b"0", bytes(damaged)):
        with pytest.raises(Damaged):
            unseal(io.BytesIO(wrong), keys, "test")


def test_an_old_file_of_one_call_of_aes_gcm_opens() -> None:
    """Files of earlier programs: the library's one call, instead of parts."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    header = b'{"format":"test","version":1,"sha256":"","nonce":"' + bytes(12).hex().encode() + b'"}'
    sealed = header + b"\n" + AESGCM(KEY).encrypt(bytes(12), b"content", header)
    assert unseal(io.BytesIO(sealed), Keys(KEY), "test").body == b"content"


def test_a_snapshot_in_scratch_memory_is_restored_once() -> None:
    """Its pages are released while it is read; a second restore must not build a state of zeros."""
    fold = Fold(FoldRules((), key="k"))
    list(
        fold.apply(
            0, Delta(src="s", p=0, prev=-1, last=0, n=1, key="k", rows=[(0, "c", "a", 7, None, None, None, False)])
        )
    )
    raw = in_scratch(fold.snapshot())
    assert Fold.restore(raw).snapshot() == fold.snapshot()
    with pytest.raises(RefusedError, match="not a state"):
        Fold.restore(raw)


def test_changes_are_merged_without_a_second_copy_of_a_column() -> None:
    """The columns: digests of forgotten cases, which no change touches; those that grew, or changed in place.

    Only memory of the heap is counted. The saved state and the result are in scratch memory, page by page.
    """
    n_events, n_more = 2 * PIECE, PIECE
    times, digests, more = filled(8 * n_events), filled(8 * PIECE), filled(8 * n_more)
    table = {"state": {"events": {"time": ["<i8", times]}, "cases": {}, "forgotten": digests}}
    raw = in_scratch(msgspec.msgpack.encode(table))
    positions = np.asarray([0, n_events - 1, n_events, n_events + n_more - 1], dtype="<u4").tobytes()
    path = ["state", "events", "time", 1]
    changes = [
        [["more", path, more[: 4 * n_more]]],
        [["more", path, more[4 * n_more :]], ["at", path, 8, positions, bytes(32)]],
    ]
    encoded = [msgspec.msgpack.encode(change) for change in changes]
    tracemalloc.start()
    try:
        result = merged(raw, encoded)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    expected = np.frombuffer(times + more, dtype="<i8").copy()
    expected[np.frombuffer(positions, dtype="<u4")] = 0
    events = msgspec.msgpack.decode(result)["state"]["events"]["time"]
    assert events == ["<i8", expected.tobytes()]
    assert msgspec.msgpack.decode(result)["state"]["forgotten"] == digests
    assert peak < 2.2 * len(more)


@pytest.mark.slow
def test_a_restart_needs_little_more_than_the_state(tmp_path: Path) -> None:
    """Peak by steady resident memory of a process that restores a state with changes and saves it whole.

    The state has 47 MB. Of a small one the buffers of one change (4 MB) are a large part.
    """
    options = ["--kept", "--events", "1000000"]
    command = [sys.executable, "-m", "benchmarks.years_in_memory", *options]
    environment = {"TMPDIR": str(tmp_path)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    result = json.loads(done.stdout)
    assert result["whole_saves"] < 5, "the checkpoint consists of a whole state and changes"
    assert result["restart"]["rows"] == 1_000_000
    assert result["restart"]["restore"]["ratio"] < 1.2
    assert result["restart"]["restore_and_first_checkpoint"]["ratio"] < 1.2
