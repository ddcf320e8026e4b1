"""State of a coordinator that ends in the middle of a step, without a broker."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from connectors.kafka.source import Source
from models.errors import VeilstreamError
from stream.config.settings import Settings
from stream.config.window import read_window
from stream.daemon.coordinator import Coordinator
from stream.daemon.delta_topic import Anchor
from stream.daemon.health import ProgressCheck
from stream.daemon.state_machine import ActiveCoordinator
from stream.daemon.status import Alarms, StatusFile
from stream.daemon.status_topic import StatusTopic
from stream.fold.fold import Fold
from stream.fold.records import Delta, Tick
from stream.fold.rules import FoldRules, PublicationRules
from stream.ledger.folder import EndedBuild, OperatorFolder, StartedBuild
from stream.run.runner import Runner

DAY = 86_400 * 10**9


class Ledger:
    """Takes dead letters, or is fenced."""

    fenced = False

    def send(self, records: Any) -> None:
        if self.fenced:
            raise RuntimeError("fenced")


class Unopened(ActiveCoordinator):
    """An engine over a fold, without topics or files; it counts its checkpoints."""

    def __init__(self) -> None:
        window = read_window({"new_events": 2})
        self.runner = Runner(Fold(FoldRules((PublicationRules("p", window, "dlq"),))), self, every=9)
        self.ledger: Any = Ledger()
        self.delta: Any = SimpleNamespace(anchor=Anchor(""), complete=lambda records, _position: records)
        self.host: Any = SimpleNamespace(settings=SimpleNamespace(process=SimpleNamespace(name="p")))
        self.service: Any = SimpleNamespace(watch=None, with_pseudonyms=lambda record: record)
        self.saved, self._saved_at = -1, time.monotonic()
        self._must_overwrite_checkpoints, self._alarms, self._build = False, Alarms(), None
        self.saves: list[int] = []

    def decide(self, cut: Any) -> None:
        self.fold.decided(cut, released=True)

    def save(self, *, mirror: bool = False) -> None:
        self.saves.append(self.position)
        self.saved = self.position

    def close(self) -> None:
        pass


def _records() -> Iterator[tuple[int, bytes, int]]:
    """Two events and their cut; then one that is too late for the publication, which says `late = "dlq"`."""
    import msgspec

    def delta(offset: int, *times: int) -> bytes:
        rows = [(offset + i, "c", "a", time, None, None, None, False) for i, time in enumerate(times)]
        body = Delta(src="s", p=0, prev=offset - 1, last=offset + len(rows) - 1, n=len(rows), rows=rows)
        return msgspec.json.encode(body)

    yield 0, delta(0, DAY, 2 * DAY), 0
    yield 1, msgspec.json.encode(Tick(at=3 * DAY)), 0
    yield 2, delta(2, 0), 0


@pytest.mark.parametrize(("fenced", "saves"), [(False, [0, 2]), (True, [0])])
def test_no_checkpoint_in_the_middle_of_a_record(tmp_path: Path, fenced: bool, saves: list[int]) -> None:
    """The dead letter of a late event cannot be sent: a state that has taken the event, at the position before it,
    would drop it as a repeat at the next start, and its letter would never be written."""
    coordinator: Any = Coordinator.__new__(Coordinator)
    coordinator._stopping = SimpleNamespace(set=lambda: None)
    coordinator._thread = SimpleNamespace(shutdown=lambda wait: None)
    engine = Unopened()
    engine.ledger.fenced = fenced
    coordinator.engine, coordinator.state = engine, "active"
    coordinator.status = StatusFile(tmp_path)
    coordinator.status_topic = StatusTopic("p", Source(topics=("t",)))
    if fenced:
        with pytest.raises(RuntimeError, match="fenced"):
            engine.apply(_records())
    else:
        engine.apply(_records())
    coordinator.close()
    assert engine.saves == saves


def test_who_loses_the_partition_ends_to_be_started_again_as_a_standby() -> None:
    """With 1, and not with the 4 of a host that must not release, which a service manager leaves alone: there would
    be no standby any more."""
    host: Any = SimpleNamespace(
        settings=Settings.model_validate({"process": {"name": "p"}}), source=Source(topics=("t",)), output=Path("out")
    )
    host.watch = None
    one: Any = Coordinator(SimpleNamespace(), host)  # type: ignore[arg-type]
    one.engine = SimpleNamespace()
    with pytest.raises(VeilstreamError, match="start it again as a standby") as ended:
        one.assigned(set())
    assert (ended.value.exit_code, one.state) == (1, "lost")


def test_a_step_that_waits_for_another_is_timed_from_its_own_begin() -> None:
    """The end of the step before must not make the one at hand look idle: it could hang unseen."""

    ended, go_on = [], threading.Event()

    def first() -> None:
        time.sleep(0.05)
        ended.append(time.monotonic())

    async def scenario() -> None:
        host: Any = SimpleNamespace(
            settings=Settings.model_validate({"process": {"name": "p"}}),
            source=Source(topics=("t",)),
            output=Path("out"),
            watch=None,
        )
        one: Any = Coordinator(SimpleNamespace(), host)  # type: ignore[arg-type]
        steps = [asyncio.ensure_future(one._run(first)), asyncio.ensure_future(one._run(go_on.wait))]
        await steps[0]
        while not one._busy_seconds():
            await asyncio.sleep(0.01)
        assert one._step_started >= ended[0]
        go_on.set()
        await steps[1]
        assert one._busy_seconds() == 0

    asyncio.run(scenario())


@pytest.mark.parametrize(("seconds", "ends"), [(7199.9, False), (7200.0, True)])
def test_a_build_that_takes_too_long_is_noted_and_ends_the_process(tmp_path: Path, seconds: float, ends: bool) -> None:
    """At the longest of `longest_build` and each `publish_after`: here a dp publication allows its builds two hours."""
    noise = {"kind": "dp-model", "epsilon": 1, "delta_dp": 1e-6, "activities": ["a"]}
    publications = [
        {"name": "p", "window": {"manual": True}, "mechanism": noise, "publish_after": "2h"},
        {"name": "q", "window": {"manual": True}, "mechanism": {"kind": "tlkc-cohorts"}},
    ]
    settings = Settings.model_validate({"longest_build": "1h", "publication": publications})
    host: Any = SimpleNamespace(settings=settings, source=Source(topics=("t",)), output=tmp_path, watch=None)
    one: Any = Coordinator(SimpleNamespace(rebalancing=False, add_future=lambda check: check.close()), host)  # type: ignore[arg-type]
    codes: list[int] = []
    one.check = ProgressCheck(60, end=codes.append)
    one.status = SimpleNamespace(alive=lambda *_: None, stopped=lambda *_: None)
    with closing(OperatorFolder(tmp_path)) as folder:
        building = {"publication": "q", "cut": "q/4/0/0", "seconds": seconds}
        one.engine = SimpleNamespace(building=building, service=SimpleNamespace(folder=folder))
        one.heartbeat()
        assert codes == [1] * ends
        assert folder.ended_build() == (EndedBuild("q/4/0/0", 7200.0, 7200.0) if ends else None)


@pytest.mark.parametrize("builds", [True, False])
def test_a_stop_during_a_build_is_no_kill(tmp_path: Path, builds: bool) -> None:
    """A build that a stop cuts off after 20 seconds was not the cause. If none runs, an earlier one may have been."""
    settings = Settings.model_validate({"process": {"name": "p"}})
    host: Any = SimpleNamespace(settings=settings, source=Source(topics=("t",)), output=tmp_path, watch=None)
    one: Any = Coordinator(SimpleNamespace(), host)  # type: ignore[arg-type]
    one.status = SimpleNamespace(alive=lambda *_: None, stopped=lambda *_: None)
    one.status_topic = SimpleNamespace(close=lambda: None)
    with closing(OperatorFolder(tmp_path)) as folder:
        folder.note_started_build(StartedBuild("p/4/0/0", 1))
        building = {"publication": "p", "cut": "p/4/0/0", "seconds": 1.0} if builds else None
        one.engine = SimpleNamespace(building=building, service=SimpleNamespace(folder=folder), close=lambda: None)
        one.close()
        assert folder.started_build() == (None if builds else StartedBuild("p/4/0/0", 1))
