"""Protobuf bodies of the Confluent wire format: message indexes, then the message; one set of types per schema id."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from connectors.kafka.events import DEEPEST, Poison
from connectors.times import EPOCH
from models.errors import UnavailableError

MAIN: Final = "veilstream.main.proto"
"""The name under which a schema is compiled; references have names of their own."""

COMPILE_SECONDS = 60.0
MOST_INDEXES = 64
"""Levels of nested message types; a larger count is not a message index."""


def compiled(schema: str, references: Mapping[str, str]) -> Callable[[bytes], Any]:
    """Compile a schema to a function from a body (message indexes and message) to a dict by field names.

    Enums become their names, well-known times become times, wrappers their values. A field without presence that is not
    set has its default, one with presence is absent.

    Parameters
    ----------
    schema
        The text of a .proto file.
    references
        Files that it imports, by name.

    Returns
    -------
    Callable[[bytes], Any]
        It raises Poison("message_index") and Poison("body").

    Raises
    ------
    Poison
        "bad_schema", if protoc refuses the files.
    UnavailableError
        If protoc cannot run.
    """
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    files = descriptor_pb2.FileDescriptorSet.FromString(_descriptors(schema, references))
    pool = descriptor_pool.DescriptorPool()
    try:
        for file in files.file:
            pool.Add(file)
        messages = pool.FindFileByName(MAIN)
        main_file = next(file for file in files.file if file.name == MAIN)
        kinds = [messages.message_types_by_name[message_type.name] for message_type in main_file.message_type]
    except (KeyError, TypeError, ValueError):
        raise Poison("bad_schema") from None
    classes: dict[tuple[int, ...], Any] = {}

    def kind(indexes: tuple[int, ...]) -> Any:
        if indexes not in classes:
            try:
                message_type = kinds[indexes[0]]
                for index in indexes[1:]:
                    message_type = message_type.nested_types[index]
            except IndexError:
                raise Poison("message_index") from None
            classes[indexes] = message_factory.GetMessageClass(message_type)
        return classes[indexes]

    def decode(body: bytes) -> Any:
        indexes, begin = message_indexes(body)
        message = kind(indexes)()
        try:
            message.ParseFromString(body[begin:])
        except Exception:  # noqa: BLE001  # DecodeError; the implementations differ in what else they raise
            raise Poison("body") from None
        if not message.IsInitialized():
            raise Poison("body")  # a required field of proto2 is not there
        try:
            return _value(message, 0)
        except Poison:
            raise
        except Exception:  # noqa: BLE001  # a Struct with a NaN or without a kind: valid bytes, and no JSON
            raise Poison("body") from None

    return decode


def _descriptors(schema: str, references: Mapping[str, str]) -> bytes:
    """Compile the files by protoc in a process of its own: what it prints about a schema stays out of our log."""
    try:
        with tempfile.TemporaryDirectory(prefix="veilstream-proto-") as name:
            folder = Path(name, "in")
            folder.mkdir()
            return _by_protoc(folder, Path(name, "out.bin"), schema, references)
    except OSError as error:  # a full or read-only disk is not a fault of the schema
        raise UnavailableError(f"protoc cannot run ({error.strerror})") from None


def _by_protoc(folder: Path, out: Path, schema: str, references: Mapping[str, str]) -> bytes:
    for file, text in {**references, MAIN: schema}.items():
        if ".." in Path(file).parts or Path(file).is_absolute():
            raise Poison("bad_schema")
        try:
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text(text, encoding="utf-8")
        except ValueError:
            raise Poison("bad_schema") from None
        except OSError as error:
            if error.errno in _NO_NAME:
                raise Poison("bad_schema") from None
            raise
    command = [sys.executable, "-c", _PROTOC, str(folder), str(out), MAIN]
    try:
        ended = subprocess.run(command, capture_output=True, timeout=COMPILE_SECONDS, check=False)  # noqa: S603
    except subprocess.TimeoutExpired:
        raise UnavailableError("protoc does not answer") from None
    if ended.returncode == REFUSES and os.fsencode(out) not in ended.stderr:
        raise Poison("bad_schema")
    if ended.returncode:  # killed, or without room for its output: the schema may be sound
        raise UnavailableError(f"protoc ended with code {ended.returncode}")
    return out.read_bytes()


_NO_NAME: Final = (errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EINVAL)
"""Errors of a name that is not a file's, or also a folder's."""

REFUSES: Final = 3
"""Exit code of the process below where protoc refuses; Python itself ends with 1."""

_PROTOC = """
import sys
from importlib.resources import files
from grpc_tools import protoc
folder, out, name = sys.argv[1:]
own = str(files("grpc_tools") / "_proto")
arguments = ["protoc", f"-I{folder}", f"-I{own}", f"--descriptor_set_out={out}", "--include_imports", name]
sys.exit(3 if protoc.main(arguments) else 0)
"""


def message_indexes(body: bytes) -> tuple[tuple[int, ...], int]:
    """Return which message of the schema a body contains, and where the message begins.

    The body begins with a count and as many indexes, as zigzag varints; a single 0 is the first message.

    Parameters
    ----------
    body
        A record's value behind the schema id.

    Returns
    -------
    indexes
        Place of the message among those of the file, then among those nested in it.
    begin
        Place of its first byte.

    Raises
    ------
    Poison
        "message_index", if there is none.
    """
    count, at = _varint(body, 0)
    if count == 0:
        return (0,), at
    if not 0 < count <= MOST_INDEXES:
        raise Poison("message_index")
    indexes = []
    for _ in range(count):
        index, at = _varint(body, at)
        if index < 0:
            raise Poison("message_index")
        indexes.append(index)
    return tuple(indexes), at


def _varint(body: bytes, at: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 35, 7):
        if at >= len(body):
            break
        byte = body[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return (number >> 1) ^ -(number & 1), at
    raise Poison("message_index")


_WRAPPERS: Final = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)


def _value(message: Any, depth: int) -> Any:
    """Convert a message to a dict, a time, or the value that it wraps."""
    kind = message.DESCRIPTOR.full_name
    if kind in _WRAPPERS:
        return message.value
    if kind == "google.protobuf.Timestamp":
        return _moment(message)
    if kind in ("google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue"):
        from google.protobuf import json_format

        return json_format.MessageToDict(message)
    if depth >= DEEPEST:
        raise Poison("body")
    return {
        field.name: _field(message, field, depth)
        for field in message.DESCRIPTOR.fields
        if not field.has_presence or message.HasField(field.name)
    }


def _moment(message: Any) -> datetime | str:
    """Convert a Timestamp: to the microsecond a datetime, finer as text."""
    try:
        moment = EPOCH + timedelta(seconds=message.seconds)
    except OverflowError:
        raise Poison("time") from None
    if not 0 <= message.nanos < 1_000_000_000:
        raise Poison("time")
    if message.nanos % 1000 == 0:
        return moment + timedelta(microseconds=message.nanos // 1000)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{message.nanos:09d}+00:00"


def _field(message: Any, field: Any, depth: int) -> Any:
    value = getattr(message, field.name)
    if not field.is_repeated:
        return _single(field, value, depth)
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        values = entry.fields_by_name["value"]
        return {str(key): _single(values, value[key], depth) for key in value}
    return [_single(field, item, depth) for item in value]


def _single(field: Any, value: Any, depth: int) -> Any:
    if field.message_type is not None:
        return _value(value, depth + 1)
    if field.enum_type is not None:
        enum_values: Mapping[int, Any] = field.enum_type.values_by_number
        return enum_values[value].name if value in enum_values else value
    return value
