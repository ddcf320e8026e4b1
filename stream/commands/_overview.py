"""The commands at a glance, read from their files without importing them.

`veilstream --help` and the first line of a command must appear at once; importing all commands takes longer.
"""

from __future__ import annotations

import ast
import pkgutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

FIRST_COMMANDS = """\
Publish an event log again and again, and bound what all releases together reveal about one person.

  see it work     veilstream demo              a made-up hospital log, published in two ways
  an analyst      veilstream inspect LOG       what is in a log file, and how to declare it
                  veilstream replay LOG        publish it, window by window
  an operator     veilstream run -c FILE       publish continuously, from Kafka
  an officer      veilstream report DIR        what the releases of a folder give away

veilstream --help lists all commands, veilstream COMMAND --help the options of one."""
"""Answer to `veilstream` without a command: one line for each of the three readers' first steps."""


class CommandSummary(NamedTuple):
    """First line of the help of a command, and the panel of `--help` that lists it."""

    help: str
    panel: str | None


@cache
def command_modules() -> Mapping[str, str]:
    """Return the modules of the commands, by the name that a user types."""
    folder = str(Path(__file__).parent)
    names = [info.name for info in pkgutil.iter_modules([folder]) if not info.name.startswith("_")]
    return {name.replace("_", "-"): name for name in names}


def summary(name: str) -> CommandSummary:
    """Return the summary of a command, from the text of its file.

    A command is a function `command` with a docstring, or a group: `app = typer.Typer(help=...)`.
    """
    file = Path(__file__).with_name(f"{command_modules()[name]}.py")
    text: str | None = None
    panel: str | None = None
    for statement in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.FunctionDef) and statement.name == "command":
            text = ast.get_docstring(statement)
        elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            target = statement.targets[0].id
            if target == "PANEL":
                panel = str(ast.literal_eval(statement.value))
            elif target == "app" and isinstance(statement.value, ast.Call):
                options = {keyword.arg: keyword.value for keyword in statement.value.keywords}
                text = str(ast.literal_eval(options["help"]))
    return CommandSummary((text or "").split("\n\n")[0], panel)
