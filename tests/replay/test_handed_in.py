"""A cut that is built elsewhere: its cases go out, a plan comes in, and nothing is sealed that was not audited."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from models.errors import InputError
from stream.commands import execute
from stream.engine import plan_file
from stream.engine.plan_file import PlanFile
from stream.ledger import release_record
from stream.ledger.sqlite import open_readonly
from stream.release.contract import Build
from stream.testing import verifier
from stream.values.pseudonym import Pseudonyms
from tests.replay.crashing import KILLED, run, sample
from tests.replay.test_engine_replay import KEY, configured, plans, replayed

BOUNDED = 'mechanism = { kind = "tlkc", knowledge = "seq", L = 2, K = 5, C = 0.9, suppression = "exact" }'
BY_50 = f'window = {{ new_cases = 50 }}\n{BOUNDED}\ngate = {{ on_violation = "warn" }}'


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """A folder with a log and a configuration of two releases."""
    sample(tmp_path)
    configured(tmp_path, BY_50, sensitive="ill")
    return tmp_path


def replay(world: Path, *more: str | Path) -> int:
    """Exit code of a replay into `out`."""
    words = ["replay", world / "log.xes", "-c", world / "veilstream.toml", "-o", world / "out", *more]
    return execute([str(word) for word in words])


def planned(world: Path, name: str = "1", engine: str = "embedded") -> Path:
    """The plan of the open cut, whose cases go out into a new folder."""
    state, plan = world / f"state{name}", world / f"plan{name}"
    assert replay(world, "--export-cut", state) == 3
    assert execute(["plan", str(state), "-o", str(plan), "--engine", engine]) == 0
    return plan


def entries(world: Path) -> list[str]:
    """Kinds of the ledger's entries."""
    return [entry.kind for entry in open_readonly(world / "out" / "operator" / "ledger.sqlite")]


@pytest.mark.parametrize("engine", ["embedded", "duckdb"])
def test_a_series_that_was_built_elsewhere(engine: str, world: Path) -> None:
    """Cut by cut: the releases have the content of a run in memory, their audits are its own, and the seals name the
    plans."""
    if engine == "duckdb":
        pytest.importorskip("duckdb", reason='duckdb is not installed (extra "duckdb")')
    first = planned(world, "1", engine)
    assert entries(world) == ["note"], "an open cut stands in no ledger"
    assert replay(world, "--plan", first, "--export-cut", world / "state2") == 3
    assert execute(["plan", str(world / "state2"), "-o", str(world / "plan2"), "--engine", engine]) == 0
    assert replay(world, "--plan", world / "plan2") == 0
    replayed(world / "log.xes", world / "veilstream.toml", world / "calm")
    own, calm = verifier.contents(world / "out"), verifier.contents(world / "calm")
    assert len(own) == 2
    assert own.items() <= calm.items()
    assert verifier.verify(world / "out") == []
    assert None not in plans(world / "out")
    audits = [
        json.loads((world / name / "operator" / "p0" / "000002" / "audit.json").read_text()) for name in ("out", "calm")
    ]
    for part in ("anonymity", "counts", "loss", "suppressed", "gate", "n_actual", "leakage"):
        assert audits[0].get(part) == audits[1].get(part), part


def test_what_goes_out_is_for_this_user_and_whole(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Cases under pseudonyms, nothing beside them; no folder is written over, none of others is written."""
    assert replay(world, "--export-cut", world / "state") == 3
    assert "release 1 of p0 is open" in capsys.readouterr().err
    assert (world / "state").stat().st_mode & 0o077 == 0
    names = {path.name for path in world.iterdir()}
    assert names == {"log.xes", "veilstream.toml", "out", "state"}
    told = json.loads((world / "state" / "_state.json").read_text())
    assert (told["publication"], told["number"], told["cases"]) == ("p0", 1, 50)
    assert replay(world, "--export-cut", world / "state") == 2
    assert replay(world, "--export-cut", world / "out" / "public" / "state") == 2
    assert "raw data" in capsys.readouterr().err
    assert execute(["plan", str(world / "out"), "-o", str(world / "p")]) == 2
    assert "holds no cut" in capsys.readouterr().err


def changed(world: Path, plan: Path, change: Callable[[PlanFile], PlanFile]) -> Path:
    """Another file with a changed plan."""
    path = world / "changed"
    plan_file.write(path, change(plan_file.read(plan)))
    return path


def with_build(change: Callable[[Build], Build]) -> Callable[[PlanFile], PlanFile]:
    return lambda plan: replace(plan, planned=replace(plan.planned, build=change(plan.planned.build)))


def other_cut(plan: PlanFile) -> PlanFile:
    return replace(plan, place=replace(plan.place, cut="p0/1/0/0"))


def other_parameters(plan: PlanFile) -> PlanFile:
    return replace(plan, mechanism=plan.mechanism.model_copy(update={"K": 2}))


def other_cases(plan: PlanFile) -> PlanFile:
    return replace(plan, planned=replace(plan.planned, table="0" * 64))


def added_event(build: Build) -> Build:
    """An event that no case has, in the place of one."""
    codes = build.log.activity.codes.copy()
    codes[0] = (codes[0] + 1) % len(build.log.activity.values)
    return replace(build, log=replace(build.log, activity=replace(build.log.activity, codes=codes)))


def lost_row(build: Build) -> Build:
    """A row less, as if its cases were suppressed; the counts are of before."""
    rest = np.arange(1, build.log.n_cases)
    return replace(build, log=build.log.select_cases(rest), origin=build.origin[1:])


def swapped_rows(build: Build) -> Build:
    return replace(build, origin=build.origin[::-1].copy())


WRONG = {
    "another cut": (other_cut, "it is of cut"),
    "other parameters": (other_parameters, "other parameters"),
    "other cases": (other_cases, "other cases"),
    "an added event": (with_build(added_event), "what its cases do not have"),
    "a lost row": (with_build(lost_row), "its counts"),
    "swapped rows": (with_build(swapped_rows), "its rows"),
    "less removed": (with_build(lambda build: replace(build, n_actual=0)), "its counts"),
    "more carried": (with_build(lambda build: replace(build, carries=("activity", "resource"))), "other parts"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_plan_that_is_not_of_the_cut_seals_nothing(
    what: str, world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, no entry in the ledger, and the cut is still open: the right plan is taken afterwards."""
    change, told = WRONG[what]
    plan = planned(world)
    assert replay(world, "--plan", changed(world, plan, change)) == 2
    found = capsys.readouterr().err
    assert told in found
    assert "still open" in found
    assert entries(world) == ["note"]
    assert not list((world / "out" / "public").glob("*/release-*"))
    assert replay(world, "--plan", plan, "--export-cut", world / "next") == 3
    assert len(plans(world / "out")) == 1


def test_a_plan_that_breaks_the_promise_seals_nothing(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Built with K = 2 and told to be of K = 5: the bound is counted on what it comes to."""
    plan = planned(world)
    state = world / "state1" / "_state.json"
    body = json.loads(state.read_text())
    state.write_text(json.dumps({**body, "mechanism": {**body["mechanism"], "K": 1, "C": 1.0}}))
    assert execute(["plan", str(world / "state1"), "-o", str(world / "weak")]) == 0
    named = changed(world, world / "weak", lambda one: replace(one, mechanism=plan_file.read(plan).mechanism))
    assert replay(world, "--plan", named) == 2
    assert "does not keep the promise" in capsys.readouterr().err
    assert entries(world) == ["note"]


def test_the_gate_decides_on_what_is_handed_in(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A bound that the release breaks: the cut is withheld, as in memory, and no plan of it is taken again. The next
    cut has its number, and is another one."""
    configured(world, BY_50.replace('on_violation = "warn"', "min_ka = 1000"), sensitive="ill")
    plan = planned(world)
    assert replay(world, "--plan", plan, "--export-cut", world / "next") == 3
    assert entries(world) == ["note", "withheld"]
    assert not list((world / "out" / "public").glob("*/release-*"))
    assert json.loads((world / "next" / "_state.json").read_text())["cut"] != plan_file.read(plan).place.cut
    assert replay(world, "--plan", plan) == 2
    assert "was withheld" in capsys.readouterr().err


def test_a_number_has_one_content(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The plan that a release was sealed from is answered as before; another one of the same number is refused."""
    plan = planned(world)
    assert replay(world, "--plan", plan) == 0
    before = verifier.digests(world / "out")
    assert replay(world, "--plan", plan) == 0
    assert "not used" not in capsys.readouterr().err
    operator = {**plan_file.read(plan).planned.build.operator, "note": "another one"}
    assert replay(world, "--plan", changed(world, plan, with_build(lambda one: replace(one, operator=operator)))) == 2
    assert "already sealed with different content" in capsys.readouterr().err
    assert verifier.digests(world / "out") == before


def test_a_plan_of_a_release_that_does_not_come_is_told(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The run ends, and says that the plan was not used."""
    plan = planned(world)
    later = changed(world, plan, lambda one: replace(one, place=replace(one.place, number=9)))
    assert replay(world, "--plan", later) == 0
    assert "not used" in capsys.readouterr().err


def test_noise_is_not_handed_in(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Who could draw it again before its charge could draw until it pleases."""
    text = 'window = { every = "1h", time = "event" }\nstart = "1970-01-01T00:00:00Z"\n'
    configured(world, text + 'mechanism = { kind = "dp-variants", epsilon = 1.0, delta_dp = 1e-3 }', sensitive="ill")
    assert replay(world, "--export-cut", world / "state") == 2
    assert "after its charge" in capsys.readouterr().err
    assert not (world / "out").exists()


def test_a_file_that_is_no_plan_is_refused(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (world / "text").write_text("no plan")
    assert replay(world, "--plan", world / "text") == 2
    assert "not a readable plan" in capsys.readouterr().err
    with pytest.raises(InputError, match="not a readable plan"):
        plan_file.read(world / "absent")
    plan = planned(world)
    table = pq.read_table(plan)
    for told in (b"{}", b'{"version": 1}', b""):
        pq.write_table(table.replace_schema_metadata({plan_file.KEY: told}), world / "odd")
        with pytest.raises(InputError, match="not a readable plan"):
            plan_file.read(world / "odd")


@pytest.mark.parametrize("boundary", ["opened", "charged", "built", "files_written", "sealed", "renamed", "published"])
def test_a_crash_between_two_steps(boundary: str, world: Path) -> None:
    """kill -9 while a plan is taken: it is handed in again, or the release is built here; one content, that of a run in
    memory, and what was sealed before stays to the byte."""
    plan = planned(world)
    log, config, out = world / "log.xes", world / "veilstream.toml", world / "out"
    assert run(log, config, out, at=boundary, plan=plan) == KILLED
    assert verifier.verify(out, finished=False) == []
    before = verifier.digests(out)
    assert run(log, config, out, plan=plan) == 0
    assert verifier.verify(out) == []
    replayed(log, config, world / "calm")
    own, calm = verifier.contents(out), verifier.contents(world / "calm")
    assert len(own) == 2
    assert own.items() <= calm.items()
    after = verifier.digests(out)
    assert all(after[key] == files for key, files in before.items())
    assert bool(before) == (boundary in ("renamed", "published"))


@pytest.mark.parametrize("operation", [9, 14, 17, 20, 23, 26])
def test_a_crash_at_any_operation(operation: int, world: Path) -> None:
    """The same between any two operations on the disk; after it the other way is taken: what was begun from a plan is
    built in memory."""
    plan = planned(world)
    log, config, out = world / "log.xes", world / "veilstream.toml", world / "out"
    assert run(log, config, out, operation=operation, plan=plan) == KILLED
    before = verifier.digests(out)
    assert run(log, config, out) == 0
    assert verifier.verify(out) == []
    replayed(log, config, world / "calm")
    assert verifier.contents(out).items() <= verifier.contents(world / "calm").items()
    after = verifier.digests(out)
    assert all(after[key] == files for key, files in before.items())


def test_a_killed_or_failed_export_leaves_nothing_to_take(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk while the cases go out: exit 1, no folder of that name, and the next run writes it."""
    import errno

    from connectors.files import FileOps

    synced = FileOps.fsync

    def full(disk: FileOps, path: Path) -> None:
        if "state" in str(path):
            raise OSError(errno.ENOSPC, "No space left on device")
        synced(disk, path)

    with monkeypatch.context() as patch:
        patch.setattr(FileOps, "fsync", full)
        assert replay(world, "--export-cut", world / "state") == 1
    assert not (world / "state").exists()
    assert not list(world.glob(".state*"))
    assert replay(world, "--export-cut", world / "state") == 3


def test_an_erasure_in_between_refuses_the_plan(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The cut shows other cases now: what was planned with the erased one is not taken, and a new plan has it not."""
    from stream.config import sources
    from stream.operator.erase import erase_in_folder

    sample(world, cases=400)  # a record of the fold has 500 events: there is a checkpoint behind the first cut
    configured(world, BY_50.replace("50", "150"), sensitive="ill")
    assert replay(world, "--plan", planned(world), "--export-cut", world / "state") == 3
    assert execute(["plan", str(world / "state"), "-o", str(world / "plan")]) == 0
    erase_in_folder(sources.load(world / "veilstream.toml"), world / "out", ["case3"])
    assert replay(world, "--plan", world / "plan") == 2
    assert "other cases" in capsys.readouterr().err
    assert entries(world).count("seal") == 1
    assert replay(world, "--plan", planned(world, "2")) == 0
    assert verifier.verify(world / "out") == []
    shown = release_record.read(world / "out" / "operator" / "p0" / "000002" / "variants.parquet").log.case_ids
    assert len(shown) == 299
    assert Pseudonyms(bytes.fromhex(KEY)).case("case3") not in shown
