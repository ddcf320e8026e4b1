"""The small process that the crash matrix kills: forty cases, five bad records, two publications, restarted as a
service manager would."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.kafka.site import IDENTITY, PATIENCE, AnyProcess, Site, publication
from tests.kafka.verifier import expected_cuts, verify

CASES, LENGTH, WINDOW = 40, 5, 10
BOTH = ("plain", "noisy")
"""Names of the publications."""
BAD: list[bytes | None] = [b"\xff\xfe", b"{", None, b'{"concept:name": 1}', b"[]"]

NOISY = (
    'mechanism = { kind = "dp-variants", epsilon = 4, delta_dp = 1e-2 }\n'
    "gate = { public_cut = true, max_epsilon = 1000 }\n"
    'publish_after = "8s"\n'
    "audit = { anonymity = false, series = false, leakage = false, risk = false, utility = false }\n"
)


def publications() -> str:
    return publication("plain", f"{{ new_cases = {WINDOW} }}", IDENTITY) + publication(
        "noisy", f"{{ new_cases = {WINDOW} }}", NOISY
    )


def site(bootstrap: str, name: str, folder: Path, *, partitions: int = 2, source: str = "", top: str = "") -> Site:
    """Make the process and its topics; nothing is sent yet."""
    return Site(bootstrap, name, folder, publications(), partitions=partitions, source=source, top=top)


def events(first: int = 0, cases: int = CASES, prefix: str = "case") -> list[bytes | None]:
    """Return the events of cases `first`.., interleaved, with the bad records between them."""
    start = datetime(2024, 1, 1, tzinfo=UTC)
    sent: list[bytes | None] = []
    for step in range(LENGTH):
        for case in range(first, first + cases):
            activity = ("register", "check", "decide", "pay" if case % 3 else "reject", "close")[step]
            moment = start + timedelta(minutes=case * 7, hours=step)
            body = {
                "case:concept:name": f"{prefix}-{case}",
                "concept:name": activity,
                "time:timestamp": moment.isoformat(),
            }
            sent.append(json.dumps(body).encode())
    for place, bad in enumerate(BAD):
        sent.insert(11 + 31 * place, bad)
    return sent


def send(one: Site, values: Sequence[bytes | None], partitions: int = 2) -> None:
    """Send the values in order, each case on its own partition, the bad ones on the first."""
    by_partition: dict[int, list[bytes | None]] = {}
    for value in values:
        partition = 0
        if value is not None and b"case:concept:name" in value:
            partition = int(json.loads(value)["case:concept:name"].rsplit("-", 1)[1]) % partitions
        by_partition.setdefault(partition, []).append(value)
    for partition, mine in by_partition.items():
        one.send(mine, partition)


class Keeper:
    """A service manager for one role: starts it again when it dies, each time with the next planted fault."""

    def __init__(self, one: Site, role: str, faults: Sequence[str] = (), host: str = "a") -> None:
        self.site, self.role, self.host = one, role, host
        self._faults, self._planted = list(faults), len(faults)
        self.codes: list[int] = []
        self._stopping = False
        self._change = threading.Lock()
        self.process = self._start()
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._thread.start()

    def _start(self) -> AnyProcess:
        fault = self._faults.pop(0) if self._faults else ""
        return self.site.start(self.role, self.host, fault)

    def _keep(self) -> None:
        while True:
            code = self.process.wait()
            with self._change:
                self.codes.append(code)
                if self._stopping:
                    return
                time.sleep(0.2)
                self.process = self._start()

    @property
    def struck(self) -> bool:
        """Return whether the process died as often as it had faults."""
        return len(self.codes) >= self._planted

    def abandon(self) -> None:
        """Kill the process (kill -9), and do not start it again: the host is gone."""
        with self._change:
            self._stopping = True
            self.process.kill()
        self._thread.join(PATIENCE)

    def stop(self) -> int:
        """Stop the process with SIGTERM, or its successor if it is just dying; return the exit code."""
        while not self._stopping:
            with self._change:
                if self.process.poll() is None:
                    self._stopping = True
                    self.process.terminate()
        self._thread.join(PATIENCE)
        return self.codes[-1]


def settled(one: Site, sent: int) -> bool:
    """Return whether all that was sent is covered, and each cut of both publications is decided and announced."""
    if one.covered() < sent:
        return False
    cuts = len(expected_cuts(one, WINDOW))
    # A further publication of the site has cuts of its own, which do not count for these two.
    decisions = [entry for entry in one.ledger() if entry["kind"] in ("seal", "withheld")]
    decided = {(entry["publication"], entry["cut"]) for entry in decisions if entry["publication"] in BOTH}
    seals = {(entry["publication"], entry["sequence"]) for entry in one.ledger("seal")}
    concluded = {
        (entry["publication"], entry["sequence"]) for entry in one.ledger() if entry["kind"] in ("published", "burned")
    }
    return len(decided) >= 2 * cuts and seals <= concluded


def disagreements(one: Site, host: str = "a") -> list[str]:
    """Return the findings of the independent verifier."""
    return verify(one, window=WINDOW, plain="plain", noisy="noisy", host=host)
