"""Keywords of functions are the options of the commands."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from typer.main import get_command

import veilstream as vs
from stream.commands import build_app

COMMANDS = {
    "anonymize": "anonymize",
    "assess": "assess",
    "attack": "attack",
    "leakage": "leakage",
    "read_log": "anonymize",
    "replay": "replay",
    "risk": "risk",
    "synthesize": "anonymize",
    "utility": "utility",
}
"""The command whose options a function has. `example_log` and `read_series` have none."""

OF_FILES = {"encoding", "separator", "object_type", "lifecycle", "skip_bad_rows", "bad_rows"}
"""How a file is written: `read_log` takes these, and every function takes its DataFrame."""

OF_TERMINALS = {"json", "help", "output"}
"""Printing and writing: a result has `document` and `save`."""

ONLY_OPTIONS = {
    "anonymize": {
        "set": "any other keyword",
        "format": "save(durations=True)",
        "engine": "data sets larger than memory do not come as a DataFrame",
        "memory": "of the engine",
    },
    "attack": {"all": "a file of all candidates", "engine": "as for anonymize", "memory": "of the engine"},
    "leakage": {"plot": "to_dataframe() is plotted by pandas"},
    "replay": {
        "assess": "vs.assess attacks the releases of a series",
        "speed": "a demonstration in real time",
        "engine": "as for anonymize",
        "memory": "of the engine",
        "metrics_port": "for operators",
        "metrics_textfile": "for operators",
    },
    "risk": {
        "engine": "as for anonymize",
        "memory": "of the engine",
        "plot": "to_dataframe() is plotted by pandas",
    },
    "utility": {"engine": "as for anonymize", "memory": "of the engine"},
    "assess": {"set": "mechanism is a mapping"},
}
"""Options without a keyword, with the reason."""

ONLY_KEYWORDS = {
    "replay": {
        "output": "the folder of the series",
        "process": "a table of the configuration, as a mapping",
        "publication": "a table of the configuration, as a mapping",
    },
    "anonymize": {"parameters": "--set"},
    "synthesize": {"parameters": "--set"},
}
"""Keywords without an option, with the reason."""


def options(command: str) -> set[str]:
    """The long options of a command, with underscores."""
    node: Any = get_command(build_app())
    names = [name for parameter in node.commands[command].params for name in parameter.opts if name.startswith("--")]
    return {name.removeprefix("--").replace("-", "_") for name in names}


def keywords(function: str) -> set[str]:
    """The keywords of a function; its positional parameters are the arguments of the command."""
    parameters = inspect.signature(getattr(vs, function)).parameters.values()
    kinds = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
    return {parameter.name for parameter in parameters if parameter.kind in kinds}


def test_every_function_belongs_to_a_command() -> None:
    """So that the tests below leave none out."""
    functions = {name for name in vs.__all__ if inspect.isfunction(getattr(vs, name))}
    assert functions - {"example_log", "read_series"} == set(COMMANDS)


@pytest.mark.parametrize("function", sorted(COMMANDS))
def test_each_keyword_is_an_option(function: str) -> None:
    """With the same name; the exceptions have a reason above, and are exceptions."""
    allowed = set(ONLY_KEYWORDS.get(function, {}))
    assert keywords(function) - options(COMMANDS[function]) - allowed == set()
    assert allowed <= keywords(function)


@pytest.mark.parametrize("function", sorted(set(COMMANDS) - {"read_log", "synthesize"}))
def test_each_option_is_a_keyword(function: str) -> None:
    """With the same name; the exceptions have a reason above, and are exceptions."""
    reasons = set(ONLY_OPTIONS.get(function, {}))
    missing = options(COMMANDS[function]) - keywords(function) - OF_FILES - OF_TERMINALS
    assert missing == reasons


def test_options_of_files_are_keywords_of_read_log() -> None:
    """All of them, with the zone and the columns."""
    assert OF_FILES | {"columns", "timezone", "time_format"} == keywords("read_log")
    assert options("anonymize") >= OF_FILES
