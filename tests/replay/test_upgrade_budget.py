"""A ledger of the program that added charges up continues in place, by the account."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from connectors import read_log
from models.dp.budget import Draw
from models.dp.privacy_loss import gaussian_distance
from models.dp.synthetic import Shares
from stream.config import sources
from stream.ledger.entries import ChargeEntry, read_entry, write_entry
from stream.ledger.layout import OperatorLayout
from stream.ledger.sqlite import open_readonly
from stream.operator.verify import verify
from stream.run.replay import Replay
from stream.testing import verifier
from tests.oracles.privacy_loss import ball, precision, reference

FROZEN = Path(__file__).resolve().parent.parent / "fixtures" / "sums_of_charges"
"""Written by the program of commit c7002bae: seven releases of two publications, and the charge of an eighth."""

CLOSE = Fraction(1, 1000)


@pytest.fixture(autouse=True)
def two_hundred_bits() -> Iterator[None]:
    """Compute references in balls of 200 bits."""
    with precision(200):
        yield


@pytest.fixture
def earlier_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    """Divide epsilon as the earlier program did: a replay continues with an equal configuration only."""
    shares = Shares(Fraction(0), Fraction(1, 10), Fraction(9, 20), Fraction(9, 20), Fraction(0))
    monkeypatch.setattr(Shares, "usual", lambda **_: shares)


def continued(folder: Path) -> Path:
    """The frozen folder, after this program has read the rest of the log."""
    output = folder / "output"
    shutil.copytree(FROZEN / "output", output)
    (folder / "config.toml").write_text((FROZEN / "config.toml").read_text())
    settings = sources.load(folder / "config.toml")
    events = read_log(FROZEN / "log.csv", columns=settings.process.columns.changed)
    Replay(settings, output).run(events)
    return output


def budgets(output: Path, publication: str) -> list[dict[str, Any]]:
    """The budget of each manifest, in order."""
    paths = sorted((output / "public" / publication).glob("release-*/manifest.json"))
    return [json.loads(path.read_text(encoding="utf-8"))["budget"] for path in paths]


@pytest.mark.usefixtures("earlier_shares")
def test_a_ledger_of_sums_continues_by_the_account(tmp_path: Path) -> None:
    """Releases that left stay byte for byte, new ones have a rule, and both hold. By sums the model stopped at 8."""
    frozen = {path.relative_to(FROZEN): path.read_bytes() for path in (FROZEN / "output" / "public").rglob("*.*")}
    output = continued(tmp_path)
    assert {name: (tmp_path / name).read_bytes() for name in frozen} == frozen
    assert verify(output).problems == []
    assert verifier.verify(output) == []
    for publication in ("counts", "model"):
        rules = [budget["spent"].get("rule") for budget in budgets(output, publication)]
        assert rules[:7] == [None] * 7
        assert len(rules) == 10
        assert set(rules[7:]) <= {"sum", "composed"}
    assert {budget["process"]["spent"]["rule"] for budget in budgets(output, "model")[7:]} == {"parts"}
    last = budgets(output, "model")[-1]
    assert last["spent"]["epsilon"] < last["limit"] == 4 < 10 * last["epsilon"]


@pytest.mark.usefixtures("earlier_shares")
def test_the_continued_account_is_that_of_all_charges(tmp_path: Path) -> None:
    """By balls of 200 bits over the draws of every entry, those of the earlier program included."""
    output = continued(tmp_path)
    entries = [entry for entry in open_readonly(OperatorLayout(output).ledger) if isinstance(entry, ChargeEntry)]
    for publication in ("counts", "model"):
        charges = [entry.body for entry in entries if entry.publication == publication]
        draws: list[Draw] = [draw for body in charges for draw in body.noise]
        assert len(charges) == 10
        spent = budgets(output, publication)[-1]["spent"]
        assert spent["rule"] == "composed"
        distance = sum(
            (gaussian_distance(draw.scale, draw.sensitivity) * draw.times for draw in draws if draw.kind == "gaussian"),
            Fraction(0),
        )
        pure = [draw.epsilon for draw in draws for _ in range(draw.times) if draw.kind != "gaussian"]
        own_delta = Fraction(charges[0].delta)
        stated = Fraction(repr(spent["epsilon"]))
        assert not ball(own_delta) < reference(distance, pure, stated)
        assert reference(distance, pure, stated - CLOSE) > ball(own_delta)
        thresholds = sum((draw.delta * draw.times for draw in draws), Fraction(0))
        assert spent["delta"] == pytest.approx(float(thresholds + own_delta), rel=1e-15)


def test_other_default_shares_continue_as_a_part_of_their_own(tmp_path: Path) -> None:
    """The later releases draw other noise than the earlier ones: each part has an account of its own, and they add."""
    output = continued(tmp_path)
    assert verify(output).problems == []
    assert verifier.verify(output) == []
    before, *_, last = (budget["spent"] for budget in budgets(output, "model")[6:])
    assert last["rule"] == "parts"
    assert before["epsilon"] < last["epsilon"] < 4
    assert budgets(output, "counts")[-1]["spent"]["rule"] == "composed"


def test_every_entry_with_draws_is_read_and_written_as_it_was() -> None:
    """The format of the ledger: noise as exact fractions, byte for byte."""
    lines = (FROZEN / "ledger.jsonl").read_bytes().splitlines()
    entries = [read_entry(line) for line in lines]
    assert [write_entry(entry) for entry in entries] == lines
    counts = [entry.body for entry in entries if isinstance(entry, ChargeEntry) and entry.publication == "counts"]
    assert len(counts) == 8
    for body in counts:
        (draw,) = body.noise
        assert (body.charge.epsilon, body.charge.delta) == (Fraction(1, 4), Fraction(1, 100))
        assert (draw.kind, draw.scale, draw.sensitivity, draw.times) == (draw.kind, 4, 1, 1)
        assert draw.kind in ("laplace", "truncated")
        assert 0 < draw.delta <= Fraction(1, 100)
    model = [entry.body for entry in entries if isinstance(entry, ChargeEntry) and entry.publication == "model"]
    assert {draw.kind for body in model for draw in body.noise} == {"gaussian", "pure"}
