"""A process that was stopped ends when it is awake; one that is merely busy or idle continues."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from stream.daemon import health
from stream.daemon.health import TASKS
from tests.conftest import missing

WATCHED = """
import sys, time
from stream.daemon.health import ProgressCheck
check = ProgressCheck(60, asleep=float(sys.argv[1]) if sys.argv[1] else None)
check.watch()
print("watching", flush=True)
sys.stdin.readline()
check.stop()
"""


HOG = "while True: pass"


@pytest.mark.parametrize(
    ("asleep", "stopped", "code"),
    [
        ("2", 3.5, 1),
        pytest.param("2", 0.0, 0, marks=pytest.mark.slow),
        pytest.param("", 3.5, 0, marks=pytest.mark.slow),
    ],
)
def test_only_a_sleeper_ends(asleep: str, stopped: float, code: int) -> None:
    """SIGSTOP for longer than `asleep` ends it with 1 at SIGCONT; else it ends when it is stopped."""
    with _watched(asleep) as process:
        time.sleep(1.5)  # the watcher looks once a second
        if stopped:
            process.send_signal(signal.SIGSTOP)
            time.sleep(stopped)
            process.send_signal(signal.SIGCONT)
        if not code:
            time.sleep(1.5)
            process.communicate(b"end\n")
        assert process.wait() == code


@pytest.mark.slow
def test_a_starved_process_is_not_asleep() -> None:
    """It gets no CPU for longer than `asleep`, again and again: others on its CPU take nearly all of it."""
    if not (TASKS / str(os.getpid()) / "schedstat").exists():
        missing("schedstat", "this kernel does not count how long a thread waits for a CPU")
    cpu = {min(os.sched_getaffinity(0))}
    with _watched("2") as process:  # a second of it is the pause between two looks
        for thread in os.listdir(f"/proc/{process.pid}/task"):
            os.sched_setscheduler(int(thread), os.SCHED_IDLE, os.sched_param(0))
            os.sched_setaffinity(int(thread), cpu)
        hogs = [
            subprocess.Popen([sys.executable, "-c", HOG], preexec_fn=lambda: os.sched_setaffinity(0, cpu))
            for _ in range(6)
        ]
        try:
            time.sleep(12)
        finally:
            for hog in hogs:
                hog.kill()
                hog.wait()
        process.communicate(b"end\n")
        assert process.returncode == 0


@pytest.mark.parametrize("look", range(1, 7))
def test_a_cpu_that_is_lost_between_two_lines_is_no_sleep(look: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread waits five seconds for a CPU as it begins to read for how long it has waited, at any one look."""
    now, waits, reads, ended = [0.0], [0.0], [0], list[int]()

    def waited() -> dict[str, float]:
        reads[0] += 1
        if reads[0] == look:
            now[0] += 5
            waits[0] += 5
        return {"1": waits[0]}

    def pause(seconds: float) -> bool:
        now[0] += seconds
        return now[0] > 20

    check = health.ProgressCheck(60, end=ended.append, asleep=2)
    monkeypatch.setattr(health, "_waited", waited)
    monkeypatch.setattr(health.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(health.time, "process_time", lambda: 0.0)
    monkeypatch.setattr(check, "_done", SimpleNamespace(wait=pause))
    check.moved()
    check._watch()
    assert ended == []
    assert reads[0] > look


def _watched(asleep: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-c", WATCHED, asleep], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    return process
