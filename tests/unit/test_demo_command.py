"""`veilstream demo`: what it waits for at its end."""

from __future__ import annotations

import subprocess
import sys

import pytest

from stream.commands import demo


def test_a_compiling_process_without_time_is_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a busy computer a process of the lowest priority may never end; the demo must."""
    monkeypatch.setattr(demo, "COMPILE_SECONDS", 0.01)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as never_ends:
        demo._wait_for(never_ends)
        assert never_ends.poll() is None
        never_ends.kill()
    assert "your first replay compiles the rest" in capsys.readouterr().out


def test_a_process_that_has_compiled_is_not_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is printed then."""
    with subprocess.Popen([sys.executable, "-c", ""]) as done:
        done.wait()
        demo._wait_for(done)
    assert capsys.readouterr().out == ""
