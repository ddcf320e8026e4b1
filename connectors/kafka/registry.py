"""`[source.registry]`: schemas by id from a registry with Confluent's interface, each fetched and compiled once."""

from __future__ import annotations

import json
import ssl
import struct
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from connectors.kafka.credentials import Credentials
from connectors.kafka.events import Poison
from models.errors import InputError, UnavailableError

MAGIC: Final = 0
HEADER: Final = struct.Struct(">bI")
"""Magic byte and schema id in front of every body: Confluent's wire format."""

UNKNOWN_SECONDS: Final = 60.0
"""An id that the registry does not know is asked for again after this long: a wrong id in every record of a topic must
not become a request for each, and one that was registered late must become known."""

UNKNOWN: Final = "unknown_schema"

LARGEST_ID: Final = (1 << 31) - 1
"""A registry's ids are Java's `int`; it answers a larger one with an error, as if it were away."""

NOT_FOUND: Final = (40401, 40402, 40403)
"""The registry's own codes for no such subject, version and schema. Any other 404 is not from a registry."""

LATE_SECONDS: Final = 1.0
"""Unknown ids are asked for once more after this long, together: a registry of several nodes may learn of a schema a
moment after its first record was written, and what is in the dlq is not an event."""

MOST_REFERENCES: Final = 256
"""Schemas that one schema may pull in; a registry that answers in a circle ends here."""

MOST_REFUSED: Final = 10_000
"""Ids without a schema that are remembered; a topic full of wrong ids must not fill the memory."""

SchemaType = Literal["AVRO", "PROTOBUF", "JSON"]
Read = Callable[[bytes], Any]


class RegistryOptions(Credentials):
    """`[source.registry]`: how to reach the schema registry. Secrets come from files or the environment."""

    table: ClassVar[str] = "source.registry"

    url: str = Field(min_length=1)
    """Address of the registry, http:// or https://; several by comma are tried in turn. Choose the address that
    producers register their schemas at."""
    timeout: float = Field(default=10.0, gt=0, le=300)
    """Seconds that one request may take; after it the registry counts as away, and is asked again. Set it when the
    registry is far away or slow to wake."""
    allow_credentials_without_tls: bool = False
    """Allows to send credentials over http://, readable by the network. Set it when another layer, such as a service
    mesh, encrypts requests to the registry."""

    @field_validator("url")
    @classmethod
    def _without_credentials(cls, value: str) -> str:
        for url in value.split(","):
            try:
                parts = urlsplit(url.strip())
                fine = parts.scheme in ("http", "https") and bool(parts.hostname)
                _ = parts.port
            except ValueError:
                fine, parts = False, None
            if not fine:
                raise ValueError("use http://host:port or https://host:port, several by comma")
            if parts is not None and (parts.username or parts.password):
                raise ValueError("the address contains credentials; use username and password_file")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        password, token = self.password or self.password_file, self.token or self.token_file
        if (self.username is None) != (password is None):
            raise ValueError("username and password (or password_file) go together")
        if password and token:
            raise ValueError("give username and password, or a token; not both")
        if (password or token) and "http://" in self.url and not self.allow_credentials_without_tls:
            raise ValueError(
                "credentials over http:// are readable by the network; use https://, or set "
                "allow_credentials_without_tls = true"
            )
        if self.key_file and not self.cert_file:
            raise ValueError("key_file needs cert_file")
        return self

    def client(self) -> Any:
        """Make the client of confluent-kafka.

        Raises
        ------
        InputError
            If it is not installed, or TLS files cannot be used.
        """
        require_library("confluent_kafka.schema_registry", "source.registry")
        from confluent_kafka.schema_registry import SchemaRegistryClient

        settings: dict[str, Any] = {"url": self.url, "timeout": self.timeout, "max.retries": 0}
        if self.username is not None:
            settings["basic.auth.user.info"] = f"{self.username}:{self.secret('password')}"
        if self.token or self.token_file:
            settings |= {
                "bearer.auth.credentials.source": "CUSTOM",
                "bearer.auth.custom.provider.function": self._bearer,
                "bearer.auth.custom.provider.config": {},
            }
        files = {"ssl.ca.location": self.ca_file, "ssl.certificate.location": self.cert_file}
        files["ssl.key.location"] = self.key_file
        settings |= {name: str(path) for name, path in files.items() if path is not None}
        if (password := self.secret("key_password")) is not None:
            settings["ssl.key.password"] = password
        try:
            return SchemaRegistryClient(settings)
        except (OSError, ssl.SSLError) as error:
            raise InputError(f"source.registry: TLS files cannot be used ({type(error).__name__})") from None

    def _bearer(self, _config: Mapping[str, Any]) -> dict[str, str]:
        """Return the headers of the client; only Confluent's cloud needs the cluster."""
        return {"bearer.auth.token": self.secret("token") or "", "bearer.auth.logical.cluster": ""}


def require_library(module: str, feature: str) -> None:
    """Raise InputError with the line to type if an optional library is missing.

    Parameters
    ----------
    module
        Import name of the library.
    feature
        Feature that needs it, with which the message begins.

    Raises
    ------
    InputError
        If the library is missing.
    """
    import importlib

    try:
        importlib.import_module(module)
    except ImportError:
        raise InputError(f"{feature} needs the extra `registry`: pip install 'veilstream[registry]'") from None


def schema_id(value: bytes) -> int:
    """Return the schema id in front of a body.

    Parameters
    ----------
    value
        Value of a record.

    Raises
    ------
    Poison
        "no_schema_id" if there is none, "unknown_schema" for one that no registry gives.
    """
    if len(value) < HEADER.size or value[0] != MAGIC:
        raise Poison("no_schema_id")
    number = int(HEADER.unpack_from(value)[1])
    if number > LARGEST_ID:
        raise Poison(UNKNOWN)
    return number


class Schemas:
    """Readers of bodies by schema id. `fetch` queries the registry and may fail; `read` only looks up.

    Parameters
    ----------
    client
        As `RegistryOptions.client` makes it.
    compilers
        Type of a schema -> from a schema and its references to a reader.
    url
        Address of the registry, for messages.
    """

    def __init__(
        self, client: Any, compilers: Mapping[SchemaType, Callable[[str, Mapping[str, str]], Read]], url: str
    ) -> None:
        self._client, self._compilers, self._url = client, compilers, url
        self._readers: dict[int, Read] = {}
        self._refused: dict[int, tuple[str, float]] = {}
        """Ids that cannot be used: the class of error, and until when it counts."""
        self._late: set[int] = set()
        """Unknown ids that were not asked for the second time yet: an outage may come between."""

    def fetch(self, values: Iterable[bytes | None], answered: Callable[[], None] = lambda: None) -> None:
        """Fetch and compile the schemas of these records that are not known yet.

        Parameters
        ----------
        values
            Bodies with their schema ids.
        answered
            Called at each answer: many ids take longer than a worker may make no progress.

        Raises
        ------
        UnavailableError
            If the registry does not answer. Nothing is decided then, and the records must wait.
        """
        if len(self._refused) > MOST_REFUSED:
            self._refused.clear()
        asked = {number for value in values if (number := _id_or_none(value)) is not None}
        new = [number for number in sorted(asked - self._readers.keys()) if self._refusal(number) is None]
        for number in new:
            if self._learn(number) == UNKNOWN:
                self._late.add(number)
            answered()
        late = sorted(self._late & asked)
        if late:
            time.sleep(LATE_SECONDS)
        for number in late:
            self._learn(number)
            self._late.discard(number)
            answered()

    def _learn(self, number: int) -> str | None:
        """Ask for one schema; return why it cannot be used, None if it can."""
        try:
            self._readers[number] = self._compile(number)
        except Poison as poison:
            self._refused[number] = (poison.kind, time.monotonic() + UNKNOWN_SECONDS)
            return poison.kind
        return None

    def read(self, value: bytes) -> Any:
        """Decode a body.

        Parameters
        ----------
        value
            Value of a record, with the schema id in front.

        Raises
        ------
        Poison
            If the body is not of its schema, or the schema cannot be used.
        UnavailableError
            If `fetch` was not asked for its schema.
        """
        number = schema_id(value)
        reader = self._readers.get(number)
        if reader is None:
            refused = self._refused.get(number)
            if refused is None:
                raise UnavailableError(f"{self._url}: schema {number} was not fetched")
            raise Poison(refused[0])
        return reader(value[HEADER.size :])

    def _refusal(self, number: int) -> str | None:
        kind, until = self._refused.get(number, ("", 0.0))
        return kind if time.monotonic() < until else None

    def _compile(self, number: int) -> Read:
        schema = self._asked(partial(self._client.get_schema, number), UNKNOWN)
        references: dict[str, str] = {}
        self._collect(schema.references or (), references)
        compiler = self._compilers.get(schema.schema_type or "AVRO")
        if compiler is None:
            raise Poison("schema_type")
        return compiler(schema.schema_str, references)

    def _collect(self, named: Iterable[Any], into: dict[str, str]) -> None:
        """Collect the referenced schemas, those that others need first."""
        for reference in named:
            if reference.name in into:
                continue
            if len(into) >= MOST_REFERENCES:
                raise Poison("bad_schema")
            into[reference.name] = ""  # known to be on its way: a circle ends here
            version = self._asked(partial(self._client.get_version, reference.subject, reference.version), "bad_schema")
            self._collect(version.schema.references or (), into)
            del into[reference.name]
            into[reference.name] = version.schema.schema_str

    def _asked(self, question: Callable[[], Any], missing: str) -> Any:
        """Return the registry's answer.

        Poison(`missing`) if it has no such schema, UnavailableError for every other failure.

        The text of its answer is not repeated: it may contain what was asked.
        """
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        try:
            return question()
        except SchemaRegistryError as error:
            status = error.http_status_code
            is_missing = status == 404 and error.error_code in NOT_FOUND
            is_refused_id = status in (400, 422) and missing == UNKNOWN
            if is_missing or is_refused_id:
                raise Poison(missing) from None
            if status == 404:  # a wrong path, a proxy: it would put every record into the dlq
                raise UnavailableError(f"{self._url}: the address answers, but is not a registry (HTTP 404)") from None
            if status in (401, 403):
                raise UnavailableError(f"{self._url}: refuses our credentials (HTTP {status})") from None
            raise UnavailableError(f"{self._url}: answers HTTP {status}") from None
        except InputError as error:  # a token file that is gone for the moment
            raise UnavailableError(str(error)) from None
        except Exception as error:  # noqa: BLE001  # the client's transport has errors of its own, and of its JSON
            raise UnavailableError(f"{self._url}: does not answer ({type(error).__name__})") from None


def _id_or_none(value: bytes | None) -> int | None:
    try:
        return None if value is None else schema_id(value)
    except Poison:
        return None


def json_text(path: Path) -> str:
    """Read the text of a schema file.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    InputError
        If the file cannot be read, or is not JSON.
    """
    try:
        text = path.read_text(encoding="utf-8")
        json.loads(text)
    except OSError as error:
        raise InputError(f"source.reader_schema: {path} cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError):
        raise InputError(f"source.reader_schema: {path} is not JSON") from None
    return text
