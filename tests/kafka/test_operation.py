"""Operation of a running daemon: both roles in one process, health, pause, stop in a build, a gap."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.kafka import scenario, surgery
from tests.kafka.broker import Broker, ForeignBroker
from tests.kafka.scenario import Keeper
from tests.kafka.site import PATIENCE, Site, publication
from tests.ports import free_ports

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1800), pytest.mark.slow]

AnyBroker = Broker | ForeignBroker


def _ask(port: int, page: str) -> tuple[int, dict[str, Any]]:
    """Status and body of a health page; (0, {}) if nobody listens."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}", timeout=5) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)
    except OSError:
        return 0, {}


def _decided(one: Site, publication: str) -> int:
    return sum(entry["kind"] in ("seal", "withheld") for entry in one.ledger() if entry["publication"] == publication)


def test_both_roles_in_one_process_report_their_health_and_obey(broker: AnyBroker, name: str, tmp_path: Path) -> None:
    """`run` without a role: ingest and coordinator are ready on two ports; `pause` holds one publication back while
    events are taken in, `resume` releases what has come; SIGTERM ends both."""
    port = free_ports(2)[0]
    one = scenario.site(broker.bootstrap, name, tmp_path, top=f"health_port = {port}\n")
    values = scenario.events(cases=20)
    program = [sys.executable, "-m", "stream.commands", "run", "-c", str(one.config), "-o", str(one.output())]
    with (tmp_path / "all.log").open("wb") as log:
        process = subprocess.Popen(program, cwd=ROOT, stdout=log, stderr=log)
    one.processes.append(process)
    try:
        one.wait(lambda: _ask(port, "readyz")[0] == _ask(port + 1, "readyz")[0] == 200, "two ready roles")
        assert _ask(port, "readyz")[1]["state"] == "ingesting"
        assert _ask(port + 1, "readyz")[1]["state"] == "active"
        assert _ask(port, "healthz")[0] == _ask(port + 1, "healthz")[0] == 200
        one.command("pause", "-c", str(one.config), "plain")
        scenario.send(one, values)
        one.wait(lambda: _decided(one, "noisy") == 2, "releases of the other publication")
        assert one.covered() == len(values)
        assert _decided(one, "plain") == 0
        one.command("resume", "-c", str(one.config), "plain")
        one.wait(lambda: _decided(one, "plain") == 1, "the release that was held back")
        (seal,) = [entry for entry in one.ledger("seal") if entry["publication"] == "plain"]
        assert (one.output() / "public" / "plain" / f"release-{seal['sequence']:06d}").is_dir()
        process.terminate()
        assert process.wait(PATIENCE) == 0
    finally:
        one.close()
    assert _ask(port, "healthz")[0] == _ask(port + 1, "healthz")[0] == 0


def test_a_role_that_dies_takes_the_other_with_it(broker: AnyBroker, name: str, tmp_path: Path) -> None:
    """kill -9 of one role of `--role all`: the other is stopped and the whole ends with 1, to be started again."""
    port = free_ports(2)[0]
    one = scenario.site(broker.bootstrap, name, tmp_path, top=f"health_port = {port}\n")
    program = [sys.executable, "-m", "stream.commands", "run", "-c", str(one.config), "-o", str(one.output())]
    with (tmp_path / "all.log").open("wb") as log:
        process = subprocess.Popen([*program, "--role", "all"], cwd=ROOT, stdout=log, stderr=log)
    one.processes.append(process)
    try:
        one.wait(lambda: _ask(port, "healthz")[0] == _ask(port + 1, "healthz")[0] == 200, "two living roles")
        listed = subprocess.run(["pgrep", "-P", str(process.pid), "-f", "role ingest"], capture_output=True, text=True)
        subprocess.run(["kill", "-9", listed.stdout.split()[0]], check=True)
        assert process.wait(PATIENCE) == 1
    finally:
        one.close()
    assert _ask(port + 1, "healthz")[0] == 0


def test_a_stop_in_the_middle_of_a_build_is_bounded(broker: AnyBroker, name: str, tmp_path: Path) -> None:
    """SIGTERM while a release is built, which continues for minutes: the process ends within its 20 s with 0, the
    release is dropped unseen, and the next start makes it from the same charge."""
    one = scenario.site(broker.bootstrap, name, tmp_path)
    values = scenario.events(cases=20)
    try:
        ingest = one.start("ingest")
        scenario.send(one, values)
        coordinator = one.start("coordinator", fault="sleep charged:1")
        one.wait(lambda: len(one.ledger("charge")) == 1, "a charge")
        assert one.ledger("seal") == []
        coordinator.terminate()
        assert coordinator.wait(PATIENCE) == 0  # the build would continue for 600 s
        assert "the stop took too long" in one.logs()
        assert one.ledger("seal") == []
        again = Keeper(one, "coordinator")
        one.wait(lambda: scenario.settled(one, len(values)), "the end of the scenario")
        assert again.stop() == 0
        assert one.stop(ingest) == [0]
    finally:
        one.close()
    assert scenario.disagreements(one) == []


def test_events_that_retention_removed_cannot_be_read_again(broker: AnyBroker, name: str, tmp_path: Path) -> None:
    """A stop was longer than the retention. `gap rewind` said it was done, and the same gap came back at each start; it
    is refused now, and `gap accept` continues."""
    from kafka import TopicPartition
    from kafka.admin import KafkaAdminClient

    one = scenario.site(broker.bootstrap, name, tmp_path, partitions=1)
    first, second = scenario.events(cases=10), scenario.events(first=10, cases=10)
    decide = ("-c", str(one.config), "-o", str(one.output()))
    try:
        coordinator, ingest = one.start("coordinator"), one.start("ingest")
        scenario.send(one, first, partitions=1)
        one.wait(lambda: scenario.settled(one, len(first)), "the releases before")
        assert one.stop(ingest) == [0]
        scenario.send(one, second, partitions=1)
        admin = KafkaAdminClient(bootstrap_servers=one.bootstrap)
        begin = len(first) + 20
        admin.delete_records({TopicPartition(one.topic, 0): begin})
        admin.close()
        ingest = one.start("ingest")
        one.wait(lambda: "nothing is released until" in one.logs(), "the alarm")
        assert one.stop(ingest) == [0]
        one.wait(lambda: _without_members(one), "the members to leave")
        refusal = one.command("gap", "rewind", *decide, expect=2)
        gone = f"{one.topic}/0: offsets {len(first)} to {begin - 1} are gone, its log begins at offset {begin}"
        assert gone in refusal
        assert "gap accept" in refusal
        one.command("gap", "accept", *decide)
        ingest = one.start("ingest")
        one.wait(lambda: one.covered() == len(first) + len(second) - 20, "the events behind the gap")
        assert coordinator.poll() is None
    finally:
        one.close()


def _without_members(one: Site) -> bool:
    from kafka.admin import KafkaAdminClient

    group = f"veilstream.{one.name}.ingest"
    admin = KafkaAdminClient(bootstrap_servers=one.bootstrap)
    try:
        return not admin.describe_groups([group])[group]["members"]
    finally:
        admin.close()


def test_a_gap_is_mended_by_setting_the_group_back(broker: AnyBroker, name: str, tmp_path: Path) -> None:
    """Somebody set the ingest group forward: what it skipped is a gap and nothing is released. `gap rewind` is refused
    while workers run; without them it sets the group back, the events come, and nothing is missing in any release."""
    from kafka import TopicPartition
    from kafka.admin import KafkaAdminClient
    from kafka.structs import OffsetAndMetadata

    port = free_ports(1)[0]
    one = scenario.site(broker.bootstrap, name, tmp_path, partitions=1, top=f"health_port = {port}\n")
    first, second = scenario.events(cases=10), scenario.events(first=10, cases=10)
    try:
        coordinator = one.start("coordinator")
        one.wait(lambda: _ask(port, "readyz")[0] == 200, "a ready coordinator")
        one.config.write_text(one.config.read_text().replace("health_port", "# health_port"))  # the worker has none
        ingest = one.start("ingest")
        scenario.send(one, first, partitions=1)
        one.wait(lambda: scenario.settled(one, len(first)), "the releases before")
        assert one.stop(ingest) == [0]
        scenario.send(one, second, partitions=1)
        admin = KafkaAdminClient(bootstrap_servers=one.bootstrap)
        place = {TopicPartition(one.topic, 0): OffsetAndMetadata(len(first) + 20, "", -1)}
        admin.alter_group_offsets(f"veilstream.{name}.ingest", place)
        admin.close()
        ingest = one.start("ingest")
        one.wait(lambda: "nothing is released until" in one.logs(), "the alarm")
        assert _ask(port, "readyz")[0] == 503
        assert _ask(port, "healthz")[0] == 200
        one.command("status", "-o", str(one.output()), "--json", expect=4)
        (partition,) = json.loads((one.output() / "operator" / "status.json").read_text())["partitions"]
        assert partition["missing"] == [len(first), len(first) + 19]
        one.command("gap", "rewind", "-c", str(one.config), "-o", str(one.output()), expect=2)
        assert one.stop(ingest) == [0]
        one.wait(lambda: _rewound(one), "the members to leave")
        ingest = one.start("ingest")
        one.wait(lambda: scenario.settled(one, len(first) + len(second)), "the releases behind the gap")
        assert _ask(port, "readyz")[0] == 200
        assert one.stop(ingest, coordinator) == [0, 0]
    finally:
        one.close()
    assert scenario.disagreements(one) == []
    assert all('"gaps_accepted": 1' not in json.dumps(record) for _, record in one.json("releases"))


def _rewound(one: Site) -> bool:
    """Try `gap rewind`: Kafka sets back only a group without members."""
    return one.outcome("gap", "rewind", "-c", str(one.config), "-o", str(one.output())).returncode == 0


@pytest.mark.parametrize("recreated", [False, True])
def test_an_ordered_release_is_awaited(broker: AnyBroker, name: str, tmp_path: Path, recreated: bool) -> None:
    """`release --wait` ends when the release can be read, with 3 if one publication is withheld, and
    reports it if nobody decides; also after the delta topic was created again, whose offsets are not
    positions any more."""
    strict = publication("strict", "{ new_cases = 1000 }", 'mechanism = { kind = "tlkc", K = 500 }\n')
    plain = publication("plain", "{ new_cases = 1000 }")
    one = Site(broker.bootstrap, name, tmp_path, plain + strict)
    values = [value for value in scenario.events(cases=20) if value not in scenario.BAD]
    command = ("release", "-c", str(one.config), "--json")
    try:
        ingest, coordinator = one.start("ingest"), one.start("coordinator")
        one.send(values, 0)
        one.wait(lambda: one.covered() == len(values), "every event")
        if recreated:
            one.command("release", "-c", str(one.config), "plain", "--wait", "10m")
            assert one.stop(ingest, coordinator) == [0, 0]
            surgery.recreate(one.bootstrap, f"veilstream.{name}.delta")
            assert one.start("coordinator").wait(PATIENCE) == 4
            one.command("gap", "accept", "-c", str(one.config), "-o", str(one.output()))
            ingest, coordinator = one.start("ingest"), one.start("coordinator")
        reported = json.loads(one.command(*command, "--wait", "10m", expect=3, stdout=True))
        published, withheld = reported["decisions"]
        assert (published["publication"], published["outcome"]) == ("plain", "published")
        assert (one.output() / "public" / "plain" / f"release-{published['release']:06d}").is_dir()
        assert (withheld["publication"], withheld["outcome"], withheld["release"]) == ("strict", "withheld", None)
        assert withheld["reasons"]
        assert "plain: published, release" in one.command("release", "-c", str(one.config), "plain", "--wait", "10m")
        assert one.stop(coordinator) == [0]
        message = one.command("release", "-c", str(one.config), "plain", "--wait", "1s", expect=1)
        assert "plain: no decision; a pause, a gap or a coordinator that does not run" in message
        assert one.stop(ingest) == [0]
    finally:
        one.close()
