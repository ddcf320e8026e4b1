"""kill -9 at every boundary of a held release and of a decision on one: nothing leaves that nobody approved."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from stream.ledger.entries import ApprovalEntry
from stream.operator.verify import verify as checked
from stream.testing import verifier
from tests.replay.approving import APPROVED_DP, PLAIN, configured, ledger, replayed, visible
from tests.replay.crashing import KILLED, dying, run, sample

HELD = (1, 2, 3, 4)
"""Numbers that the replay of the small log seals where each candidate takes the place of the one before."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log, its configuration, and an undisturbed run: the last release is held, those before it are superseded."""
    folder = tmp_path_factory.mktemp("approval")
    sample(folder)
    configured(folder, {**PLAIN, "hold": "supersede"}, APPROVED_DP)
    replayed(folder)
    assert verifier.verify(folder / "out") == []
    assert [word for cut, word in verifier.decisions(folder / "out").items() if cut.startswith("plain")] == [
        *("superseded" for _ in HELD[:-1]),
        "held",
    ]
    return folder


@pytest.fixture
def world(made: Path, tmp_path: Path) -> Path:
    """A copy of the folder before any decision."""
    shutil.copytree(made, tmp_path / "world")
    return tmp_path / "world"


def decide(world: Path, order: str, publication: str, number: int, **death: object) -> int:
    """Exit code of a decision in a process of its own."""
    config, output = str(world / "approval.toml"), str(world / "out")
    return dying("decide", config=config, output=output, order=order, publication=publication, number=number, **death)


@pytest.mark.parametrize(
    ("boundary", "nth"), [("files_written", 2), ("sealed", 2), ("held", 2), ("rejected", 1), ("dropped", 1)]
)
def test_a_replay_killed_around_a_held_release_goes_on_as_if_nothing_had_been(
    made: Path, tmp_path: Path, boundary: str, nth: int
) -> None:
    """Nothing is visible at any moment; the same cuts are held and superseded as in a calm run."""
    out, log, config = tmp_path / "out", made / "log.xes", made / "approval.toml"
    assert run(log, config, out, at=boundary, nth=nth) == KILLED
    assert verifier.verify(out, finished=False) == []
    assert list(out.glob("public/*/*")) == []
    assert run(log, config, out) == 0
    assert verifier.verify(out) == []
    assert verifier.decisions(out) == verifier.decisions(made / "out")
    assert checked(out).problems == []


@pytest.mark.parametrize(
    ("boundary", "publication"),
    [("approved", "plain"), ("moved", "private"), ("renamed", "plain"), ("published", "private")],
)
def test_an_approval_killed_at_a_boundary_is_finished_by_the_next_start(
    world: Path, boundary: str, publication: str
) -> None:
    """The decision is in the ledger, so it is carried out once: the bytes that were sealed, marked as published."""
    number = 4 if publication == "plain" else 1
    assert decide(world, "approve", publication, number, at=boundary) == KILLED
    assert verifier.verify(world / "out", finished=False) == []
    replayed(world)
    assert visible(world, publication) == [f"release-{number:06d}"]
    assert verifier.verify(world / "out") == []
    assert checked(world / "out").problems == []
    assert decide(world, "approve", publication, number) == 0  # the same order again changes nothing
    assert [one.body.decision for one in ledger(world) if isinstance(one, ApprovalEntry)][3:] == ["approved"]


@pytest.mark.parametrize("boundary", ["rejected", "dropped"])
def test_a_rejection_killed_at_a_boundary_leaves_nothing_to_publish(world: Path, boundary: str) -> None:
    """The bytes are deleted at the next start at the latest, and the charge of the number stays."""
    assert decide(world, "reject", "private", 1, at=boundary) == KILLED
    replayed(world)
    assert visible(world, "private") == []
    assert list((world / "out" / "operator" / "private" / "held").iterdir()) == []
    assert verifier.verify(world / "out") == []
    assert sum(one.kind == "charge" for one in ledger(world)) == 1
    assert checked(world / "out").publications[1].epsilon == 1.0


@pytest.mark.parametrize("operation", [1, 2, 4, 5])
def test_an_approval_killed_between_two_operations_on_the_disk(world: Path, operation: int) -> None:
    """Whatever the place of the crash, the release is held, or published as it was sealed."""
    code = decide(world, "approve", "plain", 4, operation=operation)
    assert verifier.verify(world / "out", finished=False) == []
    approved = any(isinstance(one, ApprovalEntry) and one.body.decision == "approved" for one in ledger(world))
    replayed(world)
    assert visible(world) == (["release-000004"] if approved else [])
    assert verifier.verify(world / "out") == []
    assert code in (0, KILLED)
