"""Failover to a bare host: the first one and its disk are gone for good, after releases and with a delta topic that
has lost its begin; what is left is the broker and the store."""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from connectors import read_log
from stream.config import sources
from stream.ledger.checkpoints import SavedState
from stream.run.service import mirror_of
from tests.kafka import scenario
from tests.kafka.broker import Broker, ForeignBroker
from tests.kafka.refold import content
from tests.kafka.scenario import Keeper
from tests.kafka.site import Site, publication

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1800), pytest.mark.slow]

AUDITED = (
    'mechanism = { kind = "identity" }\n'
    "audit = { bk_length = 2, n = [0, 1], leakage = false, risk = false, utility = false }\n"
)
"""Anonymity and series: figures of a release that depend on every release before it."""

FIRST, SECOND = scenario.events(cases=20), scenario.events(first=20, cases=20)


def _site(broker: Broker | ForeignBroker, name: str, folder: Path, key: str) -> Site:
    folder.mkdir(exist_ok=True)
    top = f'key = "{key}"\ncheckpoint_key = "{secrets.token_hex(32)}"\nstore = "{folder}/shared"\n'
    return Site(broker.bootstrap, name, folder, publication("plain", "{ new_cases = 10 }", AUDITED), top=top)


def _announced(one: Site, releases: int) -> Callable[[], bool]:
    return lambda: len(one.ledger("published")) >= releases


def _mirrored(one: Site) -> int:
    """Position of the newest checkpoint in the mirror, -1 for none."""

    mirror = mirror_of(sources.load(one.config), one.folder / "nowhere")
    state = None if mirror is None else mirror.load()
    return -1 if state is None else (SavedState.decode(state).position or 0)


def _forget(one: Site, before: int) -> None:
    """Delete records of the delta topic, as retention does."""
    from kafka import TopicPartition
    from kafka.admin import KafkaAdminClient

    admin = KafkaAdminClient(bootstrap_servers=one.bootstrap)
    admin.delete_records({TopicPartition(f"veilstream.{one.name}.delta", 0): before})
    admin.close()


def _series(one: Site, host: str) -> list[tuple[Any, Any]]:
    """Of each release: what it holds, and what was found when it was held against those before."""
    public = sorted((one.folder / "shared" / "public" / "plain").glob("release-*"))
    logs = [content(read_log(folder / "log.xes.gz"), ()) for folder in public]
    audits = [json.loads(path.read_bytes()) for path in sorted(one.output(host).glob("operator/plain/*/audit.json"))]
    return list(zip(logs, [(audit["anonymity"], audit["series"], audit["counts"]) for audit in audits], strict=True))


def _undisturbed(broker: Broker | ForeignBroker, name: str, folder: Path, key: str) -> list[tuple[Any, Any]]:
    one = _site(broker, name, folder, key)
    try:
        keepers = Keeper(one, "ingest"), Keeper(one, "coordinator")
        one.send(FIRST), one.send(SECOND)
        one.wait(_announced(one, 4), "four releases", 180)
        assert [keeper.stop() for keeper in keepers] == [0, 0]
    finally:
        one.close()
    return _series(one, "a")


def test_a_bare_host_goes_on_after_releases(broker: Broker | ForeignBroker, name: str, tmp_path: Path) -> None:
    """Host a dies with its disk after two releases; host b takes its state and the operator's files from the store,
    the ledger from its topic, and the series is the one of a run without the failover. A third host that was not
    given the pseudonym key refuses, and leaves the topics as they are."""
    key = secrets.token_hex(32)
    one = _site(broker, name, tmp_path / "site", key)
    try:
        first = Keeper(one, "ingest"), Keeper(one, "coordinator")
        one.send(FIRST)
        one.wait(_announced(one, 2), "two releases", 180)
        one.wait(lambda: _mirrored(one) >= 0, "a checkpoint in the mirror", 60)
        for keeper in first:
            keeper.abandon()
        shutil.rmtree(one.output("a"))
        _forget(one, _mirrored(one) + 1)
        second = Keeper(one, "ingest", host="b"), Keeper(one, "coordinator", host="b")
        one.send(SECOND)
        one.wait(_announced(one, 4), "the releases of the second host", 180)
        assert [keeper.stop() for keeper in second] == [0, 0]
        assert "checkpoint: taken from the mirror" in one.logs()
        before = [value for _, _, value in one.records(f"veilstream.{name}.delta")]
        one.config.write_text(one.config.read_text().replace(key, secrets.token_hex(32)))
        assert one.start("coordinator", "c").wait(60) == 4
        assert "the pseudonym key of this host is not the one of the recorded events" in one.logs()
        assert [value for _, _, value in one.records(f"veilstream.{name}.delta")] == before
    finally:
        one.close()
    assert [entry["sequence"] for entry in one.ledger("seal")] == [1, 2, 3, 4]
    assert [record["manifest"]["sequence"] for _, record in one.json("releases")] == [1, 2, 3, 4]
    assert _series(one, "b") == _undisturbed(broker, f"{name}control", tmp_path / "control", key)
