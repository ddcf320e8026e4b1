"""`dp-synthetic` as a mechanism: keys, refusals, what it says, and what its files hold."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from connectors import read_log, write_log
from models.dp.accumulation import Shape
from models.errors import InputError
from models.eventlog import EventLog
from stream.commands import execute as veilstream
from stream.release.contract import Exposure
from stream.release.mechanisms import mechanism
from stream.release.single import mechanism_of
from tests.conftest import DECLARED_FLAGS

TERMS = {"kind": "dp-synthetic", "epsilon": 5, "delta_dp": 1e-3}
CLEAR = {"kind": "dp-synthetic", "epsilon": 20, "delta_dp": 1e-9}
"""Labels of three cases leave once in a thousand million releases, and those of hundreds of cases always."""


def _log(cases: int = 300, rare: int = 3) -> EventLog:
    return EventLog.from_traces([*[("abc", None)] * cases, *[("acb", None)] * (cases // 2), *[("axy", None)] * rare])


def _exposure(log: EventLog) -> Exposure:
    return Exposure(log, np.ones(log.n_cases, dtype=np.bool_), (), 0)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A log of 453 cases in a file."""
    path = tmp_path / "log.csv"
    write_log(_log(), path)
    return path


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"shares": {"variants": 0.5, "model": 0.4}}, "add up to 0.9, not to 1"),
        ({"shares": {"variants": 0.5, "model": 0.2, "weights": 0.3}}, "shares.labels must be above 0"),
        ({"activities": ["a"], "shares": {"labels": 0.5, "model": 0.2, "weights": 0.3}}, "shares.labels must be 0"),
        ({"activities": ["a"], "shares": {"variants": 0.7, "model": 0.3}}, "shares.weights must be above 0"),
        ({"activities": ["a"], "shares": {"model": 0.2, "weights": 0.3, "times": 0.5}}, "no max_duration is declared"),
        ({"activities": ["a"], "max_duration": "1d", "shares": {"model": 0.5, "weights": 0.5}}, "asks for times"),
        ({"shares": {"variantz": 1}}, "unknown stage variantz; use labels, variants, model, weights, times"),
        ({"shares": {"model": -1}}, "shares.model"),
        ({"start": ["2020-01-01T00:00:00Z", "2021-01-01T00:00:00Z"]}, "start without max_duration"),
        ({"max_duration": "1d", "start": ["2021-01-01T00:00:00Z", "2020-01-01T00:00:00Z"]}, "start"),
        ({"max_duration": "10ms"}, "max_duration must be between a second"),
        ({"activities": []}, "activities declares no label"),
        ({"activities": ["a", "b"], "other": "b"}, "other is also one of activities"),
        ({"order": 9}, "order must be between 1 and 4"),
        ({"traces": 9000}, "must be between 1 and 2000"),
        ({"candidates": "nowhere.csv"}, "candidates: nowhere.csv cannot be read"),
        ({"epsilon": 1e-12}, "raise epsilon|too small"),
    ],
)
def test_bad_keys_get_one_clear_line(keys: dict[str, Any], named: str) -> None:
    """Keys that are missing, do not add up or are impossible are named before anything is drawn."""
    given = {**TERMS, **keys}
    kind = given.pop("kind")
    with pytest.raises(InputError, match=named):
        mechanism_of(kind, given)


def test_the_command_refuses_with_exit_code_2(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same refusal on the command line, and no file."""
    out = source.parent / "out.csv"
    arguments = [
        "anonymize",
        str(source),
        "-o",
        str(out),
        *DECLARED_FLAGS,
        "--mechanism",
        "dp-synthetic",
        "--epsilon",
        "1",
    ]
    assert veilstream([*arguments, "--delta-dp", "1e-6", "--set", "shares=model=0.5,weights=0.4"]) == 2
    assert "add up to 0.9, not to 1" in capsys.readouterr().err
    assert not out.exists()


def test_declared_labels_that_the_log_lacks_are_fine_and_others_are_dropped(
    source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A declared label may be missing from the log; events of undeclared ones never leave; the operator is informed."""
    out = source.parent / "out.csv"
    arguments = [
        "anonymize",
        str(source),
        "-o",
        str(out),
        *DECLARED_FLAGS,
        "--mechanism",
        "dp-synthetic",
        "--epsilon",
        "20",
    ]
    arguments += ["--delta-dp", "1e-3", "--set", "activities=a,b,c,never", "--json"]
    assert veilstream(arguments) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["details"]["dp"]["labels"] == {"may_leave": 4, "dropped_events": 6}
    assert "6 of 1359 events" in said["details"]["warnings"][0]
    released = read_log(out)
    assert set(released.activity.values) <= {"a", "b", "c", "never"}
    assert abs(released.n_cases - 453) < 30


def test_labels_of_few_are_dropped_where_none_are_declared() -> None:
    """Without `activities` frequent labels are selected: those of three cases do not leave."""
    build = mechanism({**CLEAR, "max_labels": 3}).build(_exposure(_log()))
    assert set(build.log.activity.values) == {"a", "b", "c"}
    assert build.public["label_threshold"] > 3
    assert build.public["labels_selected"] == {"release": 1}


def test_a_series_keeps_the_labels_of_its_first_release() -> None:
    """Later releases select none, though others have become frequent; all say when the labels were selected."""
    chosen = mechanism(CLEAR)
    first = chosen.build(replace(_exposure(_log()), number=3))
    assert first.memory == {"labels": {"labels": ["a", "b", "c"], "release": 3}}
    later = chosen.build(replace(_exposure(_log(rare=400)), number=4), json.loads(json.dumps(first.memory)))
    assert set(later.log.activity.values) == {"a", "b", "c"}
    assert later.memory == first.memory
    for build in (first, later):
        assert build.public["labels_selected"] == {"release": 3}
        assert sum(build.public["shares_used"].values()) == pytest.approx(1.0)
    assert first.public["shares_used"]["labels"] > 0
    assert later.public["shares_used"]["labels"] == 0
    assert "label_threshold" not in later.public
    assert "the choice of their labels" in chosen.promise()["guaranteed"]


def test_a_release_without_labels_decides_nothing() -> None:
    """The next one selects again, under its own charge."""
    chosen = mechanism(CLEAR)
    empty = chosen.build(_exposure(_log(1, rare=0)))
    assert empty.log.n_events == 0
    assert empty.memory is None
    assert set(chosen.build(replace(_exposure(_log()), number=2), empty.memory).log.activity.values) == {"a", "b", "c"}


def test_declared_labels_come_before_selected_ones() -> None:
    """An operator who declares activities later is not bound by what was selected; nothing is kept."""
    selected = mechanism(CLEAR).build(_exposure(_log())).memory
    declared = mechanism({**CLEAR, "activities": ["a", "y"]})
    build = declared.build(_exposure(_log(rare=400)), selected)
    assert set(build.log.activity.values) == {"a", "y"}
    assert "labels_selected" not in build.public
    assert build.memory is None
    series = declared.build_series(_exposure(_log(rare=400)), selected, Shape(), 2)
    assert set(series.log.activity.values) == {"a", "y"}


@pytest.mark.parametrize("declared", [{}, {"activities": ["a", "b", "c"]}])
def test_labels_that_may_not_leave_become_the_declared_other(declared: dict[str, Any]) -> None:
    """Their events stay where they were, under its name."""
    many = [("abc", None)] * 300 + [(("a", f"x{n}", f"y{n}"), None) for n in range(60)]
    build = mechanism({**CLEAR, "epsilon": 40, "other": "else", **declared}).build(
        _exposure(EventLog.from_traces(many))
    )
    counts = Counter(build.log.traces())
    assert abs(counts["a", "else", "else"] - 60) < 10
    assert set(build.log.activity.values) == {"a", "b", "c", "else"}


def test_the_kind_of_a_release_is_in_its_public_part() -> None:
    """Synthetic, by which shares and thresholds; anonymity does not apply to it; nothing there is read off the data."""
    few, many = (mechanism(TERMS).build(_exposure(_log(cases))) for cases in (200, 400))
    assert few.public == many.public
    assert few.public["synthetic"] is True
    assert sum(few.public["shares_used"].values()) == pytest.approx(1.0)
    assert few.applies["anonymity"].status == "not_applicable"
    promise = mechanism(TERMS).promise()
    assert "not a person's case" in promise["not_guaranteed"]
    assert "labels of declared candidates" in promise["not_guaranteed"]
    declared = mechanism({**TERMS, "activities": ["a"]}).promise()
    assert "activity labels" in declared["not_guaranteed"]


def test_candidates_of_a_public_file_are_counted(tmp_path: Path) -> None:
    """A trace of the file that many cases resemble leaves with their number, though no model is asked to find it."""
    write_log(EventLog.from_traces([("abc", None), ("acb", None)]), tmp_path / "model.csv")
    table = {**TERMS, "epsilon": 50, "activities": ["a", "b", "c"], "candidates": str(tmp_path / "model.csv")}
    build = mechanism({**table, "traces": 1, "sample": 1}).build(_exposure(_log(300, rare=0)))
    counts = {trace: build.log.traces().count(trace) for trace in set(build.log.traces())}
    assert abs(counts["a", "b", "c"] - 300) < 5
    assert abs(counts["a", "c", "b"] - 150) < 5
    assert len(build.public["candidates_sha256"]) == 64


def test_times_leave_within_their_bounds() -> None:
    """With `max_duration` and `start` every start and step is within them."""
    table = {**TERMS, "activities": ["a", "b", "c"], "max_duration": "1d"}
    build = mechanism({**table, "start": ["2020-01-01T00:00:00Z", "2020-03-01T00:00:00Z"]}).build(_exposure(_log()))
    assert build.time_basis == "noised"
    first = build.log.time[build.log.starts[:-1]]
    low, high = (np.datetime64(day, "ns").astype(np.int64) for day in ("2020-01-01", "2020-03-01"))
    assert low <= first.min() <= first.max() <= high
    steps = np.delete(np.diff(build.log.time), build.log.starts[1:-1] - 1)  # but for those from one case to the next
    assert 0 <= steps.min() <= steps.max() <= 86_400 * 10**9


def test_the_manifest_states_throughput_times_and_unreadable_pairs() -> None:
    """Read off the noisy histograms, in seconds; the promise covers them. Without bounds there are none."""
    table = {**TERMS, "activities": ["a", "b", "c"]}
    timed = mechanism({**table, "max_duration": "1d"})
    facts = timed.build(_exposure(_log())).public["times"]
    assert set(facts) == {"throughput_seconds", "noise", "readable_from_steps", "unreadable"}
    assert 0 <= facts["throughput_seconds"]["median"] <= facts["throughput_seconds"]["quantile_90"] <= 16 * 86_400
    assert all(set(pair) <= {"a", "b", "c"} for pair in facts["unreadable"])
    assert "what the manifest states about times" in timed.promise()["guaranteed"]
    assert "unreadable" in timed.promise()["not_guaranteed"]
    plain = mechanism(table)
    assert "times" not in plain.build(_exposure(_log())).public
    assert "times" not in plain.promise()["guaranteed"]


def test_a_publication_is_charged_and_refused_like_the_other_strict_kinds(tmp_path: Path, source: Path) -> None:
    """A weekly publication spends epsilon a release; windows that read the data are refused."""
    head = '[process]\nname = "p"\ncompletion = "log_end"\n[process.columns]\ncase = "case:concept:name"\n'
    head += 'activity = "concept:name"\ntime = "time:timestamp"\n'
    kind = 'mechanism = { kind = "dp-synthetic", epsilon = 0.5, delta_dp = 1e-4, activities = ["a", "b", "c"] }\n'
    good = tmp_path / "good.toml"
    good.write_text(
        f'{head}[[publication]]\nname = "s"\nstart = "1970-01-01T00:00:00Z"\n'
        f'window = {{ every = "1s", time = "event" }}\n{kind}gate = {{ max_epsilon = 1.0 }}\n'
    )
    assert veilstream(
        ["replay", str(source), "-c", str(good), "-o", str(tmp_path / "out"), *DECLARED_FLAGS, "--json"]
    ) in (0, 3)
    manifests = [json.loads(p.read_text()) for p in sorted((tmp_path / "out" / "public" / "s").glob("*/manifest.json"))]
    first, second = [each["budget"]["spent"] for each in manifests][:2]
    assert (first["epsilon"], first["rule"]) == (0.5, "sum")
    assert second["rule"] == "composed"
    assert 0.5 < second["epsilon"] < 1.0, "two releases cost less than their sum"
    assert all("counts" not in each for each in manifests)
    bad = tmp_path / "bad.toml"
    bad.write_text(f'{head}[[publication]]\nname = "s"\nwindow = {{ new_cases = 10 }}\n{kind}')
    assert veilstream(["check-config", str(bad)]) == 2
