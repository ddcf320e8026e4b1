"""Earlier releases that stay in memory."""

from __future__ import annotations

from typing import Any, cast

import pytest

from stream.ledger.release_record import ReleaseRecord
from stream.release.audience import Earlier, reach
from stream.release.audits import audits

OFF = {"anonymity": False, "series": False, "leakage": False, "risk": False, "utility": False}


def record(sequence: int) -> ReleaseRecord:
    return ReleaseRecord(sequence, cast(Any, None), (), "minutes", ())


@pytest.mark.parametrize("far", [None, 0, 1, 3, 9])
def test_what_is_out_of_reach_is_read_again(far: int | None) -> None:
    """Two at the start, four later; every one can be asked for, and what is in reach is the same object each time."""
    reads: list[int] = []

    def read(key: tuple[str, int]) -> ReleaseRecord:
        reads.append(key[1])
        return record(key[1])

    earlier = Earlier(read, [("", 2), ("", 3)], far)
    assert reads == [2, 3][2 - min(2, 2 if far is None else far) :]
    for number in (5, 6, 7, 8):
        earlier.append(record(number))
    reads.clear()
    assert [one.sequence for one in earlier] == [2, 3, 5, 6, 7, 8]
    assert reads == [2, 3, 5, 6, 7, 8][: 6 - min(6, 6 if far is None else far)]
    assert [one.sequence for one in earlier[-2:]] == [7, 8]
    reads.clear()
    kept = 0 if far is None else max(0, 6 - far)
    assert all((earlier[place] is earlier[place]) == (place >= kept) for place in range(6))


def test_what_was_written_again_takes_its_place() -> None:
    """In reach it replaces the record; out of reach the file is the record."""
    earlier = Earlier(lambda key: record(key[1]), [("", 1), ("", 2), ("", 3)], 1)
    rest = record(3)
    earlier[2] = rest
    earlier[0] = record(1)
    assert earlier[2] is rest
    assert earlier[0] is not earlier[0]


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({}, None),
        (OFF, 0),
        ({**OFF, "risk": True}, 1),
        ({**OFF, "anonymity": True, "against": "last", "bk_length": 2, "n": [0]}, 1),
        ({**OFF, "anonymity": True, "against": 4, "bk_length": 2, "n": [0]}, 4),
        ({**OFF, "anonymity": True, "against": "last", "series": {"last": 3}, "bk_length": 2, "n": [0]}, 3),
    ],
)
def test_how_far_audits_look_back(table: dict[str, Any], expected: int | None) -> None:
    """The farthest of them."""
    table = {name: value for name, value in table.items() if not (name == "anonymity" and value is True)}
    assert reach(audits(table)) == expected
