"""Bad records, bad configurations and planted identifiers: a dlq record or one clear line, and no word of a person."""

from __future__ import annotations

import gzip
import json
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.conftest import DECLARED
from tests.kafka import scenario
from tests.kafka.broker import Broker, ForeignBroker
from tests.kafka.site import IDENTITY, PATIENCE, Site, publication
from tests.ports import free_ports

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1800), pytest.mark.slow]

AnyBroker = Broker | ForeignBroker
CANARY = "Kanarienvogel"


def _event(case: str = f"{CANARY}-1", time_: str = "2024-01-01T00:00:00Z", **more: object) -> bytes:
    return json.dumps({"case:concept:name": case, "concept:name": "register", "time:timestamp": time_, **more}).encode()


BAD: dict[bytes | None, str] = {
    None: "null_value",
    b"\xff\xfe" + CANARY.encode(): "not_json",
    b'{"concept:name": "' + CANARY.encode(): "not_json",
    f'["{CANARY}"]'.encode(): "schema",
    json.dumps({"concept:name": CANARY}).encode(): "schema",
    _event(case=""): "schema",
    _event(time_=f"{CANARY} o'clock"): "time",
    _event(time_="2024-01-01T00:00:00"): "zoneless_time",
    _event(time_="2099-01-01T00:00:00Z"): "future",
    # Python libraries write these words, which are no JSON; a number beyond a float would become infinite.
    _event(Diagnose=float("nan")): "not_json",
    _event(note=float("-inf")): "not_json",
    _event(Diagnose=1e308).replace(b"1e+308", b"1e+309"): "schema",
    _event(Diagnose=1e308): "fine",
    json.dumps({"specversion": "2.0", "id": CANARY, "data": {}}).encode(): "version",
    _event(case=CANARY * 60_000): "fine",
    _event(**{"org:resource": CANARY * 60_000}): "fine",
    _event(Diagnose=CANARY * 200_000): "too_large",
}
"""The long case id and the long resource are fine: a pseudonym is short. The last one is a message of 2.6 MB."""


def test_bad_records_go_to_the_dlq_and_identifiers_go_nowhere(broker: AnyBroker, name: str, tmp_path: Path) -> None:
    """Each bad record becomes coordinates and a class; planted identifiers appear in no log, stack, dlq record, ledger,
    manifest, status, metric, health page or process list, and a case id or a resource in no file and in no column of
    any topic that is ours; an erased case leaves every later release."""
    one = _site(broker, name, tmp_path)
    ports = [str(port) for port in free_ports(4)]
    values = list(BAD)
    nurse = {"org:resource": f"{CANARY}-nurse", "note": f"{CANARY}-note"}
    good = [_event(f"{CANARY}-{case}", Diagnose="the secret", **nurse) for case in range(2, 14)]
    try:
        workers = [
            one.start(role, VEILSTREAM_METRICS__PORT=metrics, VEILSTREAM_HEALTH_PORT=health)
            for role, metrics, health in (("ingest", *ports[:2]), ("coordinator", *ports[2:]))
        ]
        one.send(values, 0)
        one.send(good, 0, key=f"{CANARY}-key".encode())
        one.wait(lambda: one.covered() == len(values) + len(good), "the intake of everything")
        one.command("erase", "-c", str(one.config), "-o", str(one.output()), stdin=f"{CANARY}-2\n{CANARY}-3\n")
        one.command("release", "-c", str(one.config))
        one.wait(lambda: len(one.json("releases")) == 2, "the release asked for")
        lists = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
        pages = {f"{port}/metrics": _page(port, "metrics") for port in ports[::2]}
        pages |= {f"{port}/{page}": _page(port, page) for port in ports[1::2] for page in ("healthz", "readyz", "")}
        for process in workers:
            process.send_signal(signal.SIGUSR1)  # where everything is: code, and no value of a variable
        one.wait(lambda: one.logs().count("Stack for") > 1, "the stacks that were asked for")
        assert one.stop(*workers) == [0, 0]
    finally:
        one.close()
    letters = Counter(record["error"] for _, record in one.json("dlq"))
    assert letters == Counter(kind for kind in BAD.values() if kind != "fine")
    manifests = [record["manifest"] for _, record in one.json("releases")]
    assert [manifest["counts"]["cases"] for manifest in manifests] == [10, 12]
    places = {kind: json.dumps(one.json(kind)) for kind in ("dlq", "ledger", "releases")}
    places |= {"logs": one.logs(), "process list": lists, **pages}
    assert all("veilstream_" in pages[f"{port}/metrics"] for port in ports[::2])
    assert all('"role"' in pages[f"{port}/healthz"] for port in ports[1::2])
    places["status"] = (one.output() / "operator" / "status.json").read_text()
    assert "the secret" in json.dumps(one.json("delta"))
    for kind in ("delta", "dlq", "ledger", "releases", "released-events"):
        records = list(one.records(f"veilstream.{name}.{kind}"))
        assert records
        places[f"topic {kind}"] = b"\n".join(value or b"" for _, _, value in records).decode("latin-1")
    assert [place for place, text in places.items() if CANARY in text] == []
    files = [path for path in one.output().rglob("*") if path.is_file()]
    assert {"log.xes.gz", "ledger.sqlite", "variants.parquet", "fold.checkpoint"} <= {path.name for path in files}
    assert [path for path in files if CANARY.encode() in _content(path)] == []


def _page(port: str, page: str) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}", timeout=10) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            return error.read().decode()


def _content(path: Path) -> bytes:
    """Return the content of a file, packed or not."""
    if path.suffix == ".gz":
        return gzip.decompress(path.read_bytes())
    if path.suffix == ".parquet":
        return repr(pq.read_table(path).to_pydict()).encode()
    return path.read_bytes()


def _site(broker: AnyBroker, name: str, folder: Path) -> Site:
    from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

    one = Site(
        broker.bootstrap,
        name,
        folder,
        publication("plain", "{ new_cases = 10, manual = true }", IDENTITY),
        sensitive='["Diagnose"]',
    )
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, one.topic, {"max.message.bytes": "4000000"})])
    admin.close()
    return one


@pytest.mark.parametrize(
    ("change", "line", "code"),
    [
        (('topics = ["', 'topics = ["nowhere.'), "missing on the broker", 2),
        (('bootstrap = "', 'bootstrap = "127.0.0.1:1"#'), "no broker answers", 1),
        (('bootstrap = "', 'bootstrap = "nowhere.invalid:9092"#'), "no broker answers", 1),
        (('bootstrap = "', 'bootstrap = "127.0.0.1:99999"#'), "source.bootstrap: use host:port", 2),
        (('heartbeat = "1s"', 'security = { protocol = "sasl_plaintext" }'), "allow_sasl_without_tls", 2),
        (('heartbeat = "1s"', "unknown = 1"), "source.unknown: unknown key", 2),
        (('heartbeat = "1s"', 'heartbeat = "soon"'), "source.heartbeat", 2),
    ],
)
def test_bad_configuration_is_one_line(
    broker: AnyBroker, name: str, tmp_path: Path, change: tuple[str, str], line: str, code: int
) -> None:
    """A configuration that cannot work ends with exit code 2 and one line with the place; an absent broker with 1, so
    that a service manager tries again.
    """
    one = Site(broker.bootstrap, name, tmp_path, scenario.publications(), topics=False)
    one.config.write_text(one.config.read_text().replace(*change))
    error = one.command("run", "--role", "ingest", "-c", str(one.config), "-o", str(tmp_path / "a"), expect=code)
    shown = [text for text in error.splitlines() if not text.startswith("{")]
    assert len(shown) == 1
    assert line in shown[0]


def test_a_health_port_that_is_taken_is_one_line(broker: AnyBroker, name: str, tmp_path: Path) -> None:
    """Bad configuration: the process ends with 2 and says which port."""
    one = scenario.site(broker.bootstrap, name, tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        try:
            assert one.start("ingest", VEILSTREAM_HEALTH_PORT=str(port)).wait(PATIENCE) == 2
        finally:
            one.close()
    assert f"stops: health_port {port}: Address already in use; choose another port" in one.logs()


def test_a_forgotten_topic_is_no_broker_that_is_away(broker: AnyBroker, name: str, tmp_path: Path) -> None:
    """Commands that write to a topic say which one is missing."""
    one = Site(broker.bootstrap, name, tmp_path, scenario.publications(), topics=False)
    log = tmp_path / "log.csv"
    log.write_text("case:concept:name,concept:name,time:timestamp\nc,a,2024-01-01T00:00:00Z\n")
    one.config.write_text(one.config.read_text() + DECLARED)
    error = one.command("publish", str(log), "-c", str(one.config), expect=2)
    assert f"topic {one.topic}: missing on the broker; run `veilstream topics create`" in error
    error = one.command("release", "-c", str(one.config), expect=2)
    assert f"topic veilstream.{name}.delta: missing on the broker" in error


def test_wrong_partition_count_is_found(broker: AnyBroker, name: str, tmp_path: Path) -> None:
    """A delta topic with two partitions has no total order: check reports it, and the daemon does not start."""
    from kafka.admin import KafkaAdminClient

    one = scenario.site(broker.bootstrap, name, tmp_path)
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.create_partitions({f"veilstream.{name}.delta": 2})
    one.wait(lambda: admin.describe_topics([f"veilstream.{name}.delta"])[0]["partitions"][1:] != [], "two partitions")
    admin.close()
    one.command("topics", "check", "-c", str(one.config), expect=1)
    error = one.command("run", "--role", "coordinator", "-c", str(one.config), "-o", str(tmp_path / "a"), expect=2)
    assert "2 partitions, must be 1" in error


def test_unknown_version_in_the_delta_topic_fails_loudly(broker: AnyBroker, name: str, tmp_path: Path) -> None:
    """A record of a later version is not guessed at: the coordinator ends with exit code 4 and says where."""
    one = scenario.site(broker.bootstrap, name, tmp_path)
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    producer.send(f"veilstream.{name}.delta", b'{"t":"delta","v":3,"future":true}', partition=0).get(timeout=20)
    producer.close()
    try:
        process = one.start("coordinator")
        assert process.wait(PATIENCE) == 4
        assert "delta offset 0: version 3; this program reads versions 1 and 2" in one.logs()
    finally:
        one.close()


def test_wrong_credentials_are_one_line(tmp_path: Path) -> None:
    """A broker that asks for a password refuses the wrong one; the line names the setting, and never the secret."""
    from connectors.kafka.source import Source
    from connectors.kafka.topics import admin
    from models.errors import VeilstreamError
    from tests.kafka.broker import new_broker

    broker = new_broker(user=("vera", "right-password"))
    try:
        for password in ("right-password", "wrong-password"):
            security = {
                "protocol": "sasl_plaintext",
                "allow_sasl_without_tls": True,
                "mechanism": "PLAIN",
                "username": "vera",
                "password": password,
            }
            source = Source.model_validate(
                {"topics": ["x"], "bootstrap": f"127.0.0.1:{broker.sasl_port}", "security": security}
            )
            assert password not in repr(source)
            if password.startswith("right"):
                with admin(source) as client:
                    assert client.list_topics() is not None
            else:
                with pytest.raises(VeilstreamError, match=r"source\.security") as error, admin(source):
                    pass
                assert password not in str(error.value)
                assert error.value.exit_code == 1  # to the client it looks like a broker that is away
    finally:
        broker.close()
