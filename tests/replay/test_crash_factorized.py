"""kill -9 at every named boundary of a series of correlated noise: no draw that somebody may have seen is repeated."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from stream.ledger.folder import read_key
from stream.ledger.sqlite import read_view
from stream.release.audit_document import read_memory
from stream.release.failpoints import BOUNDARIES
from stream.release.sealed_memory import opened_memory
from stream.testing import verifier
from stream.values.pseudonym import Pseudonyms
from tests.replay.crashing import KILLED, run, sample

CONFIG = """
checkpoint_every = 60
[process]
name = "crash"
completion = { end_activities = ["d"] }
[[publication]]
name = "mixed"
start = "1970-01-01T00:00:00Z"
window = { every = "30m", time = "wall" }
cases = "completed"
accumulate = "factorized"
horizon = 8
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


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the log, the configuration, and an undisturbed run."""
    folder = tmp_path_factory.mktemp("factorized")
    (folder / "config.toml").write_text(CONFIG)
    assert run(sample(folder, 60), folder / "config.toml", folder / "calm") == 0
    return folder


def manifests(output: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted((output / "public" / "mixed").glob("*/manifest.json"))]


def check(calm: Path, output: Path) -> None:
    """Each release continues from the draws that the one before was sealed with. A draw that is repeated would leave
    the noise of a published release in the running sum, and nothing would take it back."""
    assert verifier.verify(output) == []
    assert verifier.decisions(output) == verifier.decisions(calm)
    for one, other in zip(manifests(output), manifests(calm), strict=True):
        assert one["mechanism"]["accumulated"] == other["mechanism"]["accumulated"]
    account = read_view(output / "operator" / "ledger.sqlite", "crash").account("mixed")
    assert account.spending.summed.epsilon == 1
    folders = sorted((output / "operator" / "mixed").iterdir())
    assert len(folders) >= 5
    key = Pseudonyms(read_key(output / "operator" / "key")).memory_key
    memories = [opened_memory(read_memory(folder), key)["cells"][0] for folder in folders]
    for number, memory in enumerate(memories, start=1):
        assert memory["numbers"] == list(range(1, number + 1))
        assert memory["sums"] == [sum(column) for column in zip(*memory["noisy"], strict=True)]
    for earlier, later in itertools.pairwise(memories):
        assert later["noisy"][:-1] == earlier["noisy"]
        assert later["true"][:-1] == earlier["true"]


def test_the_calm_run(world: Path) -> None:
    """Each release continues from the one before, and one charge pays for all."""
    check(world / "calm", world / "calm")


@pytest.mark.parametrize("boundary", [*BOUNDARIES, "checkpointed"])
def test_kill_at_a_boundary(world: Path, tmp_path: Path, boundary: str) -> None:
    """A death right after each durable step of release 4, or of a checkpoint."""
    output = tmp_path / "out"
    nth = 2 if boundary == "checkpointed" else 4
    assert run(world / "log.xes", world / "config.toml", output, at=boundary, nth=nth) == KILLED
    before = verifier.digests(output)
    assert run(world / "log.xes", world / "config.toml", output) == 0
    check(world / "calm", output)
    after = verifier.digests(output)
    assert all(after[key] == files for key, files in before.items())
