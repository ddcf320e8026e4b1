"""Fields that every log line of one step carries, such as the cut that is decided.

A context holds them, so that a function deep inside a decision writes a plain log line and passes no names along.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType

_NO_FIELDS: Mapping[str, str | int] = MappingProxyType({})

_open_fields: ContextVar[Mapping[str, str | int] | None] = ContextVar("log_fields", default=None)
"""Fields of the innermost open block; None outside of every block."""


@contextmanager
def log_fields(**fields: str | int) -> Iterator[None]:
    """Add fields to each log line that this thread writes in the block.

    Parameters
    ----------
    **fields
        Names of the configuration and numbers, never content of a record.
    """
    token = _open_fields.set({**current_log_fields(), **fields})
    try:
        yield
    finally:
        _open_fields.reset(token)


def add_log_fields(**fields: str | int) -> None:
    """Add fields until the innermost open block ends. Without a block nothing is added: no field may outlive its step.

    Parameters
    ----------
    **fields
        As of `log_fields`.
    """
    if _open_fields.get() is not None:
        _open_fields.set({**current_log_fields(), **fields})


def current_log_fields() -> Mapping[str, str | int]:
    """Return the fields of a log line that is written now."""
    return _open_fields.get() or _NO_FIELDS
