"""Pseudonyms: HMAC-SHA256 with the operator's key, the same in a replay and in the daemon.

A pseudonym is stable (a case keeps its name in the state) and one-way without the key. Pseudonyms of cases never leave
the operator, because released case ids are fresh random ones. They do NOT protect against somebody who holds the key.
"""

from __future__ import annotations

import hashlib
import hmac

from models.errors import InputError

KEY_BYTES = 32
LENGTH = 32
"""Hexadecimal digits: 128 bits (RFC 2104, section 5 allows half of the digest); shorter would collide."""


def key_from_text(text: str) -> bytes:
    """Read a key in hexadecimal (`key` of the configuration).

    Raises
    ------
    InputError
        If it is not a key, or too short.
    """
    try:
        key = bytes.fromhex(text.strip())
    except ValueError:
        raise InputError("key: not hexadecimal; make one with `veilstream key create`") from None
    if len(key) < KEY_BYTES:
        raise InputError(f"key: shorter than {KEY_BYTES} bytes; make one with `veilstream key create`")
    return key


class Pseudonyms:
    """Keyed names of cases, persons, event ids and plans, and a key for the memory of series.

    `id` identifies the operator's key without revealing it.
    """

    def __init__(self, key: bytes) -> None:
        self._inner = hmac.new(key, digestmod=hashlib.sha256)
        self.id = self._digest(b"key id\0")[:16]
        self.memory_key = hmac.digest(key, b"memory of a series\0", "sha256")
        """Key of 32 bytes that encrypts what a series of correlated noise remembers."""

    def case(self, case: str) -> str:
        """Return the pseudonym of a case id."""
        return self._digest(b"case\0" + case.encode("utf-8", "surrogatepass"))

    def person(self, person: str) -> str:
        """Return the pseudonym of a person whose cases are counted; it is never published."""
        return self._digest(b"person\0" + person.encode("utf-8", "surrogatepass"))

    def event(self, event_id: str) -> str:
        """Return the pseudonym of an event id: producers put names of people into event ids too."""
        return self._digest(b"event\0" + event_id.encode("utf-8", "surrogatepass"))

    def resource(self, name: str, process: str | None = None) -> str:
        """Return the published pseudonym of a resource, the same in every release.

        Recipients follow handovers by it.

        Parameters
        ----------
        process : str, optional
            Name of the process, so that one key for two processes links nobody between them. Series that began without
            it keep the other form: a pseudonym that changed between releases would break them.
        """
        scope = b"resource\0" if process is None else b"resource of\0" + process.encode("utf-8") + b"\0"
        return "r-" + self._digest(scope + name.encode("utf-8", "surrogatepass"))[:16]

    def plan(self, digest: str) -> str:
        """Return the name of a plan in the ledger.

        Its own digest would confirm a guess about the cases to every reader of the ledger.
        """
        return self._digest(b"plan\0" + digest.encode())

    def _digest(self, message: bytes) -> str:
        mac = self._inner.copy()
        mac.update(message)
        return mac.hexdigest()[:LENGTH]
