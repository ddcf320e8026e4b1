"""Increments through the life of a series: erasure, retention, decisions, crashes, changed configurations, readers."""

from __future__ import annotations

import io
import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import veilstream as vs
from connectors import read_log, write_log
from connectors.reading import Reading
from models.errors import InputError, RefusedError
from models.eventlog import Column
from stream.commands import execute
from stream.config import sources
from stream.config.settings import Publication
from stream.ledger import release_record
from stream.ledger.folder import read_key
from stream.operator import approval
from stream.operator.assessment import read_release
from stream.operator.dossier.alternatives import alternatives
from stream.operator.verify import verify
from stream.release.failpoints import BOUNDARIES, Faults, Hook, nothing
from stream.run.replay import Replay, ReplayOutcome
from stream.testing import verifier
from stream.testing.faults import Aborted, abort, at_nth
from stream.values.pseudonym import Pseudonyms
from tests.property.test_increments_random import bag, source
from tests.replay.test_chain import resealed, rewritten

NAME = "weekly"
PARQUET = "log.parquet"


def configured(folder: Path, release: str = "increment", more: str = "", formats: str = '["parquet"]') -> Path:
    """A configuration with one publication of cohorts, and a pseudonym key of the folder."""
    text = (
        'checkpoint_every = 20\n[process]\nname = "ward"\nsensitive = ["S"]\n'
        f'completion = {{ inactivity = "6h" }}\n{more}\n[[publication]]\nname = "{NAME}"\n'
        f'window = {{ new_cases = 15 }}\nrelease = "{release}"\nformats = {formats}\nrelease_attributes = ["S"]\n'
        'mechanism = { kind = "tlkc-cohorts", L = 1, K = 3, C = 0.9, min_share = 0.1 }\n'
        "audit = { bk_length = 2, n = [0, 1], utility = false }\n"
    )
    path = folder / "config.toml"
    path.write_text(text)
    return path


def replayed(folder: Path, *, at: Hook = nothing, **options: Any) -> ReplayOutcome:
    """A replay of the log of the folder under its configuration, which continues where the last one ended."""
    log = source(3, 90)
    return Replay(sources.load(folder / "config.toml"), folder / "out", batch=20, faults=Faults(at), **options).run(log)


def half(folder: Path) -> None:
    """The same replay until its third release is published and its state saved."""
    published = at_nth("published", 3, abort)
    with pytest.raises(Aborted):
        replayed(folder, at=published)


def manifests(folder: Path) -> list[dict[str, Any]]:
    paths = sorted((folder / "out").glob(f"public/{NAME}/release-*/manifest.json"))
    return [json.loads(path.read_text()) for path in paths]


def firsts(folder: Path) -> list[int]:
    """The first release of the set of each release."""
    return [manifest["increment"]["first"] for manifest in manifests(folder)]


def union(folder: Path, manifest: dict[str, Any]) -> Counter[Any]:
    """All cases in the files of the set of a release."""
    numbers = [*(member["sequence"] for member in manifest["increment"]["earlier"]), manifest["sequence"]]
    public = folder / "out" / "public" / NAME
    return sum((bag(public / f"release-{number:06d}" / PARQUET) for number in numbers), Counter())


def audited(folder: Path, number: int) -> Counter[Any]:
    """The cases of a release as its audits saw them: activities alone."""
    record = release_record.read(folder / "out" / "operator" / NAME / f"{number:06d}" / "variants.parquet")
    return Counter(record.log.traces())


def traces(cases: Counter[Any]) -> Counter[Any]:
    """Only the traces of a bag of cases."""
    found: Counter[Any] = Counter()
    for (trace, *_), count in cases.items():
        found[trace] += count
    return found


def erase(folder: Path, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(f"{case}\n".encode())))
    assert execute(["erase", "-c", str(folder / "config.toml"), "-o", str(folder / "out")]) == 0


def shown_case(folder: Path) -> str:
    """A case of the source that the first release shows."""
    pseudonyms = Pseudonyms(read_key(folder / "out" / "operator" / "key"))
    record = release_record.read(folder / "out" / "operator" / NAME / "000001" / "variants.parquet")
    return next(case for case in source(3, 90).case_ids if pseudonyms.case(case) in record.log.case_ids)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A series of increments; no test changes it."""
    folder = tmp_path_factory.mktemp("increments")
    configured(folder)
    replayed(folder)
    return folder


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    """The same series, to be changed."""
    shutil.copytree(made, tmp_path / "made")
    return tmp_path / "made"


def test_a_release_holds_its_newest_cohort_and_names_its_set(made: Path) -> None:
    """Every figure is of the set, the files are of the newest cohort, and the ledger agrees."""
    series = manifests(made)
    assert len(series) >= 4
    assert firsts(made) == [1] * len(series)
    for manifest in series:
        folder = made / "out" / "public" / NAME / f"release-{manifest['sequence']:06d}"
        new, section = read_log(folder / PARQUET), manifest["increment"]
        assert section["new"] == {**section["new"], "cases": new.n_cases, "events": new.n_events}
        assert new.n_cases == manifest["mechanism"]["newest"]["cases"]
        assert traces(union(made, manifest)) == audited(made, manifest["sequence"])
        assert any("new since release" in note for note in manifest["reading"]) == (manifest["sequence"] > 1)
    assert verify(made / "out").holds
    assert verifier.verify(made / "out") == []


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body["increment"]["earlier"].pop(0),
        lambda body: body["increment"]["earlier"].pop(),
        lambda body: body["increment"].update(first=2),
        lambda body: body["increment"]["earlier"][1].update(manifest="0" * 64),
        lambda body: body["increment"]["earlier"].append({"sequence": 99, "manifest": "0" * 64}),
    ],
    ids=["without the first", "without the last", "another first", "another digest", "one that is not there"],
)
def test_verify_finds_another_set(copy: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """A manifest that names other releases than its set has, sealed by somebody who can write the ledger."""
    last = manifests(copy)[-1]["sequence"]
    resealed(copy / "out", NAME, last, change)
    assert {(problem.kind, problem.sequence) for problem in verify(copy / "out").problems} == {("chain", last)}


def test_after_an_erasure_a_new_set_begins_without_the_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of the earlier set show the erased case, so no later release is added to them."""
    configured(tmp_path)
    half(tmp_path)
    before = len(manifests(tmp_path))
    case = shown_case(tmp_path)
    erase(tmp_path, case, monkeypatch)
    replayed(tmp_path)
    series = manifests(tmp_path)
    assert len(series) > before + 1
    assert firsts(tmp_path) == [1] * before + [before + 1] * (len(series) - before)
    assert series[before]["increment"]["earlier"] == []
    assert series[before]["increment"]["new"] == series[before]["counts"]
    for manifest in series[before:]:
        assert traces(union(tmp_path, manifest)) == audited(tmp_path, manifest["sequence"])
    assert len(vs.read_series(tmp_path / "out" / "public" / NAME)) == series[-1]["counts"]["events"]
    pseudonym = Pseudonyms(read_key(tmp_path / "out" / "operator" / "key")).case(case)
    for path in (tmp_path / "out" / "operator").glob(f"{NAME}/*/*"):
        assert pseudonym.encode() not in path.read_bytes()
    assert verify(tmp_path / "out").holds
    assert verifier.verify(tmp_path / "out") == []


def test_an_erasure_of_a_case_that_was_never_shown_ends_no_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing in the files is of that case."""
    configured(tmp_path)
    half(tmp_path)
    erase(tmp_path, "nobody", monkeypatch)
    replayed(tmp_path)
    assert set(firsts(tmp_path)) == {1}


def test_retention_begins_a_new_set(tmp_path: Path) -> None:
    """Cases whose time is over are in no later release, so a set that shows them ends."""
    configured(tmp_path, more='retention = "40h"')
    replayed(tmp_path)
    series = manifests(tmp_path)
    assert len(set(firsts(tmp_path))) > 1
    for manifest in series:
        assert traces(union(tmp_path, manifest)).total() == manifest["counts"]["cases"]


def test_the_first_increment_after_cumulative_releases_holds_everything(tmp_path: Path) -> None:
    """Manifests of cumulative releases name no set, which a later release could continue."""
    configured(tmp_path, "cumulative")
    half(tmp_path)
    before = len(manifests(tmp_path))
    configured(tmp_path)
    _continue_under_another_configuration(tmp_path)
    series = manifests(tmp_path)
    assert all("increment" not in manifest for manifest in series[:before])
    assert [manifest["increment"]["first"] for manifest in series[before:]] == [before + 1] * (len(series) - before)
    assert series[before]["increment"]["new"] == series[before]["counts"]
    assert traces(union(tmp_path, series[-1])) == audited(tmp_path, series[-1]["sequence"])


@pytest.mark.parametrize("formats", ['["xes"]', '["parquet", "xes"]'])
def test_other_files_begin_a_new_set(tmp_path: Path, formats: str) -> None:
    """A reader must find one format in all releases of a set."""
    configured(tmp_path)
    half(tmp_path)
    before = len(manifests(tmp_path))
    configured(tmp_path, formats=formats)
    _continue_under_another_configuration(tmp_path)
    assert set(firsts(tmp_path)[before:]) == {before + 1}


def test_a_case_that_differs_begins_a_new_set(tmp_path: Path) -> None:
    """Files that show another form of a case than the audits see are no part of what was audited."""
    configured(tmp_path)
    half(tmp_path)
    before = len(manifests(tmp_path))
    path = tmp_path / "out" / "operator" / NAME / f"{before:06d}" / "variants.parquet"
    record = release_record.read(path)
    codes = record.log.activity.codes.copy()
    codes[0] = (codes[0] + 1) % len(record.log.activity.values)
    activity = type(record.log.activity)(codes, record.log.activity.values)
    changed = type(record.log)(
        record.log.case_ids,
        record.log.starts,
        activity,
        record.log.time,
        record.log.resource,
        record.log.row,
        case_attributes=record.log.case_attributes,
    )
    release_record.write(path, record.showing(changed))
    replayed(tmp_path)
    assert set(firsts(tmp_path)[before:]) == {before + 1}


def _continue_under_another_configuration(folder: Path) -> None:
    """Continue as a daemon does, which takes a changed file: a replay refuses another configuration."""
    digest = sources.load(folder / "config.toml").digest

    def claimed(entry: dict[str, Any]) -> dict[str, Any]:
        if "config" in entry.get("body", {}):
            entry["body"]["config"] = digest
        return entry

    rewritten(folder / "out", claimed)
    replayed(folder)


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_a_crash_changes_no_set(made: Path, tmp_path: Path, boundary: str) -> None:
    """Dead at each boundary of the third release, then continued: the unions are those of the run without a crash."""
    configured(tmp_path)
    with pytest.raises(Aborted):
        replayed(tmp_path, at=at_nth(boundary, 3, abort))
    replayed(tmp_path)
    unions = [traces(union(tmp_path, manifest)) for manifest in manifests(tmp_path)]
    assert unions == [traces(union(made, manifest)) for manifest in manifests(made)]
    assert verify(tmp_path / "out").holds
    assert verifier.verify(tmp_path / "out") == []


def test_a_rejected_release_is_in_no_set(tmp_path: Path) -> None:
    """The next one continues the set of the last release that left, and shows the cases of the rejected one too."""
    path = configured(tmp_path)
    path.write_text(path.read_text() + 'approval = "required"\n')
    for number, order in ((1, "approve"), (2, "reject"), (3, "approve")):
        with pytest.raises(Aborted):
            replayed(tmp_path, at=at_nth("held", 1, abort))
        assert len(manifests(tmp_path)) == min(number - 1, 1)
        approval.decide(tmp_path / "out", NAME, number, order, by="Ann", why="looked at it")
    first, third = manifests(tmp_path)
    assert (first["sequence"], third["sequence"]) == (1, 3)
    assert [member["sequence"] for member in third["increment"]["earlier"]] == [1]
    assert third["increment"]["new"]["cases"] == third["counts"]["cases"] - first["counts"]["cases"]
    assert traces(union(tmp_path, third)) == audited(tmp_path, 3)
    assert verify(tmp_path / "out").holds


# readers


def test_a_reader_gets_the_union(made: Path) -> None:
    """`read_series` and the assessment of a release read every file of the set."""
    public, last = made / "out" / "public" / NAME, manifests(made)[-1]
    log = vs.read_series(public)
    counts = last["counts"]
    assert (log["case:concept:name"].nunique(), len(log)) == (counts["cases"], counts["events"])
    assert log.attrs["veilstream:time_basis"] == last["time_basis"]
    newest = read_release(max(public.glob("release-*")), Reading())
    assert traces(union(made, last)) == Counter(newest.log.traces())


def test_a_reader_is_told_of_a_release_that_is_missing_or_changed(copy: Path) -> None:
    """One error that names the place; half a set is never read as if it were whole."""
    public = copy / "out" / "public" / NAME
    (public / "release-000002" / PARQUET).write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"release-000002.log\.parquet: missing, or not the file"):
        vs.read_series(public)
    (public / "release-000002" / "manifest.json").write_text("{}")
    with pytest.raises(InputError, match=r"release-000002.manifest\.json: not the manifest that release-"):
        vs.read_series(public)
    shutil.rmtree(public / "release-000002")
    with pytest.raises(InputError, match="release 2 of its set is not next to it"):
        vs.read_series(public)
    with pytest.raises(InputError, match="no release; give the folder of a publication"):
        vs.read_series(copy / "out" / "public")


def test_a_newer_manifest_is_refused(copy: Path) -> None:
    """Fields may have another meaning in a later version."""
    path = max((copy / "out").glob(f"public/{NAME}/*/manifest.json"))
    path.write_text(json.dumps({**json.loads(path.read_text()), "version": 2}))
    with pytest.raises(RefusedError, match="newer than this program"):
        vs.read_series(copy / "out" / "public" / NAME)


def test_of_cumulative_releases_the_newest_is_read_and_of_completed_cases_all(tmp_path: Path) -> None:
    """One function for any publication: a reader need not know how its releases are made."""
    configured(tmp_path, "cumulative")
    outcome = replayed(tmp_path)
    last = [decision.audit for _, decision in outcome.decisions if decision.status == "sealed"][-1]
    assert len(vs.read_series(tmp_path / "out" / "public" / NAME)) == last["counts"]["released"]

    rows = [f"c{i},{a},2025-01-{1 + i // 8:02}T10:00:0{t}Z" for i in range(80) for t, a in enumerate("ab")]
    (tmp_path / "log.csv").write_text("\n".join(["case,act,time", *rows]) + "\n")
    (tmp_path / "once.toml").write_text(
        '[process]\nname = "once"\ncompletion = { end_activities = ["b"] }\n'
        '[process.columns]\ncase = "case"\nactivity = "act"\ntime = "time"\n'
        '[file]\nencoding = "utf-8"\nseparator = "comma"\ntime_format = "iso"\n'
        '[[publication]]\nname = "once"\ncases = "completed"\nstart = "2025-01-01T00:00:00Z"\n'
        'window = { every = "3d", time = "wall" }\n'
        'mechanism = { kind = "dp-variants", epsilon = 20, delta_dp = 0.01 }\n'
    )
    command = ["replay", str(tmp_path / "log.csv"), "-c", str(tmp_path / "once.toml"), "-o", str(tmp_path / "once")]
    assert execute([*command, "--until", "2025-01-13T00:00:00Z"]) == 0
    public = tmp_path / "once" / "public" / "once"
    releases = verifier.contents(tmp_path / "once")
    assert len(releases) >= 3
    cases = sum(release.total() for release in releases.values())
    assert vs.read_series(public)["case:concept:name"].nunique() == cases


def test_the_releases_of_a_replay_have_the_log_of_their_set() -> None:
    """`release.log` is the log of the whole set, so measures of it are those of its audit."""
    publication = {
        "name": NAME,
        "window": {"new_cases": 15},
        "release": "increment",
        "mechanism": {"kind": "tlkc-cohorts", "L": 1, "K": 3, "C": 1, "min_share": 0.1},
    }
    series = vs.replay(source(3, 90), publication=publication, process={"completion": {"inactivity": "6h"}})
    assert len(series.releases) >= 3
    for release in series.releases:
        assert release.log.n_events == release.document["counts"]["events"]


def test_a_statement_tells_recipients_to_read_the_set(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The counts of a row are not those of its files."""
    assert execute(["statement", str(made / "out"), NAME]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "Its files hold the new cases alone: read the files of the set together." in printed
    assert "Each case is in one release of its set." in printed
    assert "add no counts of several releases" not in printed


def test_the_catalogue_says_which_releases_belong_together(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In the description of each dataset, which comes from the manifest."""
    assert execute(["catalogue", str(made / "out"), NAME]) == 0
    graph = json.loads(capsys.readouterr().out)["@graph"]
    datasets = [node for node in graph if node["@type"] == ["dcat:Dataset", "prov:Entity"]]
    notes = ["new since release" in node["dct:description"]["@value"] for node in datasets]
    assert notes == [False, *[True] * (len(datasets) - 1)]


# configuration


@pytest.mark.parametrize(
    ("publication", "message"),
    [
        ({"mechanism": {"kind": "tlkc", "K": 3, "L": 1, "C": 1}, "release": "increment"}, "which only tlkc-cohorts"),
        (
            {
                "mechanism": {"kind": "dp-variants", "epsilon": 1, "delta_dp": 1e-6},
                "window": {"every": "7d", "time": "wall"},
                "start": "2025-01-01T00:00:00Z",
                "cases": "completed",
                "release": "increment",
            },
            "each release holds only cases that no other one holds; remove release",
        ),
    ],
    ids=["a kind that changes cases", "releases that hold each case once"],
)
def test_other_publications_refuse_the_key(publication: dict[str, Any], message: str) -> None:
    """One line that says why, and what to do."""
    table = {"name": "p", "window": {"every": "7d"}, **publication}
    with pytest.raises(InputError, match=message):
        sources.load(None, {"publication": [table]})


def test_alternatives_of_increments_are_valid(tmp_path: Path) -> None:
    """Other kinds refuse the key, and a dossier compares with them."""
    configured(tmp_path)
    settings = sources.load(tmp_path / "config.toml")
    (publication,) = settings.publication
    tables = [alternative.table for alternative in alternatives(publication, settings, source(3, 90))]
    kinds = {Publication.model_validate({**table, "name": "other"}).build_mechanism.kind for table in tables}
    assert kinds == {"tlkc-cohorts", "dp-variants"}


def test_retention_is_warned_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each case that leaves begins a new set, so that increments save little."""
    path = configured(tmp_path, more='retention = "400d"')
    assert execute(["check-config", str(path)]) == 0
    assert "a new set of increments begins" in " ".join("".join(capsys.readouterr()).split())


def test_columns_without_a_value_have_the_type_of_texts(tmp_path: Path) -> None:
    """So that files of one set have one schema, also if a cohort shows no value of an attribute."""
    import pyarrow.parquet as pq

    log = source(3, 20)
    empty = log.with_columns(case={"S": Column.encode([None] * log.n_cases)}, event={})
    write_log(log, tmp_path / "one.parquet")
    write_log(empty, tmp_path / "two.parquet")
    kinds = [str(pq.read_schema(tmp_path / name).field("case:S").type) for name in ("one.parquet", "two.parquet")]
    assert kinds == ["string", "string"]
