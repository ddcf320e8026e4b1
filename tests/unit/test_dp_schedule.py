"""A dp release is published at a fixed delay after its cut: not earlier, not as soon as its build ends, not twice."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from models.errors import RefusedError
from stream.config import sources
from stream.fold.fold import Fold
from stream.fold.records import AnyRecord, Delta, Row, Tick
from stream.ledger.entries import NoteEntry
from stream.ledger.sqlite import open_readonly
from stream.release.contract import Decision
from stream.release.failpoints import Faults
from stream.release.schedule import RealClock, SimulatedClock
from stream.run.service import ProcessContext, ReleaseService
from stream.testing import verifier

S = 1_000_000_000
DAY = 1_700_000_000 // 86_400 * 86_400 * S
"""Some midnight."""
CONFIG = """
[[publication]]
name = "weekly"
window = { every = "1h", time = "wall" }
mechanism = { kind = "dp-variants", epsilon = 1, delta_dp = 1e-3 }
audit = { anonymity = false, series = false, leakage = false, risk = false, utility = false }
publish_after = "10m"
"""


@dataclass
class Hand:
    """The hands of the machine's clock."""

    ns: int

    def __call__(self) -> int:
        return self.ns


@dataclass
class Site:
    """A service and a fold as a daemon has them, without a broker."""

    service: ReleaseService
    fold: Fold
    hand: Hand
    position: int = -1

    def feed(self, *records: AnyRecord) -> list[Decision]:
        return [decision for record in records for decision in self._take(record)]

    def _take(self, record: AnyRecord) -> Iterator[Decision]:
        self.position += 1
        if isinstance(record, Tick):
            self.hand.ns = max(self.hand.ns, record.at)
        for cut in self.fold.apply(self.position, record):
            yield self.service.decide(self.fold, cut)
        self.service.publish_due()


Opener = Callable[..., Site]


@pytest.fixture
def opener(tmp_path: Path) -> Iterator[Opener]:
    """Opens a site in the same folder again and again; a new one ends the one before."""
    path = tmp_path / "veilstream.toml"
    sites: list[Site] = []

    def end() -> None:
        for one in sites:
            one.service.close()
        sites.clear()

    def begin(ns: int, config: str = CONFIG, at: Callable[[str], None] = lambda _name: None) -> Site:
        end()
        path.write_text(config)
        hand = Hand(ns)
        service = ReleaseService(
            sources.load(path), tmp_path / "out", faults=Faults(at), context=ProcessContext(clock=RealClock(hand))
        )
        sites.append(Site(service, Fold(service.rules(embedded=False)), hand))
        return sites[0]

    yield begin
    end()


def public(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "out" / "public" / "weekly").glob("release-*"))


def events(key: str, count: int = 30, time: int = DAY) -> Delta:
    rows = [Row(i, f"c{i}", "a", time) for i in range(count)]
    return Delta(src="t", p=0, prev=-1, last=count - 1, n=count, key=key, rows=rows)


def ticks(*minutes: int) -> list[Tick]:
    return [Tick(at=DAY + minute * 60 * S) for minute in minutes]


def test_a_release_is_visible_at_its_moment_and_says_it(opener: Opener, tmp_path: Path) -> None:
    """Sealed at the cut, hidden for ten minutes; then file times and `published` say cut + publish_after, to the
    second, though the clock that published it was late."""
    site = opener(DAY)
    (decision,) = site.feed(events(site.service.pseudonyms.id), *ticks(5, 61))
    assert decision.status == "sealed"
    (waiting,) = (tmp_path / "out" / "public" / "weekly").iterdir()
    assert waiting.name.startswith(".")
    assert waiting.stat().st_mode & 0o077 == 0
    site.feed(*ticks(69))
    assert public(tmp_path) == []
    site.feed(*ticks(73))
    assert public(tmp_path) == ["release-000001"]
    folder = tmp_path / "out" / "public" / "weekly" / "release-000001"
    moment = DAY + 70 * 60 * S
    assert {path.stat().st_mtime_ns for path in (folder, *folder.iterdir())} == {moment}
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["published"] == datetime.fromtimestamp(moment // S, UTC).isoformat()
    assert "clock" not in manifest
    assert folder.stat().st_mode & 0o777 == folder.parent.stat().st_mode & 0o777


def test_a_build_beyond_its_moment_is_withheld_and_stays_charged(opener: Opener, tmp_path: Path) -> None:
    """Its length reads the data: that it did not come is paid for like any release, and the next cut is tried again."""
    slow = [True]

    def at(name: str) -> None:
        if name == "built" and slow:
            slow.pop()
            site.hand.ns += 11 * 60 * S

    site = opener(DAY, at=at)
    first, second = site.feed(events(site.service.pseudonyms.id), *ticks(5, 60, 120))
    assert (first.status, second.status) == ("withheld", "sealed")
    assert first.reasons == ["the build took longer than publish_after allows"]
    entries = open_readonly(tmp_path / "out" / "operator" / "ledger.sqlite")
    kinds = [(entry.kind, entry.cut) for entry in entries if entry.kind in ("charge", "withheld", "seal")]
    assert kinds == [("charge", first.cut), ("withheld", first.cut), ("charge", second.cut), ("seal", second.cut)]
    site.feed(*ticks(131))
    assert public(tmp_path) == ["release-000001"]
    assert verifier.verify(tmp_path / "out") == []


@pytest.mark.parametrize("minutes", [62, 90])
def test_a_crash_before_the_moment_publishes_at_it_or_after(opener: Opener, tmp_path: Path, minutes: int) -> None:
    """A start before the moment waits on, one behind it publishes at once: the same bytes, and the same moment."""
    site = opener(DAY)
    site.feed(events(site.service.pseudonyms.id), *ticks(5, 60))
    (waiting,) = (tmp_path / "out" / "public" / "weekly").iterdir()
    before = {path.name: path.read_bytes() for path in waiting.iterdir()}
    site = opener(DAY + minutes * 60 * S)
    assert bool(public(tmp_path)) == (minutes == 90)
    site.hand.ns = DAY + 95 * 60 * S
    site.service.publish_due()
    folder = tmp_path / "out" / "public" / "weekly" / "release-000001"
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert {path.stat().st_mtime_ns for path in folder.iterdir()} == {DAY + 70 * 60 * S}
    assert verifier.verify(tmp_path / "out") == []


def test_bytes_that_vanish_while_they_wait_stop_everything(opener: Opener, tmp_path: Path) -> None:
    """The running process refuses; the next start burns the number."""
    site = opener(DAY)
    site.feed(events(site.service.pseudonyms.id), *ticks(5, 60))
    (waiting,) = (tmp_path / "out" / "public" / "weekly").iterdir()
    (waiting / "manifest.json").unlink()
    with pytest.raises(RefusedError, match="release 1 of weekly"):
        site.feed(*ticks(80))
    opener(DAY + 81 * 60 * S)
    assert [entry.sequence for entry in open_readonly(tmp_path / "out" / "operator" / "ledger.sqlite")][-1:] == [1]
    assert public(tmp_path) == []


def test_who_was_fenced_while_a_release_waited_publishes_nothing(
    opener: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its successor may have burned the number: the ledger is asked again before the bytes become visible."""
    site = opener(DAY)
    site.feed(events(site.service.pseudonyms.id), *ticks(5, 60))

    def fenced(_entry: Any) -> Any:
        raise RefusedError("another coordinator has taken the ledger over")

    monkeypatch.setattr(site.service.ledger, "append", fenced)
    with pytest.raises(RefusedError, match="taken the ledger over"):
        site.feed(*ticks(80))
    assert public(tmp_path) == []


def test_windows_shorter_than_the_delay_publish_in_order(opener: Opener, tmp_path: Path) -> None:
    """Several releases wait at once, each for its own moment."""
    short = CONFIG.replace('"1h"', '"3m"').replace("epsilon = 1", "epsilon = 0.5")
    site = opener(DAY, short)
    found = site.feed(events(site.service.pseudonyms.id), *ticks(1, 3, 6, 9, 12))
    assert [one.status for one in found] == ["sealed"] * 4
    assert public(tmp_path) == []
    site.feed(*ticks(13))
    assert public(tmp_path) == ["release-000001"]
    site.feed(*ticks(20))
    assert public(tmp_path) == ["release-000001", "release-000002", "release-000003"]


def test_lateness_shows_in_steps_only() -> None:
    """An attempt that begins a second after its cut, or five minutes, has the same moment; one that has less than half
    the delay left takes the next step."""
    delay, hand = 600 * S, Hand(DAY)
    clock = RealClock(hand)

    def moment(after: int) -> int:
        hand.ns = DAY + after * S
        return clock.slot(DAY, delay).moment - DAY

    assert [moment(after) // S for after in (0, 1, 299, 300)] == [600] * 4
    assert [moment(after) // S for after in (301, 600, 900)] == [1200] * 3
    assert moment(100_000) % delay == 0


def test_a_cut_at_no_public_moment_says_when_the_replay_began() -> None:
    """A replay's clock is moved by events: the time of one must not show, nor how long the builds before took."""
    wall, clock = Hand(5), SimulatedClock(began=DAY + S // 2)
    clock.monotonic = wall
    first = clock.slot(None, 600 * S)
    wall.ns += 400 * S
    assert first.moment == clock.slot(None, 600 * S).moment == DAY + S
    assert not first.missed()
    wall.ns += 201 * S
    assert first.missed()


def test_a_replay_that_follows_event_time_reaches_the_moment_first() -> None:
    """At once if nobody waits, and where the moment is none of that clock."""
    clock = SimulatedClock()
    simulated, real = (clock.slot(cut, 600 * S).moment for cut in (DAY, None))
    assert clock.due(simulated)
    clock.reached = DAY + 599 * S
    assert (clock.due(simulated), clock.due(real)) == (False, True)
    clock.reached = DAY + 600 * S
    assert clock.due(simulated)


def test_windows_begin_when_the_ledger_first_saw_the_publication(opener: Opener, tmp_path: Path) -> None:
    """Not with the first event: an hour without any releases like the others. A later start keeps the moment."""
    site = opener(DAY + 90 * 60 * S)
    assert [one.status for one in site.feed(*ticks(100, 120, 180))] == ["sealed", "sealed"]
    rules = site.service.rules(embedded=False)
    assert [one.start for one in rules.publications] == [DAY + 3600 * S]
    again = opener(DAY + 900 * 60 * S)
    assert again.service.rules(embedded=False) == rules
    notes = list(open_readonly(tmp_path / "out" / "operator" / "ledger.sqlite"))
    assert sum(isinstance(one, NoteEntry) and one.body.first_seen is not None for one in notes) == 1


def test_a_declared_start_is_the_first_window(opener: Opener) -> None:
    """Nothing before it, then windows counted from it; the ledger is not asked."""
    begin = datetime.fromtimestamp((DAY + 150 * 60 * S) // S, UTC).isoformat()
    site = opener(DAY, CONFIG + f'start = "{begin}"\n')
    old = events(site.service.pseudonyms.id, time=DAY - 400 * 86_400 * S)
    assert site.feed(old, *ticks(60, 120, 180, 209)) == []
    (found,) = site.feed(*ticks(211))
    assert found.status == "sealed"
    assert found.audit["cut"]["time"].startswith(
        datetime.fromtimestamp((DAY + 210 * 60 * S) // S, UTC).isoformat()[:19]
    )


def test_an_object_store_gets_nothing_before_the_moment(opener: Opener, tmp_path: Path) -> None:
    """The bytes wait in the operator's staging folder, over a restart too; the upload is the publication."""
    import fsspec

    store = f"memory://{tmp_path.name}"
    config = f'store = "{store}"\n{CONFIG}'
    site = opener(DAY, config)
    site.feed(events(site.service.pseudonyms.id), *ticks(5, 60))
    objects = fsspec.filesystem("memory")
    assert objects.find(store) == []
    site = opener(DAY + 65 * 60 * S, config)
    site.service.publish_due()
    assert objects.find(store) == []
    site.hand.ns = DAY + 70 * 60 * S
    site.service.publish_due()
    names = {path.rpartition("/")[2] for path in objects.find(store)}
    assert names == {"log.xes.gz", "manifest.json"}
