"""docs/manifest.md says what a manifest and an audit really hold, for every kind of mechanism."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from stream.commands import execute
from stream.release.mechanisms import kinds
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "manifest.md").read_text(encoding="utf-8")
MANIFEST, AUDIT = (part.split("\n## ")[0] for part in PAGE.split("\n## ")[2:4])
ONLY_SOMETIMES = {"cases", "gaps_accepted", "approval", "increment"}
WITHOUT_LOG = {"dp-model"}
NO_COUNTS = {"dp-variants", "dp-log", "dp-synthetic", "dp-model", "amun"}

TLKC = "L = 1, K = 2, C = 1.0"
PARAMETERS = {
    "tlkc": TLKC,
    "tlkc-cohorts": TLKC,
    "lcs-start": TLKC,
    "baseline-1": "K = 2",
    "baseline-2": "K = 2",
    "pretsa": "K = 2",
    "dp-variants": "epsilon = 5, delta_dp = 0.1",
    "dp-log": 'epsilon = 5, delta_dp = 0.1, max_duration = "1d"',
    "dp-synthetic": "epsilon = 5, delta_dp = 0.1, max_labels = 2",
    "dp-model": "epsilon = 5, delta_dp = 0.1, max_labels = 2",
    "amun": 'delta = 0.9, variant = "sampling"',
    "identity": "",
}


def keys(text: str) -> set[str]:
    """Everything in backticks that could be a key."""
    return set(re.findall(r"`([a-z_]+)`", text))


def cells(text: str) -> list[list[str]]:
    """Rows of the tables, cell by cell."""
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in row] for row in rows]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """(manifest, audit) of one release of each kind."""
    folder = tmp_path_factory.mktemp("kinds")
    rows = [f"c{i},{a},2025-01-01T0{t}:{i:02}:00Z,s{i % 2}" for i in range(40) for t, a in enumerate("ab")]
    (folder / "log.csv").write_text("\n".join(["case,act,time,sens", *rows]) + "\n")
    tables = [
        f'[[publication]]\nname = "{kind}"\naudience = "{kind}"\nwindow = {{ manual = true }}\n'
        f'mechanism = {{ kind = "{kind}"{", " * bool(PARAMETERS[kind])}{PARAMETERS[kind]} }}\n'
        for kind in kinds()
    ]
    head = '[process]\nname = "kinds"\nsensitive = ["sens"]\ncompletion = "log_end"\n'
    columns = '[process.columns]\ncase = "case"\nactivity = "act"\ntime = "time"\n'
    (folder / "c.toml").write_text(head + columns + "".join(tables))
    command = ["replay", str(folder / "log.csv"), "-c", str(folder / "c.toml"), "-o", str(folder / "out"), "--final",
               "--encoding", "utf-8", "--separator", "comma", "--time-format", "iso"]  # fmt: skip
    assert execute(command) == 0
    found = {}
    for kind in kinds():
        (public,) = (folder / "out" / "public" / kind).glob("*/manifest.json")
        (operator,) = (folder / "out" / "operator" / kind).glob("*/audit.json")
        found[kind] = json.loads(public.read_text()), json.loads(operator.read_text())
    return found


def test_every_kind_is_looked_at() -> None:
    """A mechanism that is new has a row on the page and a release below."""
    rows = {kind for row in cells(MANIFEST.split("| kind |")[1]) for kind in re.findall(r"`([a-z0-9-]+)`", row[0])}
    assert rows == set(kinds()) == set(PARAMETERS)


def test_keys_of_the_manifest_are_those_of_the_page(
    written: dict[str, tuple[dict[str, Any], dict[str, Any]]],
) -> None:
    """The same keys, and counts of persons only where the page declares them."""
    documented = {key for row in cells(MANIFEST.split("| kind |")[0]) for key in keys(row[0])}
    for kind, (public, _) in written.items():
        without = ONLY_SOMETIMES | ({"counts"} if kind in NO_COUNTS else set())
        without |= set() if kind in WITHOUT_LOG else {"content"}
        assert set(public) == documented - without, kind
        assert set(public["promise"]) <= keys(next(row[1] for row in cells(MANIFEST) if row[0] == "`promise`"))
        assert set(public["files"][0]) == {"path", "sha256", "bytes"}
        assert (public["budget"] is None) == (kind not in NO_COUNTS - {"amun"})


def test_what_each_mechanism_says_is_on_the_page(
    written: dict[str, tuple[dict[str, Any], dict[str, Any]]],
) -> None:
    """Every key that a mechanism adds, nested ones too, is in its row."""
    rows = cells(MANIFEST.split("| kind |")[1])
    for kind, (public, _) in written.items():
        row = next(row for row in rows if f"`{kind}`" in row[0])
        said = {name: value for name, value in public["mechanism"].items() if name not in ("kind", "parameters")}
        inner = {name for value in said.values() if isinstance(value, dict) for name in value}
        assert {*said, *inner} <= keys(row[1]), kind
        assert said or kind == "identity"


def test_keys_of_the_audit_are_on_the_page(written: dict[str, tuple[dict[str, Any], dict[str, Any]]]) -> None:
    """Keys of audit.json that the manifest lacks are named, except those that a mechanism reports to the operator
    alone.
    """
    always = {"cut", "trigger", "certain", "counts", "anonymity", "series", "leakage", "risk", "utility"}
    always |= {"suppressed", "n_actual", "gate", "bounds", "resources", "seconds"}
    assert always <= keys(AUDIT)
    for kind, (public, audit) in written.items():
        assert set(public) | always <= set(audit), kind
        assert all("status" in audit[name] and "reason" in audit[name] for name in ("anonymity", "risk", "utility"))
