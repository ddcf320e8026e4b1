"""A real process that runs a replay and ends by SIGKILL at a named place.

python -m stream.testing.killer --at sealed --nth 2 -- LOG -c FILE -o DIR
python -m stream.testing.killer --operation 17 -- LOG -c FILE -o DIR     the 17th write, fsync or rename
"""

from __future__ import annotations

import argparse
from pathlib import Path

from connectors import read_log
from stream.config import sources
from stream.engine.building import EngineBuilds
from stream.release.approval import Order, PersonDecision
from stream.release.failpoints import BOUNDARIES, Failpoint, Faults, nothing
from stream.run.replay import Replay, ReplayOutcome
from stream.run.service import ReleaseService
from stream.testing.faults import FaultyDisk, at_nth, kill

BATCH = 40
"""Events a record: small, so that a short log has many places between records to die at."""


def replay(
    log: Path,
    config: Path,
    output: Path,
    *,
    at: str = "",
    nth: int = 1,
    operation: int = 0,
    engine: str = "",
) -> ReplayOutcome:
    """Replay a log with a death planned.

    Parameters
    ----------
    log, config, output
        As for `veilstream replay`.
    at, nth
        Die at the n-th passing of this boundary.
    operation
        Die at this operation on the disk, counted from 1.
    engine
        The engine that builds, in place of the mechanisms.
    """
    loaded = sources.load(config)
    process = loaded.process
    built_by = EngineBuilds(engine, output / "operator") if engine else None
    return Replay(loaded, output, faults=_death(at, nth, operation), batch=BATCH, built_by=built_by).run(
        read_log(log, process.columns.changed, process.timezone)
    )


def decide(
    config: Path,
    output: Path,
    order: Order,
    publication: str,
    number: int,
    *,
    at: str = "",
    nth: int = 1,
    operation: int = 0,
) -> None:
    """Approve or reject a held release, with a crash planned as in `replay`.

    Parameters
    ----------
    config, output
        The configuration, and the output folder.
    order
        `approve` or `reject`.
    publication, number
        The held release.
    at, nth
        Name of the boundary, and how often it is passed until the process is killed there.
    operation
        Number of the file operation at which the process is killed; 0 for none.
    """
    service = ReleaseService(sources.load(config), output, faults=_death(at, nth, operation))
    try:
        service.rule(PersonDecision(publication, number, order, by="Ann", why="crash test"))
    finally:
        service.close()


def _death(at: str, nth: int, operation: int) -> Faults:
    """Return the planned death: at the n-th passing of a boundary, at an operation on the disk, or none."""
    hook = at_nth(at, nth, kill) if at else nothing
    ops = FaultyDisk(operation, act=kill) if operation else None
    return Faults(hook, ops)


def main() -> None:
    """Command line of the killer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--at", default="", choices=["", *BOUNDARIES, Failpoint.WITHHELD, Failpoint.CHECKPOINTED])
    parser.add_argument("--nth", type=int, default=1)
    parser.add_argument("--operation", type=int, default=0)
    parser.add_argument("log", type=Path)
    parser.add_argument("-c", "--config", type=Path, required=True)
    parser.add_argument("-o", "--output", type=Path, required=True)
    chosen = parser.parse_args()
    replay(chosen.log, chosen.config, chosen.output, at=chosen.at, nth=chosen.nth, operation=chosen.operation)


if __name__ == "__main__":
    main()
