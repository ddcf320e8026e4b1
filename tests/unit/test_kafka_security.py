"""Security settings: refused where they would leak, mapped to both clients, never shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from connectors.kafka.security import Security
from connectors.kafka.source import Source
from models.errors import InputError

SASL = {"protocol": "sasl_ssl", "mechanism": "SCRAM-SHA-512", "username": "vera", "password": "open-sesame"}


@pytest.mark.parametrize(
    ("table", "line"),
    [
        ({**SASL, "protocol": "sasl_plaintext"}, "allow_sasl_without_tls"),
        ({"protocol": "sasl_ssl"}, "mechanism is not set"),
        ({"username": "vera"}, "does not send them"),
        ({"protocol": "sasl_ssl", "mechanism": "OAUTHBEARER"}, "token"),
        ({"protocol": "sasl_ssl", "mechanism": "PLAIN", "username": "vera"}, "password"),
        ({"protocol": "ssl", "cert_file": "client.pem"}, "key_file"),
        ({"protocol": "tls"}, "protocol"),
    ],
)
def test_what_cannot_be_meant_is_refused(table: dict[str, Any], line: str) -> None:
    """Credentials over plain text, credentials that are not sent, and half a configuration."""
    with pytest.raises(ValidationError, match=line) as error:
        Security.model_validate(table)
    assert "open-sesame" not in str(error.value)


def test_both_clients_get_the_same_credentials(tmp_path: Path) -> None:
    """kafka-python and Faust get the same mechanism, user, secret (from its file) and a verifying context."""
    secret = tmp_path / "password"
    secret.write_text("from-file\n")
    security = Security.model_validate({**SASL, "password": None, "password_file": secret})
    plain, faust = security.kafka_python(), security.faust()["broker_credentials"]
    assert (plain["security_protocol"], plain["sasl_mechanism"]) == ("SASL_SSL", "SCRAM-SHA-512")
    assert (plain["sasl_plain_username"], plain["sasl_plain_password"]) == ("vera", "from-file")
    assert (faust.username, faust.password, faust.mechanism.value) == ("vera", "from-file", "SCRAM-SHA-512")
    assert faust.protocol.value == "SASL_SSL"
    assert {**security.aiokafka(), "ssl_context": None} == {**plain, "ssl_context": None}
    assert plain["ssl_context"].check_hostname
    assert faust.ssl_context.verify_mode.name == "CERT_REQUIRED"


def test_tokens_are_read_again(tmp_path: Path) -> None:
    """OAUTHBEARER: the program that renews the token only writes the file."""
    import asyncio

    file = tmp_path / "token"
    file.write_text("first")
    security = Security.model_validate({"protocol": "sasl_ssl", "mechanism": "OAUTHBEARER", "token_file": file})
    plain = security.kafka_python()["sasl_oauth_token_provider"]
    faust = security.faust()["broker_credentials"].oauth_cb
    assert plain.token() == "first"
    file.write_text("second")
    assert plain.token() == asyncio.run(faust.token()) == "second"


def test_secrets_are_not_shown() -> None:
    """Neither the settings' text nor an error of theirs holds a secret."""
    source = Source.model_validate({"topics": ["t"], "security": SASL})
    assert "open-sesame" not in repr(source) + str(source) + source.model_dump_json()
    with pytest.raises(InputError, match="cannot be read"):
        Security.model_validate({**SASL, "password": None, "password_file": "/nowhere"}).kafka_python()


def test_no_tls_no_credentials_by_default() -> None:
    """Plain text is the default, and reports it to both clients."""
    assert Security().kafka_python() == {"security_protocol": "PLAINTEXT"}
    assert Security().faust() == {}
    assert Security().aiokafka() == {"security_protocol": "PLAINTEXT"}
