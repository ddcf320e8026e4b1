"""Releases that a person approves: held out of sight, decided once, audited again, and never published otherwise."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import uuid
from pathlib import Path
from typing import Any

import pytest

from connectors import read_log
from models.errors import InputError, RefusedError
from stream.commands import execute
from stream.config import sources
from stream.ledger import release_record
from stream.ledger.entries import ApprovalEntry, SealEntry, WithheldEntry
from stream.ledger.folder import read_key
from stream.operator import approval
from stream.operator.idle_folder import erase_in_folder
from stream.operator.verify import verify
from stream.release.approval import PersonDecision
from stream.release.contract import DecisionOutcome
from stream.run.service import ProcessContext, ReleaseService
from stream.testing import verifier
from stream.values.pseudonym import Pseudonyms
from tests.replay.approving import APPROVED_DP, PLAIN, configured, ledger, replayed, visible
from tests.replay.crashing import sample
from tests.replay.test_mirror import another_host


def test_a_statement_on_what_is_held_names_the_way_on(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Not `it holds ...` of other publications: the number, how to look, and how to decide."""
    output = made / "out"
    assert execute(["statement", str(output), "plain"]) == 3
    error = capsys.readouterr().err
    assert "release 1 is held for approval" in error.lower()
    assert f"veilstream approve plain 1 -o {output}" in error
    assert "no release of publication" not in error
    assert execute(["statement", str(output), "absent"]) == 2
    assert "no release of publication 'absent'" in capsys.readouterr().err


@pytest.fixture
def world(made: Path, tmp_path: Path) -> Path:
    """A copy of it, before any decision."""
    shutil.copytree(made, tmp_path / "world")
    return tmp_path / "world"


def rulings(world: Path) -> list[tuple[str, int, str]]:
    """Every decision of the ledger, in order."""
    found = [one for one in ledger(world) if isinstance(one, ApprovalEntry)]
    return [(one.publication, one.sequence, one.body.decision) for one in found]


def decide(world: Path, order: Any, name: str = "plain", number: int = 1) -> DecisionOutcome:
    """A decision in the folder."""
    return approval.decide(world / "out", name, number, order, by="Ann", why="looked at it")


def test_a_replay_holds_what_passes_and_says_what_to_do(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 3, since nothing is out; the later cuts wait for that reason alone, and one line says what to do."""
    log, config, out = str(made / "log.xes"), str(made / "approval.toml"), tmp_path / "out"
    assert execute(["replay", log, "-c", config, "-o", str(out)]) == 3
    assert f"veilstream approve plain 1 -o {out} --by NAME --why TEXT" in " ".join(capsys.readouterr().out.split())
    assert list(out.glob("public/*/*")) == []
    assert execute(["replay", log, "-c", config, "-o", str(out), "--json"]) == 3
    printed = json.loads(capsys.readouterr().out)
    assert [(one["publication"], one["sequence"]) for one in printed["held"]] == [("plain", 1), ("private", 1)]
    assert (printed["releases"], printed["withheld"]) == ([], [])
    assert {tuple(one["reasons"]) for one in printed["waiting"]} == {
        ("held: release 1 waits for a decision (veilstream approve or reject plain 1)",)
    }


def test_a_held_release_is_charged_sealed_and_listed(made: Path) -> None:
    """Its digests are in the ledger, its bytes with the operator; a blocked cut is not charged."""
    one, two = approval.held(made / "out")
    assert (one.publication, one.number, one.decision, one.refusals) == ("plain", 1, "passed", ())
    assert one.process == "crash"
    assert one.manifest["approval"] == "required"
    assert json.loads(one.audit.read_text())["sequence"] == 1
    assert two.manifest["budget"]["spent"]["epsilon"] == 1.0
    seals = [entry for entry in ledger(made) if isinstance(entry, SealEntry)]
    for held, seal in zip((one, two), seals, strict=True):
        assert {path.name for path in held.files.iterdir()} == {"manifest.json", "log.xes.gz"}
        assert hashlib.sha256((held.files / "manifest.json").read_bytes()).hexdigest() == seal.body.manifest
        assert "public" not in held.files.parts
    blocked = [entry for entry in ledger(made) if isinstance(entry, WithheldEntry)]
    assert [entry.waits_for for entry in blocked] == [1, 1, 1]
    assert sum(entry.kind == "charge" for entry in ledger(made)) == 1
    assert verify(made / "out").problems == []


def test_approved_it_leaves_as_it_was_sealed(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same bytes, once; who decided and why is in the ledger; a second decision is refused."""
    before = {one.name: one.read_bytes() for one in approval.held(world / "out")[0].files.iterdir()}
    said = ["--by", "Ann", "--why", "looked at the report"]
    assert execute(["approve", "plain", "1", "-o", str(world / "out"), *said]) == 0
    folder = world / "out" / "public" / "plain" / "release-000001"
    assert {one.name: one.read_bytes() for one in folder.iterdir()} == before
    (ruling,) = [one.body for one in ledger(world) if isinstance(one, ApprovalEntry)]
    assert (ruling.decision, ruling.by, ruling.why) == ("approved", "Ann", "looked at the report")
    assert ruling.at > 0
    assert [one.publication for one in approval.held(world / "out")] == ["private"]
    assert execute(["approve", "plain", "1", "-o", str(world / "out"), *said]) == 0
    assert execute(["reject", "plain", "1", "-o", str(world / "out"), *said]) == 2
    assert "release 1 of plain is not held: it was approved by Ann" in capsys.readouterr().err
    assert rulings(world) == [("plain", 1, "approved")]
    assert verifier.verify(world / "out") == []
    assert verify(world / "out").problems == []


def test_rejected_its_number_and_its_charge_stay_used(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No bytes and nothing that names a case are left; the next candidate has the next number and is charged again."""
    said = ["--by", "Ann", "--why", "too noisy", "--json"]
    assert execute(["reject", "private", "1", "-o", str(world / "out"), *said]) == 0
    assert json.loads(capsys.readouterr().out)["status"] == "rejected"
    own = world / "out" / "operator" / "private"
    assert sorted(path.name for path in (own / "000001").iterdir()) == ["audit.json", "digests.json"]
    assert list((own / "held").iterdir()) == []
    service = ReleaseService(sources.load(world / "approval.toml"), world / "out")
    try:
        account = service.pipelines["private"].account
        assert (account.released_numbers, account.last_number, account.spending.summed.epsilon) == ([], 1, 1)
    finally:
        service.close()
    assert execute(["releases", str(world / "out"), "--json"]) == 3
    rows = json.loads(capsys.readouterr().out)["attempts"]
    assert [(row["status"], row["reasons"]) for row in rows if row["publication"] == "private"] == [
        ("rejected", ["held: rejected by Ann: too noisy"])
    ]
    assert verify(world / "out").problems == []


def test_a_newer_candidate_takes_the_place_of_a_held_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`supersede`: nobody decides on what is out of date, each is on the record, and the last one follows no other."""
    sample(tmp_path)
    configured(tmp_path, {**PLAIN, "hold": "supersede"})
    outcome = replayed(tmp_path)
    assert [decision.status for _, decision in outcome.decisions] == ["rejected", "rejected", "rejected", "held"]
    assert rulings(tmp_path) == [("plain", number, "superseded") for number in (1, 2, 3)]
    (held,) = approval.held(tmp_path / "out")
    assert (held.number, held.manifest["previous"], held.manifest["chain"]["previous_manifest"]) == (4, None, None)
    decide(tmp_path, "approve", number=4)
    assert visible(tmp_path) == ["release-000004"]
    checked = verify(tmp_path / "out")
    assert checked.problems == []
    assert (checked.publications[0].rejected, checked.publications[0].superseded) == (0, 3)  # no person rejected any
    capsys.readouterr()
    assert execute(["verify", str(tmp_path / "out")]) == 0
    assert "held releases of plain that a later one replaced: 3" in " ".join(capsys.readouterr().out.split())
    assert verifier.verify(tmp_path / "out") == []


MANY: dict[str, Any] = {"name": "many", "window": {"new_cases": 40}, "mechanism": {"kind": "identity"}}
BOUND: dict[str, Any] = {**PLAIN, "gate": {"min_ba": 2}, "audit": {"bk_length": 2, "n": [0, 1]}}


def test_what_left_since_is_audited_before_an_approval(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another publication to the same audience showed a few cases more: together they single somebody out, so the
    approval is refused (exit 3), on the record, and the release stays held."""
    sample(tmp_path)
    configured(tmp_path, BOUND, MANY)
    replayed(tmp_path)
    assert visible(tmp_path, "many") == ["release-000001", "release-000002"]
    said = ["--by", "Ann", "--why", "looks fine"]
    assert execute(["approve", "plain", "1", "-o", str(tmp_path / "out"), *said]) == 3
    assert "is not published, and stays held: ba: 1 is below 2" in " ".join(capsys.readouterr().out.split())
    assert visible(tmp_path) == []
    assert rulings(tmp_path) == [("plain", 1, "refused")]
    (held,) = approval.held(tmp_path / "out")
    assert held.refusals == ("ba: 1 is below 2",)
    rows = json.loads(held.audit.read_text())["anonymity"]["true_linker"]
    assert [(row["publication"], row["earlier"]) for row in rows] == [("many", 1), ("many", 2)]
    decide(tmp_path, "reject")
    assert verify(tmp_path / "out").problems == []


def test_what_left_to_others_bears_on_no_approval(tmp_path: Path) -> None:
    """The control of the test before: the same releases to another audience."""
    sample(tmp_path)
    configured(tmp_path, {**BOUND, "audience": "clinic"}, MANY)
    replayed(tmp_path)
    assert decide(tmp_path, "approve").status == "approved"


def test_an_audit_that_was_made_while_one_was_held_has_not_seen_it(tmp_path: Path) -> None:
    """Releases of the audience are compared with what its recipients have, and that is not among it."""
    sample(tmp_path)
    configured(tmp_path, PLAIN, {**MANY, "audit": {"bk_length": 2, "n": [0, 1]}})
    replayed(tmp_path)
    audits = [
        json.loads(path.read_text()) for path in sorted((tmp_path / "out" / "operator" / "many").glob("*/audit*"))
    ]
    assert [
        row["publication"] for audit in audits for row in audit["anonymity"]["true_linker"] if "publication" in row
    ] == []
    decide(tmp_path, "approve")
    service = ReleaseService(sources.load(tmp_path / "approval.toml"), tmp_path / "out")
    try:
        assert [record.key for record in service.pipelines["many"].earlier] == [("many", 1), ("many", 2), ("plain", 1)]
    finally:
        service.close()


def test_a_release_that_does_not_continue_what_left_since_is_refused(tmp_path: Path) -> None:
    """Cohorts of one audience continue each other: a held release does not know the cohorts that left meanwhile."""
    sample(tmp_path)
    cohorts = {"kind": "tlkc-cohorts", "L": 1, "K": 4, "C": 1.0}
    audit = {"bk_length": 1, "n": [0]}
    one = {**PLAIN, "mechanism": cohorts, "audit": audit}
    config = configured(tmp_path, one, {**MANY, "mechanism": cohorts, "audit": audit})
    config.write_text(config.read_text().replace("[process]", '[process]\ncompletion.end_activities = ["d"]'))
    replayed(tmp_path)
    assert visible(tmp_path, "many") != []
    made = decide(tmp_path, "approve")
    assert made.status == "refused"
    assert "left since, and this one does not continue it" in made.reasons[0]
    assert visible(tmp_path) == []


@pytest.mark.parametrize(("case", "left"), [("case3", []), ("case99", ["plain"])])
def test_an_erasure_rejects_the_held_releases_that_it_concerns(
    world: Path, monkeypatch: pytest.MonkeyPatch, case: str, left: list[str]
) -> None:
    """One that shows the case, and every one whose records are not cases: nothing of them is left to publish."""
    erase(world, monkeypatch, case)
    assert [one.publication for one in approval.held(world / "out")] == left
    pseudonym = Pseudonyms(read_key(world / "out" / "operator" / "key")).case(case)
    for path in world.glob("out/operator/*/*/variants.parquet"):
        assert pseudonym not in release_record.read(path).log.case_ids
    assert visible(world, "private") == []
    assert verify(world / "out").problems == []


def erase(world: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    """`veilstream erase` of one case."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(f"{case}\n".encode())))
    assert execute(["erase", "-c", str(world / "approval.toml"), "-o", str(world / "out")]) == 0


def test_a_dp_promise_states_what_an_approval_reveals(world: Path, tmp_path: Path) -> None:
    """Whether and when it leaves is a person's choice, which no noise covers; without an approval nothing is said."""
    _, held = approval.held(world / "out")
    assert "whether and when a release leaves: a person decides it" in held.manifest["promise"]["not_guaranteed"]
    sample(tmp_path)
    configured(tmp_path, {name: value for name, value in APPROVED_DP.items() if name != "approval"})
    replayed(tmp_path)
    free = json.loads((tmp_path / "out/public/private/release-000001/manifest.json").read_text())
    assert "person decides" not in free["promise"]["not_guaranteed"]
    assert "approval" not in free


class LateClock:
    """A clock whose moments come when the test sets them."""

    simulated = False

    def __init__(self) -> None:
        self.over = False

    def now(self) -> int:
        return 1

    def slot(self, cut: int | None, delay: int) -> Any:
        raise NotImplementedError

    def due(self, moment: int) -> bool:
        return self.over


def test_an_approval_before_the_moment_of_a_dp_release_waits_for_it(world: Path) -> None:
    """`publish_after` still holds: an early decision does not show when the build ended, and a restart keeps it."""
    clock, loaded = LateClock(), sources.load(world / "approval.toml")
    for start in range(2):
        service = ReleaseService(loaded, world / "out", context=ProcessContext(clock=clock))
        try:
            if start == 0:
                service.rule(PersonDecision("private", 1, "approve", by="Ann", why="early"))
            service.publish_due()
            assert [name for name in visible(world, "private") if not name.startswith(".")] == []
            clock.over = start == 1
            service.publish_due()
        finally:
            service.close()
    assert visible(world, "private") == ["release-000001"]
    assert verify(world / "out").problems == []


def test_the_folder_says_its_configuration_without_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key from outside is in no file there, and is asked for where the folder alone is given."""
    sample(tmp_path)
    monkeypatch.setenv("VEILSTREAM_KEY", "ab" * 32)
    configured(tmp_path, PLAIN)
    replayed(tmp_path)
    for path in (tmp_path / "out" / "operator").rglob("*"):
        assert not path.is_file() or b"ab" * 32 not in path.read_bytes()
    assert sources.of_folder(tmp_path / "out").digest == sources.load(tmp_path / "approval.toml").digest
    monkeypatch.delenv("VEILSTREAM_KEY")
    with pytest.raises(InputError, match="was given from outside; give the same one"):
        decide(tmp_path, "approve")
    with pytest.raises(InputError, match="was given from outside; give the same one"):
        erase_in_folder(sources.load(tmp_path / "approval.toml"), tmp_path / "out", ["case 1"])
    assert not (tmp_path / "out" / "operator" / "key").exists()


BAD: dict[str, tuple[list[str], str]] = {
    "nobody": (["plain", "1", "--by", " ", "--why", "x"], "--by is empty"),
    "no reason": (["plain", "1", "--by", "Ann", "--why", ""], "--why is empty"),
    "two lines": (["plain", "1", "--by", "Ann", "--why", "a\nb"], "--why holds a line break"),
    "no such number": (["plain", "7", "--by", "Ann", "--why", "x"], "release 7 of plain was never sealed; held are"),
    "no such publication": (["plan", "1", "--by", "Ann", "--why", "x"], "release 1 of plan was never sealed"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_decision_on_nothing_is_one_clear_line(made: Path, capsys: pytest.CaptureFixture[str], what: str) -> None:
    """Exit 2, and nothing is recorded."""
    words, message = BAD[what]
    assert execute(["approve", *words, "-o", str(made / "out")]) == 2
    assert message in capsys.readouterr().err
    assert rulings(made) == []


def test_a_decision_while_a_replay_runs_is_refused(made: Path) -> None:
    """The folder is locked (exit 4)."""
    service = ReleaseService(sources.load(made / "approval.toml"), made / "out")
    try:
        with pytest.raises(RefusedError, match="another veilstream process is using this folder"):
            decide(made, "approve")
    finally:
        service.close()


def test_another_configuration_decides_nothing(world: Path) -> None:
    """Its gate would be another."""
    other = configured(world, PLAIN)
    with pytest.raises(InputError, match="its replay began with another configuration"):
        approval.decide(sources.load(other), "plain", 1, "approve", "Ann", "x", output=world / "out")


def spoil(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\n")


def test_verify_finds_what_was_done_to_a_held_release(world: Path) -> None:
    """Another byte, a missing file, a release that was moved to recipients by hand."""
    one, two = approval.held(world / "out")
    spoil(one.files / "log.xes.gz")
    (two.files / "log.xes.gz").unlink()
    assert {(found.kind, found.publication) for found in verify(world / "out").problems} == {
        ("bytes", "plain"),
        ("missing", "private"),
    }
    public = world / "out" / "public" / "plain"
    public.mkdir(parents=True)
    shutil.move(one.files, public / "release-000001")
    kinds = {(found.kind, found.text) for found in verify(world / "out").problems if found.publication == "plain"}
    assert ("unknown", "was held, and is in the public folder") in kinds
    with pytest.raises(RefusedError, match="the ledger does not know it"):
        decide(world, "approve")


def test_held_bytes_that_are_gone_burn_the_number(world: Path) -> None:
    """Nothing else can ever be published under it."""
    shutil.rmtree(approval.held(world / "out")[0].files)
    with pytest.raises(InputError, match="release 1 of plain is not held: its number was burned"):
        decide(world, "approve")
    assert visible(world) == []


def test_a_store_on_another_file_system_gets_a_copy(world: Path) -> None:
    """A rename does not reach it: the bytes are copied, durably, before anybody sees them."""
    elsewhere = Path("/dev/shm") / uuid.uuid4().hex
    if not elsewhere.parent.is_dir() or elsewhere.parent.stat().st_dev == world.stat().st_dev:
        pytest.skip("there is no second file system here")
    try:
        folder = world / "second"
        sample(folder := _made(folder))
        config = configured(folder, PLAIN)
        config.write_text(f'store = "{elsewhere}"\n' + config.read_text())
        replayed(folder)
        before = {one.name: one.read_bytes() for one in approval.held(folder / "out")[0].files.iterdir()}
        decide(folder, "approve")
        public = elsewhere / "public" / "plain"
        assert [path.name for path in public.iterdir()] == ["release-000001"]
        assert {one.name: one.read_bytes() for one in (public / "release-000001").iterdir()} == before
        assert list((folder / "out" / "operator" / "plain" / "held").iterdir()) == []
    finally:
        shutil.rmtree(elsewhere, ignore_errors=True)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


@pytest.mark.parametrize("order", ["approve", "reject"])
def test_a_host_that_takes_over_decides_on_what_the_one_before_held(tmp_path: Path, order: Any) -> None:
    """The mirror has the held bytes until the decision, and nothing of them afterwards."""
    sample(tmp_path)
    configured(tmp_path, PLAIN)
    given = {"store": str(tmp_path / "store"), "key": "aa" * 32, "checkpoint_key": "bb" * 32}
    loaded = sources.load(tmp_path / "approval.toml", given)
    mirrored(loaded, tmp_path / "a", tmp_path)
    service = ReleaseService(
        loaded, another_host(tmp_path / "a", tmp_path / "b"), context=ProcessContext(mirrored=True)
    )
    try:
        assert service.pipelines["plain"].account.held == [1]
        service.rule(PersonDecision("plain", 1, order, by="Ann", why="x"))
        assert service.mirror is not None
        names = service.mirror.blobs.names("plain")
    finally:
        service.close()
    assert len(names) == (1 if order == "approve" else 0)
    assert (tmp_path / "store/public/plain/release-000001/log.xes.gz").exists() == (order == "approve")


def mirrored(loaded: Any, output: Path, folder: Path) -> None:
    """The first release of the log, held, with the mirror of a daemon."""
    from stream.fold.fold import Fold
    from stream.run.log_source import log_facts, records_from_log

    log = read_log(folder / "log.xes")
    service = ReleaseService(loaded, output, context=ProcessContext(mirrored=True))
    try:
        fold = Fold(service.rules(embedded=True), log_facts(log))
        records = records_from_log(log, pseudonym=service.pseudonyms.case, attributes=("ill",), key=fold.key)
        cuts = (cut for position, record in records for cut in fold.apply(position, record))
        assert service.decide(fold, next(cuts)).status == "held"
    finally:
        service.close()


def test_a_backup_holds_what_is_held_and_an_older_one_is_refused_after_an_approval(world: Path) -> None:
    """Restored, it can still be approved; where it was published meanwhile, the backup is behind."""
    copy, out = str(world / "b.tar.gz"), world / "out"
    assert execute(["backup", str(out), copy, "--with-key"]) == 0
    shutil.rmtree(out / "operator")
    assert execute(["restore", copy, str(out)]) == 0
    assert decide(world, "approve").status == "approved"
    assert visible(world) == ["release-000001"]
    shutil.rmtree(out / "operator")
    assert execute(["restore", copy, str(out)]) == 4


def test_the_report_and_the_statement_name_approvals(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The pages name held releases and approvers; the recipient's page only states that a person approved it."""
    decide(world, "approve")
    # `private` is still held, so one publication has released nothing
    assert execute(["report", str(world / "out"), "-o", str(world / "r.html"), "--json"]) == 3
    printed = json.loads(capsys.readouterr().out)
    happened = [(row["what"], row["publication"], row["why"]) for row in printed["happened"]]
    assert ("approved", "plain", "by Ann: looked at it") in happened
    assert ("held for approval", "private", "held: waits for a person's decision") in happened
    assert execute(["statement", str(world / "out"), "plain", "1"]) == 0
    page = capsys.readouterr().out
    assert "A person approved this release before it left" in page
    assert "Ann" not in page
