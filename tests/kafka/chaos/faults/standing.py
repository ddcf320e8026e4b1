"""Faults by an operator, a backup or a retention in files that do not change."""

from __future__ import annotations

import shutil

from tests.kafka.chaos.kinds import Draw, kind, pick
from tests.kafka.chaos.orders import accept_all, alarmed, answer, delete_records, log_ends, set_group
from tests.kafka.chaos.world import HOSTS, PARTITIONS, World


@kind("groups-set-back", place="quiet")
def _(world: World, draw: Draw) -> None:
    with world.down(world.units):
        begins = {number: begin for number, (begin, _) in log_ends(world, world.site.topic, PARTITIONS).items()}
        set_group(world, "ingest", world.site.topic, begins)


@kind("group-set-forward", "a gap: alarm, no release, until `gap rewind` brings the events", place="quiet")
def _(world: World, draw: Draw) -> None:
    with world.down(world.of("ingest")):
        world.pump.burst(40)
        with world.pump.held():
            ends = {number: end for number, (_, end) in log_ends(world, world.site.topic, PARTITIONS).items()}
        set_group(world, "ingest", world.site.topic, ends)
    world.pump.burst(20)
    host = alarmed(world)
    with world.down(world.of("ingest")):
        answer(world, host, "rewind")


@kind("unread-source-records-deleted", "a gap: alarm, no release, until `gap accept`", place="last")
def _(world: World, draw: Draw) -> None:
    with world.pump.held():
        world.site.all_read()
        with world.down(world.of("ingest")):
            before = log_ends(world, world.site.topic, PARTITIONS)
            world.pump.burst(60)
            with world.pump.held():
                ends = log_ends(world, world.site.topic, PARTITIONS)
            unread = {number: end + 1 + int(3 * draw.u) for number, (_, end) in before.items()}
            delete_records(world, world.site.topic, {n: at for n, at in unread.items() if at <= ends[n][1]})
    accept_all(world)


@kind("checkpoint-damaged", "the generation or the change before is used, and said", place="quiet")
def _(world: World, draw: Draw) -> None:
    with world.down(world.of("coordinator")):
        for host in HOSTS:
            folder = world.site.output(host) / "operator" / "checkpoints"
            for newest in [*folder.glob("fold.checkpoint"), *folder.glob("*.changes")][int(2 * draw.u) :][:1]:
                data = bytearray(newest.read_bytes())
                data[int(draw.u * len(data))] ^= 0xFF
                newest.write_bytes(data)


@kind("checkpoints-gone", "the mirror's is used", place="quiet")
def _(world: World, draw: Draw) -> None:
    host = pick(HOSTS, draw.u)
    with world.down(world.of("coordinator", host)):
        for path in (world.site.output(host) / "operator" / "checkpoints").glob("*"):
            path.unlink()


@kind("ledger-copy-gone", "it is read from the topic again", place="quiet")
def _(world: World, draw: Draw) -> None:
    with world.down(world.of("coordinator")):
        for host in HOSTS:
            for path in (world.site.output(host) / "operator").glob("ledger.sqlite*"):
                path.unlink()


@kind("host-folder-gone", "a bare host continues from store and topics", place="quiet", weight=3)
def _(world: World, draw: Draw) -> None:
    host = pick(HOSTS, draw.u)
    with world.down(world.of(host=host)):
        shutil.rmtree(world.site.output(host), ignore_errors=True)


@kind("host-folder-old", "an old copy of a host's folder is brought up to date", place="quiet", weight=3)
def _(world: World, draw: Draw) -> None:
    host = pick(HOSTS, draw.u)
    folder, copy = world.site.output(host), world.folder / f"backup-{host}"
    with world.down(world.of(host=host)):
        if copy.exists() and draw.v > 0.3:
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(copy, folder)
        elif folder.exists():
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(folder, copy)


@kind("read-source-records-deleted", "no gap: they were read", place="quiet")
def _(world: World, draw: Draw) -> None:
    with world.pump.held():
        ends = log_ends(world, world.site.topic, PARTITIONS)
    covered = dict.fromkeys(ends, 0)
    for _, record in world.site.json("delta"):
        if record["t"] == "delta":
            covered[record["p"]] = max(covered[record["p"]], record["last"] + 1)
    delete_records(world, world.site.topic, {number: int(at * draw.u) for number, at in covered.items() if at})
