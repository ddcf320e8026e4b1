"""kill -9 at every named boundary of series in which each case counts once, with accumulated logs: a crash counts no
case twice, draws no node twice, and charges nothing twice."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from connectors import read_log
from stream.ledger.sqlite import read_view
from stream.release.failpoints import BOUNDARIES
from stream.testing import verifier
from tests.replay.crashing import KILLED, run, sample

CONFIG = """
checkpoint_every = 60
[process]
name = "crash"
completion = { end_activities = ["d"] }
[[publication]]
name = "counted"
start = "1970-01-01T00:00:00Z"
window = { every = "1h", time = "wall" }
cases = "completed"
accumulate = "tree"
horizon = 64
mechanism = { kind = "dp-variants", epsilon = 60, delta_dp = 1e-3 }
audit = { risk = false, utility = false }
[[publication]]
name = "made"
start = "1970-01-01T00:00:00Z"
window = { every = "2h", time = "wall" }
cases = "completed"
accumulate = "sum"
[publication.mechanism]
kind = "dp-synthetic"
epsilon = 1
delta_dp = 1e-3
activities = ["a", "b", "c", "d"]
sample = 200
traces = 20
[publication.audit]
risk = false
utility = false
"""
"""`counted` has so little noise (none but for one draw in e^20) that true counts are seen."""


HOUR = 3_600_000_000_000


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the log, the configuration, and an undisturbed run."""
    folder = tmp_path_factory.mktemp("once")
    (folder / "config.toml").write_text(CONFIG)
    assert run(sample(folder, 60), folder / "config.toml", folder / "calm") == 0
    assert verifier.verify(folder / "calm") == []
    return folder


def traces(path: Path) -> Counter[tuple[str, ...]]:
    """Traces of a released file by their activities, read by a few lines of our own."""
    found: Counter[tuple[str, ...]] = Counter()
    for trace in gzip.decompress(path.read_bytes()).decode().split("<trace>")[1:]:
        events = trace.split("<event>")[1:]
        found[tuple(re.search(r'"concept:name" value="(\w)"', event)[1] for event in events)] += 1  # type: ignore[index]
    return found


def manifests(output: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted((output / "public" / name).glob("*/manifest.json"))]


def check(world: Path, output: Path) -> None:
    """The result equals the calm run: decisions, true counts, what was drawn and what was spent."""
    calm = world / "calm"
    assert verifier.verify(output) == []
    assert verifier.decisions(output) == verifier.decisions(calm)
    for name in ("counted", "made"):
        for one, other in zip(manifests(output, name), manifests(calm, name), strict=True):
            assert one["mechanism"]["accumulated"] == other["mechanism"]["accumulated"]
            assert one["budget"]["spent"] == other["budget"]["spent"]
        account = read_view(output / "operator" / "ledger.sqlite", "crash").account(name)
        assert float(account.spending.summed.epsilon) == {"counted": 60, "made": 1}[name]
    for path in sorted((calm / "public" / "counted").glob("*/*.xes.gz")):
        assert traces(output / path.relative_to(calm)) == traces(path), path


def test_the_calm_run_counts_each_case_once(world: Path) -> None:
    """The last accumulated log holds the cases that ended before its window did, by variants above the threshold: each
    once, by a count of our own."""
    log = read_log(world / "log.xes")
    ends = log.time[log.starts[1:] - 1]
    closed = int(log.time.max()) // HOUR * HOUR
    expected = Counter(tuple(map(str, trace)) for trace, end in zip(log.traces(), ends, strict=True) if end < closed)
    folder = sorted((world / "calm" / "public" / "counted").iterdir())[-1]
    least = manifests(world / "calm", "counted")[-1]["mechanism"]["accumulated"]["threshold"]
    assert traces(folder / "accumulated.xes.gz") == {v: n for v, n in expected.items() if n >= least}


@pytest.mark.parametrize("boundary", [*BOUNDARIES, "checkpointed"])
def test_kill_at_a_boundary(world: Path, tmp_path: Path, boundary: str) -> None:
    """A death right after each durable step, in the middle of a node: the run continues as if nothing had been."""
    output = tmp_path / "out"
    assert (
        run(world / "log.xes", world / "config.toml", output, at=boundary, nth=2 if boundary == "checkpointed" else 4)
        == KILLED
    )
    before = verifier.digests(output)
    assert run(world / "log.xes", world / "config.toml", output) == 0
    check(world, output)
    after = verifier.digests(output)
    assert all(after[key] == files for key, files in before.items())
