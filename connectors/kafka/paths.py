"""Paths into a decoded record (`after.status`, `@header.id`) and templates over them (`{table}.{column}`)."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from datetime import time as clock_time
from decimal import Decimal
from functools import partial
from typing import Any, Final
from uuid import UUID

import msgspec

from connectors import times
from models.errors import InputError
from models.instants import INSTANTS, UNITS

ABSENT: Final = object()
"""Result of a path that leads to nothing; a value that is null is None."""

_FIELD = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


def find(record: Any, path: str) -> Any:
    """Return the value at a path, `ABSENT` if there is none.

    The whole path is tried as one name first: XES names contain dots and colons. A number in a path is a place in a
    list. A text on the way that is JSON is decoded (the payload of an outbox).

    Parameters
    ----------
    record
        A decoded value.
    path
        Names and places, joined by dots.
    """
    if isinstance(record, Mapping) and path in record:
        return record[path]
    value = record
    for name in path.split("."):
        if isinstance(value, str):
            value = _embedded(value)
        if isinstance(value, Mapping):
            value = value.get(name, ABSENT)
        elif isinstance(value, list) and name.isascii() and name.isdigit() and int(name) < len(value):
            value = value[int(name)]
        else:
            return ABSENT
    return value


def _embedded(text: str) -> Any:
    if text[:1] not in ("{", "["):
        return ABSENT
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return ABSENT


@dataclass(frozen=True, slots=True)
class Template:
    """A text with paths in braces; `{{` and `}}` are braces. For a text without braces see `getter`."""

    texts: tuple[str, ...]
    paths: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Template:
        """Parse a template.

        Parameters
        ----------
        text
            Text with paths in braces, such as `{table} {op}`. A doubled brace is a brace.

        Raises
        ------
        InputError
            If a brace is left open or a path is empty.
        """
        texts, paths, begin, current = [], [], 0, ""
        for match in _FIELD.finditer(text):
            current += text[begin : match.start()]
            begin = match.end()
            if match[0] in ("{{", "}}"):
                current += match[0][0]
            elif not match[1] or not match[1].strip():
                raise InputError(f"template {text!r}: a brace without a path; write {{{{ for a brace")
            else:
                texts.append(current)
                paths.append(match[1].strip())
                current = ""
        texts.append(current + text[begin:])
        return cls(tuple(texts), tuple(paths))

    def fill(self, get: Callable[[str], Any], *, null: Any = "null") -> Any:
        """Return the text; `ABSENT` if one of its paths finds nothing.

        Parameters
        ----------
        get
            Looks a path up.
        null
            The text of a null. With `ABSENT`, a null counts as absent.
        """
        parts = [self.texts[0]]
        for path, text in zip(self.paths, self.texts[1:], strict=True):
            value = get(path)
            value = null if value is None else value
            if value is ABSENT:
                return ABSENT
            parts += [as_text(value), text]
        return "".join(parts)


def getter(text: str) -> Callable[[Callable[[str], Any]], Any]:
    """Return a function from a lookup of paths to the value of a path, or of a template if the text has braces.

    A template with a null has no value: all rows without one would get the same name.

    Parameters
    ----------
    text
        A path or a template.

    Raises
    ------
    InputError
        If the template cannot be parsed.
    """
    if "{" not in text and "}" not in text:
        return lambda get: get(text)
    return partial(Template.parse(text).fill, null=ABSENT)


def as_text(value: Any) -> str:
    """Return a value as a text for an activity or an id.

    Parameters
    ----------
    value
        A decoded value.

    Raises
    ------
    ValueError
        If the value is of a type that JSON does not have (`json_value`).
    """
    if isinstance(value, Decimal):
        return _digits(value)
    value = json_value(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _digits(value: Decimal) -> str:
    """Return a decimal with all its digits: ids may differ in the last one only. ValueError for no number."""
    if not value.is_finite():
        raise ValueError("no number")
    if value == value.to_integral_value():
        return str(int(value))
    return format(value, "f").rstrip("0")


def json_value(value: Any) -> Any:
    """Return a decoded value as JSON has it.

    Times become ISO 8601, decimals numbers (floats: 15 digits), bytes base64.

    Parameters
    ----------
    value
        A decoded value.

    Raises
    ------
    ValueError
        If the value is of another type.
    """
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, datetime | date | clock_time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, Mapping):
        return {str(key): json_value(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [json_value(item) for item in value]
    if isinstance(value, UUID):
        return str(value)
    raise ValueError(f"a value of type {type(value).__name__}")


_DEBEZIUM = re.compile(r"(?:^|[._])ts_(ms|us|ns)$")


def unit_of(path: str) -> str | None:
    """Return the unit that the name of a time contains: Kafka's `@timestamp`, Debezium's `__source_ts_ms`.

    Parameters
    ----------
    path
        Path of the time.
    """
    if path == "@timestamp":
        return "ms"
    match = _DEBEZIUM.search(path)
    return None if match is None else match[1]


def nanoseconds(value: Any, parse: Callable[[str], int], unit: str | None) -> int:
    """Return a time in ns since 1970, from a text, a time of Avro, or a number in a unit.

    Parameters
    ----------
    value
        The time.
    parse
        Reads the text of a time (`connectors.times.parser`).
    unit
        Unit of numbers: s, ms, us or ns. None: a number is no time.

    Raises
    ------
    ZonelessError, ValueError
        As `parse` raises them.
    """
    if isinstance(value, bool):
        raise ValueError("no time")
    if isinstance(value, datetime):
        if value.tzinfo is None:
            return parse(value.isoformat())
        return times.nanoseconds(value)
    if isinstance(value, str):
        return parse(value)
    if unit is None or not isinstance(value, int | float):
        raise ValueError("no time")
    moment = value * UNITS[unit] if isinstance(value, int) else round(value * UNITS[unit])
    if moment not in INSTANTS:
        raise ValueError("a time outside the years 1678 to 2261")
    return moment
