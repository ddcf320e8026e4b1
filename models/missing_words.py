"""Words that exports write in place of a missing value.

They are read as values like all others, since `NA` may be a name. Everything that reads a log reports them.
"""

from __future__ import annotations

from typing import Any

MISSING_WORDS = frozenset(["nan", "na", "null", "none", "n/a", "-"])
"""The words in lower case."""


def means_missing(value: Any) -> bool:
    """Return whether a value is text that exports write for a missing value.

    Parameters
    ----------
    value
        A case id, an activity or the value of an attribute.
    """
    return isinstance(value, str) and value.strip().casefold() in MISSING_WORDS
