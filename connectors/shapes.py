"""The shape of a value: what an error may say of it. Which digits and letters it holds stays untold."""

from __future__ import annotations

import re

_LONGEST = 32


def shape(text: str) -> str:
    """`31/12/2020 14:05` is `99/99/9999 99:99`: a 9 for a digit, an A for a letter, ASCII signs as they are."""
    if not text.strip():
        return "blank" if text else "empty"
    head = text[:_LONGEST]
    known = re.sub(r"[^\W\d_]", "A", re.sub(r"\d", "9", head))
    plain = "".join(letter if " " <= letter <= "~" else "?" for letter in known)
    return f"{plain}..." if len(text) > _LONGEST else plain
