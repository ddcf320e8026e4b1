"""A program of somebody else is checked by mypy against the installed package."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.conftest import ROOT

PROGRAM = """\
from pathlib import Path

import veilstream as vs

log = vs.read_log("log.csv", timezone="Europe/Berlin")
release = vs.anonymize(log, sensitive=["diagnosis"], K=5, C="0.5", bins={"age": [40, 60]})
release.save(Path("release.xes.gz"))
reveal_type(release)
reveal_type(log["activity"].unique)
reveal_type(vs.replay(log).exit_code)
reveal_type(vs.attack(release, log, n=[0, 1]).to_dataframe())

vs.anonymize(log, K="five")
vs.risk(log, resolution="weeks")
vs.risk(log, projektion="E")
vs.anonymise(log)
release.write("release.xes.gz")
"""
REVEALED = {
    8: '"veilstream._results.Release"',
    9: "def (",
    10: '"int"',
    11: "DataFrame",
}
REFUSED = {13: "arg-type", 14: "arg-type", 15: "call-arg", 16: "attr-defined", 17: "attr-defined"}
"""Wrong lines of the program, and the kind of error."""


@pytest.mark.slow
def test_mypy_knows_the_types_and_finds_wrong_lines(tmp_path: Path) -> None:
    """As a package in site-packages, next to its libraries: the marker py.typed and the annotations are used."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "env"], check=True)
    (packages,) = (tmp_path / "env").glob("lib/python*/site-packages")
    for name in ("veilstream", "stream", "connectors", "models"):
        (packages / name).symlink_to(ROOT / name)
    (packages / "libraries.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--python-executable", tmp_path / "env" / "bin" / "python",
         "--cache-dir", tmp_path / "cache", program.name],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = {}
    revealed = {}
    for line in done.stdout.splitlines():
        if not line.startswith("program.py:"):
            continue
        _, number, kind, text = line.split(":", 3)
        if kind.strip() == "error":
            found[int(number)] = text.rsplit("[", 1)[-1].rstrip("]")
        elif "Revealed type" in text:
            revealed[int(number)] = text
    assert found == REFUSED, done.stdout + done.stderr
    assert revealed.keys() == REVEALED.keys()
    assert [number for number, words in REVEALED.items() if words not in revealed[number]] == []
