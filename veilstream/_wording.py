"""Errors in the words of Python: messages name options as the command line spells them, and functions have keywords."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from models.errors import VeilstreamError

_SKIP = re.compile(r"leave such rows out with --skip-bad-rows")
_COLUMNS = re.compile(r"--columns ((?:\w+=\.\.\.,?)+)")
_SET = re.compile(r"--set (\w+=)")
_WITH = re.compile(r"\bwith --([A-Za-z][A-Za-z-]*)")
_WITH_VALUE = re.compile(r"--([A-Za-z][A-Za-z-]*) ([a-z][a-z0-9-]*)(?=[:;,)])")
_OPTION = re.compile(r"--([A-Za-z][A-Za-z-]*)")
_INSPECT = re.compile(r" \(veilstream inspect [^)]*\)")
"""Advice on a command for files."""


def in_python(message: str) -> str:
    """Return a message with keywords instead of options.

    Parameters
    ----------
    message
        A message of the command line, with options such as `--delta-dp`.

    Examples
    --------
    >>> in_python("no column 'case'; map them with --columns case=...,time=... (veilstream inspect guesses)")
    "no column 'case'; map them with columns={'case': ..., 'time': ...}"
    >>> in_python("--mechanism dp-log needs --delta-dp")
    'mechanism dp-log needs delta_dp'
    >>> in_python("all rows look like --time-format us: give this; name the zone with --timezone")
    "all rows look like time_format='us': give this; name the zone with timezone=..."
    """
    message = _COLUMNS.sub(_columns_as_mapping, _INSPECT.sub("", message))
    message = _SKIP.sub("drop such rows first (of a file: read_log(..., skip_bad_rows=True))", message)
    message = _SET.sub(r"\1", message)
    message = _WITH.sub(lambda option: f"with {_keyword(option[1])}=...", message)
    message = _WITH_VALUE.sub(lambda option: f"{_keyword(option[1])}={option[2]!r}", message)
    return _OPTION.sub(lambda option: _keyword(option[1]), message)


def _keyword(option: str) -> str:
    return option.replace("-", "_")


def _columns_as_mapping(match: re.Match[str]) -> str:
    roles = [part.partition("=")[0] for part in match[1].split(",") if part]
    return "columns={" + ", ".join(f"{role!r}: ..." for role in roles) + "}"


@contextmanager
def python_words() -> Iterator[None]:
    """Name keywords instead of options in errors that leave this block."""
    try:
        yield
    except VeilstreamError as error:
        error.args = tuple(in_python(part) if isinstance(part, str) else part for part in error.args)
        raise
