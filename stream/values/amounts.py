"""Numbers of things in sentences for people."""

from __future__ import annotations


def number_of(count: int, noun: str) -> str:
    """Return a count with its noun in the singular or plural.

    Parameters
    ----------
    count
        How many there are.
    noun
        The singular, of a noun whose plural ends in -s.

    Examples
    --------
    >>> number_of(1, "case"), number_of(0, "case")
    ('1 case', '0 cases')
    """
    return f"1 {noun}" if count == 1 else f"{count} {noun}s"
