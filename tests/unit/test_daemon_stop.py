"""SIGTERM before a role has begun, and where memory is short."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from models.errors import InputError
from stream.daemon.faust_app import LateEnd
from tests.conftest import ROOT

SCRIPT = """
import os, signal
from stream.daemon import roles
signal.signal(signal.SIGTERM, roles._quit)
try:
    os.kill(os.getpid(), signal.SIGTERM)
    signal.sigtimedwait([], 5)
except BaseException:
    pass  # what the event loop of the broker's client does
print("runs on")
"""


def test_a_stop_while_the_broker_is_asked_is_not_lost() -> None:
    """The client's loop keeps every exception, SystemExit too: the process ran on, until somebody killed it."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


WITHOUT_THREADS = """
import asyncio, functools, os, signal, socket, threading
import faust
from stream.daemon import faust_app

silent = socket.create_server(("127.0.0.1", 0))  # what comes up for a broker and never answers
loop = asyncio.new_event_loop()
asyncio.set_event_loop(loop)
app = faust.App("short", broker=f"kafka://127.0.0.1:{silent.getsockname()[1]}", web_enabled=False, loop=loop)
faust_app.LateEnd = functools.partial(faust_app.LateEnd, 1.0)

def refused(self):
    raise RuntimeError("can't start new thread")

def asked():
    threading.Thread.start = refused
    os.kill(os.getpid(), signal.SIGTERM)

loop.call_later(2, asked)
faust_app.run(app)
"""


def test_a_stop_is_not_lost_where_no_thread_can_be_started(tmp_path: Path) -> None:
    """Found by `make chaos`: the end of a stop that takes too long was a thread of that moment; under a limit of memory
    it could not start, SIGTERM ended there, and the process ran on forever."""
    command, env = [sys.executable, "-c", WITHOUT_THREADS], os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]


STOPPED_TWICE = """
import asyncio, os, signal
import faust
from stream.daemon import faust_app

loop = asyncio.new_event_loop()
asyncio.set_event_loop(loop)
app = faust.App("twice", broker="kafka://127.0.0.1:1", web_enabled=False, loop=loop)

async def nothing():
    pass

app.start = app.stop = nothing  # no broker is needed

def finish_the_build(reason):
    for number in (signal.SIGTERM, signal.SIGINT):
        os.kill(os.getpid(), number)
    print("the build is done")

loop.call_later(2, os.kill, os.getpid(), signal.SIGTERM)
faust_app.run(app, on_stop=finish_the_build)
"""


def test_a_second_stop_does_not_cut_off_a_build(tmp_path: Path) -> None:
    """`run --role all` sends one when the other role has ended. The closed event loop had restored the default of
    the signal: the process was gone without a line, and a cut whose build is killed twice is withheld."""
    command, env = [sys.executable, "-c", STOPPED_TWICE], os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=900)
    assert (done.returncode, done.stdout) == (0, "the build is done\n"), done.stderr[-2000:]


KILLED_ROLE = """
import sys
from pathlib import Path
from stream.daemon import roles

sys.executable = str(Path("program").absolute())
sys.exit(roles.run_all(Path("c.toml"), Path("out")))
"""


def test_a_role_that_the_kernel_ended_is_named(tmp_path: Path) -> None:
    """A container whose coordinator was killed for memory ended with 1 and without a line."""
    (tmp_path / "c.toml").write_text(
        '[process]\nname = "p"\n[source]\ntopics = ["t"]\nbootstrap = "127.0.0.1:1"\n'
        '[[publication]]\nname = "x"\nwindow = { new_cases = 5 }\nmechanism = { kind = "tlkc-cohorts" }\n'
    )
    program = tmp_path / "program"
    program.write_text('#!/bin/sh\ncase "$*" in *coordinator) kill -9 $$ ;; *) exec sleep 600 ;; esac\n')
    program.chmod(0o755)
    command, env = [sys.executable, "-c", KILLED_ROLE], os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 1, done.stderr[-2000:]
    assert "SIGKILL ended its coordinator role: the kernel does so when memory is short" in done.stderr


@pytest.mark.parametrize(("why", "code"), [(None, 0), (InputError("no such topic"), 2), (OSError("disk"), 0)])
def test_a_stop_that_takes_too_long_is_ended_with_its_reason(
    why: Exception | None, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    ended: list[int] = []
    over = threading.Event()
    late = LateEnd(0.01, end=lambda code: (ended.append(code), over.set()))
    assert not over.wait(0.1), "nobody asked"
    late.ask(0, why=lambda: why)
    late.ask(7)
    assert over.wait(60)
    assert ended == [code]
    said = " ".join(caplog.messages)
    assert "took too long" in said
    assert ("no such topic" in said) == isinstance(why, InputError)
    assert "disk" not in said, "a foreign error may quote content"
