"""One security table, mapped to both clients: kafka-python and aiokafka (under Faust).

Secrets are `SecretStr`: they show as stars wherever a setting is printed. They come from the environment, from
`*_file` keys, or (for tests) from the file itself.
"""

from __future__ import annotations

import ssl
from typing import Any, ClassVar, Literal, Self

from pydantic import model_validator

from connectors.kafka.credentials import Credentials
from models.errors import InputError

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
        if self.mechanism == "OAUTHBEARER" and not (self.token or self.token_file):
            raise ValueError("OAUTHBEARER needs token or token_file")
        if sasl and self.mechanism != "OAUTHBEARER" and not (self.username and (self.password or self.password_file)):
            raise ValueError(f"{self.mechanism} needs username, and password or password_file")
        if self.cert_file and not self.key_file:
            raise ValueError("cert_file needs key_file")
        return self

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


def _tokens(security: Security) -> Any:
    from aiokafka.abc import AbstractTokenProvider

    class AiokafkaTokens(AbstractTokenProvider):  # type: ignore[misc]  # the library has no types
        async def token(self) -> str:
            return security.secret("token") or ""

    return AiokafkaTokens()


def _synchronous_tokens(security: Security) -> Any:
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class KafkaPythonTokens(AbstractTokenProvider):  # type: ignore[misc]  # the library has no types
        def token(self) -> str:
            return security.secret("token") or ""

    return KafkaPythonTokens()
