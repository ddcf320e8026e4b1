"""Replays whose ledger adds up rho: budgets, manifests, verify, crashes, and that no ledger holds two kinds."""

from __future__ import annotations

import json
import math
import sqlite3
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from connectors import read_log
from models.dp.budget import Charge
from models.dp.zcdp import Accounting
from models.errors import InputError, RefusedError
from stream.commands import execute
from stream.config import sources
from stream.ledger.sqlite import read_view
from stream.ledger.view import Account
from stream.operator.report.data import collect
from stream.operator.verify import verify
from stream.release.failpoints import Faults
from stream.run.replay import Replay
from stream.testing.faults import Aborted, abort, at_nth
from tests.conftest import DECLARED

RHO, TAIL, AT = Fraction(1, 50), Fraction(1, 10**6), Fraction(1, 10**5)
ZCDP = 'budget = { accounting = "zcdp", conversion_delta = 1e-5, max_epsilon = 1.5 }'
MECHANISM = 'mechanism = { kind = "dp-variants", rho = "1/50", delta_dp = 1e-6 }'
COLUMNS = {"case": "case", "activity": "act", "time": "time"}
ADDS = Accounting("zcdp", AT)


def config(folder: Path, *lines: str, process: str = ZCDP, mechanism: str = MECHANISM) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "c.toml"
    head = [
        "[process]",
        'name = "rho"',
        'columns = { case = "case", activity = "act", time = "time" }',
        'completion = { end_activities = ["z"] }',
        process,
        "[[publication]]",
        'name = "p"',
        'start = "2024-01-01T00:00:00Z"',
        'window = { every = "1d", time = "wall" }',
        mechanism,
        *lines,
    ]
    path.write_text("\n".join(head) + DECLARED)
    return path


def log(folder: Path, days: int = 6) -> Path:
    """Sixty cases a z on each day."""
    rows = ["case,act,time"]
    for day in range(1, days + 1):
        rows += [f"d{day}-{n},{act},2024-01-0{day}T1{hour}:00:00Z" for n in range(60) for hour, act in enumerate("az")]
    folder.mkdir(exist_ok=True)
    path = folder / "log.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


def run(folder: Path, *lines: str, days: int = 6, **keys: Any) -> int:
    path = config(folder, *lines, **keys)
    return execute(["replay", str(log(folder, days)), "-c", str(path), "-o", str(folder / "out"), "--json"])


def manifests(folder: Path) -> list[dict[str, Any]]:
    """In order of their numbers."""
    return [json.loads(path.read_text()) for path in sorted((folder / "out" / "public" / "p").glob("*/manifest.json"))]


def account(folder: Path) -> Account:
    return read_view(folder / "out" / "operator" / "ledger.sqlite", "rho").account("p")


def expected(releases: int) -> Charge:
    """Return the loss of so many releases together, by the accounting alone."""
    return ADDS.loss(Charge(delta=TAIL, rho=RHO).times(releases))


def test_rho_adds_up_and_ends_the_series_at_its_epsilon(tmp_path: Path) -> None:
    """Releases leave until one more would pass epsilon 1.5; each manifest says what all of them are so far, which is
    less than the sum of what each is alone; the budget's bound is the process's."""
    assert run(tmp_path) == 3
    found = manifests(tmp_path)
    allowed = next(n for n in range(10) if expected(n + 1).epsilon > Fraction(3, 2))
    assert 1 < len(found) == allowed < 5
    for number, manifest in enumerate(found, start=1):
        budget = manifest["budget"]
        assert budget["accounting"] == "zcdp"
        assert budget["zcdp"]["rho"] == 0.02
        assert budget["zcdp"]["spent"] == pytest.approx(0.02 * number)
        assert budget["zcdp"]["conversion_delta"] == 1e-5
        assert budget["spent"]["epsilon"] == pytest.approx(float(expected(number).epsilon))
        assert budget["process"]["spent"]["delta"] == pytest.approx(1e-5 + number * 1e-6)
        assert "0.02-zCDP" in manifest["promise"]["guaranteed"]
        assert "rho and delta" in manifest["promise"]["not_guaranteed"]
        assert manifest["mechanism"]["parameters"] == {"rho": 0.02, "delta_dp": 1e-6, "cases_per_person": 1}
        assert manifest["mechanism"]["scale"] == 5.0
    alone = found[0]["budget"]["epsilon"]
    assert found[-1]["budget"]["spent"]["epsilon"] < 0.8 * allowed * alone
    assert account(tmp_path).spending.summed == Charge(delta=allowed * TAIL, rho=allowed * RHO)


def test_verify_reads_such_a_folder_and_sees_a_false_amount(tmp_path: Path) -> None:
    """Nothing is wrong with what a replay left; a charge that is taken smaller in the ledger is found."""
    assert run(tmp_path) == 3
    found = verify(tmp_path / "out")
    assert found.problems == []
    assert found.publications[0].epsilon == pytest.approx(float(expected(len(manifests(tmp_path))).epsilon))
    db = sqlite3.connect(tmp_path / "out" / "operator" / "ledger.sqlite")
    with db:
        db.execute('UPDATE entries SET body = replace(body, \'"rho":"1/50"\', \'"rho":"1/5000"\') WHERE id < 4')
    db.close()
    assert {problem.kind for problem in verify(tmp_path / "out").problems} == {"budget", "ledger"}


def test_the_report_reads_such_a_folder(tmp_path: Path) -> None:
    """It says what all charges are together, and how many more the accounting pays for (a division says fewer)."""
    assert run(tmp_path, process=ZCDP.replace("1.5", "2.5"), days=2) == 0
    count = len(manifests(tmp_path))
    data = collect(tmp_path / "out")
    (publication,) = data["publications"]
    charges = publication["budget"]["charges"]
    assert sum(row["epsilon"] for row in charges) == pytest.approx(float(expected(count).epsilon))
    left = publication["left"]
    allowed = next(n for n in range(30) if expected(n + 1).epsilon > Fraction(5, 2))
    assert left["releases_left"] == allowed - count


def test_each_case_once_with_rho(tmp_path: Path) -> None:
    """One charge pays for the series: every release leaves, and the largest rho is spent."""
    assert run(tmp_path, 'cases = "completed"', "gate = { max_epsilon = 1 }") == 0
    found = manifests(tmp_path)
    assert len(found) >= 5
    assert {manifest["budget"]["zcdp"]["spent"] for manifest in found} == {0.02}
    assert account(tmp_path).spending.summed == Charge(delta=TAIL, rho=RHO)


@pytest.mark.parametrize("point", ["charged", "sealed", "renamed"])
def test_a_crash_charges_no_less(tmp_path: Path, point: str) -> None:
    """An attempt that dies is paid for once if nothing was seen, and the folder is whole afterwards."""
    path = config(tmp_path, process=ZCDP.replace("1.5", "9"))
    settings = sources.load(path)
    source = log(tmp_path, 4)
    with pytest.raises(Aborted):
        Replay(settings, tmp_path / "out", faults=Faults(at_nth(point, 2, abort))).run(
            read_log(source, columns=COLUMNS)
        )
    assert execute(["replay", str(source), "-c", str(path), "-o", str(tmp_path / "out"), "--json"]) == 0
    found, spent = manifests(tmp_path), account(tmp_path).spending.summed
    assert spent.rho >= RHO * len(found)
    assert verify(tmp_path / "out").problems == []


def test_a_ledger_is_of_one_accounting_for_its_life(tmp_path: Path) -> None:
    """Begun by epsilon it refuses rho, and the other way; in one line that says what to do."""
    pure = 'mechanism = { kind = "dp-variants", epsilon = 0.5, delta_dp = 1e-6 }'
    assert run(tmp_path / "a", process="", mechanism=pure, days=2) == 0
    assert run(tmp_path / "a", days=2) == 4
    with pytest.raises(RefusedError, match=r'its ledger adds up charges as .* "pure".* now has "zcdp"'):
        Replay(sources.load(config(tmp_path / "a")), tmp_path / "a" / "out")
    assert run(tmp_path / "b", days=2) == 0
    with pytest.raises(RefusedError, match=r'"zcdp".* now has "pure"'):
        Replay(sources.load(config(tmp_path / "b", process="", mechanism=pure)), tmp_path / "b" / "out")


@pytest.mark.parametrize(
    ("keys", "lines", "said"),
    [
        ({"process": ""}, (), "mechanism.rho is added up by"),
        ({"mechanism": 'mechanism = { kind = "dp-variants", epsilon = 1, delta_dp = 1e-6 }'}, (), "is not one"),
        ({"mechanism": 'mechanism = { kind = "dp-variants", delta_dp = 1e-6 }'}, (), "give epsilon"),
        ({"mechanism": 'mechanism = { kind = "dp-variants", rho = 1, epsilon = 1, delta_dp = 1e-6 }'}, (), "give eps"),
        ({"mechanism": 'mechanism = { kind = "dp-variants", rho = "nan", delta_dp = 1e-6 }'}, (), "number"),
        ({"mechanism": 'mechanism = { kind = "dp-variants", rho = -1, delta_dp = 1e-6 }'}, (), "negative"),
        ({"mechanism": 'mechanism = { kind = "dp-variants", rho = 1e-9, delta_dp = 1e-6 }'}, (), "rho is too small"),
        ({"mechanism": 'mechanism = { kind = "dp-synthetic", epsilon = 1, delta_dp = 1e-6, activities = ["a", "z"] }'},
         (), "the epsilon of dp-synthetic"),
        ({"mechanism": 'mechanism = { kind = "dp-log", epsilon = 1, delta_dp = 1e-6, max_duration = "1d" }'}, (),
         "the epsilon of dp-log"),
        ({}, ("gate = { max_tpl = 1 }",), "max_tpl bounds pure epsilon"),
        ({}, ('cases = "completed"', 'accumulate = "sum"'), "noise of rho does not add up"),
        ({"process": 'budget = { accounting = "rdp" }'}, (), "accounting"),
        ({"process": "budget = { conversion_delta = 1e-6 }"}, (), "conversion_delta is of accounting"),
        ({"process": 'budget = { accounting = "zcdp", conversion_delta = 0 }'}, (), "conversion_delta"),
        ({"process": 'budget = { accounting = "zcdp", max_delta = 1e-7 }'}, (), "is not above conversion_delta"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_said_when_the_file_is_read(
    tmp_path: Path, keys: dict[str, str], lines: tuple[str, ...], said: str
) -> None:
    """One clear error of check-config."""
    with pytest.raises(InputError, match=said):
        sources.load(config(tmp_path, *lines, **keys))


def test_check_config_says_how_many_releases_the_budget_pays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the accounting, not by a division."""
    assert execute(["check-config", str(config(tmp_path))]) == 0
    allowed = next(n for n in range(10) if expected(n + 1).epsilon > Fraction(3, 2))
    shown = capsys.readouterr()
    assert f"process.budget allows {allowed} releases" in " ".join((shown.out + shown.err).split())
    assert allowed > math.floor(1.5 / float(expected(1).epsilon))
