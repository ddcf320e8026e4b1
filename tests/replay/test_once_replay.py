"""Series in which each case counts once, through replays: promise, ledger, budget, crashes, and what is refused."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from connectors import read_log
from models.dp.accumulation import Shape
from models.dp.factorization import CorrelatedCounts
from models.dp.noise import SECURE
from models.errors import InputError, NoEventsError, RefusedError
from models.eventlog import EventLog
from stream.commands import execute
from stream.config import settings, sources
from stream.ledger.folder import read_key
from stream.ledger.sqlite import open_readonly, read_view
from stream.release.audit_document import read_memory
from stream.release.contract import Attempt, Exposure
from stream.release.failpoints import Faults, Hook, nothing
from stream.release.once import PAID
from stream.release.schedule import SimulatedClock
from stream.release.sealed_memory import opened_memory
from stream.run.replay import Replay
from stream.run.service import ProcessContext, ReleaseService
from stream.testing import verifier
from stream.testing.faults import Aborted, abort, at_nth
from stream.values.pseudonym import Pseudonyms

BEGIN = 'start = "2024-01-01T00:00:00Z"'
WALL = 'window = { every = "1d", time = "wall" }'
FIRST_DAY = 'window = { every = "1d", time = "wall", first = { until = "2024-01-02T00:00:00Z" } }'
MECHANISM = 'mechanism = { kind = "dp-variants", epsilon = 20, delta_dp = 1e-3 }'
"""So little noise that true counts are seen (it is 0 but for one draw in e^20)."""
ONCE = 'cases = "completed"'
QUIET = "audit = { risk = false, utility = false }"


def config(folder: Path, *lines: str, process: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "c.toml"
    head = [
        "[process]",
        'name = "series"',
        'columns = { case = "case", activity = "act", time = "time" }',
        'completion = { end_activities = ["z"] }',
        process,
        "[[publication]]",
        'name = "p"',
    ]
    path.write_text("\n".join([*head, *lines]) + "\n")
    return path


def load(folder: Path, *lines: str, process: str = "") -> settings.Settings:
    return sources.load(config(folder, *lines, process=process))


def log(folder: Path) -> Path:
    """On each of four days 30 cases a b z of ten persons; the first case continues after its release, and one case
    stays open for two days."""
    rows = ["case,act,time,who"]
    for day in range(1, 5):
        for number in range(30):
            who = f"w{number % 10}-{day}"
            rows += [f"d{day}-{number},{act},2024-01-0{day}T{10 + hour}:00:00Z,{who}" for hour, act in enumerate("abz")]
    rows += [f"d1-0,{act},2024-01-03T{hour}:00:00Z," for hour, act in ((11, "b"), (12, "z"))]
    rows += ["slow,a,2024-01-01T10:00:00Z,me", "slow,z,2024-01-03T10:00:00Z,me"]
    folder.mkdir(exist_ok=True)
    path = folder / "log.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


def replay(folder: Path, *lines: str, process: str = "", at: Hook = nothing, **options: Any) -> None:
    loaded = load(folder, *(lines or (ONCE, BEGIN, WALL, MECHANISM, QUIET)), process=process)
    Replay(loaded, folder / "out", faults=Faults(at), **options).run(
        read_log(log(folder), columns=loaded.process.columns.changed)
    )


def released(folder: Path) -> list[Counter[tuple[str, ...]]]:
    """Cases by variant in each release."""
    found = []
    for path in sorted((folder / "out" / "public" / "p").glob("*/log.xes.gz")):
        try:
            found.append(Counter(tuple(map(str, trace)) for trace in read_log(path).traces()))
        except NoEventsError:
            found.append(Counter())
    return found


def spent(folder: Path) -> float:
    account = read_view(folder / "out" / "operator" / "ledger.sqlite", "series").account("p")
    return float(account.spending.summed.epsilon)


def test_each_case_is_in_the_release_of_the_window_in_which_it_completed(tmp_path: Path) -> None:
    """Thirty a day, not 30, 60, 90; what came to the first case later is lost, counted for the operator alone; and the
    whole series is charged once, in ledger, manifests, verify and leakage."""
    replay(tmp_path)
    assert [one[("a", "b", "z")] for one in released(tmp_path)] == [30, 30, 30]
    assert spent(tmp_path) == 20
    for number in (1, 2, 3):
        manifest = json.loads((tmp_path / "out/public/p" / f"release-{number:06d}" / "manifest.json").read_text())
        assert manifest["budget"]["spent"] == {"epsilon": 20.0, "delta": 0.001, "rule": "largest"}
        assert manifest["budget"]["scope"] == "cases"
        assert "all releases of this publication together" in manifest["promise"]["guaranteed"]
        assert not {"late_lost", "counts"} & {key for table in (manifest, manifest["mechanism"]) for key in table}
    audits = [json.loads((tmp_path / f"out/operator/p/{n:06d}/audit.json").read_text()) for n in (1, 2, 3)]
    assert [audit["counts"]["late_lost"] for audit in audits] == [0, 0, 2]
    leakage = audits[-1]["leakage"]
    assert leakage["method"] == "parallel"
    assert {row[key] for row in leakage["releases"] for key in ("bpl", "fpl", "tpl")} == {40.0}  # under replacement
    assert (leakage["max_tpl"], len(leakage["releases"])) == (40.0, 3)
    assert "different persons" in leakage["not_said"]
    assert verifier.verify(tmp_path / "out") == []
    assert execute(["verify", str(tmp_path / "out")]) == 0
    page = tmp_path / "statement.md"
    assert execute(["statement", str(tmp_path / "out"), "p", "-o", str(page)]) == 0
    assert "Each case is in one release of the publication, so what releases spend does not add up." in page.read_text()
    assert "add no counts of several releases" not in page.read_text()
    assert "differ in one person (one case in the whole series)" in page.read_text()


def test_a_budget_of_one_charge_lasts_for_ever(tmp_path: Path) -> None:
    """Bounds of the publication and of the process at one charge withhold nothing; below it they withhold all."""
    gate = "gate = { max_epsilon = 20, max_delta = 1e-3, max_tpl = 40 }"
    process = "budget = { max_epsilon = 20, max_delta = 1e-3 }"
    replay(tmp_path, ONCE, BEGIN, WALL, MECHANISM, QUIET, gate, process=process)
    assert len(released(tmp_path)) == 3
    poor = tmp_path / "poor"
    replay(poor, ONCE, BEGIN, WALL, MECHANISM, QUIET, "gate = { max_epsilon = 19.9 }")
    assert released(poor) == []


def test_the_cap_of_a_person_is_enforced(tmp_path: Path) -> None:
    """Three cases of each of ten persons a day: one of each is released; the person is in no file of the release,
    and in the state by pseudonym only."""
    process = 'attributes = { person = ["who"] }'
    replay(tmp_path, process=process)
    assert [one[("a", "b", "z")] for one in released(tmp_path)] == [10, 10, 10]
    audit = json.loads((tmp_path / "out/operator/p/000001/audit.json").read_text())
    assert audit["counts"]["capped_cases"] == 20
    assert "no more than one case of each" in audit["promise"]["to_whom"]
    for path in (tmp_path / "out").rglob("*"):
        assert not path.is_file() or b"w1-2" not in path.read_bytes(), path


def test_terms_are_declared_for_the_life_of_the_publication(tmp_path: Path) -> None:
    """Another number of cases of a person: the start refuses, and says what to do."""
    replay(tmp_path)
    more = MECHANISM.replace("1e-3", "1e-3, cases_per_person = 2")
    with pytest.raises(RefusedError, match="declared for the life of a publication"):
        replay(tmp_path, ONCE, BEGIN, WALL, more, QUIET)


def test_a_number_that_was_burned_is_not_drawn_again(tmp_path: Path) -> None:
    """Its bytes may have been seen: its cases have been paid for. The cut is withheld, the others continue, and the
    series stays at one charge."""
    with pytest.raises(Aborted):
        replay(tmp_path, at=at_nth("sealed", 2, abort))
    (temporary,) = (tmp_path / "out" / "public").glob("*/.*.tmp")
    shutil.rmtree(temporary)
    replay(tmp_path)
    entries = open_readonly(tmp_path / "out" / "operator" / "ledger.sqlite")
    assert [entry.sequence for entry in entries if entry.kind == "burned"] == [2]
    assert [entry.body.reasons for entry in entries if entry.kind == "withheld"] == [[PAID]]
    assert [one[("a", "b", "z")] for one in released(tmp_path)] == [30, 30]
    assert spent(tmp_path) == 20
    assert verifier.verify(tmp_path / "out") == []


def test_the_row_of_a_burned_number_stays_empty_in_a_factorized_series(tmp_path: Path) -> None:
    """Its draw may have been seen: the next release has the row of its own number, so that no row is drawn twice, and
    the manifest states the noise without the lost one."""
    own = SYNTHETIC.replace("1,", "20,", 1) + ', activities = ["a", "b", "z"], sample = 500 }'
    lines = [ONCE, BEGIN, WALL, own, QUIET, 'accumulate = "factorized"', "horizon = 24"]
    with pytest.raises(Aborted):
        replay(tmp_path, *lines, at=at_nth("sealed", 2, abort))
    (temporary,) = (tmp_path / "out" / "public").glob("*/.*.tmp")
    shutil.rmtree(temporary)
    replay(tmp_path, *lines)
    entries = open_readonly(tmp_path / "out" / "operator" / "ledger.sqlite")
    assert [entry.sequence for entry in entries if entry.kind == "burned"] == [2]
    assert [entry.body.reasons for entry in entries if entry.kind == "withheld"] == [[PAID]]
    folders = sorted((tmp_path / "out" / "public" / "p").iterdir())
    operator = tmp_path / "out" / "operator"
    key = Pseudonyms(read_key(operator / "key")).memory_key
    memories = [opened_memory(read_memory(operator / "p" / number), key) for number in ("000001", "000003")]
    assert [memory["weights"]["numbers"] for memory in memories] == [[1], [1, 3]]
    counts = CorrelatedCounts.begin(Shape.of("factorized", 24), memories[1]["weights"]["scale"])
    for number in (1, 3):
        counts.add(number, np.zeros(0, dtype=np.int64), SECURE)
    manifest = json.loads((folders[1] / "manifest.json").read_text())
    assert manifest["mechanism"]["accumulated"]["noise"] == counts.section()["noise"]
    assert verifier.verify(tmp_path / "out") == []


def test_an_attempt_that_died_before_its_seal_is_drawn_again_under_its_charge(tmp_path: Path) -> None:
    """Nobody has seen it: one charge, one release."""
    with pytest.raises(Aborted):
        replay(tmp_path, at=at_nth("files_written", 2, abort))
    replay(tmp_path)
    assert [one[("a", "b", "z")] for one in released(tmp_path)] == [30, 30, 30]
    assert sum(entry.kind == "charge" for entry in open_readonly(tmp_path / "out/operator/ledger.sqlite")) == 3
    assert spent(tmp_path) == 20


def decide(folder: Path, *lines: str, at: Hook = nothing) -> tuple[str, list[str], float]:
    """One attempt at the same cut under a configuration: status, reasons, and what was spent then."""
    window = "window = { manual = true }"
    service = ReleaseService(
        load(folder, window, MECHANISM, QUIET, *lines),
        folder / "out",
        context=ProcessContext(clock=SimulatedClock()),
        faults=Faults(at),
    )
    try:
        exposed = EventLog.from_traces([("ab", None)] * 50)
        attempt = Attempt("p/1/0/0", "manual", 0, Exposure(exposed, np.ones(50, dtype=np.bool_), (), 0), {})
        decision = service.pipelines["p"].attempt(attempt)
        return decision.status, list(decision.reasons), float(service.pipelines["p"].account.spending.summed.epsilon)
    finally:
        service.close()


def test_a_cut_that_was_charged_for_its_cases_alone_does_not_show_all(tmp_path: Path) -> None:
    """A crash after the charge, then a configuration that shows everything so far: under that charge it would be
    under-counted, so the cut is withheld. The other way round the charge counts for more than is drawn."""
    with pytest.raises(Aborted):
        decide(tmp_path, ONCE, at=at_nth("charged", 1, abort))
    status, reasons, paid = decide(tmp_path)
    assert (status, paid) == ("withheld", 20)
    assert "under other terms" in reasons[0]
    with pytest.raises(Aborted):
        decide(tmp_path / "back", at=at_nth("charged", 1, abort))
    assert decide(tmp_path / "back", ONCE) == ("sealed", [], 20)


@pytest.mark.parametrize("mechanism", ["dp-log", "dp-synthetic"])
def test_empty_windows_are_released(tmp_path: Path, mechanism: str) -> None:
    """Whether a window held a completed case is data: a release comes all the same, of every kind."""
    more = ', activities = ["a", "b", "z"]' if mechanism == "dp-synthetic" else ""
    own = f'mechanism = {{ kind = "{mechanism}", epsilon = 20, delta_dp = 1e-3{more} }}'
    replay(tmp_path, ONCE, BEGIN, 'window = { every = "8h", time = "wall" }', own, QUIET)
    entries = open_readonly(tmp_path / "out" / "operator" / "ledger.sqlite")
    assert [entry.kind for entry in entries if entry.kind in ("seal", "withheld")] == ["seal"] * 10
    totals = [sum(one.values()) for one in released(tmp_path)]
    assert [total > 20 for total in totals] == [place % 3 == 1 for place in range(10)]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["window = { new_cases = 5 }", MECHANISM, "gate = { public_cut = true }"], "new_cases reads the data"),
        (['window = { every = "1d", time = "wall", skip_if_unchanged = true }', MECHANISM], "skip_if_unchanged reads"),
        (['window = { every = "1d", time = "event" }', MECHANISM], 'use time = "wall"'),
        ([FIRST_DAY, MECHANISM], "first shapes a release that grows"),
        ([WALL, 'mechanism = { kind = "identity" }'], "identity makes none"),
        ([WALL, 'mechanism = { kind = "amun", delta = 0.1 }'], "amun makes none"),
        (['window = { manual = true, events_per_case = { x = 2, mode = "up_to" } }', MECHANISM], "events_per_case"),
    ],
)
def test_what_a_series_cannot_be(tmp_path: Path, lines: list[str], said: str) -> None:
    """Windows that read data or couple people, and kinds that do not count cases: one clear answer each."""
    with pytest.raises(InputError, match=said):
        load(tmp_path, ONCE, BEGIN, *lines) if "every" in lines[0] else load(tmp_path, ONCE, *lines)


def test_event_time_is_acknowledged(tmp_path: Path) -> None:
    """With public_cut it is taken, and the manifest says that moments are not protected."""
    event = 'window = { every = "1d", time = "event" }'
    replay(tmp_path, ONCE, BEGIN, event, MECHANISM, QUIET, "gate = { public_cut = true }")
    assert [one[("a", "b", "z")] for one in released(tmp_path)] == [30, 30, 30]
    manifest = json.loads((tmp_path / "out/public/p/release-000001/manifest.json").read_text())
    assert "not protected" in manifest["promise"]["public_cut"]


def test_what_check_config_warns_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No cap, no completion, a bound below one charge; and no end of the budget."""
    path = config(tmp_path, ONCE, BEGIN, WALL, MECHANISM, "gate = { max_epsilon = 10 }")
    path.write_text(path.read_text().replace('completion = { end_activities = ["z"] }', ""))
    assert execute(["check-config", str(path)]) == 0
    printed = capsys.readouterr()
    for words in ("below one charge", "no attribute has the role person", "every release will be empty"):
        assert words in printed.out + printed.err
    assert "releases, then none" not in printed.out + printed.err


def test_configurations_of_before_have_the_digest_of_before(tmp_path: Path) -> None:
    """The new keys at their defaults are not in it; set, they are."""
    plain = load(tmp_path, BEGIN, WALL, MECHANISM, process='attributes = { quasi = ["age"] }')
    same = load(
        tmp_path, BEGIN, WALL, MECHANISM, 'cases = "all"', process='attributes = { quasi = ["age"], person = [] }'
    )
    assert plain.digest == same.digest == "4ee54c92e512207c6a2f412776fdf65e42cf81a80f95b0ab3a4d9cbbf9d22b42"
    assert load(tmp_path, BEGIN, WALL, MECHANISM, ONCE).digest != load(tmp_path, BEGIN, WALL, MECHANISM).digest


def shown(path: Path) -> Counter[tuple[str, ...]]:
    try:
        return Counter(tuple(map(str, trace)) for trace in read_log(path).traces())
    except NoEventsError:
        return Counter()


@pytest.mark.parametrize("how", ['accumulate = "sum"', 'accumulate = "tree"\nhorizon = 70'])
def test_the_accumulated_log_is_next_to_each_release(tmp_path: Path, how: str) -> None:
    """30, 60, 90 cases where releases have 30 each; the manifest says how it was made, nothing of the data, and no more
    is charged."""
    replay(tmp_path, ONCE, BEGIN, WALL, MECHANISM.replace("20", "40"), QUIET, *how.split("\n"))
    folders = sorted((tmp_path / "out" / "public" / "p").iterdir())
    assert [shown(one / "log.xes.gz")[("a", "b", "z")] for one in folders] == [30, 30, 30]
    assert [shown(one / "accumulated.xes.gz")[("a", "b", "z")] for one in folders] == [30, 60, 90]
    said = [json.loads((one / "manifest.json").read_text()) for one in folders]
    assert [one["mechanism"]["accumulated"]["noise"]["draws"] for one in said] == [1, 2, 3]
    assert [one["budget"]["spent"]["epsilon"] for one in said] == [40.0] * 3
    assert {file["path"] for file in said[0]["files"]} == {"log.xes.gz", "accumulated.xes.gz"}
    assert execute(["verify", str(tmp_path / "out")]) == 0


def test_beyond_the_horizon_there_is_no_accumulated_log(tmp_path: Path) -> None:
    """Its part of delta is spent; releases continue, and the manifest says why there is none."""
    replay(tmp_path, ONCE, BEGIN, WALL, MECHANISM, QUIET, 'accumulate = "tree"', "horizon = 2")
    folders = sorted((tmp_path / "out" / "public" / "p").iterdir())
    assert [(one / "accumulated.xes.gz").exists() for one in folders] == [True, True, False]
    manifest = json.loads((folders[2] / "manifest.json").read_text())
    assert manifest["mechanism"]["accumulated"]["status"].startswith("ended: the horizon is over")


def test_synthetic_releases_add_up(tmp_path: Path) -> None:
    """Of a declared alphabet: the accumulated log has about as many cases as all releases together."""
    own = SYNTHETIC.replace("1,", "20,", 1) + ', activities = ["a", "b", "z"], sample = 500 }'
    replay(tmp_path, ONCE, BEGIN, WALL, own, QUIET, 'accumulate = "sum"')
    last = sorted((tmp_path / "out" / "public" / "p").iterdir())[-1]
    assert abs(sum(shown(last / "log.xes.gz").values()) - 31) < 5
    assert abs(sum(shown(last / "accumulated.xes.gz").values()) - 91) < 10
    manifest = json.loads((last / "manifest.json").read_text())
    assert manifest["mechanism"]["shares_used"] == {
        "labels": 0.0, "variants": 0.0, "model": 0.7, "weights": 0.3, "times": 0.0,
    }  # fmt: skip


def test_noise_of_a_factorized_series(tmp_path: Path) -> None:
    """The accumulated log has about as many cases as all releases; the manifest states the noise, and one charge.

    With an epsilon of 20 a release of 31 cases had 36 in one of a hundred runs.
    """
    own = SYNTHETIC.replace("1,", "100,", 1) + ', activities = ["a", "b", "z"], sample = 500 }'
    replay(tmp_path, ONCE, BEGIN, WALL, own, QUIET, 'accumulate = "factorized"', "horizon = 24")
    folders = sorted((tmp_path / "out" / "public" / "p").iterdir())
    last = folders[-1]
    assert abs(sum(shown(last / "log.xes.gz").values()) - 31) < 5
    assert abs(sum(shown(last / "accumulated.xes.gz").values()) - 91) < 10
    manifests = [json.loads((one / "manifest.json").read_text()) for one in folders]
    accumulated = [manifest["mechanism"]["accumulated"] for manifest in manifests]
    assert {(one["how"], one["horizon"], one["status"]) for one in accumulated} == {("factorized", 24, "ok")}
    release, total = ([one["noise"][name] for one in accumulated] for name in ("release", "total"))
    # Independent noise would be the same in each release, and 1.73 times as much in the sum of three.
    assert release[0] < release[2] < 1.2 * release[0]
    assert total[2] < 1.5 * total[0]
    assert [manifest["budget"]["spent"]["epsilon"] for manifest in manifests] == [100.0] * 3
    assert execute(["verify", str(tmp_path / "out")]) == 0


def test_the_memory_of_a_factorized_series_is_of_no_use_without_the_key(tmp_path: Path) -> None:
    """Nothing of the counts or labels can be read in it; a start under another key is refused, and draws nothing."""
    own = SYNTHETIC.replace("1,", "20,", 1) + ', activities = ["a", "b", "z"], sample = 500 }'
    lines = [ONCE, BEGIN, WALL, own, QUIET, 'accumulate = "factorized"', "horizon = 24"]
    with pytest.raises(Aborted):
        replay(tmp_path, *lines, at=at_nth("published", 1, abort))
    operator = tmp_path / "out" / "operator"
    memory = read_memory(operator / "p" / "000001")
    assert list(memory) == ["encrypted_series"]
    assert set(opened_memory(memory, Pseudonyms(read_key(operator / "key")).memory_key)) >= {
        "cells",
        "weights",
        "traces",
    }
    (operator / "key").write_text(bytes(32).hex())
    with pytest.raises(RefusedError, match="the pseudonym key is not the one"):
        replay(tmp_path, *lines)


def test_a_factorized_series_selects_its_labels_once(tmp_path: Path) -> None:
    """Without declared activities the first release selects them, as its manifest states; later ones keep them."""
    own = SYNTHETIC.replace("1, delta_dp = 1e-3", "60, delta_dp = 1e-9", 1) + ", sample = 500 }"
    replay(tmp_path, ONCE, BEGIN, WALL, own, QUIET, 'accumulate = "factorized"', "horizon = 24")
    folders = sorted((tmp_path / "out" / "public" / "p").iterdir())
    facts = [json.loads((one / "manifest.json").read_text())["mechanism"] for one in folders]
    assert [one["labels_selected"] for one in facts] == [{"release": 1}] * 3
    assert {one["label_threshold"] for one in facts} == {facts[0]["label_threshold"]}
    assert facts[0]["shares_used"]["labels"] == 0.1
    assert abs(sum(shown(folders[-1] / "accumulated.xes.gz").values()) - 91) < 10
    assert {label for trace in shown(folders[-1] / "accumulated.xes.gz") for label in trace} == {"a", "b", "z"}


SYNTHETIC = 'mechanism = { kind = "dp-synthetic", epsilon = 1, delta_dp = 1e-3'


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([ONCE, MECHANISM, 'accumulate = "tree"'], "declare horizon"),
        ([ONCE, MECHANISM, "horizon = 5"], "horizon is of accumulated logs"),
        ([MECHANISM, 'accumulate = "sum"'], "each release is about everything so far already"),
        ([ONCE, MECHANISM.replace("dp-variants", "dp-log"), 'accumulate = "sum"'], "releases of dp-log do not add up"),
        ([ONCE, SYNTHETIC + " }", 'accumulate = "sum"'], "declare activities"),
        (
            [ONCE, SYNTHETIC + ', activities = ["a"], shares = { variants = 0.2, model = 0.4, weights = 0.4 } }',
             'accumulate = "sum"'],
            "shares.variants must be 0",
        ),
        (
            [ONCE, MECHANISM, 'accumulate = "sum"', "gate = { max_uniqueness = 0.5, charge_withheld = true }"],
            "max_uniqueness decides by the release",
        ),
        ([ONCE, MECHANISM, 'accumulate = "factorized"', "horizon = 24"], "found in the data"),
        ([ONCE, SYNTHETIC + ', activities = ["a"] }', 'accumulate = "factorized"'], "declare horizon"),
        (
            [SYNTHETIC + ', activities = ["a"] }', 'accumulate = "factorized"', "horizon = 24"],
            "each release is about everything so far already",
        ),
        (
            [ONCE, SYNTHETIC + ', activities = ["a"], shares = { variants = 0.2, model = 0.4, weights = 0.4 } }',
             'accumulate = "factorized"', "horizon = 24"],
            "shares.variants must be 0",
        ),
        (
            [ONCE, MECHANISM.replace("20", "1e-4"), 'accumulate = "tree"', "horizon = 5000"],
            "epsilon is too small",
        ),
    ],
)  # fmt: skip
def test_an_accumulated_log_that_cannot_be(tmp_path: Path, lines: list[str], said: str) -> None:
    """Refused when the file is read, with what to do."""
    with pytest.raises(InputError, match=said):
        load(tmp_path, BEGIN, WALL, *lines)
