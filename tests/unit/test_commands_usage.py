"""Bad usage is one line on stderr and exit code 2; help is light."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from stream.commands import _overview, build_app, build_overview, execute, limit_blas_threads
from tests.conftest import ROOT


@pytest.mark.parametrize(
    "arguments",
    [["nosuch"], ["replay"], ["replay", "none.xes"], ["replay", "log.txt"], ["replay", "--speed", "0", "x.xes"]],
)
def test_bad_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing on stdout, one line that begins with the program's name."""
    assert execute(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("veilstream: ")
    assert len(captured.err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "usage"),
    [
        (["check-config", "-c", "veilstream.toml"], "veilstream check-config [OPTIONS] {file}"),
        (["status", "out"], "veilstream status [OPTIONS]"),
        (["approve"], "veilstream approve [OPTIONS] {PUBLICATION} {N}"),
        (["dlq", "show"], "veilstream dlq [OPTIONS] COMMAND [ARGS]..."),
    ],
)
def test_words_that_do_not_fit_a_command_get_its_usage(
    arguments: list[str], usage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Some commands take a folder as an argument and others as an option: a person who mixes them up sees which."""
    assert execute(arguments) == 2
    assert capsys.readouterr().err.endswith(f" (usage: {usage}; more with --help)\n")


def test_a_path_with_brackets_is_shown_as_it_is(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    """Tables for people know no markup: `[ward]` is part of a name."""
    assert execute(["key", "create", str(tmp_path / "[ward]key")]) == 0
    assert "[ward]key: key " in capsys.readouterr().out.replace("\n", "")


def test_a_pipe_gets_whole_cells(tmp_path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """No time, publication or reason is cut if there is no terminal; a width that is asked for is kept."""
    monkeypatch.delenv("COLUMNS", raising=False)
    rows = "".join(f"c{i},a,2025-01-01T00:0{i}:00Z\n" for i in range(4))
    (tmp_path / "log.csv").write_text("case,act,time\n" + rows)
    columns = ["--columns", "case=case,activity=act,time=time"]
    assert execute(["replay", str(tmp_path / "log.csv"), *columns, "-o", str(tmp_path / "out"), "--final"]) == 3
    printed = capsys.readouterr().out
    assert "2025-01-01T00:03" in printed
    assert "…" not in printed
    monkeypatch.setenv("COLUMNS", "50")
    assert execute(["releases", str(tmp_path / "out")]) == 3
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 50


def test_a_textfile_that_cannot_be_left_is_said_before_the_work(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is replayed for a file that nobody would get."""
    sample = ROOT / "examples" / "hospital.xes.gz"
    target = tmp_path / "nowhere" / "veilstream.prom"
    assert execute(["replay", str(sample), "-o", str(tmp_path / "out"), "--metrics-textfile", str(target)]) == 2
    assert "its folder does not exist" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_help_imports_nothing_heavy() -> None:
    """pm4py, numba, opendp, scipy, pandas and matplotlib are imported only where they are used."""
    program = (
        "import sys; from stream.commands import execute; execute(['--help']);"
        "heavy = {'pm4py', 'numba', 'opendp', 'scipy', 'pandas', 'matplotlib', 'faust'} & set(sys.modules);"
        "sys.exit(f'imported: {sorted(heavy)}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


CONFIGURATION = """
[process]
name = "clinic"

[[publication]]
name = "counts"
start = "2025-01-01T00:00:00Z"
window = { every = "14d", time = "event" }
mechanism = { kind = "dp-variants", epsilon = 0.5, delta_dp = 1e-6 }
gate = { max_epsilon = 2.0 }
"""


def test_commands_on_releases_start_without_the_compiler(tmp_path: Path) -> None:
    """numba and scipy would double what a list of releases takes. Budgets and audits are read without both."""
    lines = ["case,act,time"]
    for case in range(80):
        day = f"2025-01-{case % 28 + 1:02d}"
        lines += [f"c{case},arrive,{day}T08:00:00Z", f"c{case},leave,{day}T09:00:00Z"]
    log, configuration, out = tmp_path / "log.csv", tmp_path / "clinic.toml", tmp_path / "out"
    log.write_text("\n".join(lines))
    configuration.write_text(CONFIGURATION)
    form = ["--columns", "case=case,activity=act,time=time", "--encoding", "utf-8", "--separator", "comma"]
    form += ["--time-format", "iso"]
    words = ["replay", str(log), "-c", str(configuration), *form, "-o", str(out), "--final"]
    assert execute(words) == 0
    heavy = {"pm4py", "numba", "opendp", "scipy", "matplotlib", "faust"}
    for words, unused in (
        (["releases", str(out)], heavy),
        (["verify", str(out)], heavy | {"pydantic"}),  # it reads no configuration
        (["report", str(out), "-o", str(tmp_path / "report.html")], heavy),
    ):
        program = (
            f"import sys; from stream.commands import execute; code = execute({words!r});"
            f"imported = sorted({unused!r} & set(sys.modules));"
            "sys.exit(f'exit code {code}, imported: {imported}' if code or imported else 0)"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        (["--mechanism", "dp-variants", "--epsilon", "1"], "--mechanism dp-variants needs --delta-dp"),
        (["--mechanism", "dp-synthetic"], "--mechanism dp-synthetic needs --epsilon"),
        (["--mechanism", "baseline-1"], "--mechanism baseline-1 needs --K"),
    ],
)
def test_an_option_that_is_missing_is_named(
    given: list[str], asked: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """By its name on the command line, in words of ours: `Field required` did not name the words to type."""
    log = str(ROOT / "examples" / "hospital.xes.gz")
    assert execute(["anonymize", log, "-o", str(tmp_path / "out.csv"), *given]) == 2
    said = capfd.readouterr().err
    assert asked in said
    assert "Field required" not in said


def test_without_a_command_each_reader_finds_a_first_one(capsys: pytest.CaptureFixture[str]) -> None:
    """Five commands for analyst, operator and officer, on stderr, with the exit code of bad usage."""
    assert execute([]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    named = re.findall(r"^ .*veilstream ([a-z-]+)", captured.err, re.MULTILINE)
    assert named == ["demo", "inspect", "replay", "run", "report"]
    assert set(named) <= set(_overview.command_modules())


def test_the_overview_says_what_the_commands_say_themselves() -> None:
    """`--help` reads the files of the commands and imports none: names, first lines and panels are the same."""
    full = get_command(build_app())
    quick = get_command(build_overview())
    assert set(full.commands) == set(quick.commands)  # type: ignore[attr-defined]
    for name, command in full.commands.items():  # type: ignore[attr-defined]
        other = quick.commands[name]  # type: ignore[attr-defined]
        assert (command.help or "").split("\n\n")[0].strip() == (other.help or "").strip(), name
        assert command.rich_help_panel == other.rich_help_panel, name


def test_a_terminal_shows_at_once_what_a_command_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """On stderr, before libraries are loaded; not with --json or --help, and never to a pipe."""
    terminal = io.StringIO()
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    for words, announced in (
        (["verify", "nowhere"], True),
        (["verify", "nowhere", "--json"], False),
    ):
        monkeypatch.setattr(sys, "stderr", terminal)
        terminal.truncate(0)
        execute(words)
        monkeypatch.undo()
        assert ("veilstream verify: Check releases" in terminal.getvalue()) == announced


def test_linear_algebra_has_one_thread_unless_it_is_asked_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number is set before SciPy is loaded, which reads it."""
    code = "import stream.commands, sys; print('scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    limit_blas_threads()
    assert os.environ["OPENBLAS_NUM_THREADS"] == "1"
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "3")
    limit_blas_threads()
    assert os.environ["OPENBLAS_NUM_THREADS"] == "3"
