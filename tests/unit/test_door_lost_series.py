"""A configuration by which a daemon's state would lose what one charge has paid for: the start refuses it.

`tests/replay/test_cohorts_once.py` has the same for cohorts, whose released cases are in the operator's files.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from models.errors import InputError
from stream.config import sources
from stream.daemon.state_machine import ActiveCoordinator, warn_of_changed_rules
from stream.fold.fold import Fold
from stream.fold.records import AnyRecord, Command, Config, Delta, Row, Tick
from stream.fold.rules import FoldRules, PublicationRules
from stream.run.runner import Runner
from stream.run.service import ReleaseService
from tests.unit.test_forgotten_cases import once, rules

DAY = 20_000 * 86_400 * 10**9
WEEKLY = """
[[publication]]
name = "weekly"
cases = "completed"
window = { manual = true }
mechanism = { kind = "dp-variants", epsilon = 20, delta_dp = 1e-3 }
"""
ALL = """
[[publication]]
name = "all"
audience = "others"
window = { manual = true }
mechanism = { kind = "identity" }
"""


class Clinic:
    """The folder of a daemon, and its fold; each step opens the service as a start of the daemon does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.fold: Fold
        self.position = -1

    def configured(self, *publications: str, person: str = "who") -> Path:
        path = self.folder / "veilstream.toml"
        head = f'[process]\nname = "clinic"\nattributes = {{ person = ["{person}"] }}\n'
        path.write_text(head + 'completion = { end_activities = ["z"] }\n' + "".join(publications), encoding="utf-8")
        return path

    @contextmanager
    def service(self, *publications: str, person: str = "who") -> Iterator[ReleaseService]:
        path = self.configured(*publications, person=person)
        with closing(ReleaseService(sources.load(path), self.folder / "out")) as service:
            yield service

    def take(self, service: ReleaseService, record: AnyRecord) -> list[list[str]]:
        """Fold a record; return the cases of each cut that it brings."""
        self.position += 1
        cases = []
        for cut in self.fold.apply(self.position, record):
            cases.append(list(self.fold.exposed(cut).log.case_ids))
            service.decide(self.fold, cut)
        return cases


@pytest.fixture
def clinic(tmp_path: Path) -> Clinic:
    """A series of noise that has shown the case c0, beside a publication that shows everything."""
    clinic = Clinic(tmp_path)
    with clinic.service(WEEKLY, ALL) as service:
        clinic.fold = Fold(service.rules(embedded=False))
        clinic.take(service, Tick(at=DAY))
        person = {"case": {"who": "w0"}}
        rows = [Row(number, "c0", activity, DAY + number, attributes=person) for number, activity in enumerate("az")]
        key = service.pseudonyms.id
        clinic.take(service, Delta(src="s", p=0, prev=-1, last=1, n=2, key=key, rows=rows))
        assert clinic.take(service, Command(name="release", publication="weekly")) == [["c0"]]
        assert service.pipelines["weekly"].account.charges
    return clinic


def test_a_paid_series_that_left_the_configuration_cannot_come_back(clinic: Clinic) -> None:
    """Its next release would show c0 again, and nothing would be charged for it."""
    with clinic.service(ALL) as service:
        service.refuse_lost_series(clinic.fold.rules, clinic.position)
        clinic.take(service, Config(body=service.rules(embedded=False).to_mapping()))
    with clinic.service(WEEKLY, ALL) as service:
        with pytest.raises(InputError, match=r"it has released before, .* one charge would pay for them twice"):
            service.refuse_lost_series(clinic.fold.rules, clinic.position)
        # A state from before the charge is folded again, with the configuration of that time.
        service.refuse_lost_series(clinic.fold.rules, 1)
        clinic.take(service, Config(body=service.rules(embedded=False).to_mapping()))
        shown = clinic.take(service, Command(name="release", publication="weekly"))
    assert shown == [["c0"]], "the state remembers the cases of a publication that left: then nothing is to be refused"
    renamed = WEEKLY.replace('"weekly"', '"weekly-2"')
    with clinic.service(renamed, ALL) as service:
        service.refuse_lost_series(clinic.fold.rules, clinic.position)


def test_persons_are_counted_by_one_attribute_for_the_life_of_a_series(clinic: Clinic) -> None:
    """By another one each person could have `cases_per_person` cases once more."""
    with clinic.service(WEEKLY, ALL) as service:
        service.refuse_lost_series(clinic.fold.rules, clinic.position)
    with clinic.service(WEEKLY, ALL, person="patient") as service:
        with pytest.raises(InputError, match=r"counted by the person in 'who', .* is 'patient' now"):
            service.refuse_lost_series(clinic.fold.rules, clinic.position)
        service.refuse_lost_series(clinic.fold.rules, 1)


class Starting(ActiveCoordinator):
    """A coordinator that has opened its state, without topics."""

    def __init__(self, service: ReleaseService, fold: Fold, position: int) -> None:
        self.service = service
        self.host: Any = SimpleNamespace(sources=())
        self.runner = Runner(fold, self, every=9, position=position)
        self.delta: Any = SimpleNamespace(name="delta")
        self.sent: list[Any] = []
        self.ledger: Any = SimpleNamespace(send=self.sent.extend)

    def start(self) -> None:
        self._record_configuration(has_recorded_rules=True)


def test_a_coordinator_refuses_before_it_records_the_configuration(clinic: Clinic) -> None:
    """Once recorded, the state would follow it, and every later start too."""
    with clinic.service(WEEKLY, ALL, person="patient") as service:
        coordinator = Starting(service, clinic.fold, clinic.position)
        with pytest.raises(InputError, match="counted by the person"):
            coordinator.start()
        assert not coordinator.sent
    with clinic.service(ALL) as service:
        coordinator = Starting(service, clinic.fold, clinic.position)
        coordinator.start()
        assert len(coordinator.sent) == 1


def _warned(caplog: pytest.LogCaptureFixture, former: FoldRules, present: FoldRules) -> list[str]:
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="veilstream"):
        warn_of_changed_rules(former, present)
    return [record.getMessage() for record in caplog.records]


def test_changes_by_which_cases_leave_late_or_never_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    everything = PublicationRules("p", once("p").window)
    assert _warned(caplog, rules(once("p")), rules(once("p"))) == []
    (ends,) = _warned(caplog, rules(once("p")), rules(once("p"), end_all=("a", "b")))
    assert "the new end_all holds for events from now on" in ends
    assert "with their next event, or never, since process.completion.inactivity is not set" in ends
    silent = replace(rules(once("p")), inactivity=5)
    (ends,) = _warned(caplog, silent, replace(silent, end_activities=("a",)))
    assert ends.endswith("complete with a later one, or after process.completion.inactivity")
    assert _warned(caplog, rules(once("p"), end_all=("a", "b")), rules(once("p"))) == []
    (lost,) = _warned(caplog, rules(everything), rules(once("p")))
    assert 'p: with cases = "completed" no release shows a case again' in lost
    assert _warned(caplog, rules(once("p")), rules(everything)) == []
    assert _warned(caplog, rules(everything), rules(everything, once("q"))) == []
    (left,) = _warned(caplog, rules(everything, once("q")), rules(everything))
    assert "q: left the configuration" in left
    assert _warned(caplog, rules(everything, once("q")), rules(once("q"))) == []
