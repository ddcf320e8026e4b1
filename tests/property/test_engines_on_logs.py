"""Public logs: every engine finds the same variants, plan, cases, counts and audits as the log in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.engines_agree import answers_of, names, write_releases

ALL = (
    "amun-paper-example", "bpic2012", "bpic2012-app", "bpic2013-incidents", "ccc19", "sepsis", "urineweginfectie",
)  # fmt: skip


def agree(kind: str, name: str, logs: Path, work: Path) -> None:
    """Check that the engine and `embedded` give the same, part by part."""
    releases = write_releases(logs, name, work)
    expected = answers_of("embedded", releases, work / "embedded")
    actual = answers_of(kind, releases, work / kind)
    assert actual.keys() == expected.keys() >= {"table", "plan", "cases", "counts", "audits"}
    for part in expected:
        assert actual[part] == expected[part], part
    assert len(expected["table"]) > 1
    assert expected["audits"]["results"]


@pytest.mark.parametrize("name", ALL)
def test_duckdb_finds_the_same(name: str, logs: Path, tmp_path: Path) -> None:
    """Also in the same order: a tie is broken alike, and its witness is the same."""
    pytest.importorskip("duckdb", reason='duckdb is not installed (extra "duckdb")')
    agree("duckdb", name, logs, tmp_path)


def test_no_log_is_left_out(logs: Path) -> None:
    """A new public log is compared too."""
    assert sorted(names(logs)) == sorted(ALL)
