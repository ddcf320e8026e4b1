"""Processes that are forked from one that has imported the program behave as processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from tempfile import TemporaryFile

import pytest

from tests import preloaded
from tests.kafka.site import PATIENCE


def printed(module: str, *words: str, stdin: str = "", expect: int = 0, **environment: str) -> str:
    """Return what a module printed, and the errors after it."""
    with TemporaryFile() as given, TemporaryFile() as output, TemporaryFile() as errors:
        given.write(stdin.encode())
        given.seek(0)
        process = preloaded.start(module, words, environment, given, output, errors)
        assert process.wait(PATIENCE) == process.poll() == process.returncode == expect
        texts = []
        for file in (output, errors):
            file.seek(0)
            texts.append(file.read().decode())
    return "".join(texts)


def test_streams_exit_code_and_environment_are_those_of_the_process() -> None:
    """A command that ends well, one that fails, and variables that the server has and the process has not."""
    assert printed("json.tool", "--compact", stdin='{"a":\n1}') == '{"a":1}\n'
    assert "no such file" in printed("stream.commands", "check-config", "missing.toml", expect=2).lower()
    assert "HOME" in os.environ
    program = "import os; print(sorted(os.environ), len(os.listdir('/proc/self/fd')))\n"
    # Standard input, output and errors, and the folder that is listed.
    assert "['NAME'] 4" in printed("code", "-q", stdin=program, NAME="value")


def test_two_processes_in_turn_have_other_hashes() -> None:
    """What depends on the order of a set differs between them, as between two starts of the daemon."""
    first, second, third = (printed("code", "-q", stdin="print(hash('veilstream'))\n") for _ in range(3))
    assert first != second
    assert first == third


def test_a_process_has_loaded_the_kernels_of_a_release() -> None:
    """It would load them from numba's cache otherwise, which takes longer than a small replay."""
    program = "from models.attacks.search import walk\nprint('loaded', len(walk.signatures))\n"
    assert "loaded 1" in printed("code", "-q", stdin=program)


def test_a_process_can_be_stopped_and_its_end_is_seen_once() -> None:
    """By SIGTERM and SIGKILL, as `subprocess` reports it; a signal to a process that has ended does nothing."""
    with open(os.devnull, "r+b") as nothing:
        for stop, number in (("terminate", signal.SIGTERM), ("kill", signal.SIGKILL)):
            process = preloaded.start("http.server", ["0"], {}, nothing, nothing, nothing)
            assert process.poll() is None
            assert Path(f"/proc/{process.pid}").exists()
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.1)
            getattr(process, stop)()
            assert process.wait(PATIENCE) == -number
            assert not Path(f"/proc/{process.pid}").exists()
            process.kill()
            assert process.wait() == -number
