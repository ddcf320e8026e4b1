"""Command lines on the pages: extracted from the text, and compared with the program that would run them."""

from __future__ import annotations

import importlib.util
import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any

from tests.conftest import ROOT

PAGES = sorted(
    [
        *(ROOT / folder / "README.md" for folder in (".", "deploy", "examples/gallery")),
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "docs").rglob("*.md"),
    ]
)
STARTS = r"(?:veilstream|make|pytest|python -m) (?=\w)"
FENCED = re.compile(r"^```\w*\n(.*?)^```", re.DOTALL | re.MULTILINE)
INLINE = re.compile(rf"`({STARTS}[^`\n]*)`")
IN_A_LINE = re.compile(rf"(?:^|[ /])({STARTS}.*)")


def lines(text: str) -> list[str]:
    """Every command line of a page: in code blocks (also behind `exec coordinator`), and in running text."""
    joined = text.replace("\\\n", " ")
    blocks = [line for block in FENCED.findall(joined) for line in block.splitlines() if not line.startswith("import ")]
    found = [match[1] for line in blocks if (match := IN_A_LINE.search(line))]
    rest = FENCED.sub("", text)
    return [*found, *INLINE.findall(rest), *re.findall(r"^    (make \w.*)$", rest, re.MULTILINE)]


def faults(line: str) -> list[str]:
    """Return the parts of a command line that do not exist: command, option, make target, module, test file."""
    program, *words = shlex.split(line, comments=True)
    if program == ".":
        return [word for word in words if word != ".venv/bin/activate"]
    if program == "make":
        return [word for word in words if "=" not in word and word not in _targets()]
    if program == "python":
        return [] if importlib.util.find_spec(words[1]) else [words[1]]
    if program == "pytest":
        files = [word for word in words if "/" in word or word.endswith(".py")]
        return [word for word in files if not (ROOT / word.split("::")[0]).exists()]
    return [fault for one in _alternatives(words) for fault in _unknown(one)]


def _alternatives(words: list[str]) -> list[list[str]]:
    """`topics create|check -c FILE` as two commands: alternatives are before the first option."""
    found: list[list[str]] = [[]]
    for at, word in enumerate(words):
        choices = word.split("|") if not any(one.startswith("-") for one in words[: at + 1]) else [word]
        found = [[*one, choice] for one in found for choice in choices]
    return found


def _unknown(words: list[str]) -> list[str]:
    node, rest = _program(), list(words)
    while hasattr(node, "commands"):
        if not rest or rest[0].startswith("-"):
            return []  # a group by itself: `veilstream topics`
        name = rest.pop(0)
        if name not in node.commands:
            return [name]
        node = node.commands[name]
    known = {option for parameter in node.params for option in (*parameter.opts, *parameter.secondary_opts)}
    options = [word.strip("[]").split("=")[0] for word in rest if re.match(r"\[?-", word)]
    return [option for option in options if option not in known and not option.lstrip("-").isdigit()]


@cache
def _program() -> Any:
    from typer.main import get_command

    from stream.commands import build_app

    return get_command(build_app())


@cache
def _targets() -> frozenset[str]:
    return frozenset(re.findall(r"^([a-z-]+):", Path(ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
