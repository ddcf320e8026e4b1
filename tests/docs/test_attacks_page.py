"""docs/attacks.md names every key that `attack` and `leakage` print."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from connectors.logs import write_log
from models.eventlog import EventLog
from stream.commands import execute
from tests.conftest import ROOT

NAMED = set(re.findall(r"[a-z0-9_]+", (ROOT / "docs" / "attacks.md").read_text(encoding="utf-8")))


def keys(value: Any) -> Iterator[str]:
    """Every key of a document, but those of `chains`, which are names of attributes."""
    if isinstance(value, list):
        for item in value:
            yield from keys(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from (keys(list(item.values())) if key == "chains" else keys(item))


def printed(capfd: pytest.CaptureFixture[str], *arguments: str) -> set[str]:
    assert execute([*arguments, "--json"]) == 0
    return set(keys(json.loads(capfd.readouterr().out)))


def small(folder: Path, name: str, *traces: str) -> str:
    path = folder / f"{name}.csv"
    write_log(EventLog.from_traces([(trace, "X") for trace in traces]), path)
    return str(path)


def test_every_key_of_attack_is_on_the_page(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Three releases with a named candidate, with and without a linker."""
    names = [small(tmp_path, str(k), *["ab"] * (k + 1)) for k in range(3)]
    found = printed(capfd, "attack", *names, "--sensitive", "sensitive", "--bk", "a")
    found |= printed(capfd, "attack", names[0], small(tmp_path, "other", "bb"), "--n", "0")
    assert {"ka1_common", "without_linker", "witness", "cracked", "series"} <= found
    assert found - NAMED == set()


def test_every_key_of_leakage_is_on_the_page(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Several windows, further chains, a bound, and sums where delta is above 0."""
    log = small(tmp_path, "log", "abcab", "abcab")
    asked = ["leakage", log, "--split", "0.1", "--window", "1,2", "--bound", "1"]
    found = printed(capfd, *asked, "--attribute", "resource") | printed(capfd, *asked, "--delta-dp", "0.1")
    assert {"windows", "chains", "geometric", "sum_delta"} <= found
    assert found - NAMED == set()
