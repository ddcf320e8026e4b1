"""Memory of a series whose noise can be removed by anybody who reads it: encrypted in `memory.json`.

The key is derived from the operator's key, which is in no backup unless it is asked for, and may be outside of the
operator's folder (`key` of the configuration). Without it the noise of published releases stays.
"""

from __future__ import annotations

import base64
import io
import zlib
from typing import Any

import msgspec

from models.errors import RefusedError
from stream.ledger.envelope import Damaged, Keys, seal, unseal

SEALED = "encrypted_series"
"""Key of the encrypted memory. A file format."""

FORMAT = "series-memory"
VERSION = 1


def sealed_memory(memory: Any, key: bytes) -> dict[str, str]:
    """Return the memory as it is kept: compressed, encrypted, and as text."""
    body = zlib.compress(msgspec.json.encode(memory))
    return {SEALED: base64.b64encode(seal(body, Keys(key), FORMAT, VERSION)).decode("ascii")}


def opened_memory(memory: Any, key: bytes) -> Any:
    """Return the memory that was kept; one that is not encrypted is returned as it is.

    Raises
    ------
    RefusedError
        If it does not open with the key, or a newer program wrote it.
    """
    if not isinstance(memory, dict) or SEALED not in memory:
        return memory
    try:
        opened = unseal(io.BytesIO(base64.b64decode(memory[SEALED])), Keys(key), FORMAT)
    except (Damaged, ValueError) as error:
        raise RefusedError(
            f"the memory of the series (memory.json) cannot be read: it {error}; give the operator's key back, or give "
            "the publication a new name"
        ) from None
    if opened.version != VERSION:
        raise RefusedError(f"memory.json: version {opened.version} is newer than this program; upgrade it")
    return msgspec.json.decode(zlib.decompress(opened.body))
