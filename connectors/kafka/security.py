"""One security table, mapped to both clients: kafka-python and aiokafka (under Faust).

Secrets are `SecretStr`: they show as stars wherever a setting is printed. They come from the environment, from
`*_file` keys, or (for tests) from the file itself.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
import threading
import time
from collections.abc import Callable
from functools import cached_property
from http.client import HTTPException
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, Self
from urllib.error import HTTPError
from urllib.parse import quote_plus, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

import msgspec
from pydantic import Field, SecretStr, model_validator

from connectors.kafka.credentials import Credentials
from models.errors import InputError, UnavailableError, VeilstreamError

Protocol = Literal["plaintext", "ssl", "sasl_ssl", "sasl_plaintext"]
SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]


class Security(Credentials):
    """`[source.security]`: how to reach the broker. Plain text without authentication is the default."""

    table: ClassVar[str] = "source.security"

    protocol: Protocol = "plaintext"
    """Protocol of the connection; `ssl` and `sasl_ssl` encrypt. Set it when the broker uses TLS or requires a login."""
    mechanism: SaslMechanism | None = None
    """Login of the client (SASL). Set it when `protocol` begins with `sasl`; the broker's administrator knows which one
    is used."""
    check_hostname: bool = True
    """Whether the certificate must name the host of `bootstrap`. Set it when brokers are reached by an address that
    their certificates do not name, and nobody can renew these."""
    token_endpoint: str | None = Field(default=None, min_length=1)
    """OAUTHBEARER: address (`https://...`) at which the identity provider gives tokens for `client_id` and
    `client_secret` (client credentials, RFC 6749). Set it when an identity provider such as Keycloak or Entra ID
    manages the accounts of the broker, and no other program renews a token file."""
    client_id: str | None = Field(default=None, min_length=1)
    """Name of this client at `token_endpoint`. Set it when `token_endpoint` is set: the administrator of the identity
    provider registers it."""
    client_secret: SecretStr | None = None
    """Secret of `client_id`. Set it when an environment variable or the one protected file holds it; it is sent to
    `token_endpoint` alone, and never printed."""
    client_secret_file: Path | None = None
    """File that holds the secret of `client_id`; it is read again for each token. Set it when the secret is mounted as
    a file and changes while the daemon runs."""
    scope: str | None = Field(default=None, min_length=1)
    """Scope of the tokens, several by space. Set it when the identity provider gives tokens for the broker only under a
    scope, as Entra ID does."""
    allow_sasl_without_tls: bool = False
    """Allows `sasl_plaintext`, by which the network can read credentials and events. Set it when another layer, such
    as a service mesh, encrypts the connection."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        sasl = self.protocol.startswith("sasl")
        if self.protocol == "sasl_plaintext" and not self.allow_sasl_without_tls:
            raise ValueError(
                "sasl_plaintext sends credentials and events readable by the network; use sasl_ssl, or set "
                "allow_sasl_without_tls = true"
            )
        if sasl and self.mechanism is None:
            raise ValueError("protocol is sasl, but mechanism is not set (PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, ...)")
        if not sasl and (self.mechanism or self.username or self.password or self.token):
            raise ValueError(f"credentials are set, but protocol = {self.protocol!r} does not send them; use sasl_ssl")
        self._check_tokens()
        has_password = self.password or self.password_file
        if sasl and self.mechanism != "OAUTHBEARER" and not (self.username and has_password):
            raise ValueError(f"{self.mechanism} needs username, and password or password_file")
        if self.cert_file and not self.key_file:
            raise ValueError("cert_file needs key_file")
        return self

    def _check_tokens(self) -> None:
        """Refuse no source of tokens, two of them, and half of one."""
        has_token = bool(self.token or self.token_file)
        client_keys = {
            "client_id": self.client_id,
            "client_secret (or client_secret_file)": self.client_secret or self.client_secret_file,
        }
        if self.mechanism == "OAUTHBEARER" and not has_token and self.token_endpoint is None:
            raise ValueError("OAUTHBEARER needs token, token_file, or token_endpoint with client_id and client_secret")
        if self.token_endpoint is None:
            set_keys = [name for name, value in {**client_keys, "scope": self.scope}.items() if value]
            if set_keys:
                raise ValueError(f"{set_keys[0]} is set without token_endpoint, the address that gives the tokens")
            return
        if self.mechanism != "OAUTHBEARER":
            raise ValueError('token_endpoint is for mechanism = "OAUTHBEARER"')
        if has_token:
            raise ValueError("token_endpoint gives tokens, and so does token or token_file; keep one")
        missing = [name for name, value in client_keys.items() if not value]
        if missing:
            raise ValueError(f"token_endpoint needs {missing[0]}")
        address = urlsplit(self.token_endpoint)
        if address.scheme != "https" or not address.hostname or address.username or address.password:
            raise ValueError("token_endpoint must be https://host/path without credentials: the secret is sent there")

    @cached_property
    def tokens(self) -> Callable[[], str]:
        """Source of bearer tokens, which all clients of this process share."""
        if self.token_endpoint is not None:
            return ClientCredentials(self).token
        return lambda: self.secret("token") or ""

    @property
    def tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.protocol in ("ssl", "sasl_ssl")

    def ssl_context(self) -> ssl.SSLContext | None:
        """Make a verifying client context (TLS 1.2 or newer); None without TLS.

        Raises
        ------
        InputError
            If TLS files cannot be used.
        """
        if not self.tls:
            return None
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            context.check_hostname = self.check_hostname
            if self.cert_file:
                context.load_cert_chain(self.cert_file, self.key_file, self.secret("key_password"))
        except (OSError, ssl.SSLError) as error:
            raise InputError(f"source.security: TLS files cannot be used ({error})") from None
        return context

    def kafka_python(self) -> dict[str, Any]:
        """Return the keyword arguments of every kafka-python client."""
        settings: dict[str, Any] = {"security_protocol": self.protocol.upper(), **self._sasl()}
        if self.mechanism == "OAUTHBEARER":
            # Asked here for the first time: a refusal by the identity provider is then an error of its own, and not a
            # broker that seems to be away.
            self.tokens()
            settings["sasl_oauth_token_provider"] = _synchronous_tokens(self)
        return settings if not self.tls else settings | {"ssl_context": self.ssl_context()}

    def aiokafka(self) -> dict[str, Any]:
        """Return the keyword arguments of every aiokafka client."""
        settings: dict[str, Any] = {"security_protocol": self.protocol.upper(), **self._sasl()}
        if self.mechanism == "OAUTHBEARER":
            settings["sasl_oauth_token_provider"] = _tokens(self)
        return settings if not self.tls else settings | {"ssl_context": self.ssl_context()}

    def _sasl(self) -> dict[str, Any]:
        if self.mechanism is None:
            return {}
        if self.mechanism == "OAUTHBEARER":
            return {"sasl_mechanism": self.mechanism}
        return {
            "sasl_mechanism": self.mechanism,
            "sasl_plain_username": self.username,
            "sasl_plain_password": self.secret("password"),
        }

    def faust(self) -> dict[str, Any]:
        """Return the settings of `faust.App`: credentials, or a bare TLS context, or nothing."""
        from faust import auth

        context = self.ssl_context()
        if self.mechanism == "OAUTHBEARER":
            return {"broker_credentials": auth.OAuthCredentials(oauth_cb=_tokens(self), ssl_context=context)}
        if self.mechanism is not None:
            credentials = auth.SASLCredentials(
                username=self.username,
                password=self.secret("password"),
                ssl_context=context,
                mechanism=self.mechanism,
            )
            return {"broker_credentials": credentials}
        return {"broker_credentials": auth.SSLCredentials(context)} if context else {}


TOKEN_SECONDS: Final = 10.0
"""Longest wait for an answer of the token endpoint. A client of the broker waits meanwhile."""

RENEWAL_SHARE: Final = 0.8
"""A token is renewed after this share of its life, so that no connection begins with one that expires on the way."""

ANSWER_BYTES: Final = 1_000_000
"""More of an answer is not read: a token has some kilobytes."""

OAUTH_ERRORS: Final = (
    "invalid_request",
    "invalid_client",
    "invalid_grant",
    "unauthorized_client",
    "unsupported_grant_type",
    "invalid_scope",
)
"""Codes of RFC 6749, section 5.2. Anything else in an answer is not repeated in a message: it may hold the secret."""


class TokenAnswer(msgspec.Struct):
    """An answer of a token endpoint (RFC 6749, sections 5.1 and 5.2)."""

    access_token: str = ""
    expires_in: float = 0.0
    error: str = ""


class ClientCredentials:
    """Tokens of an identity provider for the client credentials of `[source.security]` (RFC 6749, section 4.4).

    A token is kept until it is due for renewal. If the endpoint does not answer then, the token is used for the rest of
    its life. Any thread may ask.

    Parameters
    ----------
    security
        The table, with the endpoint, the client and its secret.
    """

    def __init__(self, security: Security) -> None:
        self._security = security
        self._endpoint = security.token_endpoint or ""
        self._place = f"source.security.token_endpoint {urlsplit(self._endpoint).hostname}"
        self._lock = threading.Lock()
        self._token = ""
        self._renew_at = self._expires_at = float("-inf")

    def token(self) -> str:
        """Return a token that is valid now.

        Raises
        ------
        InputError
            If the endpoint refuses the credentials, or answers with something that is not a token.
        UnavailableError
            If it does not answer.
        """
        with self._lock:
            if time.monotonic() < self._renew_at:
                return self._token
            try:
                self._renew()
            except UnavailableError:
                if time.monotonic() >= self._expires_at:
                    raise
            return self._token

    def _renew(self) -> None:
        asked_at = time.monotonic()
        answer = self._ask()
        if not answer.access_token:
            raise InputError(f"{self._place}: its answer holds no access_token; is it the address of the tokens?")
        self._token = answer.access_token
        # Without a lifetime the token serves one connection.
        self._renew_at = asked_at + RENEWAL_SHARE * answer.expires_in
        self._expires_at = asked_at + answer.expires_in

    def _ask(self) -> TokenAnswer:
        form = {"grant_type": "client_credentials"}
        if self._security.scope is not None:
            form["scope"] = self._security.scope
        # Section 2.3.1: both are form-encoded before they become a basic authentication.
        name = quote_plus(self._security.client_id or "")
        secret = quote_plus(self._security.secret("client_secret") or "")
        credentials = base64.b64encode(f"{name}:{secret}".encode()).decode()
        headers = {"Authorization": f"Basic {credentials}", "Accept": "application/json"}
        request = Request(self._endpoint, urlencode(form).encode(), headers)  # noqa: S310 - the scheme is https
        opener = build_opener(HTTPSHandler(context=self._context()), _NoRedirect())
        try:
            with opener.open(request, timeout=TOKEN_SECONDS) as response:
                return self._decoded(response.read(ANSWER_BYTES))
        except HTTPError as error:
            with error:
                raise self._refusal(error.code, error.read(ANSWER_BYTES)) from None
        except (OSError, HTTPException) as error:
            reason = type(getattr(error, "reason", error)).__name__
            raise UnavailableError(
                f"{self._place}: does not answer ({reason}); check the address and source.security.ca_file"
            ) from None

    def _refusal(self, status: int, body: bytes) -> VeilstreamError:
        """Explain an answer that is not a success, without its text."""
        if status == 429 or status >= 500:
            return UnavailableError(f"{self._place}: does not give a token now (status {status})")
        try:
            code = self._decoded(body).error
        except InputError:
            code = ""
        reason = f"status {status}, {code}" if code in OAUTH_ERRORS else f"status {status}"
        advice = "check client_id, client_secret and scope of source.security"
        return InputError(f"{self._place}: refuses the request ({reason}); {advice}")

    def _decoded(self, body: bytes) -> TokenAnswer:
        try:
            # Some providers write the lifetime as text.
            return msgspec.json.decode(body, type=TokenAnswer, strict=False)
        except (msgspec.DecodeError, msgspec.ValidationError):
            raise InputError(f"{self._place}: its answer is not that of a token endpoint; check the address") from None

    def _context(self) -> ssl.SSLContext:
        """Trust the system's authorities and `ca_file`: the identity provider is often outside, the broker inside."""
        context = ssl.create_default_context()
        if self._security.ca_file is not None:
            try:
                context.load_verify_locations(self._security.ca_file)
            except (OSError, ssl.SSLError) as error:
                raise InputError(f"source.security: TLS files cannot be used ({error})") from None
        return context


class _NoRedirect(HTTPRedirectHandler):
    """Treats a redirect as a refusal: another address must not receive the secret."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _tokens(security: Security) -> Any:
    from aiokafka.abc import AbstractTokenProvider
    from aiokafka.errors import KafkaConnectionError

    class AiokafkaTokens(AbstractTokenProvider):  # type: ignore[misc]  # the library has no types
        async def token(self) -> str:
            """Return a token; a failure is an error of the connection, so that the client tries again."""
            try:
                return await asyncio.to_thread(security.tokens)
            except UnavailableError as error:
                raise KafkaConnectionError(str(error)) from None

    return AiokafkaTokens()


def _synchronous_tokens(security: Security) -> Any:
    from kafka.errors import KafkaConnectionError
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class KafkaPythonTokens(AbstractTokenProvider):  # type: ignore[misc]  # the library has no types
        def token(self) -> str:
            """Return a token; a failure is an error of the connection, so that the client tries again."""
            try:
                return security.tokens()
            except UnavailableError as error:
                raise KafkaConnectionError(str(error)) from None

    return KafkaPythonTokens()
