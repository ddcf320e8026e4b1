"""Sources of a configuration: flags, environment, secret files and the TOML file."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from connectors.reading import Reading
from models.errors import InputError
from stream.config import removed
from stream.config.faults import explain
from stream.config.settings import LogFile, Settings
from stream.ledger.folder import refuse_writable
from stream.ledger.layout import OperatorLayout

PREFIX = "VEILSTREAM_"
FILE = "_file"
TEST_NAMES = {"VEILSTREAM_REQUIRE", "VEILSTREAM_KAFKA", "VEILSTREAM_LOGS"}
"""These belong to the tests."""


def read(path: Path | None, overrides: Mapping[str, Any]) -> Settings:
    """Return the settings of file, environment and flags; later ones replace earlier ones."""
    body = _read_toml(path) if path else {}
    if advice := removed.advice(body):
        raise InputError(f"{path}: {'; '.join(advice)}")
    return _validated(body, str(path) if path else "configuration", overrides)


def of_folder(output: Path) -> Settings:
    """Return the configuration that an output folder was made with, with the secrets of the environment.

    Raises
    ------
    InputError
        If the folder does not contain it.
    """
    path = OperatorLayout(output).configuration
    try:
        body = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise InputError(f"{output}: does not name the configuration that it was made with; give it with -c") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({error}); give the configuration with -c") from None
    if isinstance(body, dict):
        removed.translate(body)
    return _validated(body, str(path), {})


def _validated(body: Mapping[str, Any], place: str, overrides: Mapping[str, Any]) -> Settings:
    merged = _merge(_merge(body, _environment()), overrides)
    try:
        return Settings.model_validate(merged)
    except ValidationError as error:
        faults = "; ".join(_named(fault, merged.get("publication")) for fault in explain(error))
        raise InputError(f"{place}: {faults}") from None
    except InputError as error:
        raise InputError(f"{place}: {error}") from None


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or 'cannot be read'}") from None
    except (ValueError, RecursionError) as error:  # also an int of thousands of digits, or no UTF-8
        raise InputError(f"{path}: not valid TOML: {error}") from None


def _named(fault: str, publications: Any) -> str:
    """Replace the number of a publication by its name."""
    match = re.match(r"publication\.(\d+)\.", fault)
    if not match or not isinstance(publications, list):
        return fault
    table = publications[int(match[1])]
    name = table.get("name") if isinstance(table, Mapping) else None
    if name:
        return f"publication {name!r}: {fault.removeprefix(match[0])}"
    return fault


def _environment() -> dict[str, Any]:
    """Return `VEILSTREAM_A__B=value` and `VEILSTREAM_A__B_FILE=path` as nested tables.

    Values are text: a password of digits is not a number. Tables and lists may be JSON, and lists may be separated by
    commas. A key that itself ends in `_file` takes the path. Unknown names are errors.
    """
    nested: dict[str, Any] = {}
    by_path: dict[tuple[str, ...], str] = {}
    for name, path in _names():
        kind, text = _kind(path), os.environ[name]
        if kind is None and path[-1].endswith(FILE):
            path = (*path[:-1], path[-1].removesuffix(FILE))
            kind, text = _kind(path), _secret(name)
        if kind is None:
            raise InputError(f"environment variable {name}: no such setting (docs/configuration.md names them all)")
        if path in by_path:
            raise InputError(f"environment variables {by_path[path]} and {name} set the same; keep one")
        by_path[path] = name
        _put(nested, path, _value(kind, text, name), name)
    return nested


def _names() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each variable with its keys, tables before their contents."""
    for name in sorted(os.environ, key=str.upper):
        if name.upper().startswith(PREFIX) and name not in TEST_NAMES:
            yield name, tuple(name[len(PREFIX) :].lower().split("__"))


def _kind(path: Sequence[str]) -> Any:
    """Return the type of the setting at `path`, if it exists."""
    model: type[BaseModel] | None = Settings
    kind: Any = None
    for key in path:
        if model is None or key not in model.model_fields:
            return None
        kind = model.model_fields[key].annotation
        model = _table(kind)
    return kind


def _table(kind: Any) -> type[BaseModel] | None:
    """Return the model of a table (also of one that may be absent)."""
    choices = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    for choice in choices:
        if isinstance(choice, type) and issubclass(choice, BaseModel):
            return choice
    return None


def _value(kind: Any, text: str, name: str) -> Any:
    is_list = get_origin(kind) is tuple
    if text.startswith("[" if is_list else "{") and (is_list or _table(kind) is not None):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise InputError(f"environment variable {name}: begins like JSON, but is none") from None
    return [part.strip() for part in text.split(",") if part.strip()] if is_list else text


def _secret(name: str) -> str:
    refuse_writable(Path(os.environ[name]))
    try:
        return Path(os.environ[name]).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise InputError(f"environment variable {name}: its file cannot be read ({error.strerror})") from None
    except ValueError:
        raise InputError(f"environment variable {name}: its file is not UTF-8 text") from None


def _put(tree: dict[str, Any], path: Sequence[str], value: Any, name: str) -> None:
    for part in path[:-1]:
        tree = tree.setdefault(part, {})
        if not isinstance(tree, dict):
            raise InputError(f"environment variable {name}: {part} is set as a whole by another variable; keep one")
    tree[path[-1]] = value


def _merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Put `over` on top of `base`, table by table.

    A secret and the file of that secret replace each other.
    """
    merged = dict(base)
    for key, value in over.items():
        merged.pop(f"{key}{FILE}", None)
        if key.endswith(FILE):
            merged.pop(key.removesuffix(FILE), None)
        inner = merged.get(key)
        if isinstance(value, Mapping) and isinstance(inner, Mapping):
            merged[key] = _merge(inner, value)
        else:
            merged[key] = value
    return merged


def load(path: Path | None, overrides: Mapping[str, Any] | None = None) -> Settings:
    """Read a configuration: file, then environment, then `overrides` (flags).

    Raises
    ------
    InputError
        If something cannot be read or is not allowed; the message names file and key.
    """
    from stream.config.sources import read

    return read(path, overrides or {})


def of_reading(reading: Reading, sensitive: Sequence[str] = ()) -> dict[str, Any]:
    """Return the tables of a configuration that state how a log is read, and its sensitive attributes.

    Parameters
    ----------
    reading
        The user's statements about the log. Those that are not set leave the configuration as it is.
    sensitive
        Names of sensitive attributes.
    """
    process: dict[str, Any] = {}
    if sensitive:
        process["sensitive"] = list(sensitive)
    if reading.columns:
        process["columns"] = dict(reading.columns)
    if reading.timezone:
        process["timezone"] = reading.timezone
    if reading.lifecycle:
        process["lifecycle"] = reading.lifecycle
    file = LogFile.of(reading).model_dump(exclude_none=True)
    tables = {"process": process, "file": file}
    return {name: table for name, table in tables.items() if table}
