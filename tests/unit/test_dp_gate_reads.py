"""Data that a gate reads are declared, and a release with a dp promise never waits for raw data."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from models.errors import InputError
from stream.commands import execute
from stream.release.audits import kinds
from stream.release.gate import BOUNDS, GatePolicy, refuse_impossible
from stream.release.mechanisms import mechanism

STRICT = {"kind": "dp-variants", "epsilon": 1, "delta_dp": 1e-4}
AMUN = {"kind": "amun", "delta": 0.3, "releases": 3}


def test_every_bound_and_every_audit_says_what_it_reads() -> None:
    """A new bound without a word about it would be one that nobody thought of."""
    assert set(BOUNDS) == {name for name in GatePolicy.model_fields if name.startswith(("min_", "max_"))}
    assert {kind.reads for kind in kinds().values()} <= {"ledger", "release", "raw"}


def test_a_bound_without_a_declaration_counts_as_reading_raw_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail closed: a forgotten declaration refuses, it does not let through."""
    monkeypatch.delitem(BOUNDS, "max_uniqueness")  # type: ignore[arg-type]  # a dict behind a read-only type
    with pytest.raises(InputError, match="max_uniqueness reads raw data"):
        refuse_impossible(GatePolicy(max_uniqueness=0.5, charge_withheld=True), mechanism(STRICT), "p")


@pytest.mark.parametrize("table", [STRICT, AMUN], ids=["dp-variants", "amun"])
@pytest.mark.parametrize("paid", [False, True])
def test_a_utility_bound_on_a_dp_release_is_refused_also_when_charged(table: dict[str, object], paid: bool) -> None:
    """60 cases AB and min_utility: 100 of 100 releases came without one case XYZ, and 0 of 100 with it."""
    with pytest.raises(InputError, match="min_utility reads raw data"):
        refuse_impossible(GatePolicy(min_utility=0.9, charge_withheld=paid), mechanism(table), "p")


def test_bounds_on_the_ledger_need_no_charge_for_what_they_withhold() -> None:
    """They are decided before any noise."""
    policy = GatePolicy(max_epsilon=Fraction(4), max_delta=Fraction(1, 10), max_tpl=Fraction(8))
    refuse_impossible(policy, mechanism(STRICT), "p")


def test_check_config_and_replay_refuse_such_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both read the same file by the same rules: exit 2 and one line, before a folder is made."""
    config = tmp_path / "veilstream.toml"
    config.write_text(
        '[[publication]]\nname = "p"\nwindow = { every = "1d", time = "event" }\n'
        'mechanism = { kind = "dp-variants", epsilon = 1, delta_dp = 1e-4 }\n'
        "gate = { min_utility = 0.9, charge_withheld = true }\n"
    )
    log = tmp_path / "log.csv"
    log.write_text("case:concept:name,concept:name,time:timestamp\n1,A,2024-01-01T00:00:00Z\n")
    for words in (["check-config", str(config)], ["replay", str(log), "-c", str(config), "-o", str(tmp_path / "out")]):
        assert execute(words) == 2
        assert "gate.min_utility reads raw data" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
