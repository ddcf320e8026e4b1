"""JSON bodies with a JSON Schema: one compiled validator per schema id."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from connectors.kafka.events import Poison


def compiled(schema: str, references: Mapping[str, str]) -> Callable[[bytes], Any]:
    """Compile a schema to a function from a body to its value.

    Parameters
    ----------
    schema
        A JSON Schema. Nothing is ever fetched from the address of a `$ref`.
    references
        Other schemas, by the name under which this one refers to them.

    Returns
    -------
    Callable[[bytes], Any]
        It raises Poison("not_json") and Poison("invalid").

    Raises
    ------
    Poison
        "bad_schema", if one of the schemas cannot be used.
    """
    import jsonschema
    from jsonschema.validators import validator_for
    from referencing import Registry
    from referencing.jsonschema import DRAFT7

    try:
        body = json.loads(schema)
        kind = validator_for(body, default=jsonschema.Draft7Validator)
        kind.check_schema(body)
        make_resource = DRAFT7.create_resource
        references_as_resources = [(name, make_resource(json.loads(text))) for name, text in references.items()]
        validator = kind(body, registry=Registry().with_resources(references_as_resources))
        validator.is_valid({})  # a reference that nothing answers shows here, or at a record
    except Exception:  # noqa: BLE001  # SchemaError, Unresolvable, ValueError, RecursionError: no usable schema
        raise Poison("bad_schema") from None
    parse = msgspec.json.Decoder().decode

    def decode(body: bytes) -> Any:
        try:
            value = parse(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise Poison("not_json") from None
        try:
            valid = validator.is_valid(value)
        except Exception:  # noqa: BLE001  # an unresolved reference, a pattern that is none
            raise Poison("bad_schema") from None
        if not valid:
            raise Poison("invalid")
        return value

    return decode
