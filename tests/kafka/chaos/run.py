"""A run: rounds of strikes, each on a new process name, and their findings."""

from __future__ import annotations

import json
import shutil
import signal
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.kafka import scenario
from tests.kafka.chaos import judge
from tests.kafka.chaos.catalogue import CATALOGUE, JUDGED_BY_REFUSAL, Finding, former_events
from tests.kafka.chaos.schedule import Fault, strikes
from tests.kafka.chaos.world import ChaosBroker, World, chaos_broker
from tests.patience import patient_time

HANG_SECONDS = 180.0
"""After this long without rest a run counts as hung: the daemon's own check ends a process that hangs after 60 s, and
the one behind it may hang in its turn. Not a bound that the daemon promises."""

MOST_LINES = 5
"""Most lines that are kept of one kind of failure: many state the same."""

FENCED = ("another coordinator has taken over", "is using this folder")
"""A refusal that only costs the standby: a person starts it again."""

RATE = 12.0
"""Events a second between strikes: a cut every four seconds."""


@dataclass
class Outcome:
    """Figures of a run, and what was found."""

    seed: int
    faults: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    releases: int = 0
    rounds: int = 0
    fenced: int = 0
    recovery: list[float] = field(default_factory=list)
    crashes: Counter[str] = field(default_factory=Counter)
    findings: list[dict[str, Any]] = field(default_factory=list)

    def summary(self, seconds: float) -> dict[str, Any]:
        """Return the line that is printed at the end."""
        kinds = Counter(one["kind"] for one in self.findings)
        times = sorted(self.recovery) or [0.0]
        return {
            "seed": self.seed,
            "verdict": "broken" if self.findings else "sound",
            "struck": self.faults.total(),
            "faults": dict(sorted(self.faults.items())),
            "rounds": self.rounds,
            "seconds": round(seconds),
            "events": {name: self.events[name] for name in ("produced", "folded", "dlq")},
            "releases": self.releases,
            **{kind.replace("-", "_"): kinds[kind] for kind in judge.KINDS},
            "fenced": self.fenced,
            "recovery_seconds": {"median": round(times[len(times) // 2], 1), "slowest": round(times[-1], 1)},
            "crashes": dict(self.crashes.most_common(12)),
            "findings": self.findings,
        }


class Round:
    """One process name under its strikes."""

    def __init__(self, world: World, outcome: Outcome, number: int) -> None:
        self.world, self.outcome, self.number = world, outcome, number
        self.strike: list[Fault] = []

    def found(self, lines: Iterable[str]) -> bool:
        """Record findings; return whether there was one."""
        fresh = [
            {
                "kind": judge.kind_of(line),
                "what": line,
                "round": self.number,
                "after": [fault.description() for fault in self.strike],
                "folder": str(self.world.folder),
            }
            for line in lines
        ]
        self.outcome.findings += fresh
        for one in fresh:
            say(f"  FOUND {one['kind']}: {one['what']}")
        return bool(fresh)

    def strike_with(self, faults: Sequence[Fault]) -> bool:
        """Strike, heal, come to rest and judge; return whether the round can continue."""
        self.strike = list(faults)
        say(json.dumps([fault.description() for fault in faults]))
        findings: list[str] = []
        threads = []
        for fault in faults:
            time.sleep(fault.after)
            threads.append(threading.Thread(target=self._one, args=(fault, findings), daemon=True))
            threads[-1].start()
        for thread in threads:
            thread.join(400)
        self.world.heal()
        findings += self.world.hung
        self.world.hung = []
        return not self.found(findings)

    def _one(self, fault: Fault, findings: list[str]) -> None:
        try:
            CATALOGUE[fault.kind].strike(self.world, fault.draw)
            self.outcome.faults[fault.kind] += 1
        except Finding as finding:
            self.outcome.faults[fault.kind] += 1
            findings.append(f"{fault.kind}: {finding}")
        except Exception as error:
            say(f"  {fault.kind} could not strike: {type(error).__name__}: {error}")

    def judged(self) -> bool:
        """Come to rest, and let the verifier look; return whether it found nothing."""
        begin = time.monotonic()
        with self.world.pump.held():
            if self.found(self.rest()):
                return False
            self.outcome.recovery.append(time.monotonic() - begin)
            found = self.found(self.explained())
        say(f"  at rest after {time.monotonic() - begin:.1f} s, {len(self.world.site.ledger('seal'))} releases")
        return not found

    def rest(self) -> list[str]:
        """Wait until everything that was sent is covered, decided and announced. Return a line if not."""
        deadline, missing = patient_time() + HANG_SECONDS, "the broker does not answer"
        refused: list[str] = []
        while patient_time() < deadline:
            refused += self.revived()
            try:
                self.world.site.look()
                missing = self.missing()
            except Exception as error:
                missing = f"the broker does not answer ({type(error).__name__})"
            if not missing:
                return refused
            time.sleep(0.5)
        for unit in self.world.units:
            unit.send(signal.SIGUSR1)
        time.sleep(2)
        return [*refused, f"hung: after {HANG_SECONDS:g} s {missing}", *self.explained()]

    def explained(self) -> list[str]:
        """Return the verifier's names for the state, if it can be read at all."""
        try:
            return judge.disagreements(self.world.site)[:MOST_LINES]
        except Exception as error:
            return [f"the verifier cannot look: {type(error).__name__}: {error}"]

    def missing(self) -> str:
        """Return the reasons why the site is not at rest; empty if there are none."""
        site = self.world.site
        if unread := site.unread():
            return f"{len(unread)} source records are in no delta, {min(unread)} the first"
        return "" if scenario.settled(site, 0) else "not every cut is decided and announced"

    def revived(self) -> list[str]:
        """Start refused processes again, as a person does. Returns a line for each that should not have refused."""
        lines = []
        for unit in self.world.units:
            refusal = unit.refusal
            if refusal is None:
                continue
            if any(words in refusal for words in FENCED):
                self.outcome.fenced += 1
            elif not self.world.looked_too_early(refusal):
                lines.append(f"refused: {unit}: {refusal}")
            unit.start()
        return lines

    def ended(self) -> list[str]:
        """Judge the end: compare a release of everything with everything that was ever sent, and stop cleanly."""
        world = self.world
        with world.pump.held():
            lines = self.tallied()
            lines += world.stop_all(world.units)
        return lines

    def tallied(self) -> list[str]:
        """Order releases until one holds all events, or the time limit is over."""
        world, lines = self.world, ["hung: no release was made when it was ordered"]
        deadline = patient_time() + HANG_SECONDS
        while patient_time() < deadline:
            refused = self.revived()
            try:
                world.site.look()
                seals = len(self.plain())
                world.pump.burst(3)  # a release of nothing new may be skipped
                with world.pump.held():
                    time.sleep(1)
                world.site.command("release", "-c", str(world.site.config), "plain")
                patience = patient_time() + 20
                while len(self.plain()) == seals and patient_time() < patience:
                    time.sleep(0.5)
                    world.site.look()
            except Exception as error:
                lines = [f"hung: {type(error).__name__} instead of a release"]
                continue
            if refused:
                return refused
            if len(self.plain()) > seals:
                lines = judge.tally(world.site, max(self.plain()), former_events(world))
            if not lines:
                return []
            time.sleep(2)
        return lines

    def plain(self) -> list[int]:
        """Return the numbers of the releases of `plain` that are in the store."""
        burned = {(entry["publication"], entry["sequence"]) for entry in self.world.site.ledger("burned")}
        numbers = [entry["sequence"] for entry in self.world.site.ledger("seal") if entry["publication"] == "plain"]
        public = self.world.site.output("shared") / "public" / "plain"
        return [one for one in numbers if ("plain", one) not in burned and (public / f"release-{one:06d}").exists()]

    def count(self) -> None:
        """Return the figures of the round."""
        site, outcome = self.world.site, self.outcome
        outcome.rounds += 1
        outcome.events["produced"] += sum(map(len, (*self.world.former, list(site.records(site.topic)))))
        rows = {
            (record["p"], row[0])
            for _, record in site.json("delta")
            if record["t"] == "delta"
            for row in record["rows"]
        }
        outcome.events["folded"] += len(rows)
        outcome.events["dlq"] += len({(letter.get("p"), letter.get("offset")) for _, letter in site.json("dlq")})
        outcome.releases += len(site.ledger("seal"))
        outcome.crashes += self.world.crashes


def one_round(
    broker: ChaosBroker,
    outcome: Outcome,
    number: int,
    kinds: Sequence[str],
    folder: Path,
    *,
    until: float,
    most: int,
    bug: str,
    look: Callable[[World], None],
) -> None:
    """Run a round; it ends early if the time is over or the daemon is broken."""
    world = World(broker, f"chaos{uuid.uuid4().hex[:8]}", folder, rate=RATE, bug=bug)
    try:
        here = Round(world, outcome, number)
        sound, last = here.judged(), ""
        for faults in strikes(outcome.seed, number, kinds):
            if not sound or time.monotonic() > until or outcome.faults.total() >= most:
                break
            faults = faults[: most - outcome.faults.total()]
            sound = here.strike_with(faults)
            if CATALOGUE[faults[0].kind].place == "last":
                last = faults[0].kind
            elif sound:
                sound = here.judged()
        if sound and last not in JUDGED_BY_REFUSAL:
            here.found(here.ended())
        here.count()
        look(world)
    finally:
        world.close()


def run(
    seed: int,
    kinds: Sequence[str],
    *,
    seconds: float,
    most: int = 1_000_000,
    rounds: Iterable[int] = range(1, 1_000_000),
    bug: str = "",
    look: Callable[[World], None] = lambda _world: None,
) -> dict[str, Any]:
    """Run rounds until the time is over; return the summary. Folders with findings stay. `look` gets each round."""
    begin, outcome = time.monotonic(), Outcome(seed)
    broker = chaos_broker()
    top = Path(tempfile.mkdtemp(prefix="veilstream-chaos-"))
    try:
        for number in rounds:
            if time.monotonic() > begin + seconds or outcome.faults.total() >= most:
                break
            say(f"round {number} of seed {seed}")
            before = len(outcome.findings)
            folder = top / f"round-{number}"
            until = begin + seconds
            one_round(broker, outcome, number, kinds, folder, until=until, most=most, bug=bug, look=look)
            if len(outcome.findings) == before:
                shutil.rmtree(folder)
    finally:
        broker.close()
    if not outcome.findings:
        shutil.rmtree(top, ignore_errors=True)
    return outcome.summary(time.monotonic() - begin)


def say(text: str) -> None:
    """Print progress on stderr."""
    print(time.strftime("%H:%M:%S"), text, file=sys.stderr, flush=True)
