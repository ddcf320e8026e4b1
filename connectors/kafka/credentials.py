"""Credentials for a broker and for a schema registry: password, token, certificate, each from a setting or a file."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, SecretStr

from models.errors import InputError


class Credentials(BaseModel):
    """The keys of a configuration table that identify us. A secret shows as stars wherever a setting is printed."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    table: ClassVar[str]
    """The name of the table, for messages."""

    username: str | None = None
    password: SecretStr | None = None
    password_file: Path | None = None
    token: SecretStr | None = None
    token_file: Path | None = None
    """Read again whenever a token is sent, so that whoever renews it only writes the file."""
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    key_password: SecretStr | None = None
    key_password_file: Path | None = None

    def secret(self, name: str) -> str | None:
        """Return a secret, from its setting or from its file.

        Raises
        ------
        InputError
            If the file cannot be read.
        """
        value = getattr(self, name)
        if value is not None:
            return str(value.get_secret_value())
        path = getattr(self, f"{name}_file")
        return None if path is None else _text(path, f"{self.table}.{name}_file")


def _text(path: Path, where: str) -> str:
    """Read a secret's file; InputError, which names the setting `where`, if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise InputError(f"{where}: {path} cannot be read ({error.strerror})") from None
    except ValueError:
        raise InputError(f"{where}: {path} is not UTF-8 text") from None
