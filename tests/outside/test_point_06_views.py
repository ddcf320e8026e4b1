"""Point 6: a view without an end in an OCEL file of SQLite is not run."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.outside.conftest import Command

LOG = {
    "objectTypes": [{"name": "order", "attributes": []}],
    "eventTypes": [{"name": "place", "attributes": []}],
    "objects": [{"id": "o1", "type": "order", "attributes": []}],
    "events": [
        {
            "id": "e1",
            "type": "place",
            "time": "2024-01-01T00:00:00Z",
            "attributes": [],
            "relationships": [{"objectId": "o1", "qualifier": "of"}],
        }
    ],
}
ENDLESS = (
    "CREATE VIEW event AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) "
    "SELECT x AS ocel_id, x AS ocel_type FROM n WHERE x < 0"
)


@pytest.mark.filterwarnings("ignore")
def test_a_view_without_an_end_is_refused(veilstream: Command, tmp_path: Path) -> None:
    """The limit is generous: without the fix the command never ends."""
    import pm4py

    (tmp_path / "log.json").write_text(json.dumps(LOG), encoding="utf-8")
    path = tmp_path / "log.sqlite"
    pm4py.write_ocel2_sqlite(pm4py.read_ocel2_json(str(tmp_path / "log.json")), str(path))
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("ALTER TABLE event RENAME TO old_event")
        database.execute(ENDLESS)
    outcome = veilstream("inspect", str(path), "--object-type", "order", timeout=60)
    assert outcome.returncode == 2
    assert "event" in outcome.stdout + outcome.stderr
