"""Avro bodies of the Confluent wire format: one compiled reader per schema id."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from typing import Any

from connectors.kafka.events import Poison


def is_schema(text: str) -> bool:
    """Return whether a JSON text is an Avro schema that needs no other.

    Parameters
    ----------
    text
        The schema.
    """
    import fastavro

    try:
        fastavro.parse_schema(json.loads(text), {})
    except Exception:  # noqa: BLE001  # as below
        return False
    return True


def compiled(schema: str, references: Mapping[str, str], reader: str | None = None) -> Callable[[bytes], Any]:
    """Compile a schema to a function from a body to its value.

    Parameters
    ----------
    schema
        The writer's schema.
    references
        Schemas that it names, in the order in which they must be known.
    reader
        The reader's schema, whose defaults, aliases and wider types then apply (Avro 1.11, "Schema Resolution").

    Returns
    -------
    Callable[[bytes], Any]
        It raises Poison("body").

    Raises
    ------
    Poison
        "bad_schema", if one of the schemas cannot be used.
    """
    import fastavro

    try:
        named: dict[str, Any] = {}
        for text in references.values():
            fastavro.parse_schema(json.loads(text), named)
        writer = fastavro.parse_schema(json.loads(schema), named)
        reader_schema = None if reader is None else fastavro.parse_schema(json.loads(reader), {})
    except Exception:  # noqa: BLE001  # the library raises KeyError, TypeError and its own errors for an invalid schema
        raise Poison("bad_schema") from None

    def decode(body: bytes) -> Any:
        stream = io.BytesIO(body)
        try:
            value = fastavro.schemaless_reader(stream, writer, reader_schema)
        except Exception:  # noqa: BLE001  # EOFError, IndexError, UnicodeDecodeError ...: any error that the bytes cause
            raise Poison("body") from None
        if stream.tell() != len(body):
            raise Poison("body")  # of another schema than that of the id
        return value

    return decode
