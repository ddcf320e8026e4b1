"""`veilstream verify`: each kind of tampering is found, nothing is found if nothing is wrong, nothing is written."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from models.errors import InputError, RefusedError
from stream.commands import execute
from stream.operator.verify import VerifyProblem, VerifyResult, verify
from stream.testing.faults import Aborted, abort, at_nth
from tests.conftest import ROOT
from tests.replay.crashing import configuration, replay, sample
from tests.replay.test_chain import resealed, rewritten

LOG = "log.xes.gz"
FROZEN = ROOT / "tests" / "fixtures" / "d56300e"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a replay of three publications: releases without a promise, withheld attempts, dp releases."""
    folder = tmp_path_factory.mktemp("made")
    sample(folder)
    configuration(folder, 3)
    replay(folder)
    return folder / "out"


@pytest.fixture
def out(made: Path, tmp_path: Path) -> Path:
    """A copy that may be spoiled."""
    shutil.copytree(made, tmp_path / "out")
    return tmp_path / "out"


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file with its bytes and its time."""
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


def public(out: Path, name: str, number: int) -> Path:
    """Folder of a release."""
    return out / "public" / name / f"release-{number:06d}"


def dropped(kind: str, name: str, number: int = 0) -> Callable[[Path], None]:
    """The ledger without the last entry of a kind."""

    def change(out: Path) -> None:
        with closing(sqlite3.connect(out / "operator" / "ledger.sqlite", isolation_level=None)) as db:
            rows = [(at, json.loads(body)) for at, body in db.execute("SELECT id, body FROM entries ORDER BY id")]
            mine = [at for at, row in rows if (row["kind"], row["publication"]) == (kind, name)]
            mine = [at for at in mine if not number or dict(rows)[at]["sequence"] == number]
            db.execute("DELETE FROM entries WHERE id = ?", (mine[-1],))

    return change


def halved(out: Path) -> None:
    """Every charge of the ledger is half of what it was."""

    def change(entry: dict[str, Any]) -> dict[str, Any]:
        if entry["kind"] == "charge":
            entry["body"]["epsilon"] = "1/2"
        return entry

    rewritten(out, change)


def manifest(name: str, number: int, change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    """Another manifest, and a ledger that sealed that one: somebody who can write both."""
    return lambda out: resealed(out, name, number, change)


def spoiled(name: str, number: int, file: str) -> Callable[[Path], None]:
    """One byte more at the end of a file."""

    def change(out: Path) -> None:
        with (public(out, name, number) / file).open("ab") as stream:
            stream.write(b"\n")

    return change


def broken_ledger(out: Path) -> None:
    (out / "operator" / "ledger.sqlite").write_bytes(b"no database" * 100)


def other_audit(out: Path) -> None:
    folder = out / "operator" / "plain"
    shutil.copy(folder / "000001" / "audit.json", folder / "000002" / "audit.json")


def extra(*path: str) -> Callable[[Path], None]:
    """A file that nobody sealed."""

    def change(out: Path) -> None:
        out.joinpath(*path).parent.mkdir(parents=True, exist_ok=True)
        out.joinpath(*path).write_text("x")

    return change


def spent(amount: float) -> Callable[[dict[str, Any]], Any]:
    """A manifest that says that so much was spent."""
    return lambda body: body["budget"]["spent"].update(epsilon=amount)


TAMPERED: dict[str, tuple[Callable[[Path], None], set[tuple[str, str, int]]]] = {
    "a file has another byte": (spoiled("plain", 2, LOG), {("bytes", "plain", 2)}),
    "a file is gone": (lambda out: (public(out, "plain", 2) / LOG).unlink(), {("missing", "plain", 2)}),
    "a release is gone": (lambda out: shutil.rmtree(public(out, "plain", 2)), {("missing", "plain", 2)}),
    "a manifest has another byte": (spoiled("private", 1, "manifest.json"), {("manifest", "private", 1)}),
    "a manifest is another number's": (
        manifest("plain", 1, lambda body: body.update(sequence=9)),
        {("manifest", "plain", 1), ("chain", "plain", 2), ("operator", "plain", 1)},
    ),
    "a manifest is of another process": (
        manifest("plain", 4, lambda body: body.update(process="clinic")),
        {("manifest", "plain", 4)},
    ),
    "a manifest lists another file": (
        manifest("plain", 4, lambda body: body["files"][0].update(bytes=1)),
        {("manifest", "plain", 4), ("operator", "plain", 4)},
    ),
    "a manifest follows another release": (
        manifest("plain", 4, lambda body: body.update(previous=2)),
        {("chain", "plain", 4)},
    ),
    "a manifest names another digest": (
        manifest("plain", 4, lambda body: body["chain"].update(previous_manifest="0" * 64)),
        {("chain", "plain", 4), ("operator", "plain", 4)},
    ),
    "a manifest counts fewer releases": (
        manifest("plain", 4, lambda body: body["chain"].update(releases=4)),
        {("chain", "plain", 4), ("operator", "plain", 4)},
    ),
    "a later manifest has no chain": (
        manifest("plain", 4, lambda body: body.pop("chain")),
        {("chain", "plain", 4), ("operator", "plain", 4)},
    ),
    "a manifest says that less was spent": (
        manifest("private", 1, spent(0.5)),
        {("budget", "private", 1), ("chain", "private", 2), ("operator", "private", 1)},
    ),
    "a manifest says that nothing was spent": (
        manifest("private", 1, lambda body: body.update(budget=None)),
        {("budget", "private", 1), ("chain", "private", 2), ("operator", "private", 1)},
    ),
    "a release nobody sealed": (extra("public", "plain", "release-000009", "manifest.json"), {("unknown", "plain", 9)}),
    "a file nobody sealed": (extra("public", "plain", "release-000001", "cases.csv"), {("unknown", "plain", 1)}),
    "an operator's file of no release": (extra("operator", "plain", "000009", "audit.json"), {("unknown", "plain", 0)}),
    "an operator's file is gone": (
        lambda out: (out / "operator" / "plain" / "000001" / "memory.json").unlink(),
        {("operator", "plain", 1)},
    ),
    "an audit of another release": (other_audit, {("operator", "plain", 2)}),
    "the last seal is gone from the ledger": (
        dropped("seal", "plain"),
        {("unknown", "plain", 4), ("ledger", "plain", 4), ("unknown", "plain", 0)},
    ),
    "a ledger that is not a ledger": (broken_ledger, {("ledger", "", 0)}),
}


def kinds(result: VerifyResult) -> set[tuple[str, str, int]]:
    """Return the kinds of the findings."""
    return {(one.kind, one.publication, one.sequence) for one in result.problems}


def test_a_sound_folder_holds_and_nothing_is_written(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 0, the verdict in the first line, every release and file counted; not a byte of the folder is another."""
    before = contents(made)
    assert execute(["verify", str(made)]) == 0
    assert capsys.readouterr().out.startswith("[+] HOLDS: ")
    assert execute(["verify", str(made), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert contents(made) == before
    assert (printed["holds"], printed["process"], printed["problems"], printed["notes"]) == (True, "crash", [], [])
    rows = {row["name"]: row for row in printed["publications"]}
    releases = {name: len(list((made / "public" / name).glob("release-*"))) for name in ("plain", "private")}
    assert releases["plain"] == 4
    assert {name: rows[name]["releases"] for name in releases} == releases
    assert rows["never"]["withheld"] == 2
    assert rows["private"]["epsilon"] == releases["private"] * 1.0
    assert rows["plain"]["epsilon"] == 0


@pytest.mark.parametrize("how", TAMPERED)
def test_tampering_is_found(how: str, out: Path) -> None:
    """Of the right kind and release, and nothing is blamed that is sound."""
    spoil, expected = TAMPERED[how]
    spoil(out)
    assert kinds(verify(out)) == expected


def test_a_charge_that_is_gone_or_less_than_it_was_is_found_at_every_later_release(out: Path) -> None:
    """Manifests said what was spent, also by the process: a ledger that was made cheaper contradicts all of them."""
    dropped("charge", "private")(out)
    last = max(int(path.name[-6:]) for path in (out / "public" / "private").iterdir())
    found = verify(out)
    assert kinds(found) >= {("budget", "private", last)}
    assert {one.kind for one in found.problems} <= {"budget", "chain"}  # no longer charged: others count fewer
    halved(out)
    assert ("budget", "private", 1) in kinds(verify(out))


def test_a_number_that_was_left_out_is_a_hole_and_a_burned_one_is_not(out: Path) -> None:
    """The ledger reports it of burned numbers."""
    dropped("seal", "plain", 2)(out)
    found = verify(out)
    assert ("number", "plain", 2) in kinds(found)


def test_what_a_crash_left_is_no_tampering(tmp_path: Path) -> None:
    """Sealed and not renamed: the bytes wait. Burned by the next start: its number is missing, and that is said."""
    sample(tmp_path)
    configuration(tmp_path, 1)
    with pytest.raises(Aborted):
        replay(tmp_path, publications=1, at=at_nth("sealed", 2, abort))
    result = verify(tmp_path / "out")
    assert (result.problems, [one.waiting for one in result.publications]) == ([], [1])
    (waiting,) = (tmp_path / "out" / "public" / "private").glob(".*.tmp")
    shutil.rmtree(waiting)
    assert kinds(verify(tmp_path / "out")) == {("missing", "private", 2)}
    replay(tmp_path, publications=1)
    result = verify(tmp_path / "out")
    assert (result.problems, [one.burned for one in result.publications]) == ([], [1])


def test_the_command_says_what_does_not_hold(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 3; the verdict first, then a row for each problem."""
    spoiled("plain", 2, LOG)(out)
    assert execute(["verify", str(out)]) == 3
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "[x] DOES NOT HOLD: 1 problem"
    assert any("plain" in line and "bytes" in line and f"{LOG} is not what was sealed" in line for line in lines)
    assert execute(["verify", str(out), "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["problems"] == [
        {"kind": "bytes", "text": f"{LOG} is not what was sealed", "publication": "plain", "sequence": 2}
    ]


def test_a_folder_that_is_none_and_a_newer_ledger_are_refused(
    tmp_path: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 2: there is nothing to check. Exit 4: what a later program's entries mean is not known here."""
    assert execute(["verify", str(tmp_path)]) == 2
    assert "give the output folder" in capsys.readouterr().err
    with pytest.raises(InputError):
        verify(tmp_path)
    with closing(sqlite3.connect(out / "operator" / "ledger.sqlite", isolation_level=None)) as db:
        db.execute("UPDATE about SET version = 2")
    assert execute(["verify", str(out)]) == 4
    with pytest.raises(RefusedError, match="newer"):
        verify(out)


def test_public_files_alone_are_for_another_command(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A recipient has no ledger: the error names the command that needs none."""
    assert execute(["verify", str(made / "public")]) == 2
    assert "`veilstream statement` compares their sums" in " ".join(capsys.readouterr().err.split())


def test_releases_in_a_store_elsewhere_are_checked_there(out: Path, tmp_path: Path) -> None:
    """With --store; without it all of them are gone."""
    (tmp_path / "store").mkdir()
    shutil.move(out / "public", tmp_path / "store" / "public")
    assert {one.kind for one in verify(out).problems} == {"missing"}
    assert verify(out, (tmp_path / "store").as_uri()).problems == []
    spoiled("plain", 1, LOG)(tmp_path / "store")
    found = verify(out, (tmp_path / "store").as_uri()).problems
    assert found == [VerifyProblem("bytes", f"{LOG} is not what was sealed", "plain", 1)]


@pytest.mark.parametrize("kind", ["plain", "encrypted"])
def test_releases_of_the_earlier_version_hold(kind: str, tmp_path: Path) -> None:
    """The frozen folders of d56300e, whose manifests have no chain and no budget of the process; and a file of theirs
    that is spoiled is found as any other."""
    for name in ("output", "store"):
        shutil.copytree(FROZEN / kind / name, tmp_path / name)
    result = verify(tmp_path / "output", str(tmp_path / "store"))
    assert (result.problems, sum(one.releases for one in result.publications)) == ([], 4)
    spoiled("plain", 2, LOG)(tmp_path / "store")
    assert kinds(verify(tmp_path / "output", str(tmp_path / "store"))) == {("bytes", "plain", 2)}
