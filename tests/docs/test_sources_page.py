"""docs/sources.md names every reason. Its configurations are checked in test_snippets.py."""

from __future__ import annotations

from connectors.kafka.events import LEFT_OUT, POISONS
from stream.config.lint import notes
from stream.config.settings import Settings
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "sources.md").read_text(encoding="utf-8")


def test_every_reason_is_explained() -> None:
    """Every reason in the dlq or in the metric is on the page."""
    table = PAGE[PAGE.index("## Reasons in the dlq") :]
    assert [reason for reason in POISONS if f"`{reason}`" not in table] == []
    known = {"tombstone", "snapshot", "no_mapping", "unchanged", "lifecycle"}
    assert set(LEFT_OUT) == known
    assert "are left out and counted" in PAGE


def test_values_in_activities_are_listed() -> None:
    """check-config says which values of records become released activities."""
    mapping = {"activity": "{table} to {after.status}, {value}", "case": "row.id", "column": "status"}
    source = {"topics": ["t"], "format": "debezium", "mapping": [mapping]}
    found = [note for note in notes(Settings.model_validate({"source": source})) if "source.mapping 1" in note]
    assert len(found) == 1
    assert "the value of after.status, value: it appears in releases" in found[0]
