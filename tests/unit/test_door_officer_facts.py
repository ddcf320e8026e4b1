"""A page to sign names the attributes that C bounds, and says if the release shows nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from stream.commands import execute
from stream.operator.console.releases import Held, queue

BEGIN = datetime(2024, 3, 1, 8, tzinfo=UTC)
BOUNDED = "Attributes whose values C bounds"
PUBLICATION = """
[[publication]]
name = "{name}"
approval = "required"
window = {{ manual = true }}
mechanism = {{ {mechanism} }}
"""
GROUPS = 'kind = "tlkc", K = 4, L = 1, C = 0.9'
NOISE = 'kind = "dp-variants", epsilon = 20.0, delta_dp = 1e-9'


def held_releases(folder: Path, publications: str) -> list[Held]:
    """Replay a log of 40 cases, and return the releases that wait for a person."""
    configuration, log, out = folder / "veilstream.toml", folder / "log.csv", folder / "out"
    configuration.write_text(
        f"""
[process]
name = "clinic"
sensitive = ["diag"]
[file]
encoding = "utf-8"
separator = "comma"
time_format = "iso"
[process.attributes]
quasi = ["age"]
{publications}
""",
        encoding="utf-8",
    )
    lines = ["case,activity,time,diag,age"]
    for number in range(40):
        moment = BEGIN + timedelta(hours=number)
        lines.append(f"c{number},a,{moment:%Y-%m-%dT%H:%M:%SZ},{('flu', 'cold')[number % 2]},{number}")
    log.write_text("\n".join(lines) + "\n", encoding="utf-8")
    execute(["replay", str(log), "-c", str(configuration), "-o", str(out), "--final"])
    return queue(out)


def held_facts(folder: Path, mechanism: str) -> dict[str, str]:
    """Return what the page of the only held release states."""
    (waiting,) = held_releases(folder, PUBLICATION.format(name="p", mechanism=mechanism))
    return dict(waiting.facts)


@pytest.mark.parametrize(("C", "shown"), [("0.9", "diag, and no other"), ("1.0", None)])
def test_the_attributes_that_C_bounds_are_named(tmp_path: Path, C: str, shown: str | None) -> None:
    """The statement promises something of "a sensitive attribute", and nothing said of which one."""
    facts = held_facts(tmp_path, f'kind = "tlkc", K = 4, L = 1, C = {C}')
    assert facts.get(BOUNDED) == shown
    assert "Empty" not in facts


@pytest.mark.parametrize(("epsilon", "is_empty"), [("0.05", True), ("20.0", False)])
def test_an_empty_release_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], epsilon: str, is_empty: bool
) -> None:
    """The verdict on it was SAFE, its counts are not said, and nothing was said of its content."""
    # The threshold is above 400 cases with epsilon 0.05, and about 2 with 20: noise misses either once in 10^7 runs.
    facts = held_facts(tmp_path, f'kind = "dp-variants", epsilon = {epsilon}, delta_dp = 1e-9')
    assert ("Empty" in facts) == is_empty
    assert BOUNDED not in facts
    assert ("release 1 of p is empty" in " ".join(capsys.readouterr().out.split())) == is_empty


def test_the_page_says_where_epsilon_went(tmp_path: Path) -> None:
    """Each held release that a newer one replaced has cost epsilon, and the page showed the sum alone."""
    noise = PUBLICATION.format(name="n", mechanism=NOISE)
    noise = noise.replace("{ manual = true }", "{ every = '10h', time = 'event' }")
    noise += 'start = "2024-03-01T08:00:00Z"\n'
    (waiting,) = held_releases(tmp_path, noise + 'hold = "supersede"\ngate = { max_epsilon = 500.0 }\n')
    n_replaced = waiting.release.number - 1
    assert n_replaced >= 2
    assert dict(waiting.facts)["Where epsilon went"].startswith(
        f"{n_replaced + 1} charges by now: 1 for this release, {n_replaced} for held releases whose place a newer one "
        "took; "
    )


def test_one_charge_needs_no_such_fact(tmp_path: Path) -> None:
    facts = held_facts(tmp_path, NOISE)
    assert "Where epsilon went" not in facts


def test_verdicts_that_two_held_releases_change_together_are_shown(tmp_path: Path) -> None:
    """Each page read as if no other release was to leave: SAFE for the noise that exact counts undo."""
    groups = PUBLICATION.format(name="g", mechanism=GROUPS)
    noise = PUBLICATION.format(name="n", mechanism=NOISE) + "gate = { max_epsilon = 50.0 }\n"
    for folder, publications, expected in (
        ("both", groups + noise, {"g": None, "n": "DP VOID"}),
        ("noise", noise, {"n": None}),
    ):
        (tmp_path / folder).mkdir()
        waiting = held_releases(tmp_path / folder, publications)
        alone = {held.release.publication: held.verdict and held.verdict.verdict for held in waiting}
        assert alone["n"] == "SAFE"
        together = {held.release.publication: held.together and held.together.verdict for held in waiting}
        assert together == expected
