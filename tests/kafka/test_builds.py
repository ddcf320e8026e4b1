"""A build that takes long: the fold goes on meanwhile, and a kill during it has the effect of one at the cut."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from stream.daemon.status import BuildStatus, read_status
from stream.ledger.layout import OperatorLayout
from tests.kafka.broker import Broker, ForeignBroker
from tests.kafka.refold import refold, released
from tests.kafka.scenario import Keeper
from tests.kafka.site import IDENTITY, PATIENCE, Site, publication
from tests.patience import wait_for_end

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1800), pytest.mark.slow]

AnyBroker = Broker | ForeignBroker

WINDOW = 10
"""New cases of a window."""


def _site(broker: AnyBroker, name: str, folder: Path) -> Site:
    return Site(broker.bootstrap, name, folder, publication("plain", f"{{ new_cases = {WINDOW} }}", IDENTITY))


def _events(first: int, activity: str, hour: int) -> list[bytes | None]:
    """One event of each of `WINDOW` cases."""
    events: list[bytes | None] = []
    for case in range(first, first + WINDOW):
        body = {
            "case:concept:name": f"case-{case}",
            "concept:name": activity,
            "time:timestamp": f"2024-01-01T{hour:02}:{case % 60:02}:00Z",
        }
        events.append(json.dumps(body).encode())
    return events


def _building(one: Site) -> BuildStatus | None:
    """The build that the status shows."""
    status = read_status(one.output())
    return None if status is None else status.get("building")


def _seen(one: Site) -> int:
    """Events that the fold has."""
    status = read_status(one.output())
    return 0 if status is None else status["publications"]["plain"]["seen"]


def _fold_behind_a_build(one: Site) -> None:
    """Bring a cut whose build waits, and have 30 events folded behind the cut."""
    # The first coordinator records its configuration, and no build begins before: a configuration waits for a build.
    one.wait(lambda: any(record["t"] == "config" for _, record in one.json("delta")), "the recorded configuration")
    one.send(_events(0, "register", 0))
    one.wait(lambda: _building(one) is not None, "a build")
    cut = _building(one)
    for hour, activity in enumerate(("check", "decide", "pay"), start=1):
        one.send(_events(0, activity, hour))
    one.wait(lambda: _seen(one) == 4 * WINDOW, "events folded behind the cut")
    now = _building(one)
    assert cut is not None
    assert now is not None
    assert now["cut"] == cut["cut"]
    assert now["seconds"] > 0
    status = read_status(one.output())
    assert status is not None
    position_of_cut = int(cut["cut"].split("/")[1])
    assert status["checkpoint"] < position_of_cut < status["position"]
    assert one.ledger("seal") == []


def _check_against_a_refold(one: Site) -> None:
    """Releases, seals and counts must be those of an independent fold of the delta topic."""
    records = [(offset, value or b"") for _, offset, value in one.records(f"veilstream.{one.name}.delta")]
    fold, expected = refold(records, ())
    assert [release.content for release in expected] == released(one.output(), "plain", ())
    seals: list[dict[str, Any]] = one.ledger("seal")
    assert [(seal["sequence"], seal["cut"]) for seal in seals] == [
        (number, release.cut.id) for number, release in enumerate(expected, start=1)
    ]
    announced = Counter(record["manifest"]["sequence"] for _, record in one.json("releases"))
    assert set(announced) == {seal["sequence"] for seal in seals}
    status = read_status(one.output())
    assert status is not None
    accounting = fold.accounting("plain")
    shown = status["publications"]["plain"]
    assert {name: shown[name] for name in accounting} == accounting


def test_the_fold_goes_on_while_a_release_is_built(broker: AnyBroker, name: str, tmp_path: Path) -> None:
    """Events behind the cut are folded, and acknowledged only after its decision; they are not in its release. The
    next cut waits for it. Releases and state are those of a fold that decides at once."""
    one = _site(broker, name, tmp_path)
    hold = tmp_path / "hold"
    hold.touch()
    try:
        ingest, coordinator = one.start("ingest"), one.start("coordinator", fault="hold built:1")
        _fold_behind_a_build(one)
        one.send(_events(WINDOW, "register", 4))  # the next cut
        one.wait(lambda: one.covered() == 5 * WINDOW, "deltas of the next cut")
        assert one.ledger("seal") == []
        hold.unlink()
        one.wait(lambda: len(one.ledger("published")) == 2, "both releases")
        one.wait(lambda: _building(one) is None, "an end of all builds")
        assert one.stop(coordinator, ingest) == [0, 0]
        _check_against_a_refold(one)
    finally:
        one.close()


def test_a_kill_during_a_build_loses_nothing_that_was_folded_behind_the_cut(
    broker: AnyBroker, name: str, tmp_path: Path
) -> None:
    """kill -9 with 30 events folded behind an undecided cut: the next start takes the same cut again, decides it
    once, and folds these events again."""
    one = _site(broker, name, tmp_path)
    hold = tmp_path / "hold"
    hold.touch()
    try:
        ingest, coordinator = one.start("ingest"), one.start("coordinator", fault="hold files_written:1")
        _fold_behind_a_build(one)
        coordinator.kill()
        coordinator.wait()
        again = one.start("coordinator")
        one.wait(lambda: len(one.ledger("published")) == 1, "the release of the cut")
        one.send(_events(WINDOW, "register", 4))
        one.wait(lambda: len(one.ledger("published")) == 2, "the next release")
        one.wait(lambda: _seen(one) == 5 * WINDOW and _building(one) is None, "an end of all builds")
        assert one.stop(again, ingest) == [0, 0]
        _check_against_a_refold(one)
    finally:
        one.close()


def test_a_build_that_never_ends_stops_no_other_cut(broker: AnyBroker, name: str, tmp_path: Path) -> None:
    """The process ends with code 1 at `longest_build`. The next start withholds the cut and says why; the events that
    it exposed leave with the next release."""
    # With a longer limit at the second start, since a slow machine may need seconds for any build.
    one = Site(
        broker.bootstrap,
        name,
        tmp_path,
        publication("plain", f"{{ new_cases = {WINDOW} }}", IDENTITY),
        top='longest_build = "1s"',
    )
    (tmp_path / "hold").touch()
    try:
        ingest, coordinator = one.start("ingest"), one.start("coordinator", fault="hold built:1")
        one.send(_events(0, "register", 0))
        assert wait_for_end(coordinator, PATIENCE) == 1
        assert "longest_build allows 1 s: this process ends" in one.logs()
        assert one.ledger("seal") == one.ledger("withheld") == []
        one.config.write_text(one.config.read_text().replace('"1s"', '"1h"', 1))
        again = one.start("coordinator")
        one.wait(lambda: len(one.ledger("withheld")) == 1, "a decision on the cut")
        one.send(_events(WINDOW, "register", 4))
        one.wait(lambda: len(one.ledger("published")) == 1, "the next release")
        assert one.stop(again, ingest) == [0, 0]
        (withheld,) = one.ledger("withheld")
        (seal,) = one.ledger("seal")
        assert "longer than longest_build allows (1 s)" in withheld["body"]["reasons"][0]
        records = [(offset, value or b"") for _, offset, value in one.records(f"veilstream.{one.name}.delta")]
        _, expected = refold(records, ())
        assert [withheld["cut"], seal["cut"]] == [release.cut.id for release in expected]
        assert released(one.output(), "plain", ()) == [expected[1].content]
        assert not OperatorLayout(one.output()).ended_build.exists()
    finally:
        one.close()


def test_a_build_that_is_killed_twice_stops_no_other_cut(broker: AnyBroker, name: str, tmp_path: Path) -> None:
    """Two starts are killed during the build of one cut, as the kernel does if memory is short. The third one withholds
    the cut and says why; the events that it exposed leave with the next release."""
    one = _site(broker, name, tmp_path)
    try:
        ingest = one.start("ingest")
        coordinator = Keeper(one, "coordinator", ["built:1", "built:1"])
        one.send(_events(0, "register", 0))
        one.wait(lambda: len(one.ledger("withheld")) == 1, "a decision on the cut")
        one.send(_events(WINDOW, "register", 4))
        one.wait(lambda: len(one.ledger("published")) == 1, "the next release")
        assert coordinator.stop() == 0
        assert coordinator.codes == [-9, -9, 0]
        assert one.stop(ingest) == [0]
        (withheld,) = one.ledger("withheld")
        (seal,) = one.ledger("seal")
        assert "was killed 2 times while it built this cut" in withheld["body"]["reasons"][0]
        records = [(offset, value or b"") for _, offset, value in one.records(f"veilstream.{one.name}.delta")]
        _, expected = refold(records, ())
        assert [withheld["cut"], seal["cut"]] == [release.cut.id for release in expected]
        assert released(one.output(), "plain", ()) == [expected[1].content]
        assert not OperatorLayout(one.output()).started_build.exists()
    finally:
        one.close()
