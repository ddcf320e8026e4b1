"""A page to sign names the attributes that C bounds, and says if the release shows nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from stream.commands import execute
from stream.operator.console.releases import queue

BEGIN = datetime(2024, 3, 1, 8, tzinfo=UTC)
BOUNDED = "Attributes whose values C bounds"


def held_facts(folder: Path, publication: str, sensitive: str = "diag") -> dict[str, str]:
    """Replay a log of 40 cases, and return what the page of the held release states."""
    configuration, log, out = folder / "veilstream.toml", folder / "log.csv", folder / "out"
    configuration.write_text(
        f"""
[process]
name = "clinic"
sensitive = [{sensitive!r}]
[file]
encoding = "utf-8"
separator = "comma"
time_format = "iso"
[process.attributes]
quasi = ["age"]
[[publication]]
name = "p"
approval = "required"
window = {{ manual = true }}
{publication}
""",
        encoding="utf-8",
    )
    lines = ["case,activity,time,diag,age"]
    for number in range(40):
        moment = BEGIN + timedelta(hours=number)
        lines.append(f"c{number},a,{moment:%Y-%m-%dT%H:%M:%SZ},{('flu', 'cold')[number % 2]},{number}")
    log.write_text("\n".join(lines) + "\n", encoding="utf-8")
    execute(["replay", str(log), "-c", str(configuration), "-o", str(out), "--final"])
    (waiting,) = queue(out)
    return dict(waiting.facts)


@pytest.mark.parametrize(("C", "shown"), [("0.9", "diag, and no other"), ("1.0", None)])
def test_the_attributes_that_C_bounds_are_named(tmp_path: Path, C: str, shown: str | None) -> None:
    """The statement promises something of "a sensitive attribute", and nothing said of which one."""
    facts = held_facts(tmp_path, f'mechanism = {{ kind = "tlkc", K = 4, L = 1, C = {C} }}')
    assert facts.get(BOUNDED) == shown
    assert "Empty" not in facts


@pytest.mark.parametrize(("epsilon", "is_empty"), [("0.05", True), ("20.0", False)])
def test_an_empty_release_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], epsilon: str, is_empty: bool
) -> None:
    """The verdict on it was SAFE, its counts are not said, and nothing was said of its content."""
    # The threshold is above 400 cases with epsilon 0.05, and about 2 with 20: noise misses either once in 10^7 runs.
    facts = held_facts(tmp_path, f'mechanism = {{ kind = "dp-variants", epsilon = {epsilon}, delta_dp = 1e-9 }}')
    assert ("Empty" in facts) == is_empty
    assert BOUNDED not in facts
    assert ("release 1 of p is empty" in " ".join(capsys.readouterr().out.split())) == is_empty
