"""The encrypted memory of a series: only the key opens it, and nothing else is taken for it."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from models.errors import RefusedError
from stream.ledger.envelope import Keys, seal
from stream.release.sealed_memory import FORMAT, SEALED, VERSION, opened_memory, sealed_memory

KEY, OTHER = bytes(range(32)), bytes(32)
MEMORY = {"cells": [{"true": [[1, 2, 3]], "scale": 0.1}], "traces": [[0, 1]]}


def test_the_key_opens_it() -> None:
    """The same memory comes back; what is kept is text, other each time, and shows nothing of it."""
    kept = sealed_memory(MEMORY, KEY)
    assert opened_memory(kept, KEY) == MEMORY
    assert kept != sealed_memory(MEMORY, KEY)
    assert b"cells" not in base64.b64decode(kept[SEALED])


@pytest.mark.parametrize("memory", [None, [], {"labels": {"labels": ["a"], "release": 1}}])
def test_a_plain_memory_is_returned(memory: Any) -> None:
    """Of other mechanisms, or of a series before its noise was correlated."""
    assert opened_memory(memory, KEY) == memory


def test_what_does_not_open_is_refused() -> None:
    """Another key, changed bytes, and no text of bytes at all."""
    kept = sealed_memory(MEMORY, KEY)
    with pytest.raises(RefusedError, match="give the operator's key back"):
        opened_memory(kept, OTHER)
    for changed in (kept[SEALED][:-8], kept[SEALED].swapcase(), "x", ""):
        with pytest.raises(RefusedError, match="memory of the series"):
            opened_memory({SEALED: changed}, KEY)


def test_a_newer_version_is_refused() -> None:
    """It names the file and what to do."""
    newer = base64.b64encode(seal(b"", Keys(KEY), FORMAT, VERSION + 1)).decode()
    with pytest.raises(RefusedError, match="version 2 is newer than this program"):
        opened_memory({SEALED: newer}, KEY)
