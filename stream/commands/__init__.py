"""The command line: one file a command, found by its name; thin, since the work is in other rooms.

A module of this package that defines `command` becomes `veilstream <module name>`; one that defines `app` (a
Typer) becomes a group. Modules that begin with an underscore are shared pieces. Exit codes: 0 done, 1 failed,
2 bad usage, configuration or input, 3 a bound is broken, 4 refuses to release.
"""

from __future__ import annotations

import gc
import importlib
import io
import logging
import os
import signal
import stat
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated

import typer

from models.errors import VeilstreamError, shortage
from stream.commands import _overview
from stream.values.memory import give_back
from stream.values.visible import visible

UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""Bad usage, as Typer raises it: it carries a Click of its own, whose classes are not those of the package `click`."""

MISFITS = ("UsageError", "NoSuchOption", "NoSuchCommand", "MissingParameter")
"""Names of the usage errors that the usage of the command explains."""

_INTERRUPTED = 130
"""Exit code of Typer after Ctrl-C."""

HELP = "Publish an event log again and again, and bound what all releases together reveal about one person."


def _print_version(is_requested: bool) -> None:
    if is_requested:
        from importlib.metadata import version

        typer.echo(f"veilstream {version('veilstream')}")
        raise typer.Exit


def build_app(command: str | None = None) -> typer.Typer:
    """Build the command line from the other modules of this folder.

    If `command` is one of them, only that one is built, since the others take time to build.
    """
    app = typer.Typer(help=HELP, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
    app.callback(help=HELP)(_program_options)  # a group, even with one command
    modules = _overview.command_modules()
    for name in [command] if command is not None and command in modules else list(modules):
        module = importlib.import_module(f"{__name__}.{modules[name]}")
        panel = getattr(module, "PANEL", None)
        if hasattr(module, "app"):
            app.add_typer(module.app, name=name, rich_help_panel=panel)
        else:
            app.command(name, rich_help_panel=panel)(module.command)
    return app


def build_overview() -> typer.Typer:
    """Build a command line with the names of all commands and their first lines, which runs none of them."""
    app = typer.Typer(help=HELP, add_completion=False, pretty_exceptions_enable=False)
    app.callback(help=HELP)(_program_options)
    for name in _overview.command_modules():
        summary = _overview.summary(name)
        app.command(name, help=summary.help, rich_help_panel=summary.panel)(_nothing)
    return app


def _nothing() -> None:
    """Represent a command in the overview."""


def _program_options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and end.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Options of the program itself."""


def main(arguments: list[str] | None = None) -> None:
    """Entry point of `veilstream`: every expected error is one line on stderr and its own exit code."""
    hear_signals()
    keep_others_out()
    limit_blas_threads()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # as stderr: a label that the locale lacks ends no command
    code = execute(arguments)
    if "duckdb" not in sys.modules:  # duckdb reports frozen objects as a leak on stderr
        gc.freeze()  # else Python looks for cycles among all that the libraries have made, a quarter of a second long
    sys.exit(code)


def hear_signals() -> None:
    """Take Ctrl-C, SIGTERM and the end of children as if started from a terminal.

    A parent (nohup, `&` in a script, a service manager) can leave its child with signals ignored or blocked. A
    process that cannot be stopped gets killed, and one that ignores SIGCHLD learns no exit code of its own
    children.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGCHLD):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGCHLD})


def keep_others_out() -> None:
    """Let no file of this process be writable by every user, whatever umask it was started with.

    Some containers start with umask 0. Rights of groups are the operator's choice.
    """
    os.umask(os.umask(0o077) | stat.S_IWOTH)


def limit_blas_threads() -> None:
    """Let the linear algebra of SciPy compute in one thread, unless the environment says otherwise.

    Its matrices are small here. Further threads of OpenBLAS mostly wait, and they wait in a loop: a tenth
    of the CPU time of a release with noise. OpenBLAS reads the number when SciPy loads it, which no command
    has done yet.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def execute(arguments: list[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    give_back()
    try:
        words = sys.argv[1:] if arguments is None else arguments
        if not words:
            typer.echo(_overview.FIRST_COMMANDS, err=True)
            return 2
        if words[0] in _overview.command_modules():
            _announce(words)
            app = build_app(words[0])
        else:
            app = build_overview()
        outcome = app(args=words, standalone_mode=False, prog_name="veilstream")
    except UsageError as error:
        message = error.format_message()  # type: ignore[attr-defined]  # a Click of Typer's own, see UsageError
        if type(error).__name__ == "NoArgsIsHelpError":
            typer.echo(message, err=True)
            return 2
        return _fail(message.replace("\n", " ") + _usage(error), 2)
    except typer.Abort:
        return _fail("interrupted", 1)
    except VeilstreamError as error:
        return _fail(str(error), error.exit_code)
    except MemoryError:
        return _fail("out of memory: what was under way is dropped; give it more, or split the work", 1)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        short = shortage(error, _output_of(words))
        if short is not None:
            return _fail(str(short), 1)
        return _fail(f"{error.filename or 'the disk'}: {error.strerror or error}", 1)
    if outcome == _INTERRUPTED:
        return _fail("interrupted", 1)
    return outcome if isinstance(outcome, int) else 0


def _output_of(words: Sequence[str]) -> str | None:
    """Return the place that a command line writes to; None if it names none."""
    for option, value in pairwise(words):
        if option in ("-o", "--output"):
            return value
    return None


def _usage(error: Exception) -> str:
    """Return the usage of the command, if its words do not fit it; empty if a value of an option is wrong."""
    context = getattr(error, "ctx", None)
    if context is None or type(error).__name__ not in MISFITS:
        return ""
    usage = " ".join(context.get_usage().split()).removeprefix("Usage: ")
    return f" (usage: {usage}; more with --help)"


def _announce(words: Sequence[str]) -> None:
    """Print at once what a command does: its libraries take seconds to load. A pipe or a file gets no such line."""
    if sys.stderr.isatty() and not {"--help", "--json"} & set(words):
        summary = _overview.summary(words[0]).help.replace("\n", " ")
        typer.echo(f"veilstream {words[0]}: {summary}", err=True)
        if words[0] != "demo":  # which prints at its end that it compiles
            compiling = logging.getLogger("veilstream.compiled")
            compiling.setLevel(logging.INFO)
            compiling.addHandler(_Notice())


class _Notice(logging.Handler):
    """Print a log entry as a note of the command."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print it on stderr."""
        typer.echo(f"veilstream: {record.getMessage()}", err=True)


def _fail(message: str, code: int) -> int:
    typer.echo(f"veilstream: {visible(message)}", err=True)
    return code
