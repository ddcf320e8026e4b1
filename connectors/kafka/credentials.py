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
    """Name of the account. Set it when the server asks for a name and a password."""
    password: SecretStr | None = None
    """Password of `username`. Set it when an environment variable or the one protected file holds it; it is never
    printed."""
    password_file: Path | None = None
    """File that holds the password. Set it when Kubernetes or a vault mounts secrets as files."""
    token: SecretStr | None = None
    """Bearer token. Set it when the server takes OAuth tokens and this one does not expire while the daemon runs."""
    token_file: Path | None = None
    """File that holds the bearer token; it is read again whenever a token is sent. Set it when tokens expire and
    another program renews them on the disk."""
    ca_file: Path | None = None
    """Certificate authorities that are trusted, by default those of the system. Set it when the server's certificate
    comes from a company's own authority."""
    cert_file: Path | None = None
    """Certificate of this client. Set it when the server identifies clients by certificates (mutual TLS)."""
    key_file: Path | None = None
    """Private key of `cert_file`. Set it when the server identifies clients by certificates: the key signs for this
    one."""
    key_password: SecretStr | None = None
    """Password of `key_file`. Set it when the private key is encrypted and an environment variable holds its
    password."""
    key_password_file: Path | None = None
    """File that holds the password of `key_file`. Set it when the private key is encrypted and its password is mounted
    as a file."""

    def secret(self, name: str) -> str | None:
        """Return a secret, from its setting or from its file.

        Parameters
        ----------
        name
            Name of the setting; the setting of its file ends in `_file`.

        Returns
        -------
        str or None
            None if neither is set.

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


def _text(path: Path, setting: str) -> str:
    """Read a secret's file; InputError, which names `setting`, if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise InputError(f"{setting}: {path} cannot be read ({error.strerror})") from None
    except ValueError:
        raise InputError(f"{setting}: {path} is not UTF-8 text") from None
