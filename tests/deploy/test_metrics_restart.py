"""Gauges that an alert rests on: what is left of a budget, and what a new process still knows of the one before."""

from __future__ import annotations

import time
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors import read_log
from models.dp.budget import Charge
from models.dp.spending import ReleaseCharge, Spending
from models.eventlog import EventLog
from stream.config.settings import Settings
from stream.config.sources import load
from stream.fold.fold import Fold
from stream.release.failpoints import Faults
from stream.release.gate import BudgetLimits, GatePolicy, before_noise, releases_left
from stream.release.schedule import RealClock
from stream.run.exporter import Metrics
from stream.run.observer import MetricsObserver
from stream.run.replay import Replay
from stream.run.service import ProcessContext, ReleaseService
from tests.unit.test_dp_schedule import CONFIG, DAY, Hand, Site, events, ticks

TENTH = st.integers(1, 30).map(lambda tenths: Fraction(tenths, 10))
NOISE = {"kind": "dp-variants", "epsilon": 0.3, "delta_dp": 1e-6}


def log_of(folder: Path, cases: int) -> EventLog:
    """Cases of one event each, a minute apart."""
    rows = [f"c{i},a,2025-01-01T{i // 60:02}:{i % 60:02}:00Z" for i in range(cases)]
    (folder / "tiny.csv").write_text("\n".join(["case,act,time", *rows]) + "\n")
    return read_log(folder / "tiny.csv", {"case": "case", "activity": "act", "time": "time"})


def settings(*publications: dict[str, Any], **process: Any) -> Settings:
    """Publications with a release every two cases, without audits."""
    audit = {"bk_length": 1, "n": [0], "against": "last", "series": False, "risk": False, "utility": False}
    own = {"window": {"new_cases": 2}, "audit": audit}
    tables = [{"name": f"p{number}", **own, **one} for number, one in enumerate(publications)]
    return Settings.model_validate({"process": {"name": "tiny", **process}, "publication": tables})


class Watched(MetricsObserver):
    """Notes a gauge of the first publication after each decision."""

    def __init__(self, chosen: Settings, metrics: Metrics, name: str) -> None:
        super().__init__(chosen, metrics)
        self.name = name
        self.seen: list[tuple[str, float | None]] = []

    def decided(self, publication: str, *arguments: Any) -> None:
        super().decided(publication, *arguments)
        self.seen.append((arguments[0].status, value(self.metrics, self.name)))


def value(metrics: Metrics, name: str, publication: str = "p0") -> float | None:
    """A gauge of a publication."""
    labels = {"process": "tiny", "publication": publication}
    return metrics.registry.get_sample_value(f"veilstream_{name}", labels)


def test_what_is_left_of_a_budget_is_counted_in_releases(tmp_path: Path) -> None:
    """A limit of 1 and 0.3 a release: three are paid, 0.9 is spent, and the rest pays for none: 90 % is not the end
    of it, 0 left is."""
    chosen, metrics = settings({"mechanism": NOISE, "gate": {"public_cut": True, "max_epsilon": 1}}), Metrics("tiny")
    watch = Watched(chosen, metrics, "budget_left_releases")
    Replay(chosen, tmp_path / "out", watch=watch).run(log_of(tmp_path, 8))
    assert watch.seen == [("sealed", 2), ("sealed", 1), ("sealed", 0), ("withheld", 0)]


def test_the_budget_of_the_process_bounds_what_is_left_of_each(tmp_path: Path) -> None:
    """The budget that one publication spends is gone for the other; a mechanism without charges has no such number."""
    one = {"mechanism": NOISE, "gate": {"public_cut": True}}
    chosen = settings(one, one, {"mechanism": {"kind": "identity"}}, budget={"max_epsilon": 1.5})
    metrics = Metrics("tiny")
    Replay(chosen, tmp_path / "out", watch=MetricsObserver(chosen, metrics)).run(log_of(tmp_path, 2))
    left = [value(metrics, "budget_left_releases", name) for name in ("p0", "p1", "p2")]
    assert left == [3, 3, None]
    spent = metrics.registry.get_sample_value("veilstream_process_budget_spent_epsilon", {"process": "tiny"})
    assert spent == 0.6


@given(
    asked=st.builds(Charge, TENTH, st.sampled_from([Fraction(0), Fraction(1, 100)])),
    before=st.integers(0, 5),
    limits=st.tuples(*[st.none() | TENTH] * 2, st.none() | st.sampled_from([Fraction(1, 50), Fraction(1, 7)])),
)
def test_so_many_draws_pass_the_gate_as_are_said_to_be_left(
    asked: Charge, before: int, limits: tuple[Fraction | None, Fraction | None, Fraction | None]
) -> None:
    """The oracle is the gate itself: that many attempts pass it, and the next one does not."""
    epsilon, tpl, delta = limits
    policy = GatePolicy(max_epsilon=epsilon, max_tpl=tpl, max_delta=delta)
    release = ReleaseCharge(asked)
    spending = Spending().with_release(release, before)
    left = releases_left(policy, release, spending, Spending(), BudgetLimits())
    passed = 0
    while passed < 200 and not before_noise(policy, spending, spending.with_release(release)):
        spending = spending.with_release(release)
        passed += 1
    assert left == (None if passed == 200 else passed)


def test_the_streak_of_withheld_attempts_survives_a_restart(tmp_path: Path) -> None:
    """It is the ledger's: a process that starts again has not forgotten two attempts, and a release ends the streak."""
    strict = settings({"mechanism": {"kind": "identity"}, "gate": {"min_ka": 6}})
    withheld = iter([False, True])

    def killed(step: str) -> None:
        if step == "withheld" and next(withheld):
            raise ConnectionAbortedError

    log = log_of(tmp_path, 6)
    with pytest.raises(ConnectionAbortedError):
        Replay(strict, tmp_path / "out", faults=Faults(killed)).run(log)
    metrics = Metrics("tiny")
    again = Replay(strict, tmp_path / "out", watch=MetricsObserver(strict, metrics))
    assert value(metrics, "withheld_streak_attempts") == 2
    again.run(log)
    assert value(metrics, "withheld_streak_attempts") == 0


def released(folder: Path, clock: str) -> Settings:
    """Three releases in a folder, with `published` an hour apart, by a real clock or a simulated one."""
    chosen = settings({"mechanism": {"kind": "identity"}})
    Replay(chosen, folder).run(log_of(folder.parent, 6))
    for number in (1, 2, 3):
        path = folder / "operator" / "p0" / f"{number:06d}" / "audit.json"
        text = path.read_text()
        moment = text.split('"published": "')[1].split('"')[0]
        text = text.replace(moment, f"2025-03-01T0{number}:00:00+00:00")
        path.write_text(text if not clock else text.replace("{", f'{{"clock": "{clock}",', 1))
    return chosen


def opened(chosen: Settings, folder: Path) -> Metrics:
    """The metrics of a daemon that opens the folder now."""
    metrics = Metrics("tiny", live=True)
    service = ReleaseService(chosen, folder)
    try:
        MetricsObserver(chosen, metrics).opened(service)
    finally:
        service.close()
    return metrics


def test_a_new_process_awaits_the_next_release_since_the_latest_one(tmp_path: Path) -> None:
    """Not since its own start, and it knows how far apart releases were: a restart does not silence the alarm."""
    metrics = opened(released(tmp_path / "out", ""), tmp_path / "out")
    third = datetime.fromisoformat("2025-03-01T03:00:00+00:00").timestamp()
    assert value(metrics, "release_awaited_timestamp_seconds") == third
    assert value(metrics, "release_expected_seconds") == 3600


def test_moments_of_a_simulated_clock_are_none(tmp_path: Path) -> None:
    """A daemon that continues with a replay's folder does not wait since the year of the log."""
    metrics = opened(released(tmp_path / "out", "simulated"), tmp_path / "out")
    assert (value(metrics, "release_awaited_timestamp_seconds") or 0) == pytest.approx(time.time(), abs=3600)
    assert value(metrics, "release_expected_seconds") == 7 * 86400  # as before a first release


def test_a_publication_without_a_release_is_awaited_since_the_ledger_first_saw_it(tmp_path: Path) -> None:
    """For windows that count from a first moment the ledger notes it; a restart before the first release keeps it."""
    window = {"every": "30d", "time": "wall"}
    chosen = settings({"mechanism": NOISE, "window": window})
    first = ReleaseService(chosen, tmp_path / "out")
    first.rules(embedded=False)
    noted = first.first_seen("p0")
    first.close()
    assert noted is not None
    metrics = opened(chosen, tmp_path / "out")
    assert value(metrics, "release_awaited_timestamp_seconds") == pytest.approx(noted / 1e9, abs=1e-3)
    assert value(metrics, "release_expected_seconds") == 30 * 86400


@pytest.mark.parametrize("window", [{"new_cases": 10}, {"completed_cases": 10}], ids=["cases", "completed"])
def test_a_publication_that_counts_is_awaited_too(tmp_path: Path, window: dict[str, Any]) -> None:
    """No window says when its first release comes, nor do two releases: a week is expected from when the ledger
    first saw it. A window that closes by hand alone is awaited by nobody."""
    chosen = settings({"mechanism": {"kind": "identity"}, "window": window})
    first = ReleaseService(chosen, tmp_path / "out")
    first.rules(embedded=False)
    noted = first.first_seen("p0")
    first.close()
    assert noted is not None
    metrics = opened(chosen, tmp_path / "out")
    assert value(metrics, "release_awaited_timestamp_seconds") == pytest.approx(noted / 1e9, abs=1e-3)
    assert value(metrics, "release_expected_seconds") == 7 * 86400
    by_hand = settings({"mechanism": {"kind": "identity"}, "window": {"manual": True}})
    assert value(opened(by_hand, tmp_path / "other"), "release_expected_seconds") is None


def test_a_release_that_waits_past_its_moment_is_overdue(tmp_path: Path) -> None:
    """The gauge grows by itself: also while the coordinator hangs. 0 if nothing waits."""
    metrics = opened(settings({"mechanism": {"kind": "identity"}}), tmp_path / "out")
    assert value(metrics, "waiting_overdue_seconds") == 0
    metrics.waiting("p0", time.time() - 1000)
    first = value(metrics, "waiting_overdue_seconds") or 0
    assert first >= 1000
    assert (value(metrics, "waiting_overdue_seconds") or 0) > first
    metrics.waiting("p0", time.time() + 1000)
    assert value(metrics, "waiting_overdue_seconds") == 0


def test_the_moment_of_a_release_that_waits_is_that_of_its_seal(tmp_path: Path) -> None:
    """Sealed at 1:00 of a day of 2023 for 1:10: overdue by years until it is published, and then by nothing."""
    path = tmp_path / "veilstream.toml"
    path.write_text(CONFIG)
    chosen, hand = load(path), Hand(DAY)
    service = ReleaseService(chosen, tmp_path / "out", context=ProcessContext(clock=RealClock(hand)))
    try:
        metrics = Metrics(chosen.process.name, live=True)
        watch = MetricsObserver(chosen, metrics)
        watch.opened(service)
        site = Site(service, Fold(service.rules(embedded=False)), hand)
        site.feed(events(service.pseudonyms.id), *ticks(5, 61))
        labels = {"process": chosen.process.name, "publication": "weekly"}

        def overdue() -> float | None:
            watch.folded(site.fold, last=True)
            return metrics.registry.get_sample_value("veilstream_waiting_overdue_seconds", labels)

        moment = DAY / 1e9 + 70 * 60
        assert overdue() == pytest.approx(time.time() - moment, abs=3600)
        site.feed(*ticks(73))
        assert overdue() == 0
    finally:
        service.close()


def test_memory_and_start_of_the_process_are_served_and_in_no_textfile(tmp_path: Path) -> None:
    """A node exporter shows `process_*` of its own: two of one name would make it refuse the textfile."""
    metrics = Metrics("tiny")
    port, server = metrics.serve(0)
    try:
        with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            served = answer.read().decode()
    finally:
        server.shutdown()
        server.server_close()
    metrics.write(tmp_path / "v.prom")
    text = (tmp_path / "v.prom").read_text()
    assert "\nprocess_start_time_seconds " in served
    assert "process_start_time_seconds" not in text
    assert "veilstream_build_info{" in text
    assert set(text.splitlines()) <= set(served.splitlines())


def test_size_of_the_checkpoint_is_reported(tmp_path: Path) -> None:
    """As it is on the disk, also at the start of a process that has saved nothing yet."""
    chosen = settings({"mechanism": {"kind": "identity"}})
    Replay(chosen, tmp_path / "out").run(log_of(tmp_path, 4))
    metrics = opened(chosen, tmp_path / "out")
    path = tmp_path / "out" / "operator" / "checkpoints" / "fold.checkpoint"
    labels = {"process": "tiny"}
    assert metrics.registry.get_sample_value("veilstream_checkpoint_bytes", labels) == path.stat().st_size
    timestamp = metrics.registry.get_sample_value("veilstream_checkpoint_timestamp_seconds", labels)
    assert timestamp == pytest.approx(path.stat().st_mtime)
