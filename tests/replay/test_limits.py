"""Too little memory, file descriptors or disk, and a umask of 0: real limits of the system, nothing replaced.

If a resource is short, a run ends with one line or continues. Visible releases are complete, and with enough of the
resource the run completes.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import stat
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

from stream.testing import verifier
from tests.conftest import ROOT, missing

CONFIG = """
min_free_bytes = 0
checkpoint_every = 500
[process]
name = "limits"
sensitive = ["ill"]
[[publication]]
name = "plain"
formats = ["xes", "csv", "parquet"]
window = {{ new_cases = {window} }}
mechanism = {{ kind = "identity" }}
"""


def world(folder: Path, cases: int, window: int) -> Path:
    """A log of `cases` cases, and a publication that cuts every `window` of them."""
    rows = ["case:concept:name,concept:name,time:timestamp,case:ill"]
    for case in range(cases):
        day, second = 1 + case * 28 // cases, case % 50
        rows += [f"c{case},{activity},2025-01-{day:02d}T0{step}:00:{second:02d}Z,{'xy'[case % 2]}"
                 for step, activity in enumerate("abc"[: 2 + case % 2])]  # fmt: skip
    (folder / "log.csv").write_text("\n".join(rows) + "\n")
    (folder / "c.toml").write_text(CONFIG.format(window=window))
    return folder


def command(folder: Path, **limits: Any) -> subprocess.CompletedProcess[str]:
    """The replay by the command line."""
    arguments = ["replay", str(folder / "log.csv"), "-c", str(folder / "c.toml"), "-o", str(folder / "out")]
    return subprocess.run(
        [sys.executable, "-m", "stream.commands", *arguments], cwd=ROOT, capture_output=True, text=True, **limits
    )


def one_line(said: str) -> bool:
    return len(said.strip().splitlines()) == 1 and said.startswith("veilstream: ")


def test_a_umask_of_0_leaves_nothing_that_everybody_can_write(tmp_path: Path) -> None:
    """Containers and old service managers start processes so; the operator's folder is closed to others anyway."""
    assert command(world(tmp_path, 60, 20), umask=0).returncode == 0
    everything = [tmp_path / "out", *(tmp_path / "out").rglob("*")]
    assert len(everything) > 20
    assert [path for path in everything if path.stat().st_mode & stat.S_IWOTH] == []
    assert stat.S_IMODE((tmp_path / "out" / "operator").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "out" / "operator" / "key").stat().st_mode) == 0o600


def test_too_few_file_descriptors_are_one_line(tmp_path: Path) -> None:
    """From too few to read the key to enough for everything: exit 1 and nothing partial, or done."""
    world(tmp_path, 60, 20)
    codes = []
    for most in (5, 6, 7, 256):
        done = command(tmp_path, preexec_fn=partial(resource.setrlimit, resource.RLIMIT_NOFILE, (most, most)))
        codes.append(done.returncode)
        assert done.returncode == 0 or one_line(done.stderr), done.stderr
        if list((tmp_path / "out").glob("public/*/release-*")):
            assert verifier.verify(tmp_path / "out", finished=done.returncode == 0) == []
    assert set(codes) == {0, 1}
    assert codes[-1] == 0
    assert len(list((tmp_path / "out").glob("public/plain/release-*"))) == 3


def attempts(*program: str) -> list[dict[str, Any]]:
    """Return the results of the attempts of `short_of`."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(program, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def check(found: list[dict[str, Any]], releases: int) -> None:
    """The first ended with 1 and the last is complete; no number that was visible is gone or changed behind one."""
    assert found[0]["code"] == 1
    assert [one for one in found if one["code"] not in (0, 1, 4)] == []
    assert [one["said"] for one in found if one["code"] and not one_line(one["said"])] == []
    assert [one["wrong"] for one in found if one["wrong"]] == []
    seen: set[str] = set()
    for one in found:
        assert seen <= set(one["visible"])
        seen = set(one["visible"])
    assert (found[-1]["code"], len(seen)) == (0, releases)


def test_too_little_memory_is_one_line(tmp_path: Path) -> None:
    """A limit of the address space; a limit of the container kills instead, which other tests do by kill -9."""
    found = attempts(sys.executable, "-m", "tests.replay.short_of", "memory", str(world(tmp_path, 12_000, 3_000)))
    assert any("out of memory" in one["said"] for one in found)
    check(found, 4)


def test_a_disk_that_is_really_full_publishes_nothing_partial(tmp_path: Path) -> None:
    """Without any reserve (`min_free_bytes = 0`), on a file system of some kilobytes that grows between the runs."""
    if shutil.which("unshare") is None:
        missing("mount", "unshare is not installed")
    inner = ("unshare", "--user", "--map-root-user", "--mount")
    if subprocess.run([*inner, "mount", "-t", "tmpfs", "tmpfs", str(tmp_path)], capture_output=True).returncode:
        missing("mount", "this user may not mount a file system of their own")
    program = (*inner, sys.executable, "-m", "tests.replay.short_of", "disk", str(world(tmp_path, 60, 20)))
    found = attempts(*program)
    assert any("No space left" in one["said"] or "disk is full" in one["said"] for one in found)
    assert len({len(one["visible"]) for one in found}) > 2
    check(found, 3)
