"""The report in a real headless Chromium: light, dark, a tablet's and a phone's width, paper, and the keyboard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from stream.commands import execute
from tests.deploy.browsing import open_page

pytestmark = pytest.mark.chromium

READABLE = 9.0
"""CSS pixels below which a text in a plot counts as unreadable."""

FAULTY = """<!doctype html><html lang="en"><head><title>planted faults</title></head><body>
<p style="color:#bbb;background:#fff">hardly readable</p><div style="width:2000px">too wide</div>
<figure><svg role="img" aria-label="empty" viewBox="0 0 360 230"><text x="900" y="20">gone</text></svg></figure>
<img alt="" src="http://127.0.0.1:9/picture.png"><a href="#x" style="outline:none">unseen</a>
<a href="#y" tabindex="-1">never</a><script>console.error("planted")</script></body></html>"""


def faults(found: dict[str, dict[str, Any]]) -> list[str]:
    """Everything that a report must not show, one line each."""
    lines = []
    for look, seen in found.items():
        lines += [f"{look}: overflow of {seen['overflow']} px"] * (seen["overflow"] > 0)
        for kind in ("messages", "requests", "faults", "unmarked", "outside"):
            lines += [f"{look}: {kind}: {one}" for one in seen[kind]]
    return lines


def check(found: dict[str, dict[str, Any]], least_plots: int) -> None:
    """Clean in every appearance, with at least so many plots, all readable."""
    assert faults(found) == []
    for seen in found.values():
        assert seen["plots"] >= least_plots
        assert seen["unnamed"] == 0
        assert seen["smallest"] >= READABLE
    assert found["light"]["ground"] != found["dark"]["ground"]
    assert found["light"]["keys"]["stops"] > 20
    assert (found["light"]["keys"]["unreached"], found["light"]["keys"]["unseen"]) == (0, [])


def test_report_of_sepsis_is_clean(sepsis: Path, logs: Path, tmp_path: Path, pictures: Path | None) -> None:
    """No console error, request, overflow or fault of axe, and marks in every plot, with names and source graph."""
    page = tmp_path / "report.html"
    source = ["--source", str(logs / "sepsis.xes.gz")]
    assert execute(["report", str(sepsis), "-o", str(page), *source]) == 0
    check(open_page(page, pictures and pictures / "sepsis"), least_plots=10)


def test_report_of_the_sample_is_clean(hospital: Path, tmp_path: Path, pictures: Path | None) -> None:
    """The same for the bundled log, which has pairs of releases, cracks and a withheld attempt."""
    page = tmp_path / "report.html"
    assert execute(["report", str(hospital), "-o", str(page)]) == 0
    check(open_page(page, pictures and pictures / "hospital"), least_plots=12)


SCRIPT = '<script>console.error("ran")</script>'
IMAGE = '"><img src="http://127.0.0.1:9/label.png" onerror="console.error(1)">'
HOSTILE = """
[process]
name = "hostile"
sensitive = ["diagnosis"]
[[publication]]
name = "research"
window = { new_cases = 10 }
mechanism = { kind = "identity", attribute = "ar" }
audit = { bk_length = 1, n = [0] }
gate = { min_ka = 2, on_violation = "warn" }
"""


def test_labels_that_are_markup_stand_as_text(tmp_path: Path) -> None:
    """Activities, resources and sensitive values with tags in them: shown letter by letter, nothing runs or loads."""
    labels = (SCRIPT, IMAGE, "</svg></style><b>visit")
    times = [f"2025-01-{1 + case:02d}T0{step}:00:00Z" for case in range(20) for step in range(3)]
    rows = [
        {"case:concept:name": f"c{place // 3}", "concept:name": labels[place % 3], "time:timestamp": time}
        | {"org:resource": labels[place % 3], "case:diagnosis": SCRIPT if place // 3 % 3 else IMAGE}
        for place, time in enumerate(times)
    ]
    pd.DataFrame(rows).to_csv(tmp_path / "log.csv", index=False)
    (tmp_path / "c.toml").write_text(HOSTILE)
    output, page = tmp_path / "out", tmp_path / "report.html"
    assert execute(["replay", str(tmp_path / "log.csv"), "-c", str(tmp_path / "c.toml"), "-o", str(output)]) == 0
    source = ["--source", str(tmp_path / "log.csv")]
    assert execute(["report", str(output), "-o", str(page), *source]) == 0
    for seen in open_page(page).values():
        assert (seen["messages"], seen["requests"]) == ([], [])
        assert all(label in seen["text"] for label in (*labels, IMAGE))


def test_the_browser_test_sees_planted_faults(tmp_path: Path) -> None:
    """A page with one fault of each kind is reported for each of them: the check above can fail."""
    page = tmp_path / "faulty.html"
    page.write_text(FAULTY)
    found = open_page(page)
    seen = found["phone-light"]
    assert seen["overflow"] > 0
    assert any("planted" in message for message in seen["messages"])
    assert seen["requests"] == ["http://127.0.0.1:9/picture.png"]
    assert "color-contrast" in [fault["id"] for fault in seen["faults"]]
    assert seen["unmarked"] == ["empty"]
    assert seen["outside"] == ["empty: gone"]
    assert found["light"]["keys"]["unreached"] == 1
    assert "unseen" in found["light"]["keys"]["unseen"][0]
