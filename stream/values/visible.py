"""Replace control characters of a log by visible characters, so that a terminal does not execute them."""

from __future__ import annotations

import re

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Characters that move the cursor, start a terminal command or turn the direction of text; not tab and line feed."""


def visible(text: str) -> str:
    """Return the text with U+FFFD in place of each control character."""
    return _CONTROL.sub("\ufffd", text)


def visible_json(document: bytes) -> bytes:
    r"""Return the same JSON with each control character as an escape (`\u009b`).

    The values stay the same, and a terminal that shows the bytes does not execute them. Below the space, JSON contains
    only escapes.
    """
    if document.isascii() and b"\x7f" not in document:
        return document
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", document.decode()).encode()
