"""Faults that replace or cut a topic. Each ends its round."""

from __future__ import annotations

import time

from tests.kafka.chaos.faults.processes import kill
from tests.kafka.chaos.kinds import ALARM_SECONDS, Draw, Finding, kind, pick
from tests.kafka.chaos.orders import admin, all_folded, answer, rewind_all, send, status, telling, topic_of
from tests.kafka.chaos.world import HOSTS, PARTITIONS, World
from tests.patience import patient_time


@kind("delta-garbage", "the coordinator refuses (exit 4) and names topic and offset", place="last")
def _(world: World, draw: Draw) -> None:
    send(world, [(0, b"\x00garbage")], topic_of(world, "delta"))
    _refuses(world, "delta offset")


@kind("ledger-garbage", "the coordinator refuses (exit 4) and names topic and offset", place="last")
def _(world: World, draw: Draw) -> None:
    send(world, [(0, b"\x00garbage")], topic_of(world, "ledger"))
    kill(world.of("coordinator"))
    _refuses(world, "ledger")


@kind("ledger-recreated", "the coordinator refuses (exit 4): budgets and numbers would be forgotten", place="last")
def _(world: World, draw: Draw) -> None:
    with world.down(world.units):
        _recreate(world, "ledger")
    _refuses(world, "ledger")


def _refuses(world: World, words: str) -> None:
    """Wait until a coordinator has refused (exit 4) with these words; nobody starts it again."""
    deadline = patient_time() + ALARM_SECONDS
    while patient_time() < deadline:
        refusals = [unit.refusal for unit in world.of("coordinator")]
        if any(text and text.startswith("exit 4") and words in text for text in refusals):
            return
        time.sleep(0.5)
    raise Finding(f"silent: no coordinator refused within {ALARM_SECONDS:g} s: {refusals}, {dict(world.crashes)}")


def _recreate(world: World, name: str) -> None:
    """Delete a topic and create it again under its name, with the settings of `topics create`."""
    from kafka.admin import NewTopic

    topic = world.site.topic if name == "source" else topic_of(world, name)
    world.recreated = True
    with world.pump.held():
        if name == "source" and all(unit.pid for unit in world.of("ingest")):
            world.site.all_read()
        world.site.look()
        with admin(world) as client:
            client.delete_topics([topic])
            deadline = patient_time() + 30
            while topic in client.list_topics():
                if patient_time() > deadline:
                    raise TimeoutError(f"{topic} is not deleted")
                time.sleep(0.2)
            if name == "source":
                client.create_topics([NewTopic(topic, PARTITIONS, -1)], wait_for_metadata=True)
        if name != "source":
            world.site.command("topics", "create", "-c", str(world.site.config))
        former = world.site.forget(topic)
        if name == "source":
            world.former.append(former)


@kind("dlq-recreated", "the dlq begins again; what was in it is the operator's loss", place="last")
def _(world: World, draw: Draw) -> None:
    _recreate(world, "dlq")
    world.pump.burst(80)


@kind("releases-recreated", "the topic begins again; releases continue", place="last")
def _(world: World, draw: Draw) -> None:
    _recreate(world, pick(("releases", "released-events"), draw.u))
    world.pump.burst(80)


@kind("source-recreated-while-stopped", "a gap until `gap rewind`; every new event counts", place="last")
def _(world: World, draw: Draw) -> None:
    with world.pump.held():
        world.site.all_read()
        with world.down(world.units):
            _recreate(world, "source")
            world.pump.burst(20 + int(100 * draw.u))
    rewind_all(world)


@kind("source-recreated-while-running", "a gap until `gap rewind`; every new event counts", place="last")
def _(world: World, draw: Draw) -> None:
    _recreate(world, "source")
    world.pump.burst(20 + int(100 * draw.u))
    rewind_all(world)


@kind("source-tail-lost", "a gap until `gap rewind`; every new event counts", place="last")
def _(world: World, draw: Draw) -> None:
    """Let the broker lose its last records, which were read; new ones take their offsets."""
    with world.lock, world.pump.held():
        world.site.all_read()
        world.broker.kill()
        for number in range(PARTITIONS):
            world.broker.cut_tail(world.site.topic, number, 1 + int(3 * draw.u))
        world.broker.start()
        world.former.append(world.site.forget(world.site.topic))
    world.pump.burst(60)
    rewind_all(world)


@kind("delta-recreated", "refused (exit 4) until `gap rewind`; then every event counts", place="last")
def _(world: World, draw: Draw) -> None:
    """Lose the delta topic: its records are in the checkpoints, or are read again from the sources."""
    if draw.u < 0.5:
        with world.down(world.units):
            _recreate(world, "delta")
    else:
        _recreate(world, "delta")
    world.pump.burst(60)
    _rewind_delta(world)


def _rewind_delta(world: World) -> None:
    """The operator's order for a delta topic that is not the one of the state, given for each host that refuses: the
    standby may have an older state. Over when a coordinator continues and has all that was sent: of some partitions the
    gap shows later than of others, and a coordinator may be active in between."""
    begin, answered, deadline = time.time(), 0, patient_time() + 2 * ALARM_SECONDS
    while patient_time() < deadline:
        for host in HOSTS:
            (unit,) = world.of("coordinator", host)
            if (unit.refusal or "").startswith("exit 2"):  # it looked while there was no topic
                unit.start()
            if not (unit.refusal or "").startswith("exit 4"):
                continue
            if "gap rewind|accept" not in str(unit.refusal):
                raise Finding(f"refused: {unit}: {unit.refusal}")
            with world.down(world.of("ingest")):
                answer(world, host, "rewind")
            answered += 1
            unit.start()
        reported, where = max(((status(world, host), host) for host in HOSTS), key=lambda one: one[0].get("at", 0.0))
        if answered and reported.get("at", 0.0) > begin and reported.get("state") == "active":
            if _goes_on(world):
                return
            reported = status(world, where)
        if answered and reported.get("at", 0.0) > begin and reported.get("state") == "gap":
            # The host with the older state continues, and the group is where the newer one's order has set it.
            with world.down(world.of("ingest")):
                answer(world, where, "rewind", looked_again=True)
        time.sleep(0.5)
    raise Finding(f"silent: {answered} refusals within {2 * ALARM_SECONDS:g} s, and no coordinator continues")


def _goes_on(world: World) -> bool:
    """Return whether everything that was sent is folded before another gap is reported."""
    with world.pump.held():
        for _ in range(60):
            if all_folded(world):
                return True
            if status(world, telling(world)).get("state") == "gap":
                return False
            time.sleep(0.5)
    return False
