"""Log of the daemon about errors of libraries: a refusal is its own single line, a crash keeps its stack."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.conftest import ROOT

PROGRAM = """
import logging, sys
from aiokafka.errors import GroupCoordinatorNotAvailableError
from models.errors import RefusedError
from stream.daemon import logs
from stream.daemon.roles import ending

logs.configure()
faust, client = logging.getLogger("faust.worker"), logging.getLogger("aiokafka.consumer.group_coordinator")

def work():
    client.error("Group Coordinator Request failed: %s", GroupCoordinatorNotAvailableError())
    reason = {"refusal": RefusedError("delta offset 0"), "crash": KeyError("x")}[sys.argv[1]]
    try:
        raise reason
    except Exception:
        faust.exception("Crashed reason=%r", reason)
    faust.error("Error while stopping child")
    raise reason

sys.exit(ending(work))
"""


@pytest.mark.parametrize(("why", "code", "errors"), [("refusal", 4, 1), ("crash", 1, 3)])
def test_a_refusal_is_one_line_and_a_crash_is_told_whole(why: str, code: int, errors: int) -> None:
    """A request that the client repeats is a warning in both."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, why], cwd=ROOT, capture_output=True, text=True, check=False)
    records = [json.loads(line) for line in done.stderr.splitlines()]
    assert done.returncode == code
    assert [one["level"] for one in records] == ["warning"] + ["error"] * errors
    assert any("exception" in one for one in records) == (why == "crash")
