"""The daemon over TLS with a client certificate, over SCRAM-SHA-512 and over OAUTHBEARER, against the real broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from connectors.kafka.source import Source
from connectors.kafka.topics import admin
from models.errors import VeilstreamError
from tests.identity_provider import granting, identity_provider
from tests.kafka import scenario
from tests.kafka.broker import Broker
from tests.kafka.scenario import Keeper
from tests.kafka.secure import PASSWORD, USER, SecureBroker, secure_broker, unsecured_token
from tests.kafka.site import Site, publication

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1800), pytest.mark.slow]


@pytest.fixture(scope="module")
def secure() -> Iterator[SecureBroker]:
    broker = secure_broker()
    yield broker
    broker.close()


def tables(broker: Broker, folder: Path) -> dict[str, dict[str, Any]]:
    """`[source.security]` of each way in; secrets are in files."""
    (folder / "password").write_text(PASSWORD + "\n")
    (folder / "token").write_text(unsecured_token(USER) + "\n")
    pem = broker.folder
    tls = {"protocol": "ssl", "cert_file": f"{pem}/client-cert.pem", "key_file": f"{pem}/client-key.pem"}
    scram = {"mechanism": "SCRAM-SHA-512", "username": USER, "password_file": f"{folder}/password"}
    oauth = {"mechanism": "OAUTHBEARER", "token_file": f"{folder}/token"}
    sasl = {"protocol": "sasl_ssl"}
    every = {"tls": tls, "scram": sasl | scram, "oauthbearer": sasl | oauth}
    return {name: {"ca_file": f"{pem}/ca.pem", **table} for name, table in every.items()}


def _bootstrap(broker: SecureBroker, way: str) -> str:
    return broker.tls_bootstrap if way == "tls" else broker.sasl_bootstrap


def test_the_daemon_releases_with_tokens_of_an_identity_provider(
    secure: SecureBroker, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each process asks for tokens with the client's credentials, and again when one is about to expire. Neither the
    secret nor a token is in any log."""
    secret, lifetime = "client+secret/of the daemon", 10
    (tmp_path / "client-secret").write_text(secret + "\n")
    grant = granting(lambda: unsecured_token(USER, lifetime), lifetime)
    monkeypatch.setenv("VEILSTREAM_SOURCE__BOOTSTRAP", secure.sasl_bootstrap)
    with identity_provider(secure.folder / "broker-chain.pem", grant) as provider:
        table = {
            "protocol": "sasl_ssl",
            "mechanism": "OAUTHBEARER",
            "ca_file": f"{secure.folder}/ca.pem",
            "token_endpoint": provider.address,
            "client_id": "veilstream",
            "client_secret_file": f"{tmp_path}/client-secret",
        }
        lines = "\n".join(f'{key} = "{value}"' for key, value in table.items())
        security = f"[source.security]\n{lines}"
        one = Site(secure.bootstrap, name, tmp_path, publication("plain", "{ new_cases = 10 }"), source=security)
        try:
            keepers = Keeper(one, "ingest"), Keeper(one, "coordinator")
            one.send(scenario.events(cases=10))
            one.wait(lambda: len(one.json("releases")) == 1, "a release", 180)
            assert [keeper.stop() for keeper in keepers] == [0, 0]
        finally:
            one.close()
        assert len(provider.requests) >= 3  # the topics were created, and each role asked
        assert {request[:2] for request in provider.requests} == {("veilstream", secret)}
    assert secret not in one.logs()
    assert unsecured_token(USER)[:40] not in one.logs()


@pytest.mark.parametrize("way", ["tls", "scram", "oauthbearer"])
def test_the_daemon_releases_over_a_secure_listener(
    secure: SecureBroker, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Topics, ingest, ledger and releases: every client of the daemon passes, and no secret is in any log."""
    table = tables(secure, tmp_path)[way]
    monkeypatch.setenv("VEILSTREAM_SOURCE__BOOTSTRAP", _bootstrap(secure, way))
    lines = "\n".join(f'{key} = "{value}"' for key, value in table.items())
    one = Site(
        secure.bootstrap,
        name,
        tmp_path,
        publication("plain", "{ new_cases = 10 }"),
        source=f"[source.security]\n{lines}",
    )
    try:
        keepers = Keeper(one, "ingest"), Keeper(one, "coordinator")
        one.send(scenario.events(cases=10))
        one.wait(lambda: len(one.json("releases")) == 1, "a release", 180)
        assert [keeper.stop() for keeper in keepers] == [0, 0]
    finally:
        one.close()
    logs = one.logs()
    assert PASSWORD not in logs
    assert unsecured_token(USER)[:40] not in logs


def _source(broker: SecureBroker, way: str, table: dict[str, Any]) -> Source:
    return Source.model_validate({"topics": ["x"], "bootstrap": _bootstrap(broker, way), "security": table})


@pytest.mark.parametrize(
    ("way", "change"),
    [
        ("scram", {"password_file": "wrong"}),
        ("oauthbearer", {"token_file": "expired"}),
        ("tls", {"ca_file": "stranger"}),
        ("tls", {"cert_file": None, "key_file": None}),
        ("tls", {"cert_file": "forged-cert", "key_file": "forged-key"}),
    ],
)
def test_what_does_not_belong_is_one_line_without_the_secret(
    secure: SecureBroker, tmp_path: Path, way: str, change: dict[str, str | None]
) -> None:
    """A wrong password, an expired token, a broker of an unknown authority, no client certificate, a forged one."""
    files = {"wrong": "not-the-password", "expired": unsecured_token(USER, -60)}
    table = tables(secure, tmp_path)[way]
    with admin(_source(secure, way, table)) as client:
        assert client.list_topics() is not None  # the same settings without the change
    for key, value in change.items():
        if value in ("stranger", "forged-cert", "forged-key"):
            table[key] = f"{secure.folder}/{value}.pem"
        elif value is None:
            del table[key]
        else:
            (tmp_path / value).write_text(files[value])
            table[key] = f"{tmp_path}/{value}"
    with (
        pytest.raises(VeilstreamError, match=r"^broker 127\.0\.0\.1:\d+: ") as error,
        admin(_source(secure, way, table)),
    ):
        pass
    assert "source.security" in str(error.value)
    assert error.value.exit_code == 1  # to the client it looks like a broker that is away
    assert not any(text in str(error.value) for text in files.values())


@pytest.mark.parametrize(
    ("change", "line", "code"),
    [
        ({"ca_file": "stranger.pem"}, "no broker answers us", 1),
        ({"cert_file": "forged-cert.pem", "key_file": "forged-key.pem"}, "no broker answers us", 1),
        ({"host": "localhost"}, "no broker answers us", 1),
        ({"ca_file": "password"}, "source.security: TLS files cannot be used", 2),
        ({"key_file": "forged-key.pem"}, "source.security: TLS files cannot be used", 2),
        ({"ca_file": "nowhere.pem"}, "source.security: TLS files cannot be used", 2),
    ],
    ids=["stranger", "forged", "other host name", "no certificate", "other key", "no file"],
)
def test_the_daemon_does_not_start_with_a_wrong_certificate(
    secure: SecureBroker,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: dict[str, str],
    line: str,
    code: int,
) -> None:
    """One line that names the setting: 1 where a broker and we do not trust each other, which may pass, 2 where a file
    is of no use. A certificate for another name than the one that was dialled is refused."""
    table = tables(secure, tmp_path)["tls"]
    (secure.folder / "password").write_text(PASSWORD)
    host = change.pop("host", "127.0.0.1")
    table |= {key: f"{secure.folder}/{value}" for key, value in change.items()}
    monkeypatch.setenv("VEILSTREAM_SOURCE__BOOTSTRAP", secure.tls_bootstrap.replace("127.0.0.1", host))
    lines = "\n".join(f'{key} = "{value}"' for key, value in table.items())
    one = Site(
        secure.bootstrap,
        name,
        tmp_path,
        publication("plain", "{ new_cases = 10 }"),
        source=f"[source.security]\n{lines}",
        topics=False,
    )
    error = one.command("run", "--role", "ingest", "-c", str(one.config), "-o", str(tmp_path / "a"), expect=code)
    (shown,) = [text for text in error.splitlines() if not text.startswith("{")]
    assert line in shown
    assert "source.security" in shown
    assert PASSWORD not in error
