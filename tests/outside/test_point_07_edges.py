"""Point 7: the default publishes no exact value of a numeric sensitive attribute."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.outside.conftest import Command


def test_no_manifest_shows_the_amount_of_a_case(veilstream: Command, tmp_path: Path) -> None:
    """201 cases, 1 modulo 4: each raw quartile would be the amount of one case."""
    lines = ["case:concept:name,concept:name,time:timestamp,case:amount"]
    amounts = [round(1000 + 7.31 * case, 2) for case in range(201)]
    for case, amount in enumerate(amounts):
        day, hour = divmod(case, 24)
        for minute, activity in ((10, "admit"), (20, "discharge")):
            lines.append(f"c{case},{activity},2024-01-{day + 1:02d}T{hour:02d}:{minute}:00Z,{amount}")
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    veilstream("replay", "log.csv", "--sensitive", "amount", "-o", "out", "--final")
    manifests = sorted((tmp_path / "out" / "public").rglob("manifest.json"))
    assert manifests, "nothing was released"
    shown = set()
    for manifest in manifests:
        document = json.loads(manifest.read_text(encoding="utf-8"))
        shown |= {float(number) for number in re.findall(r"\d+\.\d+", json.dumps(document))}
    assert shown.isdisjoint(amounts)
