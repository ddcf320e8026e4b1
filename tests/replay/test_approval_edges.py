"""Decisions at the edges: orders that come again, or were about something else, and what the gate says by then."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from connectors import read_log
from models.errors import InputError
from stream.commands import execute
from stream.config import sources
from stream.fold.fold import Fold
from stream.fold.records import Command, Delta
from stream.ledger import release_record
from stream.ledger.entries import ApprovalEntry, SealEntry
from stream.ledger.folder import read_key
from stream.operator import approval
from stream.operator.history import verdicts_of
from stream.operator.verify import verify
from stream.release.contract import DecisionOutcome
from stream.run.exporter import Metrics
from stream.run.log_source import log_facts
from stream.run.observer import MetricsObserver
from stream.run.service import ReleaseService
from stream.values.pseudonym import Pseudonyms
from tests.replay.approving import APPROVED_DP, PLAIN, configured, ledger, replayed, visible
from tests.replay.crashing import sample


@pytest.fixture
def world(made: Path, tmp_path: Path) -> Path:
    """A copy of it, before any decision."""
    shutil.copytree(made, tmp_path / "world")
    return tmp_path / "world"


class Opened:
    """The service of a folder, its metrics and a fold, as a coordinator has them."""

    def __init__(self, world: Path) -> None:
        loaded = sources.load(world / "approval.toml")
        self.metrics = Metrics(loaded.process.name, live=False)
        watch = MetricsObserver(loaded, self.metrics)
        self.service = ReleaseService(loaded, world / "out", watch=watch)
        watch.attached(self.service)
        self.fold = Fold(self.service.rules(embedded=True), log_facts(read_log(world / "log.xes")))

    def obey(
        self, name: str, number: int = 1, *, position: int = 10**6, of: str = "plain", **more: Any
    ) -> DecisionOutcome:
        """An order that is at a position of the delta topic."""
        arguments = {"number": number, "by": "Ann", "why": "read it", **more}
        return self.service.obey(self.fold, position, Command(name=name, publication=of, arguments=arguments))

    def count(self, name: str, **labels: str) -> float:
        found = self.metrics.registry.get_sample_value(f"veilstream_{name}", {"process": "crash", **labels})
        return found or 0.0


@contextmanager
def opened(world: Path) -> Iterator[Opened]:
    one = Opened(world)
    try:
        yield one
    finally:
        one.service.close()


def seal(world: Path, name: str = "plain", number: int = 1) -> SealEntry:
    found = [one for one in ledger(world) if isinstance(one, SealEntry)]
    return next(one for one in found if (one.publication, one.sequence) == (name, number))


def rulings(world: Path) -> list[str]:
    return [one.body.decision for one in ledger(world) if isinstance(one, ApprovalEntry)]


def audit_of(world: Path, name: str = "plain", number: int = 1) -> Path:
    return world / "out" / "operator" / name / f"{number:06d}" / "audit.json"


# orders that come again


def test_an_order_to_reject_that_is_read_again_needs_no_file_of_the_release(world: Path) -> None:
    """A host that takes over has none of a rejected release; the order is in the topic as before."""
    with opened(world) as one:
        assert not one.obey("reject").again
    shutil.rmtree(audit_of(world).parent)
    with opened(world) as one:
        assert one.obey("reject").again
    assert rulings(world) == ["rejected"]


def test_an_approval_that_is_read_again_counts_once(world: Path) -> None:
    """One release left, so one is counted."""
    with opened(world) as one:
        before = [one.obey("approve").again for _ in range(3)]
        counted = one.count("releases_total", publication="plain", mechanism="identity")
    assert (before, counted) == ([False, True, True], 1)


# orders about something else


def test_an_order_about_other_bytes_is_refused(world: Path) -> None:
    """An order names the manifest that was read; an order of an earlier program, which names none, is obeyed."""
    with opened(world) as one:
        for order in ("approve", "reject"):
            with pytest.raises(InputError, match="is another one than the order is about"):
                one.obey(order, manifest="00" * 32)
        assert rulings(world) == []
        assert one.obey("approve", manifest=seal(world).body.manifest).status == "approved"
        assert one.obey("reject", of="private").status == "rejected"


def test_an_order_from_before_the_release_is_refused(world: Path) -> None:
    """After a crash the ledger knows the release before an older order is read again: it named a number that nobody
    had seen. One that names the manifest had been written by who knew it."""
    cut = int(seal(world).cut.split("/")[1])
    with opened(world) as one:
        for position in (0, cut):
            with pytest.raises(InputError, match="did not exist when the order was given"):
                one.obey("approve", position=position)
        assert rulings(world) == []
        assert one.obey("approve", position=cut + 1).status == "approved"


DAEMON = '[source]\ntopics = ["t"]\n'


@pytest.mark.parametrize("kind", ["", DAEMON], ids=["replay", "daemon"])
@pytest.mark.parametrize("order", ["approve", "reject"])
def test_folder_and_configuration_of_two_processes_decide_nothing(
    world: Path, capsys: pytest.CaptureFixture[str], order: str, kind: str
) -> None:
    """Reading the folder of one process is no reason to release from another one."""
    other = world / "other.toml"
    text = (world / "approval.toml").read_text().replace('name = "crash"', 'name = "other"')
    other.write_text(text + kind)
    said = ["--by", "Ann", "--why", "x", "-c", str(other), "-o", str(world / "out")]
    assert execute([order, "plain", "1", *said]) == 2
    assert "belongs to process 'crash', and the configuration is of 'other'" in capsys.readouterr().err
    assert rulings(world) == []


def test_a_foreign_configuration_leaves_no_trace_in_the_folder(world: Path) -> None:
    """It is refused before the folder is opened: nothing that waits is finished under it, and what the folder says of
    its own configuration stays."""
    before = {path: path.read_bytes() for path in (world / "out").rglob("*") if path.is_file()}
    other = configured(world, {**PLAIN, "gate": {"min_ka": 1}}, APPROVED_DP)
    with pytest.raises(InputError, match="its replay began with another configuration"):
        approval.decide(sources.load(other), "plain", 1, "approve", "Ann", "x", output=world / "out")
    assert {path: path.read_bytes() for path in before} == before
    service = ReleaseService(sources.load(other), world / "out")
    service.close()
    kept = world / "out" / "operator" / ".configuration.json"
    assert kept.read_bytes() == before[kept]


# while nothing is to be released


def test_a_paused_publication_publishes_no_approved_release(world: Path) -> None:
    """The approval is refused, so that it does not leave unseen later; a rejection shows nothing, and is obeyed."""
    with opened(world) as one:
        list(one.fold.apply(0, Command(name="pause", publication="plain")))
        with pytest.raises(InputError, match="plain is paused"):
            one.obey("approve")
        assert (visible(world), rulings(world)) == ([], [])
        assert one.obey("reject", of="private").status == "rejected"
        list(one.fold.apply(1, Command(name="resume", publication="plain")))
        assert one.obey("approve").status == "approved"


def test_a_gap_stops_approvals(world: Path) -> None:
    """Nothing is released while events are missing; what was built before they were lost is not an exception."""
    with opened(world) as one:
        key = one.fold.rules.key
        list(one.fold.apply(0, Delta(src="log", p=0, prev=-1, last=3, n=0, key=key)))
        list(one.fold.apply(1, Delta(src="log", p=0, prev=7, last=9, n=0, key=key)))
        assert one.fold.gap
        with pytest.raises(InputError, match="a gap is open"):
            one.obey("approve")
        assert one.obey("reject").status == "rejected"


# the gate by then


MANY: dict[str, Any] = {"name": "many", "window": {"new_cases": 40}, "mechanism": {"kind": "identity"}}
BOUNDS = {"min_ka": 1, "min_fa": 1, "min_ca": 1, "min_ba": 2}
BOUND: dict[str, Any] = {**PLAIN, "gate": BOUNDS, "audit": {"bk_length": 2, "n": [0, 1]}}


def test_a_warning_that_comes_with_the_approval_is_on_record(tmp_path: Path) -> None:
    """Under `warn` the release leaves, and its audit, the verdict and the metrics say in spite of what: what left since
    singles somebody out, which the audit of before could not know."""
    sample(tmp_path)
    configured(tmp_path, {**BOUND, "gate": {**BOUNDS, "on_violation": "warn"}}, MANY)
    replayed(tmp_path)
    assert json.loads(audit_of(tmp_path).read_text())["gate"]["decision"] == "passed"
    with opened(tmp_path) as one:
        ruled = one.obey("approve")
        assert (ruled.status, ruled.reasons) == ("approved", ("ba: 1 is below 2",))
        assert one.count("warned_reasons_total", publication="plain", reason="ba") == 1
    audit = json.loads(audit_of(tmp_path).read_text())
    assert audit["gate"] == {"decision": "warned", "reasons": ["ba: 1 is below 2"]}
    verdicts = {one.publication: one for one in verdicts_of(tmp_path / "out")}
    assert verdicts["plain"].verdict == "LIMITED"
    assert "left in spite of: ba: 1 is below 2" in verdicts["plain"].sentence
    assert verify(tmp_path / "out").problems == []


def test_the_audit_names_the_bounds_that_the_approval_was_held_against(tmp_path: Path) -> None:
    """A gate that was loosened while the release was held: the old bounds were not asked about what left since."""
    sample(tmp_path)
    configured(tmp_path, BOUND, MANY)
    replayed(tmp_path)
    assert json.loads(audit_of(tmp_path).read_text())["bounds"]["min_ba"] == 2
    configured(tmp_path, {**BOUND, "gate": {"min_ka": 1}}, MANY)
    with opened(tmp_path) as one:
        assert one.obey("approve").status == "approved"
    assert json.loads(audit_of(tmp_path).read_text())["bounds"] == {"min_ka": 1}
    (verdict,) = [one for one in verdicts_of(tmp_path / "out") if one.publication == "plain"]
    assert (verdict.verdict, verdict.not_gated) == ("LIMITED", ("FA", "CA", "BA"))


# erasures


COHORTS = {"kind": "tlkc-cohorts", "L": 2, "K": 5, "C": 1.0, "suppression": "local"}


def erase(world: Path, monkeypatch: pytest.MonkeyPatch, case: str, config: str = "approval.toml") -> None:
    """`veilstream erase` of one case."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(f"{case}\n".encode())))
    assert execute(["erase", "-c", str(world / config), "-o", str(world / "out")]) == 0


def test_a_held_release_that_only_remembers_an_erased_case_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cases wait for a cohort with others like them: no release shows them yet, and an approval would bring an erased
    one back into what the next release continues from."""
    sample(tmp_path)
    config = configured(tmp_path, {**PLAIN, "mechanism": COHORTS, "audit": {"bk_length": 1, "n": [0]}})
    config.write_text(config.read_text().replace("[process]", '[process]\ncompletion.end_activities = ["d"]'))
    replayed(tmp_path)
    (held,) = approval.held(tmp_path / "out")
    own = audit_of(tmp_path, number=held.number).parent
    memory = (own / "memory.json").read_text()
    shown = set(release_record.read(own / "variants.parquet").log.case_ids)
    key = Pseudonyms(read_key(tmp_path / "out" / "operator" / "key"))
    only = [one for one in (f"case{number}" for number in range(100)) if key.case(one) in memory]
    case = next(one for one in only if key.case(one) not in shown)
    erase(tmp_path, monkeypatch, case)
    assert rulings(tmp_path) == ["rejected"]
    assert sorted(path.name for path in own.iterdir()) == ["audit.json", "digests.json"]
    assert verify(tmp_path / "out").problems == []


def test_an_erasure_reaches_held_releases_of_former_publications(world: Path) -> None:
    """The configuration names neither of them any more: what is held would stay with the case forever."""
    settings = sources.load(configured(world, MANY))
    with closing(ReleaseService(settings, world / "out")) as service:
        case = service.pseudonyms.case("case3")
        fold = Fold(service.rules(embedded=True), log_facts(read_log(world / "log.xes")))
        service.erase(fold, [case])
    assert rulings(world) == ["rejected", "rejected"]
    assert [one.publication for one in approval.held(world / "out")] == []
    for name in ("plain", "private"):
        own = world / "out" / "operator" / name
        assert sorted(path.name for path in (own / "000001").iterdir()) == ["audit.json", "digests.json"]
        assert list((own / "held").iterdir()) == []


# audits that cannot be read


@pytest.mark.parametrize("what", ["missing", "damaged"])
def test_an_old_audit_that_cannot_be_read_stops_no_coordinator(tmp_path: Path, what: str, caplog: Any) -> None:
    """It counts as not measured: the verdict is LIMITED, one line reports it, and a promise of another
    publication is not voided by a release that may have had none."""
    sample(tmp_path)
    free = {key: value for key, value in APPROVED_DP.items() if key != "approval"}
    configured(tmp_path, {**free, "window": {"every": "1h", "time": "event"}}, {**free, "name": "other"})
    replayed(tmp_path)
    path = audit_of(tmp_path, "private")
    path.unlink() if what == "missing" else path.write_text("{")
    with opened(tmp_path) as one:
        found = {
            name: one.count("verdict", publication=name, verdict="LIMITED")
            + 10 * one.count("verdict", publication=name, verdict="DP VOID")
            for name in ("private", "other")
        }
    assert found["other"] < 10
    assert found["private"] == 1
    lines = [one.getMessage() for one in caplog.records if "cannot be read" in one.getMessage()]
    assert lines == ["private: the audit of release 1 cannot be read, of 1 releases in all; they count as not measured"]
    if what == "missing":
        assert {one.publication: one.verdict for one in verdicts_of(tmp_path / "out")}["other"] != "DP VOID"


def test_a_second_officer_learns_that_the_decision_was_made(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It printed the second name, which no ledger has."""
    folder = str(world / "out")
    for by in ("Jansen", "Pieters"):
        assert execute(["approve", "plain", "1", "-o", folder, "--by", by, "--why", "looked at it"]) == 0
    first, second = capsys.readouterr().out.split("release 1 of plain ")[1:]
    assert "approved by Jansen" in first
    assert "was approved before: nothing changes" in " ".join(second.split())
    assert "Pieters" not in second
    assert rulings(world) == ["approved"]


def test_data_of_a_second_decision_have_no_name(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A program that archives them would name a person who decided nothing."""
    decided = []
    for by in ("Jansen", "Pieters"):
        assert execute(["reject", "plain", "1", "-o", str(world / "out"), "--by", by, "--why", "no", "--json"]) == 0
        decided.append(json.loads(capsys.readouterr().out))
    assert [(one["again"], one["by"], one["why"]) for one in decided] == [(False, "Jansen", "no"), (True, None, None)]
