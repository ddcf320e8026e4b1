"""docs/upgrading.md: its table is what the program writes and reads; tests that it names exist."""

from __future__ import annotations

import re

from stream.daemon import publisher
from stream.fold import records, snapshot
from stream.ledger import archive, change_log, mirror, release_record, sqlite
from stream.operator import backup
from stream.release import manifest
from stream.release.mechanisms import cohorts
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "upgrading.md").read_text(encoding="utf-8")
ROWS = [[cell.strip() for cell in line.split("|")[1:-1]] for line in PAGE.splitlines() if line.startswith("| ")]
WRITTEN = {
    "state in checkpoints": snapshot.STATE_VERSION,
    "changes of a checkpoint": change_log.VERSION,
    "ledger (`ledger.sqlite`, and its topic)": sqlite.VERSION,
    "records of the delta topic": max(records.READABLE),
    "mirror": mirror.VERSION,
    "`variants.parquet`": int(release_record.VERSION),
    "memory of cohorts": cohorts.VERSION,
    "`manifest.json`": manifest.VERSION,
    "backup": backup.VERSION,
    "archive": archive.VERSION,
}


def test_the_table_says_the_versions_of_the_program() -> None:
    """A format that gets a new version needs a new line of what is read."""
    formats = {row[0]: row[1:3] for row in ROWS if len(row) == 4 and row[1].isdecimal()}
    assert {name: int(cells[0]) for name, cells in formats.items()} == WRITTEN
    assert all(cells[1].split(", ")[-1] == cells[0] for cells in formats.values())
    state = [version for version in range(10) if snapshot.readable(version)]
    assert formats["state in checkpoints"][1] == ", ".join(str(version) for version in state)
    assert formats["records of the delta topic"][1] == ", ".join(map(str, records.READABLE))
    assert publisher.VERSION == 1


def test_every_format_has_a_test_that_exists() -> None:
    """File and function."""
    for row in ROWS:
        if len(row) == 4 and row[1].isdecimal():
            assert "`tests/" in row[3], row[0]
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE)
    assert len(named) >= 9
    for path, function in named:
        text = (ROOT / path).read_text(encoding="utf-8")
        assert f"def {function}(" in text if function else "def test_" in text, (path, function)
