"""Explain what pydantic finds wrong in a table, without the value (it may be a secret)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import ValidationError

from models.errors import InputError

WORDING = {
    "extra_forbidden": "unknown key",
    "unexpected_keyword_argument": "unknown key",
    "missing": "is missing, and has no default; set it",
    "model_type": "must be a table of keys",
    "dataclass_type": "must be a table of keys",
}
"""Our own wording for kinds of faults, of models and of dataclasses."""

EXAMPLES = {
    "window": '{ completed_cases = 200 } or { every = "7d" }',
    "mechanism": '{ kind = "tlkc-cohorts" }',
}
"""Text to write for a table that a publication lacks."""


def explain(error: ValidationError) -> Iterator[str]:
    """Yield every fault as `place: what is wrong`; faults of the whole table have the place `settings`."""
    for fault in error.errors(include_url=False, include_input=False, include_context=False):
        place = ".".join(str(part) for part in fault["loc"]) or "settings"
        message = WORDING.get(fault["type"], fault["msg"].removeprefix("Value error, "))
        key = place.rpartition(".")[2]
        if fault["type"] == "missing" and key in EXAMPLES:
            message = f"{message}, for example to {EXAMPLES[key]}"
        yield f"{place}: {message}"


@contextmanager
def naming(publication: str, table: str) -> Iterator[None]:
    """Name publication and table in the faults that are raised inside."""
    try:
        yield
    except ValidationError as error:
        place = ".".join([table, *getattr(error, "__notes__", ())])
        faults = "; ".join(f"{place}.{fault}" for fault in explain(error))
        raise InputError(f"publication {publication!r}: {faults}") from None
    except InputError as error:
        raise InputError(f"publication {publication!r}: {error}") from None
