"""Freed memory goes back to the system: the size of a process after its columns are gone."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT

PROGRAM = """
import os, sys
import numpy as np
if sys.argv[1] == "yes":
    from stream.values.memory import give_back
    give_back()

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20

np.ones(3_000_000).sum()  # a large block that is freed: by itself the library calls less than that small from now on
before = resident()
held = [np.ones(250_000) for _ in range(100)]  # 200 MB in blocks of 2 MB
del held[:-1]  # the last one has the highest address
print(resident() - before, os.environ.get("ARROW_DEFAULT_MEMORY_POOL"))
"""


def grown(called: str) -> tuple[int, str]:
    """MB by which a process stays larger after it freed 200 of them, and its choice of Arrow's allocator."""
    own = ("MALLOC_", "ARROW_", "GLIBC_TUNABLES", "LD_PRELOAD")  # somebody's own choice of an allocator
    environment = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, called], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True,
        check=True, timeout=300,
    )  # fmt: skip
    megabytes, pool = done.stdout.split()
    return int(megabytes), pool


GLIBC = pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "gnu_get_libc_version"), reason="no glibc")


@GLIBC
def test_freed_columns_leave_the_process() -> None:
    megabytes, pool = grown("yes")
    assert pool == "system"
    assert megabytes < 20


@GLIBC
def test_the_measure_can_say_no() -> None:
    """Without the call they stay: else the test above would show nothing."""
    assert grown("no")[0] > 100
