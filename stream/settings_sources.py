"""Where a configuration comes from: flags, environment, secret files, the TOML file, and what is refused there."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from models.errors import InputError
from stream.settings import Settings, explain

PREFIX = "VEILSTREAM_"
TEST_NAMES = {"VEILSTREAM_REQUIRE", "VEILSTREAM_KAFKA", "VEILSTREAM_LOGS"}
"""These belong to the tests."""


def read(path: Path | None, overrides: Mapping[str, Any]) -> Settings:
    """Merge file < environment < flags and validate once."""
    body = _read_toml(path) if path else {}
    where = str(path) if path else "configuration"
    merged = _merge(_merge(body, _environment()), overrides)
    try:
        return Settings.model_validate(merged)
    except ValidationError as error:
        faults = "; ".join(_named(fault, merged.get("publication")) for fault in explain(error))
        raise InputError(f"{where}: {faults}") from None
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or 'cannot be read'}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not valid TOML: {error}") from None


def _named(fault: str, publications: Any) -> str:
    """`publication.1.window: ...` with the publication's name in place of its number, where it has one."""
    found = re.match(r"publication\.(\d+)\.", fault)
    if not found or not isinstance(publications, list):
        return fault
    table = publications[int(found[1])]
    name = table.get("name") if isinstance(table, Mapping) else None
    return f"publication {name!r}: {fault.removeprefix(found[0])}" if name else fault


def _environment() -> dict[str, Any]:
    """`VEILSTREAM_A__B=value` and `VEILSTREAM_A__B_FILE=path` as a nested mapping; unknown names are errors."""
    names = [name for name in os.environ if name.startswith(PREFIX) and name not in TEST_NAMES]
    for name in names:
        top = name.removeprefix(PREFIX).removesuffix("_FILE").split("__")[0].lower()
        if top not in Settings.model_fields:
            raise InputError(
                f"environment variable {name}: no such setting ({', '.join(sorted(Settings.model_fields))})"
            )
    nested = _Environment().model_dump(exclude_unset=True)
    for name in names:
        if name.endswith("_FILE"):
            _put(nested, name.removeprefix(PREFIX).removesuffix("_FILE").lower().split("__"), _secret(name))
    return nested


def _secret(name: str) -> str:
    try:
        return Path(os.environ[name]).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise InputError(f"environment variable {name}: its file cannot be read ({error.strerror})") from None


def _put(tree: dict[str, Any], path: list[str], value: Any) -> None:
    for part in path[:-1]:
        tree = tree.setdefault(part, {})
    tree[path[-1]] = value


class _Environment(BaseSettings):
    """Only the environment part: nested by `__`, values as JSON where they parse, lists also by comma."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_nested_delimiter="__", extra="allow")

    process: dict[str, Any] = {}
    source: dict[str, Any] = {}
    metrics: dict[str, Any] = {}
    publication: list[dict[str, Any]] = []
    store: str | None = None
    key: str | None = None
    checkpoint_key: str | None = None
    checkpoint_key_former: str | None = None
    health_port: int | None = None
    min_free_bytes: int | None = None
    checkpoint_every: int | None = None

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (env_settings,)


LISTS = {"sensitive", "end_activities", "end_all", "topics", "formats"}


def _merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`over` on top of `base`, table by table; a comma list in the environment becomes a list."""
    merged = dict(base)
    for key, value in over.items():
        if isinstance(value, Mapping) and isinstance(merged.get(key), Mapping):
            merged[key] = _merge(merged[key], value)
        elif isinstance(value, Mapping):
            merged[key] = _merge({}, value)
        elif key in LISTS and isinstance(value, str):
            merged[key] = [part.strip() for part in value.split(",") if part.strip()]
        else:
            merged[key] = value
    return {key: value for key, value in merged.items() if not (key.endswith("_file") and key[:-5] in merged)}
