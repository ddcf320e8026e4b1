"""The blocks of code on the pages: found in the text, and run in a folder with the files that the pages speak of."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile

from tests import preloaded
from tests.conftest import ROOT
from tests.docs.command_lines import PAGES
from tests.spark import java_options

LANGUAGES = ("sh", "python", "toml", "properties", "text")
"""`text` is output and pictures. `properties` is checked by test_daemon_page.py, the others by test_snippets.py."""

_BLOCK = re.compile(r"^( *)```([^\n`]*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Snippet:
    """A block of code. `line`: where it begins on its page, from 1; `page`: path in the checkout."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    def commands(self) -> list[str]:
        """The lines of a shell, without empty ones and comments; a line that continues is one."""
        lines = self.text.replace("\\\n", " ").splitlines()
        return [line.strip() for line in lines if line.strip() and not line.strip().startswith("#")]


def snippets(page: Path) -> list[Snippet]:
    """Every block of a page, in order."""
    text = page.read_text(encoding="utf-8")
    blocks = []
    for match in _BLOCK.finditer(text):
        indent, language, code = match.groups()
        line = text[: match.start()].count("\n") + 1
        blocks.append(Snippet(str(page.relative_to(ROOT)), line, language.strip(), _unindented(code, len(indent))))
    return blocks


def _unindented(text: str, width: int) -> str:
    return "".join(line[width:] if line[:width].isspace() else line for line in text.splitlines(keepends=True))


ALL = [snippet for page in PAGES for snippet in snippets(page)]

NOT_RUN = {
    r"make ": "a lane of its own; its target exists",
    r"(\.venv/bin/)?pytest ": "the tests themselves; its files exist",
    r"python -m tests\.mutants": "runs for hours (make mutants)",
    r"\. \.venv/bin/activate": "the program under test is on the path already",
    r"docker |xdg-open ": "needs Docker: tests/deploy/test_deploy_files.py checks the files",
    r"systemd-sysusers |systemctl |install -D |install --mode |python3 -m venv /opt|/opt/veilstream": "needs systemd",
    r"journalctl ": "needs systemd",
    r"kubectl |helm ": "needs Kubernetes: tests/deploy checks the chart",
    r"git commit |minisign |sha256sum ": "makes or checks a release: tests/deploy/test_release.py",
    r"ssh ": "needs another host",
    r"kafka-(console-consumer|consumer-groups)\.sh |curl ": "needs a running daemon and its broker",
    r"PYSPARK_SUBMIT_ARGS|spark-submit ": "needs a cluster: tests/unit and tests/replay run Spark in one process",
    r"veilstream (run|topics|publish|status|dlq) ": "needs a broker: tests/kafka walks the pages",
    r"veilstream serve ": "serves until it is stopped: tests/deploy/test_console_browser.py",
    r"veilstream (approve|reject) ": "needs a release that waits: tests/replay/test_approval.py",
    r"veilstream audit-epsilon --pipeline ": "takes minutes: tests/replay/test_pipeline_audit_bytes.py",
    r"veilstream verify DIR --store s3": "needs an object store: tests/unit/test_store_s3.py",
}
"""Lines that do not run here, by their beginning, with the reason. They are parsed: bash, command and options."""

SHORTER = (
    (r"--runs 1000000\b", "--runs 20000"),
    (r"--runs (1000|2000)\b", "--runs 20"),
)
"""Parts of commands of the pages, and their replacements, so that a walk takes seconds."""

PLACES = ((r"(?<![\w.])/var/lib/veilstream\b", "var/lib/veilstream"),)
"""Folders of a host, under the folder of the walk."""


def not_run(line: str) -> str | None:
    """Return why a line does not run here; None if it does."""
    return next((reason for start, reason in NOT_RUN.items() if re.match(start, line)), None)


def lacks_spark(snippet: Snippet) -> bool:
    """Return whether a block of Python needs Spark, which is not installed. VEILSTREAM_REQUIRE=spark runs it always."""
    if "pyspark" not in snippet.text or "spark" in os.environ.get("VEILSTREAM_REQUIRE", "").split(","):
        return False
    return find_spec("pyspark") is None or shutil.which("java") is None


def syntax_faults(snippet: Snippet) -> list[str]:
    """Return the errors of bash in the syntax of a block. Commands and options of its lines: `command_lines.faults`."""
    done = subprocess.run(["bash", "-n"], input=snippet.text, capture_output=True, text=True, check=False)
    return done.stderr.splitlines()


def walk(pages: Sequence[str], folder: Path) -> dict[str, str]:
    """Run the blocks of pages, in order, and return what each line printed; "python": what the Python blocks did.

    A line that several pages have is run once.

    Raises
    ------
    AssertionError
        A line ends with another code than 0.
    """
    printed: dict[str, str] = {}
    for page in pages:
        programs = []
        for snippet in snippets(ROOT / page):
            if snippet.language == "python" and not lacks_spark(snippet):
                programs.append(snippet.text)
            if snippet.language != "sh":
                continue
            for line in snippet.commands():
                if not_run(line) is None and line not in printed:
                    printed[line] = _run(line, folder, str(snippet))
        if programs and page not in SKETCHES:
            printed["python"] = _run_python("\n".join(programs), folder, page)
    return printed


SKETCHES = {"docs/architecture.md": "shows the shape of a class"}
"""Pages whose Python is compiled and not run."""


def _environment() -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("VEILSTREAM_")}
    return kept | {"PYTHONPATH": str(ROOT), "COLUMNS": "200", "PYTHONIOENCODING": "utf-8", "MPLBACKEND": "agg"}


WORDS = re.compile(r"veilstream( +[\w./:=,@+-]+)+")
"""A line that is the program and its words alone: no shell has to read it."""


def _run(line: str, folder: Path, where: str) -> str:
    for pattern, replacement in (*SHORTER, *PLACES):
        line = re.sub(pattern, replacement, line)
    code, stdout, stderr = _run_forked(line, folder) if WORDS.fullmatch(line) else _run_in_shell(line, folder)
    assert code == 0, f"{where}: {line}\nexit {code}\n{stderr[-2000:]}"
    return stdout + stderr


def _run_forked(line: str, folder: Path) -> tuple[int, str, str]:
    """Run a command of the program in a process that has imported it: imports are most of the time of a command."""
    with Path(os.devnull).open("rb") as nothing, TemporaryFile() as stdout, TemporaryFile() as stderr:
        words = shlex.split(line)[1:]
        process = preloaded.start("veilstream", words, _environment(), nothing, stdout, stderr, folder)
        code = process.wait()
        stdout.seek(0)
        stderr.seek(0)
        return code, stdout.read().decode(), stderr.read().decode()


def _run_in_shell(line: str, folder: Path) -> tuple[int, str, str]:
    program = f'veilstream() {{ {shlex.quote(sys.executable)} -m veilstream "$@"; }}'
    done = subprocess.run(
        ["bash", "-c", f"{program}\n{line}"],
        cwd=folder,
        env=_environment(),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def _run_python(text: str, folder: Path, where: str) -> str:
    """Run the Python blocks of a page; a JVM of Spark starts as in the tests of Spark, in a quarter of the CPU time."""
    environment = _environment()
    if "pyspark" in text:
        environment["PYSPARK_SUBMIT_ARGS"] = f"--driver-java-options {shlex.quote(java_options())} pyspark-shell"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", text],
        cwd=folder,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, f"{where}: the Python blocks\n{done.stderr[-2000:]}"
    return done.stdout


def make_world(folder: Path) -> None:
    """Make what the pages speak of: a log and its release, a configuration, folders of releases, a set of tables."""
    import numpy as np

    from connectors import read_log, write_log

    (folder / "examples").symlink_to(ROOT / "examples")
    shutil.copytree(ROOT / "deploy" / "prometheus", folder / "deploy" / "prometheus")
    replay = "veilstream replay examples/hospital.xes.gz -c examples/hospital.toml -o demo-out --final"
    _run(replay, folder, "the README")
    for name in ("DIR", "out", "var/lib/veilstream"):
        shutil.copytree(folder / "demo-out", folder / name)
    shutil.copy(ROOT / "examples" / "hospital.toml", folder / "veilstream.toml")
    weekly = snippets(ROOT / "docs" / "howto" / "publish-every-week.md")
    (folder / "weekly.toml").write_text(next(snippet.text for snippet in weekly if snippet.language == "toml"))

    log = read_log(ROOT / "examples" / "hospital.xes.gz")
    write_log(log.select_cases(np.arange(1500)), folder / "log.xes.gz")
    write_log(log.select_cases(np.arange(1500, log.n_cases)), folder / "later.xes.gz")
    released = folder / "out" / "public" / "research" / "release-000008" / "log.xes.gz"
    for name in ("release.xes.gz", "released.xes.gz"):
        shutil.copy(released, folder / name)

    table = log.to_dataframe()
    table["case:ward"] = table["case:concept:name"].map(lambda case: f"ward {int(case[1:]) % 3}")
    (folder / "events" / "year=2025").mkdir(parents=True)
    table.to_parquet(folder / "events" / "year=2025" / "part-1.parquet")
    write_log(log, folder / "log.parquet")
    for number in (8, 9):
        place = folder / f"release-{number - 7}"
        place.mkdir()
        copied = read_log(folder / "out" / "public" / "research" / f"release-{number:06d}" / "log.xes.gz")
        write_log(copied, place / "part-1.parquet")
