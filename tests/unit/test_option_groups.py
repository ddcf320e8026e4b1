"""Groups of options: one parameter of a command, several options of its users."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from connectors.reading import Reading
from stream.commands import _options as options


@dataclass(frozen=True)
class Knowledge:
    """A group with one option that has a name of its own."""

    length: Annotated[int, typer.Option("--bk-length")] = 2
    names: Annotated[list[str] | None, typer.Option("--bk")] = None


def program(seen: list[object]) -> typer.Typer:
    """A command that keeps what it is given."""

    @options.grouped
    def command(
        log: Path,
        known: Knowledge = Knowledge(),
        reading: Reading = Reading(),  # noqa: B008 - frozen
        seed: Annotated[int, typer.Option()] = 0,
    ) -> None:
        seen.extend([log, known, reading, seed])

    app = typer.Typer()
    app.command()(command)
    return app


def test_a_group_is_given_as_an_object() -> None:
    """Options land in their group, wherever they are on the command line; what is not given is the default."""
    seen: list[object] = []
    words = ["--bk", "A,B", "a.csv", "--seed", "7", "--bk", "C", "--columns", "case=id", "--separator", "tab"]
    assert CliRunner().invoke(program(seen), words).exit_code == 0
    assert seen[:2] == [Path("a.csv"), Knowledge(2, ["A,B", "C"])]
    assert seen[3] == 7
    reading = seen[2]
    assert isinstance(reading, Reading)
    assert (reading.columns, reading.separator, reading.timezone) == ({"case": "id"}, "tab", None)


@pytest.mark.parametrize("word", ["--known", "--reading", "--length"])
def test_a_group_is_no_option_itself(word: str) -> None:
    """Neither its own name, nor a field's name where the option has another."""
    assert CliRunner().invoke(program([]), ["a.csv", word, "1"]).exit_code == 2
