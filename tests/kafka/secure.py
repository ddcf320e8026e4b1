"""A broker with TLS and SASL listeners next to its plain one, under a certificate authority made for the test."""

from __future__ import annotations

import argparse
import base64
import ipaddress
import json
import shlex
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from kafka.admin import ACLOperation, ResourceType

from tests.kafka.broker import Broker, classpath

USER, PASSWORD = "vera", "correct-horse"

LISTENERS = """\
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller},SSL://127.0.0.1:{tls},\
SASL_SSL://127.0.0.1:{sasl}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL
ssl.keystore.type=PEM
ssl.keystore.location={folder}/broker-chain.pem
ssl.truststore.type=PEM
ssl.truststore.location={folder}/ca.pem
listener.name.ssl.ssl.client.auth=required
sasl.enabled.mechanisms=SCRAM-SHA-512,OAUTHBEARER
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=\
org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl_ssl.oauthbearer.sasl.jaas.config=\
org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";
"""
"""Java's properties take the last of two values. OAUTHBEARER is validated by Kafka's own unsecured JWS handler, which
is what a broker has without an identity provider: it checks form, subject and expiry, and no signature."""


class SecureBroker(Broker):
    """`tls_bootstrap` asks for a client certificate, `sasl_bootstrap` for SCRAM-SHA-512 or OAUTHBEARER over TLS."""

    format_options = ("--add-scram", f"SCRAM-SHA-512=[name={USER},password={PASSWORD}]")

    def _configure(self, port: int, controller: int, user: tuple[str, str] | None) -> None:
        super()._configure(port, controller, None)
        tls, sasl = self.tls_port, self.sasl_port
        self.tls_bootstrap, self.sasl_bootstrap = f"127.0.0.1:{tls}", f"127.0.0.1:{sasl}"
        certificates(self.folder)
        text = LISTENERS.format(port=port, controller=controller, tls=tls, sasl=sasl, folder=self.folder)
        with Path(self._properties).open("a") as file:
            file.write(text)


AUTHORIZER = """\
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
allow.everyone.if.no.acl.found=false
"""
"""The plain listeners, which the broker itself uses too, are the administrator's."""

ROLES = ("ingest", "coordinator", "operator")


class GuardedBroker(SecureBroker):
    """A secure broker on which a principal may do what its ACLs say, and nothing else. One SCRAM user for each role."""

    format_options = tuple(
        word for role in ROLES for word in ("--add-scram", f"SCRAM-SHA-512=[name={role},password={PASSWORD}]")
    )

    def _configure(self, port: int, controller: int, user: tuple[str, str] | None) -> None:
        super()._configure(port, controller, user)
        with Path(self._properties).open("a") as file:
            file.write(AUTHORIZER)

    def kafka_acls(self, line: str) -> None:
        """Do what a command line of kafka-acls.sh asks for. The script's Java class is not among the broker's jars."""
        from kafka.admin import ACL, ACLPermissionType, KafkaAdminClient, ResourcePattern

        script, *words = shlex.split(line)
        assert script == "kafka-acls.sh"
        asked = _acl_options().parse_args(words)
        resources = {ResourceType.TOPIC: asked.topic, ResourceType.GROUP: asked.group}
        resources[ResourceType.TRANSACTIONAL_ID] = asked.transactional_id
        acls = [
            ACL(asked.allow_principal, "*", ACL_OPERATIONS[word], ACLPermissionType.ALLOW, ResourcePattern(kind, name))
            for kind, names in resources.items()
            for name in names
            for word in asked.operation
        ]
        assert acls
        admin = KafkaAdminClient(bootstrap_servers=asked.bootstrap_server)
        try:
            if asked.add:
                admin.create_acls(acls)
            else:
                admin.delete_acls(acls)
        finally:
            admin.close()


ACL_OPERATIONS = {
    "Read": ACLOperation.READ,
    "Write": ACLOperation.WRITE,
    "Create": ACLOperation.CREATE,
    "Describe": ACLOperation.DESCRIBE,
    "DescribeConfigs": ACLOperation.DESCRIBE_CONFIGS,
}
"""Words of kafka-acls.sh (https://kafka.apache.org/documentation/#security_authz_cli)."""


def _acl_options() -> argparse.ArgumentParser:
    """Return a parser of the options of kafka-acls.sh that are used here."""
    options = argparse.ArgumentParser(allow_abbrev=False)
    options.add_argument("--bootstrap-server", required=True)
    options.add_argument("--allow-principal", required=True)
    what = options.add_mutually_exclusive_group(required=True)
    what.add_argument("--add", action="store_true")
    what.add_argument("--remove", action="store_true")
    for name in ("--operation", "--topic", "--group", "--transactional-id"):
        options.add_argument(name, action="append", default=[])
    return options


def guarded_broker() -> GuardedBroker:
    """A started broker; the caller closes it."""
    return GuardedBroker(classpath()).started()


def secure_broker() -> SecureBroker:
    """A started broker; the caller closes it."""
    return SecureBroker(classpath()).started()


def certificates(folder: Path) -> None:
    """`ca.pem`; `broker` and `client` as `-cert.pem`, `-key.pem` and `-chain.pem` (key and certificate in one file);
    `stranger.pem`, an authority that signed nothing here; `forged` as `client`, signed by the stranger."""
    key = ec.generate_private_key(ec.SECP256R1())
    authority = _certificate("test authority", key, None)
    (folder / "ca.pem").write_bytes(_pem(authority))
    other = ec.generate_private_key(ec.SECP256R1())
    stranger = _certificate("another authority", other, None)
    (folder / "stranger.pem").write_bytes(_pem(stranger))
    for name, issuer in (("broker", (authority, key)), ("client", (authority, key)), ("forged", (stranger, other))):
        own = ec.generate_private_key(ec.SECP256R1())
        signed = _pem(_certificate(name, own, issuer))
        private = own.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        (folder / f"{name}-key.pem").write_bytes(private)
        (folder / f"{name}-cert.pem").write_bytes(signed)
        (folder / f"{name}-chain.pem").write_bytes(private + signed + _pem(authority))


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: tuple[x509.Certificate, ec.EllipticCurvePrivateKey] | None,
) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    signer = key if issuer is None else issuer[1]
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer[0].subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    if issuer is None:
        usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        builder = builder.add_extension(usage, critical=True)
    else:
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        purposes = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
        builder = builder.add_extension(names, critical=False).add_extension(purposes, critical=False)
        builder = builder.add_extension(authority, critical=False)
    return builder.sign(signer, hashes.SHA256())


def unsecured_token(subject: str, seconds: int = 3600) -> str:
    """A JWS without signature (RFC 7515, appendix A.5), as Kafka's unsecured handler takes it."""
    now = int(time.time())
    parts = ({"alg": "none"}, {"sub": subject, "iat": now, "exp": now + seconds})
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts) + "."
