"""Options that many commands share, with one spelling and one parser."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from connectors.bad_rows import SUFFIX, BadRows, write
from connectors.lifecycle import Lifecycle
from connectors.reading import Reading, UndeclaredError
from models.errors import InputError
from stream.values.visible import visible

if TYPE_CHECKING:
    from models.eventlog import EventLog

Log = Annotated[
    Path,
    typer.Argument(
        help="An event log: .xes, .csv, .tsv (also packed, .gz), .parquet, OCEL 2.0 (.json, .sqlite, .xml), a folder "
        "of files of one kind, or - for standard input.",
        show_default=False,
        allow_dash=True,
    ),
]
Sensitive = Annotated[str, typer.Option("--sensitive", metavar="A[,B]", help="Sensitive attributes of a case.")]
Released = Annotated[
    str,
    typer.Option(
        "--release-attributes",
        metavar="A[,B]",
        help="Attributes that leave (sensitive ones as classes).",
    ),
]
Columns = Annotated[
    str, typer.Option("--columns", metavar="case=..,activity=..", help="Names of the columns; XES names by default.")
]
Timezone = Annotated[str, typer.Option("--timezone", metavar="ZONE", help="Zone of times that carry none, e.g. UTC.")]
FILE = "Input format (detected if not given)"
TimeFormat = Annotated[
    str | None,
    typer.Option(
        "--time-format",
        metavar="FORMAT",
        help="Of strptime, or day-first, month-first, year-first, excel, excel-1904, s, ms, us, ns.",
        rich_help_panel=FILE,
    ),
]
Encoding = Annotated[
    str | None, typer.Option("--encoding", metavar="NAME", help="Of CSV: utf-8, cp1252 ...", rich_help_panel=FILE)
]
Separator = Annotated[
    str | None,
    typer.Option("--separator", metavar="SIGN", help="Of CSV: comma, semicolon, tab, bar.", rich_help_panel=FILE),
]
ObjectType = Annotated[
    str | None,
    typer.Option(
        "--object-type", metavar="TYPE", help="Of OCEL: the objects that are the cases.", rich_help_panel=FILE
    ),
]
SkipBadRows = Annotated[
    bool,
    typer.Option(
        "--skip-bad-rows",
        help="Leave out rows that cannot be read, and write them to LOG.bad-rows (replay: operator/bad-rows.csv).",
        rich_help_panel=FILE,
    ),
]
BadRowsFile = Annotated[
    Path | None,
    typer.Option(
        "--bad-rows", metavar="FILE", help="Write the rows that were left out to this file.", rich_help_panel=FILE
    ),
]
ShowValues = Annotated[
    bool,
    typer.Option(
        "--show-values/--hide-values", help="Name activities (the default), or number them (where others look on)."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of simulations; released noise never takes one.")]

PublishedFolder = Annotated[
    Path, typer.Argument(metavar="DIR", help="An output folder, or the public folder alone.", show_default=False)
]
ChosenPublication = Annotated[
    str | None, typer.Argument(metavar="PUBLICATION", help="Needed if the folder holds several.", show_default=False)
]
Facts = Annotated[
    Path | None,
    typer.Option("--facts", metavar="FILE", help="Facts that only people know (dossier.toml).", show_default=False),
]

Transitions = Annotated[
    Lifecycle | None,
    typer.Option("--lifecycle", help="Transitions that are events (both: A+start, A+complete); all by default."),
]

ROLES = ("case", "activity", "time", "resource", "lifecycle")


@dataclass(frozen=True, slots=True)
class _ReadingFlags:
    """The user's statements about how a log is written, as typed."""

    columns: Columns = ""
    timezone: Timezone = ""
    time_format: TimeFormat = None
    encoding: Encoding = None
    separator: Separator = None
    object_type: ObjectType = None
    lifecycle: Transitions = None
    skip_bad_rows: SkipBadRows = False
    bad_rows: BadRowsFile = None

    def made(self) -> Reading:
        """Return the parameter `reading` of a command."""
        return Reading(
            columns=columns(self.columns),
            timezone=self.timezone or None,
            time_format=self.time_format,
            encoding=self.encoding,
            separator=self.separator,
            object_type=self.object_type,
            lifecycle=self.lifecycle,
            skip_bad_rows=self.skip_bad_rows or None,
            say=print_note,
            on_bad_rows=RowsFile(self.bad_rows),
        )


@dataclass(frozen=True, slots=True)
class AttributeOptions:
    """Sensitive attributes of a case, and attributes that are released."""

    sensitive: Sensitive = ""
    release_attributes: Released = ""


@dataclass(frozen=True, slots=True)
class _Group:
    """Options that a command takes as one parameter."""

    options: list[inspect.Parameter]
    make: Callable[[dict[str, Any]], Any]


def grouped(command: Callable[..., Any]) -> Callable[..., Any]:
    """Show the fields of each group of options to Typer as options.

    A group is a parameter whose type is a dataclass: each of its fields becomes an option, and the command gets the
    object.
    """
    signature = inspect.signature(command, eval_str=True)
    groups = {
        name: group
        for name, parameter in signature.parameters.items()
        if (group := _group(parameter.annotation)) is not None
    }

    @functools.wraps(command)
    def with_options(**arguments: Any) -> Any:
        objects = {
            name: group.make({option.name: arguments.pop(option.name) for option in group.options})
            for name, group in groups.items()
        }
        return command(**arguments, **objects)

    parameters: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        parameters += groups[name].options if name in groups else [parameter.replace(kind=_BY_NAME)]
    with_options.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]  # Typer asks for it
    annotations = {parameter.name: parameter.annotation for parameter in parameters}
    with_options.__annotations__ = {**annotations, "return": signature.return_annotation}
    return with_options


_BY_NAME = inspect.Parameter.KEYWORD_ONLY


def _group(kind: Any) -> _Group | None:
    """Return the options of a parameter of this type; None if it is an option itself."""
    typed = _ReadingFlags if kind is Reading else kind
    if not (isinstance(typed, type) and is_dataclass(typed)):
        return None
    hints = get_type_hints(typed, include_extras=True)
    options = [
        inspect.Parameter(field.name, _BY_NAME, default=field.default, annotation=hints[field.name])
        for field in fields(typed)
    ]
    return _Group(
        options, lambda arguments: _ReadingFlags(**arguments).made() if typed is _ReadingFlags else typed(**arguments)
    )


def print_note(note: str) -> None:
    """Print a note about a file, such as a guess, on stderr.

    Parameters
    ----------
    note
        The sentence. Characters that a terminal would obey are shown as text.
    """
    typer.echo(f"veilstream: {visible(note)}", err=True)


@dataclass(frozen=True, slots=True)
class RowsFile:
    """Return the file for the rows that were left out: `path`, or a file next to the log.

    The folder of the log holds its raw data anyway.
    """

    path: Path | None = None

    def __call__(self, bad: BadRows) -> None:
        """Write the rows, and report how many there are, to the operator alone."""
        name = "stdin" if bad.source == "-" else bad.source.rstrip("/")
        target = self.path or Path(f"{name}{SUFFIX}")
        write(bad, target)
        print_note(f"{bad.report()}; the rows are in {target}")


def read_as_declared(log: Path, reading: Reading) -> EventLog:
    """Read a log, and add the flags that an inspection finds to the error.

    If a mechanism promises epsilon and the user has not declared how the log is written, nothing is guessed silently:
    the flags are in the error, to look at and to copy.

    Parameters
    ----------
    log
        The file or folder, or `-` for standard input.
    reading
        Statements of the user about it.

    Raises
    ------
    InputError
        If the log cannot be read, or a statement is missing.
    """
    from connectors import read_log

    try:
        return read_log(log, reading=reading)
    except UndeclaredError as error:
        if str(log) == "-":
            raise
        from connectors.inspection import inspect as inspected

        flags = inspected(log, replace(reading, declared=False)).declared
        raise InputError(f"{error}; an inspection of the file finds: {' '.join(flags)}") from None


def assignments(texts: Sequence[str]) -> dict[str, str]:
    """Return {"effort": "300"} for `--set effort=300`.

    Parameters
    ----------
    texts
        Values of `--set`.

    Raises
    ------
    InputError
        If one is not like KEY=VALUE.
    """
    result = {}
    for text in texts:
        key, sign, value = text.partition("=")
        if not sign or not key:
            raise InputError(f"--set: {text!r} is not like KEY=VALUE")
        result[key] = value
    return result


def split_attributes(text: str) -> list[str]:
    """Split names of attributes; `case:x`, its column in flat files, is x.

    Parameters
    ----------
    text
        Names, separated by commas.
    """
    return [name.removeprefix("case:") for name in split(text)]


def split(text: str) -> list[str]:
    """Split `A,B` into ["A", "B"]; empty text gives an empty list.

    Parameters
    ----------
    text
        Words, separated by commas. Blanks around them do not count.
    """
    return [part.strip() for part in text.split(",") if part.strip()]


def columns(text: str) -> dict[str, str]:
    """Return the parts of `case=..,activity=..` as a mapping from role to name.

    Parameters
    ----------
    text
        Value of `--columns`.

    Raises
    ------
    InputError
        If a part is no ROLE=NAME.
    """
    mapping: dict[str, str] = {}
    for part in split(text):
        role, sign, name = part.partition("=")
        if not sign or role not in ROLES or not name:
            raise InputError(f"--columns: {part!r} is not one of {', '.join(f'{role}=NAME' for role in ROLES)}")
        mapping[role] = name
    return mapping


def integers(text: str, option: str) -> list[int]:
    """Return the integers that `1..5`, `1,2` or `3` names.

    Parameters
    ----------
    text
        Value of the option.
    option
        Its name, for the message.

    Raises
    ------
    InputError
        For any other text.
    """
    try:
        if ".." in text:
            low, high = (int(part) for part in text.split(".."))
            return list(range(low, high + 1))
        return [int(part) for part in split(text)]
    except ValueError:
        raise InputError(f"{option}: {text!r} is neither like 1..5 nor like 1,2") from None
