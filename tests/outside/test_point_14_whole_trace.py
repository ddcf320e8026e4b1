"""Point 14: the pages say what somebody who knows the whole trace of a person can find out."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.outside.conftest import Command

CONFIGURATION = """\
[process]
name = "ward"
[process.completion]
log_end = true
[[publication]]
name = "p"
window = { new_cases = 60 }
mechanism = { kind = "tlkc", K = 20, L = 2, C = 1, suppression = "local" }
audit = { bk_length = 1, risk = false, utility = false }
"""


def test_the_statement_for_recipients_gives_the_figure(
    veilstream: Command, table: Callable[[int], Path], tmp_path: Path
) -> None:
    """A data manager reads under "what is not promised" how well such a guess works."""
    (tmp_path / "v.toml").write_text(CONFIGURATION, encoding="utf-8")
    replayed = veilstream("replay", str(table(60)), "-c", "v.toml", "-o", "out", "--final")
    assert list((tmp_path / "out" / "public" / "p").glob("release-*")), replayed.stderr
    page = veilstream("statement", "out").stdout.partition("Not promised")[2]
    assert re.search(r"whole trace.*AUC", page), "the statement does not cover somebody who knows a whole trace"


def test_advise_gives_the_figure_of_the_default(veilstream: Command, table: Callable[[int], Path]) -> None:
    """Somebody who chooses a mechanism compares it: guessing is .5."""
    outcome = veilstream("advise", str(table(60)), "--json")
    assert outcome.returncode in (0, 3), outcome.stderr
    candidates: list[dict[str, Any]] = json.loads(outcome.stdout)["candidates"]
    figures = [row.get("whole_trace_auc") for row in candidates if row["name"] == "cohorts-local-20"]
    assert figures, candidates
    assert figures[0] is not None, "advise does not cover somebody who knows a whole trace"
