"""Cohorts of a series in which each case is in one release: what leaves, what waits, and what is kept of it."""

from __future__ import annotations

import io
import json
import shutil
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veilstream as vs
from connectors import read_log, write_log
from models.errors import InputError
from models.eventlog import EventLog
from stream.commands import execute
from stream.config import sources
from stream.fold.fold import Fold
from stream.ledger import release_record
from stream.ledger.checkpoints import Checkpoints, SavedState
from stream.ledger.folder import read_key
from stream.ledger.release_record import ReleaseRecord
from stream.operator import approval
from stream.operator.verify import verify
from stream.release.contract import Attempt, Exposure
from stream.release.failpoints import BOUNDARIES, Faults, Hook, nothing
from stream.run.replay import Replay, ReplayOutcome
from stream.run.service import ReleaseService
from stream.testing import verifier
from stream.testing.faults import Aborted, abort, at_nth
from stream.values.pseudonym import Pseudonyms
from tests.oracles import tlkc
from tests.property.test_increments_random import source
from tests.replay.crashing import KILLED, run

NAME = "weekly"
K, C, L = 3, 0.9, 2
LOG = source(3, 120)
COHORTS = f'mechanism = {{ kind = "tlkc-cohorts", L = {L}, K = {K}, C = {C}, suppression = "local" }}'

TLKC = f'mechanism = {{ kind = "tlkc", L = {L}, K = {K}, C = {C} }}'


def configured(folder: Path, cases: str = "completed", more: str = "", name: str = NAME) -> Path:
    """A configuration with one publication of cohorts."""
    path = folder / "config.toml"
    path.write_text(
        'checkpoint_every = 20\n[process]\nname = "ward"\nsensitive = ["S"]\ntimezone = "UTC"\n'
        f'completion = {{ inactivity = "6h" }}\n[[publication]]\nname = "{name}"\ncases = "{cases}"\n'
        f'window = {{ completed_cases = 20 }}\nformats = ["parquet", "xes"]\nrelease_attributes = ["S"]\n{COHORTS}\n'
        f"audit = {{ bk_length = 2, n = [0, 1] }}\n{more}\n"
    )
    return path


def replayed(folder: Path, *, final: bool = False, at: Hook = nothing, **options: Any) -> ReplayOutcome:
    """A replay of the log under the configuration of the folder, which continues where the last one ended."""
    return Replay(sources.load(folder / "config.toml"), folder / "out", batch=20, faults=Faults(at), **options).run(
        LOG, final=final
    )


def manifests(folder: Path) -> list[dict[str, Any]]:
    paths = sorted((folder / "out").glob(f"public/{NAME}/release-*/manifest.json"))
    return [json.loads(path.read_text()) for path in paths]


def records(folder: Path) -> list[ReleaseRecord]:
    """Every release as its audits saw it, held and rejected ones too: case ids are pseudonyms."""
    paths = sorted((folder / "out").glob(f"operator/{NAME}/*/variants.parquet"))
    return [release_record.read(path) for path in paths]


def pseudonyms(folder: Path) -> dict[str, str]:
    """The pseudonym of each case of the source."""
    known = Pseudonyms(read_key(folder / "out" / "operator" / "key"))
    return {case: known.case(case) for case in LOG.case_ids}


def saved_fold(folder: Path) -> Fold:
    """The fold of the last checkpoint."""
    loaded = Checkpoints(folder / "out" / "operator" / "checkpoints").load()
    assert loaded is not None
    return Fold.restore(SavedState.decode(loaded.state).fold)


def erase(folder: Path, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(f"{case}\n".encode())))
    assert execute(["erase", "-c", str(folder / "config.toml"), "-o", str(folder / "out")]) == 0


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A series; no test changes it."""
    folder = tmp_path_factory.mktemp("series")
    configured(folder)
    replayed(folder)
    return folder


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    """The same series, to be changed."""
    shutil.copytree(made, tmp_path / "made")
    return tmp_path / "made"


def test_each_release_keeps_its_promise_and_no_case_is_in_two(made: Path) -> None:
    """By enumeration: K cases match whatever is known, whichever release shows them. Nothing is invented: a released
    trace is a part of its source."""
    series = manifests(made)
    assert len(series) >= 4
    for manifest in series:
        assert manifest["cases"] == "completed"
        log = read_log(made / "out" / "public" / NAME / f"release-{manifest['sequence']:06d}" / "log.parquet")
        values = log.case_values("S").decode()
        cases = [(trace, {"S": value}) for trace, value in zip(log.traces(), values, strict=True)]
        assert manifest["counts"]["cases"] == len(cases)
        for structure in ("seq", "mult", "set"):
            assert tlkc.violating(cases, structure, L, K, Fraction(str(C))) == set()

    source_of = {name: case for case, name in pseudonyms(made).items()}
    traces = dict(zip(LOG.case_ids, LOG.traces(), strict=True))
    shown = [name for record in records(made) for name in record.case_ids]
    assert len(shown) == len(set(shown))
    for record in records(made):
        for name, trace in zip(record.case_ids, record.log.traces(), strict=True):
            rest = iter(traces[source_of[name]])
            assert all(activity in rest for activity in trace)
    assert verify(made / "out").holds
    assert verifier.verify(made / "out") == []


def test_all_releases_are_read_as_one_log(made: Path) -> None:
    """`vs.read_series` puts all of them together."""
    log = vs.read_series(made / "out" / "public" / NAME)
    counts = [manifest["counts"] for manifest in manifests(made)]
    assert len(log) == sum(of_release["events"] for of_release in counts)
    assert log["case:concept:name"].nunique() == sum(of_release["cases"] for of_release in counts)


def test_a_release_that_is_missing_between_others_is_named(made: Path, tmp_path: Path) -> None:
    """The log was shorter, and nothing said so. A manifest that its successor does not name is refused."""
    received = tmp_path / NAME
    shutil.copytree(made / "out" / "public" / NAME, received)
    numbers = [manifest["sequence"] for manifest in manifests(made)]
    whole = len(vs.read_series(received))  # without a warning, which would be an error here
    lost, changed = (received / f"release-{number:06d}" for number in (numbers[1], numbers[0]))
    shutil.rmtree(lost)
    warning = f"release {numbers[1]} is not here, so its cases are not in the log"
    with pytest.warns(UserWarning, match=warning):
        assert 0 < len(vs.read_series(received)) < whole

    shutil.copytree(made / "out" / "public" / NAME / lost.name, lost)
    manifest = changed / "manifest.json"
    manifest.write_text(manifest.read_text() + "\n")
    with pytest.raises(InputError, match=f"not the manifest that {lost.name} names; get the release again"):
        vs.read_series(received)


def test_nothing_is_kept_of_a_released_case(made: Path) -> None:
    """The state has open and waiting cases only, and the memory of the mechanism names no case but waiting ones. The
    cases of the last cut leave the state before the next one."""
    fold, series = saved_fold(made), records(made)
    in_state = set(fold.state.index)
    last = set(series[-1].case_ids)
    for record in series:
        names = set(record.case_ids)
        assert in_state.isdisjoint(names - last)
        memory = (made / "out" / "operator" / NAME / f"{record.sequence:06d}" / "memory.json").read_text()
        assert not [name for name in names if name in memory]
    assert len(fold.state.forgotten) == sum(len(record.case_ids) for record in series[:-1])


def test_every_event_is_accounted_for(made: Path) -> None:
    """By sums over all releases, as the tail of the replay prints them."""
    outcome = replayed(made)
    tail = outcome.tail[NAME]
    released = sum(manifest["counts"]["events"] for manifest in manifests(made))
    assert tail["released"] == released
    assert tail["seen"] == LOG.n_events
    assert tail["seen"] == tail["released"] + tail["suppressed"] + tail["pending"] + tail["late"]
    for _, decision in outcome.decisions:
        counts = decision.audit["counts"]
        exposed = counts["released"] + counts["suppressed_events"] + counts["held"] if "held" in counts else None
        assert exposed in (None, counts["exposed"])


@pytest.mark.parametrize("cases", ["completed", "all"])
def test_events_that_came_too_late_are_on_every_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], cases: str
) -> None:
    """No release can show them any more: audits, `releases` and the report state their number."""
    path = configured(tmp_path, cases)
    path.write_text(path.read_text().replace('"6h"', '"1h"'))
    outcome = replayed(tmp_path, final=True)
    last = outcome.decisions[-1][1].audit
    late = last["counts"]["late"] + last.get("late_lost", 0)
    assert late > 1
    if cases == "completed":
        assert late == outcome.tail[NAME]["late"]

    assert execute(["releases", str(tmp_path / "out")]) == 0
    assert f"{NAME}: {late} events came too late for any release" in " ".join(capsys.readouterr().out.split())
    assert execute(["releases", str(tmp_path / "out"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["attempts"][-1]["late"] == late
    page = tmp_path / "report.html"
    assert execute(["report", str(tmp_path / "out"), "-o", str(page)]) == 0
    assert f"<p>{late} events came too late for any release" in page.read_text(encoding="utf-8")


def test_the_verdict_says_that_each_case_is_in_one_release(made: Path, tmp_path: Path) -> None:
    """SAFE under the four bounds, although no two releases are compared: there is nothing to compare."""
    gate = f"gate = {{ min_ka = {K}, min_fa = {K}, min_ca = {K}, min_ba = {K}, max_minimality = 0 }}"
    configured(tmp_path, more=gate)
    outcome = replayed(tmp_path)
    (verdict,) = outcome.verdicts()
    n_releases = len(manifests(tmp_path))
    assert n_releases >= 3
    assert verdict.verdict == "SAFE"
    assert verdict.sentence.startswith(f"{n_releases} releases, each case in one of them: at least {K} cases match")
    assert verdict.minimality is not None
    assert verdict.minimality.groups == n_releases  # and not the cohort of the last one alone
    for _, decision in outcome.decisions:
        anonymity = decision.audit["anonymity"]
        assert (anonymity["status"], anonymity["results"], anonymity["true_linker"]) == ("ok", [], [])
        assert decision.audit["series"]["reason"] == "no case is in two releases"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the log, the configuration, and an undisturbed run in a process of its own."""
    folder = tmp_path_factory.mktemp("world")
    write_log(LOG, folder / "log.xes")
    assert run(folder / "log.xes", configured(folder), folder / "calm") == 0
    return folder


@pytest.mark.parametrize("boundary", [*BOUNDARIES, "checkpointed"])
def test_kill_at_a_boundary(world: Path, tmp_path: Path, boundary: str) -> None:
    """The run continues as if nothing had been: the same decisions, and the same cases in each release."""
    log, config, calm, output = world / "log.xes", world / "config.toml", world / "calm", tmp_path / "out"
    nth = 2 if boundary == "checkpointed" else 3
    assert run(log, config, output, at=boundary, nth=nth) == KILLED
    before = verifier.digests(output)
    assert run(log, config, output) == 0
    assert verifier.verify(output) == []
    assert verifier.decisions(output) == verifier.decisions(calm)
    assert verifier.contents(output) == verifier.contents(calm)
    after = verifier.digests(output)
    assert all(after[key] == files for key, files in before.items())


def half(folder: Path) -> None:
    """The same replay until its third release is published and its state saved."""
    published = at_nth("published", 3, abort)
    with pytest.raises(Aborted):
        replayed(folder, at=published)


def test_an_erased_case_that_waited_is_in_no_later_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A case that the undisturbed run releases later, erased before: it is in no file, and its events are refused."""
    configured(tmp_path)
    half(tmp_path)
    calm = tmp_path / "calm"
    shutil.copytree(tmp_path, calm)
    replayed(calm, final=True)
    name_of = pseudonyms(tmp_path)
    in_state, later = set(saved_fold(tmp_path).state.index), set(records(calm)[3].case_ids)
    case = next(case for case in LOG.case_ids if name_of[case] in in_state & later)
    erase(tmp_path, case, monkeypatch)
    replayed(tmp_path, final=True)
    assert name_of[case] not in {name for record in records(tmp_path) for name in record.case_ids}
    assert verifier.verify(tmp_path / "out") == []


def test_an_erased_case_that_was_released_is_recorded(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator's file of its release lacks it, the report names the release, and the series goes on."""
    case = next(case for case, name in pseudonyms(copy).items() if name in records(copy)[0].case_ids)
    before = len(records(copy)[0].case_ids)
    erase(copy, case, monkeypatch)
    assert len(records(copy)[0].case_ids) == before - 1
    outcome = replayed(copy, final=True)
    assert outcome.decisions[-1][1].status == "sealed"
    assert verifier.verify(copy / "out") == []


@pytest.mark.parametrize("order", ["approve", "reject"])
def test_a_held_release_keeps_its_cases(tmp_path: Path, order: str) -> None:
    """While it is held, cuts are withheld and their cases wait. After an approval its cases are in no other release;
    after a rejection nobody has seen them, and they leave with the next one."""
    configured(tmp_path, more='approval = "required"')
    outcome = replayed(tmp_path)
    assert outcome.decisions[0][1].status == "held"
    assert {decision.status for _, decision in outcome.decisions[1:]} == {"withheld"}
    of_held = set(records(tmp_path)[0].case_ids)
    approval.decide(tmp_path / "out", NAME, 1, order, by="Ann", why="looked at it")
    ended = replayed(tmp_path, final=True)
    assert ended.decisions[-1][1].status == "held"
    of_next = set(records(tmp_path)[-1].case_ids)
    assert len(of_next) > len(of_held)  # the cases of all cuts that were withheld meanwhile
    if order == "approve":
        assert of_held.isdisjoint(of_next)
    else:
        assert len(of_held & of_next) > len(of_held) / 2
    assert verifier.verify(tmp_path / "out") == []


def test_a_newer_candidate_replaces_a_held_one(tmp_path: Path) -> None:
    """With `supersede` each candidate has the cases of the one that it replaces: none is lost."""
    configured(tmp_path, more='approval = "required"\nhold = "supersede"')
    outcome = replayed(tmp_path)
    assert outcome.decisions[-1][1].status == "held"
    of_cuts = [decision.audit["counts"] for _, decision in outcome.decisions]
    last = of_cuts[-1]
    exposed_cases = last["released_cases"] + last["held_cases"] + last["suppressed_cases"]
    assert exposed_cases == sum(counts["new_cases"] for counts in of_cuts)


def test_a_lost_state_shows_no_case_again(tmp_path: Path) -> None:
    """All decided cuts are folded again, several in one process: their releases stay, and later ones hold other
    cases."""
    configured(tmp_path)
    half(tmp_path)
    shutil.rmtree(tmp_path / "out" / "operator" / "checkpoints")
    outcome = replayed(tmp_path, final=True)
    assert [decision.sequence for _, decision in outcome.decisions[:3]] == [1, 2, 3]
    shown = [name for record in records(tmp_path) for name in record.case_ids]
    assert len(shown) == len(set(shown))
    assert len(records(tmp_path)) > 3


def test_a_lost_file_of_a_release_is_no_reason_to_show_its_cases_again(tmp_path: Path) -> None:
    """The state is older than the release, and the file that names its cases is gone: no cut is released until it is
    back, with the file's name as the reason. Then the cases of all cuts leave, each once."""
    configured(tmp_path)
    half(tmp_path)
    folder = tmp_path / "out" / "operator"
    shutil.rmtree(folder / "checkpoints")  # so that all cuts are folded again
    lost = folder / NAME / "000002" / "variants.parquet"
    content = lost.read_bytes()
    lost.unlink()
    outcome = replayed(tmp_path)
    assert [decision.status for _, decision in outcome.decisions[:3]] == ["sealed"] * 3
    assert {decision.status for _, decision in outcome.decisions[3:]} == {"withheld"}
    assert "variants.parquet" in outcome.decisions[-1][1].reasons[0]
    lost.write_bytes(content)
    ended = replayed(tmp_path, final=True)
    assert ended.decisions[-1][1].status == "sealed"
    shown = [name for record in records(tmp_path) for name in record.case_ids]
    assert len(shown) == len(set(shown)) > 60


def service_of(copy: Path, **more: Any) -> ReleaseService:
    """The service of a daemon over the folder of the series: a replay refuses another configuration at once."""
    return ReleaseService(sources.load(configured(copy, **more)), copy / "out")


def exposure() -> Exposure:
    log = EventLog.from_traces([("ab", "p"), ("ab", "q")] * 10, "S")
    return Exposure(log, np.ones(log.n_cases, dtype=np.bool_), ("S",), 0)


def test_a_series_cannot_change_what_its_releases_show(copy: Path, caplog: pytest.LogCaptureFixture) -> None:
    """`cases = "all"` would need the forgotten cases: said at the start, and each cut is withheld with the reason."""
    with closing(service_of(copy, cases="all")) as service:
        assert 'its releases promise cases = "completed"' in caplog.text
        decision = service.pipelines[NAME].attempt(Attempt("weekly/900/0/0", "manual", 0, exposure(), {}))
    assert decision.status == "withheld"
    assert "cases = 'completed'" in decision.reasons[0]


@pytest.mark.parametrize("former", ["completed", "all"])
def test_a_daemon_does_not_follow_another_value_of_cases(tmp_path: Path, former: str) -> None:
    """Its state would lose cases: "completed" forgot 592 cases of a series, which no later release had; "all" took
    open cases, and lost their later events. A withheld cut did not protect them."""
    configured(tmp_path, former)
    replayed(tmp_path)
    with closing(service_of(tmp_path, cases=former)) as service:
        service.refuse_other_cases()
    other = "all" if former == "completed" else "completed"
    with closing(service_of(tmp_path, cases=other)) as service, pytest.raises(InputError) as refusal:
        service.refuse_other_cases()
    assert f"publication '{NAME}': its releases have cases = \"{former}\"" in str(refusal.value)


@pytest.mark.parametrize("former", ["cohorts", "tlkc"])
def test_a_daemon_does_not_follow_another_kind_of_mechanism(tmp_path: Path, former: str) -> None:
    """From cohorts to another kind, cases that wait would never leave. In the other direction the cases of all former
    cuts would wait, open ones too, and be shown again."""
    path = configured(tmp_path)
    cohorts = path.read_text()
    other = cohorts.replace(COHORTS, TLKC).replace('cases = "completed"', 'cases = "all"')
    texts = {"cohorts": cohorts, "tlkc": other}
    path.write_text(texts.pop(former))
    replayed(tmp_path)
    path.write_text(*texts.values())
    with (
        closing(ReleaseService(sources.load(path), tmp_path / "out")) as service,
        pytest.raises(InputError) as refusal,
    ):
        service.refuse_other_cases()
    cases, kind = ("completed", "tlkc-cohorts") if former == "cohorts" else ("all", "tlkc")
    assert f'its releases have cases = "{cases}" and mechanism.kind = "{kind}"' in str(refusal.value)


def test_no_other_publication_continues_the_series(copy: Path) -> None:
    """Under another name it does not know the released cases, and could show them again to the same audience."""
    with closing(service_of(copy, name="other")) as service:
        attempt = Attempt("other/900/0/0", "manual", 0, replace(exposure(), once=True), {})
        decision = service.pipelines["other"].attempt(attempt)
    assert decision.status == "withheld"
    assert "publication weekly has released cases to this audience and keeps none of them" in decision.reasons[0]


OTHER = f"""
[[publication]]
name = "other"
window = {{ new_cases = 20 }}
{COHORTS}
"""


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (OTHER, "'weekly' has cases = \"completed\", so it forgets the cases that it released"),
        ('release = "increment"', "each release holds only cases that no other one holds"),
        ('accumulate = "sum"', "only noisy counts do"),
    ],
)
def test_settings_that_cannot_hold_are_refused(tmp_path: Path, more: str, said: str) -> None:
    """Another publication of the audience, files in another form, and a sum of true cases."""
    path = configured(tmp_path, more=more)
    with pytest.raises(InputError, match=said):
        sources.load(path)
    elsewhere = OTHER.replace('name = "other"', 'name = "other"\naudience = "others"')
    assert sources.load(configured(tmp_path, more=elsewhere)).publication


def test_a_window_of_event_time_may_close_a_release(tmp_path: Path) -> None:
    """No noise protects the moment of a cut here, so nothing forbids it; only `first` has no meaning."""
    path = configured(tmp_path)
    tumbling = path.read_text().replace("{ completed_cases = 20 }", '{ every = "1d" }')
    path.write_text(tumbling)
    outcome = replayed(tmp_path)
    assert sum(decision.status == "sealed" for _, decision in outcome.decisions) >= 3
    path.write_text(tumbling.replace('"1d" }', '"1d", first = { new_cases = 9 } }'))
    with pytest.raises(InputError, match="first shapes a release that grows"):
        sources.load(path)
