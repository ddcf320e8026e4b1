"""The table of metrics: its lint, and the page made from it."""

from __future__ import annotations

import re

import pytest

from stream.run.metric_table import DEFINITIONS, LABELS, PREFIX, Definition, page
from tests.conftest import ROOT

NEVER = {"case", "case_id", "activity", "release", "sequence", "resource"}


def test_page_is_current() -> None:
    """docs/metrics.md is what the table says."""
    assert (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8") == page()


@pytest.mark.parametrize("name", ["rules/veilstream.yml", "rules_test.yml", "rules_test_days.yml"])
def test_rules_and_their_tests_name_metrics_that_exist(name: str) -> None:
    """A rule and its unit test could share a misspelt name and agree with each other."""
    text = (ROOT / "deploy" / "prometheus" / name).read_text(encoding="utf-8")
    asked = set(re.findall(r"veilstream_\w+", text))
    assert len(asked) > (5 if "days" in name else 12)
    assert asked <= {one.name for one in DEFINITIONS}


def test_names_are_unique() -> None:
    """No metric appears twice."""
    names = [one.name for one in DEFINITIONS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("one", DEFINITIONS, ids=lambda one: one.name)
def test_metric_keeps_the_rules(one: Definition) -> None:
    """Prefix, base unit at the end, `_total` exactly on counters, bounded labels, a help text that is a sentence."""
    assert one.name.startswith(PREFIX)
    assert one.name.endswith("_total") == (one.kind == "counter")
    assert not one.unit or one.name.removesuffix("_total").endswith(f"_{one.unit}") or one.kind == "counter"
    assert one.unit not in {"milliseconds", "minutes", "percent", "kilobytes"}
    assert one.labels[0] == "process"
    assert set(one.labels) <= set(LABELS)
    assert not set(one.labels) & NEVER
    assert one.help.endswith(".")
    assert len(one.help) > 15
