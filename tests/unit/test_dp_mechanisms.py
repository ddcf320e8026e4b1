"""The dp kinds as releases: what they charge, promise and publish, and what the command says."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from models.dp import noise
from models.dp.annotation import annotate
from models.dp.budget import Charge
from models.dp.sampling import sample_cases
from models.errors import BoundError
from models.eventlog import EventLog
from stream.commands import execute as veilstream
from stream.release.contract import Exposure
from stream.release.mechanisms import mechanism
from tests.conftest import DECLARED_FLAGS

TABLES: list[dict[str, Any]] = [
    {"kind": "amun", "delta": 0.3, "variant": "oversampling"},
    {"kind": "dp-log", "epsilon": 1, "delta_dp": 1e-3, "start": ["1970-01-01T00:00:00Z", "1971-01-01T00:00:00Z"]},
    {"kind": "dp-variants", "epsilon": 0.1, "delta_dp": 1e-3},
    {"kind": "dp-synthetic", "epsilon": 1, "delta_dp": 1e-3, "max_labels": 2, "max_duration": "7d"},
]


def _exposure(cases: int = 300, rare: int = 3) -> Exposure:
    log = EventLog.from_traces([*[("ab", "x")] * cases, *[("secret", "y")] * rare])
    return Exposure(log, np.ones(log.n_cases, dtype=np.bool_), (), 0)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table["kind"])
def test_public_part_does_not_depend_on_the_data(table: dict[str, Any]) -> None:
    """Two different logs give the same public part, promise and charge; everything counted is the operator's. Quantiles
    of times, and the pairs that are too rare for them, follow from noisy counts that the promise covers."""
    built = mechanism(table)
    few, many = built.build(_exposure(200)), built.build(_exposure(400, rare=40))
    noisy_times = [dict(build.public.get("times", {})) for build in (few, many)]
    for facts in noisy_times:
        facts.pop("throughput_seconds", None)
        facts.pop("unreadable", None)
    assert {**few.public, "times": noisy_times[0]} == {**many.public, "times": noisy_times[1]}
    assert few.operator != many.operator
    assert few.n_actual is None
    assert few.applies["anonymity"].status == "not_applicable"
    assert not built.reads_data_in_gate
    json.dumps([dict(built.promise()), dict(few.public), dict(few.operator), few.memory])


def test_strict_kinds_charge_what_they_promise() -> None:
    """The charge is exact, declared before the build, and its numbers are in the promise."""
    assert mechanism(TABLES[2]).charge() == Charge(Fraction(1, 10), Fraction(1, 1000))
    assert mechanism(TABLES[1]).charge() == Charge(Fraction(1), Fraction(1, 1000))
    promise = mechanism(TABLES[2]).promise()
    assert "exp(0.1)" in promise["guaranteed"]
    assert "0.001" in promise["guaranteed"]
    assert promise["relation"].startswith("unbounded")


def test_amun_never_says_epsilon_dp() -> None:
    """Paper mode charges no epsilon, promises a guessing advantage per cell, and nothing for the whole release."""
    built = mechanism(TABLES[0])
    assert built.charge() == Charge()
    promise = built.promise()
    assert promise["whole_release"] is None
    assert "differential" not in promise["guaranteed"]
    assert "variant support is not protected" in promise["not_guaranteed"]
    assert built.build(_exposure()).public["whole_release"] is None


@pytest.mark.parametrize("design", ["sampling", "filtering", "oversampling"])
def test_amun_says_what_its_designs_do_not_hide(design: str) -> None:
    """The noised table is not the log's; copies bound a mean and hide no smaller count; releases add up or share."""
    alone = mechanism({"kind": "amun", "delta": 0.3, "variant": design}).promise()
    shared = mechanism({"kind": "amun", "delta": 0.3, "variant": design, "releases": 4}).promise()
    assert "the counts of the released log are not the noised ones" in alone["not_guaranteed"]
    assert ("on average over the noise" in alone["guaranteed"]) == (design == "oversampling")
    assert ("no case is deleted" in alone["not_guaranteed"]) == (design == "oversampling")
    assert "the first and the last case of the log started, count as public" in alone["not_guaranteed"]
    assert "of one release" in alone["guaranteed"]
    assert "several releases add up" in alone["not_guaranteed"]
    assert "of all 4 releases together" in shared["guaranteed"]
    assert "estimated again in each release" in shared["not_guaranteed"]


def test_the_released_counts_are_not_the_noised_ones() -> None:
    """As the promise states: with the same noise on one transition, the variant that grows follows the true counts."""
    shares = []
    for common in (1, 9):
        log = EventLog.from_traces([*[("xa", None)] * common, ("xb", None)])
        annotated = annotate(log)
        needed = np.zeros(annotated.dafsa.n_transitions, dtype=np.int64)
        needed[int(annotated.transition[0])] = 4000
        copies = sample_cases(annotated.dafsa, annotated.variant_of_case, needed, noise.simulated(1)).copies - 1
        shares.append(copies[:common].sum() / 4000)
    assert shares == pytest.approx([0.5, 0.9], abs=0.04)  # 5 deviations of a share of 4,000


def test_amun_ends_after_its_releases() -> None:
    """With releases = 2 the third build is refused: delta was divided over two."""
    built = mechanism({**TABLES[0], "releases": 2})
    first = built.build(_exposure())
    second = built.build(_exposure(), first.memory)
    with pytest.raises(BoundError, match="releases = 2"):
        built.build(_exposure(), second.memory)
    whole, half = mechanism(TABLES[0]).build(_exposure()), first
    assert half.public["epsilon_per_count_cell"] * 2 == pytest.approx(whole.public["epsilon_per_count_cell"])


def test_check_config_warns_of_terms_that_help_nobody() -> None:
    """A large delta_dp, and time noise above the declared range, are said before go-live; good terms are not."""
    log = {"kind": "dp-log", "epsilon": 1, "delta_dp": 0.01, "max_events": 10}
    assert [text.split()[0] for text in mechanism(log).check({})] == ["delta_dp", "noise"]
    assert "is 20 times" in mechanism(log).check({})[1]
    assert mechanism({**log, "delta_dp": 1e-6, "epsilon": 8, "max_events": 4}).check({}) == []
    assert mechanism({"kind": "dp-variants", "epsilon": 1, "delta_dp": 1e-6}).check({}) == []


def test_strict_records_are_no_persons() -> None:
    """Rows of a strict release name no source case."""
    for table in TABLES[1:]:
        build = mechanism(table).build(_exposure())
        assert set(build.origin.tolist()) <= {-1}
        assert len(build.origin) == build.log.n_cases


@pytest.mark.parametrize(
    "change",
    [{"epsilon": 0}, {"epsilon": "nan"}, {"delta_dp": 1}, {"delta_dp": 0}, {"seed": 1}, {"cases_per_person": 0}],
)
def test_tables_are_checked_when_read(change: dict[str, Any]) -> None:
    """Wrong or unknown keys, a seed among them, are refused with the configuration."""
    for table in TABLES[1:]:
        with pytest.raises(ValidationError):
            mechanism({**table, **change})


@pytest.fixture
def log_file(tmp_path: Path) -> Path:
    """A log of 60 cases as CSV."""
    rows = ["case:concept:name,concept:name,time:timestamp"]
    rows += [f"p{n},{name},2024-01-{1 + n % 28:02d}T1{k}:00:00Z" for n in range(60) for k, name in enumerate("ab")]
    path = tmp_path / "log.csv"
    path.write_text("\n".join(rows), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ("--mechanism amun --delta 0.3 --variant oversampling", 0, ""),
        ("--mechanism dp-log --epsilon 2 --delta-dp 1e-3", 0, ""),
        ("--mechanism dp-variants --epsilon 1 --delta-dp 1e-6", 0, ""),
        ("--mechanism amun --delta 1.5", 2, "delta"),
        ("--mechanism amun --delta nan", 2, "delta"),
        ("--mechanism amun --delta 0.3 --seed 5", 2, "seed"),
        ("--mechanism dp-log --epsilon 1", 2, "--delta-dp"),
        ("--mechanism dp-variants --epsilon 5e-324 --delta-dp 0.1", 2, "epsilon"),
        ("--mechanism dp-variants --epsilon 1e-9 --delta-dp 0.1", 2, "epsilon is too small"),
        ("--mechanism dp-log --epsilon inf --delta-dp 0.1", 2, "epsilon"),
        ("--mechanism dp-variants --epsilon 1e6 --delta-dp 0.1", 2, "lower epsilon"),
        ("--mechanism amun --delta 1e-8 --variant oversampling --set releases=1000000000", 2, "raise epsilon"),
    ],
)
def test_anonymize(log_file: Path, capfd: pytest.CaptureFixture[str], options: str, code: int, said: str) -> None:
    """Every dp kind releases from the command line, and bad numbers are one clear line with exit code 2."""
    out = log_file.with_name("out.csv")
    assert veilstream(["anonymize", str(log_file), "-o", str(out), *DECLARED_FLAGS, *options.split(), "--json"]) == code
    captured = capfd.readouterr()
    if code:
        assert said in captured.err
        assert len(captured.err.strip().splitlines()) == 1
        assert not out.exists()
    else:
        answer = json.loads(captured.out)
        assert answer["cases"]["in"] == 60
        assert "p1," not in out.read_text(encoding="utf-8")


def test_audit_epsilon_command(capfd: pytest.CaptureFixture[str]) -> None:
    """`audit-epsilon` finds nothing against dp-variants, and calls amun unbounded without calling it refuted."""
    assert veilstream(["audit-epsilon", "--mechanism", "dp-variants", "--runs", "24", "--json"]) == 0
    strict = json.loads(capfd.readouterr().out)
    assert strict["verdict"] == "consistent"
    assert strict["claimed"] == {"epsilon": 1.0, "delta": 0.01}
    assert veilstream(["audit-epsilon", "--mechanism", "amun", "--runs", "60", "--json"]) == 0
    amun = json.loads(capfd.readouterr().out)
    assert amun["verdict"] == "unbounded"
    assert amun["unbounded"]
    assert amun["epsilon_lower"] is None
    assert amun["claimed"] is None


def test_the_table_of_audit_epsilon(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A row for each pair of neighbours, with what the claim allows it; no claim if there is none."""
    monkeypatch.setenv("COLUMNS", "200")
    assert veilstream(["audit-epsilon", "--mechanism", "dp-variants", "--epsilon", "0.75", "--runs", "20"]) == 0
    strict = capfd.readouterr().out
    assert strict.startswith("dp-variants: consistent")
    assert "0.75" in strict
    assert veilstream(["audit-epsilon", "--mechanism", "amun", "--runs", "60"]) == 0
    amun = capfd.readouterr().out
    assert amun.startswith("amun: unbounded")
    assert "a case of a new variant added" in amun
    assert "no claim" in amun


def test_a_refusal_is_an_output_that_the_audit_counts(capfd: pytest.CaptureFixture[str]) -> None:
    """Amun's filter may leave one case, which the noise then deletes: no error, and not exit 3 as if a claim fell."""
    options = ["--mechanism", "amun", "--variant", "filtering", "--delta", "0.2", "--runs", "60", "--json"]
    assert veilstream(["audit-epsilon", *options]) == 0
    assert json.loads(capfd.readouterr().out)["verdict"] == "unbounded"


@pytest.mark.parametrize("kind", ["amun --delta 0.3 --variant oversampling", "dp-variants --epsilon 2 --delta-dp 1e-3"])
def test_the_table_of_a_dp_kind(log_file: Path, capfd: pytest.CaptureFixture[str], kind: str) -> None:
    """People read the promise on a line of its own, and nothing about suppression that did not take place."""
    out = str(log_file.with_name("out.csv"))
    assert veilstream(["anonymize", str(log_file), "-o", out, *DECLARED_FLAGS, "--mechanism", *kind.split()]) == 0
    text = capfd.readouterr().out
    assert text.startswith(kind.split(maxsplit=1)[0] + ": ")
    assert "suppressed" not in text
    assert "None" not in text


def test_audit_epsilon_refuses_bad_input(capfd: pytest.CaptureFixture[str]) -> None:
    """Unknown kinds and too few runs are bad usage."""
    for options in (["--mechanism", "tlkc"], ["--runs", "3"], ["--epsilon", "nan"]):
        assert veilstream(["audit-epsilon", *options]) == 2
        assert len(capfd.readouterr().err.strip().splitlines()) == 1
