"""kill -9 at every named boundary and at random operations: cuts, contents and ledger are those of a calm run."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from stream.release.failpoints import BOUNDARIES
from stream.testing import verifier
from tests.replay.crashing import KILLED, configuration, run, sample


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the log, three configurations, and an undisturbed run of each."""
    folder = tmp_path_factory.mktemp("crash")
    log = sample(folder)
    for publications in (0, 1, 3):
        assert run(log, configuration(folder, publications), folder / f"calm{publications}") == 0
        assert verifier.verify(folder / f"calm{publications}") == []
    return folder


def check(world: Path, publications: int, output: Path, before: dict) -> None:
    """The run that was resumed in `output` equals the calm one; what was sealed before the crash has not changed."""
    assert verifier.verify(output) == []
    calm = world / f"calm{publications}"
    assert verifier.decisions(output) == verifier.decisions(calm)
    noisy = {cut for cut in verifier.decisions(calm) if cut.startswith("private/")}
    expected = {cut: bag for cut, bag in verifier.contents(calm).items() if cut not in noisy}
    assert {cut: bag for cut, bag in verifier.contents(output).items() if cut not in noisy} == expected
    after = verifier.digests(output)
    assert all(after[key] == files for key, files in before.items())


def crash_and_resume(world: Path, publications: int, output: Path, **death: object) -> bool:
    """Run to the planned death, look at the corpse, run again to the end. False where the death never came."""
    log, config = world / "log.xes", world / f"config{publications}.toml"
    code = run(log, config, output, **death)
    assert code in (0, KILLED)
    assert verifier.verify(output, finished=False) == []
    before = verifier.digests(output)
    assert run(log, config, output) == 0
    check(world, publications, output, before)
    return code == KILLED


@pytest.mark.parametrize("publications", [1, 3])
@pytest.mark.parametrize("boundary", [*BOUNDARIES, "checkpointed"])
def test_kill_at_a_boundary(world: Path, tmp_path: Path, boundary: str, publications: int) -> None:
    """A death right after each durable step leaves a folder from which the run continues as if nothing had been."""
    assert crash_and_resume(world, publications, tmp_path / "out", at=boundary, nth=2)


def test_kill_at_a_checkpoint_without_publications(world: Path, tmp_path: Path) -> None:
    """With nothing to publish only checkpoints are boundaries; a death there is as harmless."""
    assert crash_and_resume(world, 0, tmp_path / "out", at="checkpointed", nth=2)


def test_kill_after_a_withheld_attempt(world: Path, tmp_path: Path) -> None:
    """A withheld attempt is decided once; the crash does not offer it again."""
    assert crash_and_resume(world, 3, tmp_path / "out", at="withheld", nth=1)


@pytest.mark.parametrize("publications", [0, 1, 3])
def test_kill_at_random_operations(world: Path, tmp_path: Path, publications: int) -> None:
    """Twenty deaths (over the three configurations) between any two operations on the disk."""
    rng = random.Random(publications)
    deaths = {0: 2, 1: 8, 3: 10}[publications]
    last = {0: 12, 1: 60, 3: 200}[publications]
    killed = sum(
        crash_and_resume(world, publications, tmp_path / f"out{number}", operation=rng.randint(1, last))
        for number in range(deaths)
    )
    assert killed > 0
