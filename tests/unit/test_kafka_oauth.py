"""Tokens for the broker from an identity provider: asked for once, renewed in time, and the secret is shown nowhere."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError
from pydantic import ValidationError

from connectors.kafka import security as module
from connectors.kafka.security import ClientCredentials, Security
from models.errors import InputError, UnavailableError
from tests.identity_provider import IdentityProvider, granting, identity_provider
from tests.kafka.secure import certificates

SECRET = "s3cret+/ &=:"
"""With every character that a form or a basic authentication would change."""

OAUTH: dict[str, Any] = {
    "protocol": "sasl_ssl",
    "mechanism": "OAUTHBEARER",
    "token_endpoint": "https://idp.example.org/token",
    "client_id": "veil stream",
    "client_secret": SECRET,
}


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    certificates(folder)
    return folder


@pytest.fixture
def provider(keys: Path) -> Iterator[IdentityProvider]:
    """Gives `token-1`, `token-2` and so on, each for an hour."""
    numbers = iter(range(1, 100))
    with identity_provider(keys / "broker-chain.pem", granting(lambda: f"token-{next(numbers)}", 3600)) as served:
        yield served


def _security(keys: Path, provider: IdentityProvider, **more: Any) -> Security:
    body = {**OAUTH, "token_endpoint": provider.address, "ca_file": keys / "ca.pem", **more}
    return Security.model_validate(body)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"token_endpoint": None}, "client_id is set without token_endpoint"),
        ({"token_endpoint": "http://idp.example.org/token"}, "must be https"),
        ({"token_endpoint": f"https://veil:{SECRET[:6]}@idp.example.org/token"}, "without credentials"),
        ({"client_id": None}, "token_endpoint needs client_id"),
        ({"client_secret": None}, "token_endpoint needs client_secret"),
        ({"token": "t"}, "keep one"),
        ({"mechanism": "PLAIN", "username": "a", "password": "b"}, "is for mechanism"),
    ],
)
def test_half_a_configuration_is_refused(change: dict[str, Any], line: str) -> None:
    """And the refusal does not show the secret."""
    given = {name: value for name, value in {**OAUTH, "token": None, **change}.items() if value is not None}
    if change == {"token_endpoint": None}:
        given["token"] = "t"
    with pytest.raises(ValidationError, match=line) as error:
        Security.model_validate(given)
    assert SECRET[:6] not in str(error.value)


def test_credentials_arrive_unchanged_and_all_clients_share_one_token(keys: Path, provider: IdentityProvider) -> None:
    """The endpoint is asked once, with the scope; both libraries send what it gave."""
    security = _security(keys, provider, scope="kafka read")
    synchronous = security.kafka_python()["sasl_oauth_token_provider"]
    asynchronous = security.aiokafka()["sasl_oauth_token_provider"]
    faust = security.faust()["broker_credentials"].oauth_cb
    tokens = [synchronous.token(), asyncio.run(asynchronous.token()), asyncio.run(faust.token())]
    assert tokens == ["token-1"] * 3
    form = {"grant_type": ["client_credentials"], "scope": ["kafka read"]}
    assert provider.requests == [("veil stream", SECRET, form)]


class _Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(module.time, "monotonic", lambda: self.now)


def test_a_token_is_renewed_before_it_expires(
    keys: Path, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After four fifths of its life, with the secret that its file holds then."""
    secret = keys / "secret"
    secret.write_text("first\n")
    security = _security(keys, provider, client_secret=None, client_secret_file=secret)
    clock, credentials = _Clock(monkeypatch), ClientCredentials(security)
    assert credentials.token() == "token-1"
    secret.write_text("second\n")
    clock.now += 0.79 * 3600
    assert credentials.token() == "token-1"
    clock.now += 0.02 * 3600
    assert credentials.token() == "token-2"
    assert [request[1] for request in provider.requests] == ["first", "second"]


def test_without_a_lifetime_each_connection_asks(keys: Path, provider: IdentityProvider) -> None:
    """Nothing says that the token is still valid."""
    provider.answer = granting(lambda: "token", None)
    credentials = ClientCredentials(_security(keys, provider))
    assert [credentials.token(), credentials.token()] == ["token", "token"]
    assert len(provider.requests) == 2


def test_a_silent_endpoint_ends_nothing_before_the_token_does(
    keys: Path, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the renewal to the end of its life the old token serves; then a connection fails and is tried again."""
    security = _security(keys, provider)
    clock = _Clock(monkeypatch)
    synchronous = security.kafka_python()["sasl_oauth_token_provider"]
    provider.answer = lambda: (503, {}, SECRET.encode())
    clock.now += 0.9 * 3600
    assert synchronous.token() == "token-1"
    clock.now += 0.2 * 3600
    with pytest.raises(KafkaConnectionError, match="does not give a token now \\(status 503\\)") as error:
        synchronous.token()
    assert SECRET not in str(error.value)


@pytest.mark.parametrize(
    ("status", "body", "line"),
    [
        (401, json.dumps({"error": "invalid_client", "error_description": SECRET}), "status 401, invalid_client"),
        (400, json.dumps({"error": SECRET}), r"\(status 400\)"),
        (403, f"<html>{SECRET}</html>", r"\(status 403\)"),
        (200, f"<html>{SECRET}</html>", "not that of a token endpoint"),
        (200, json.dumps({"token": SECRET}), "holds no access_token"),
    ],
)
def test_a_refusal_is_one_line_that_repeats_nothing_of_the_answer(
    keys: Path, provider: IdentityProvider, status: int, body: str, line: str
) -> None:
    """A provider may echo the secret. The line names the host and the keys to check."""
    provider.answer = lambda: (status, {}, body.encode())
    with pytest.raises(InputError, match=line) as error:
        _security(keys, provider).kafka_python()
    text = str(error.value)
    assert text.startswith("source.security.token_endpoint 127.0.0.1: ")
    assert SECRET not in text
    assert "\n" not in text


def test_a_redirect_carries_the_secret_nowhere(keys: Path, provider: IdentityProvider) -> None:
    """Another address never receives it."""
    with identity_provider(keys / "broker-chain.pem", granting(lambda: "stolen", 3600)) as other:
        provider.answer = lambda: (307, {"Location": other.address}, b"")
        with pytest.raises(InputError, match=r"\(status 307\)"):
            _security(keys, provider).kafka_python()
        assert other.requests == []


def test_an_unknown_authority_or_no_server_gets_no_secret(keys: Path, provider: IdentityProvider) -> None:
    """Both are an identity provider that is away, which a restart may find again."""
    with pytest.raises(UnavailableError, match="does not answer") as error:
        _security(keys, provider, ca_file=keys / "stranger.pem").kafka_python()
    assert error.value.exit_code == 1
    assert provider.requests == []
    security = _security(keys, provider, token_endpoint="https://127.0.0.1:1/token")
    with pytest.raises(UnavailableError, match="does not answer"):
        security.kafka_python()


def test_the_secret_is_in_no_text_of_the_settings() -> None:
    """Neither in a repr nor in JSON."""
    security = Security.model_validate(OAUTH)
    assert SECRET not in repr(security) + str(security) + security.model_dump_json()
