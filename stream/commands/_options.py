"""Options that many commands share, with one spelling and one parser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from models.errors import InputError

Log = Annotated[
    Path, typer.Argument(help="An event log: .xes, .xes.gz, .csv, .csv.gz or .parquet.", show_default=False)
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
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of simulations; released noise never takes one.")]

ROLES = ("case", "activity", "time", "resource")


def split(text: str) -> list[str]:
    """`A,B` -> ["A", "B"]; empty text gives an empty list."""
    return [part.strip() for part in text.split(",") if part.strip()]


def columns(text: str) -> dict[str, str]:
    """`case=..,activity=..` -> {"case": .., "activity": ..}."""
    mapping: dict[str, str] = {}
    for part in split(text):
        role, sign, name = part.partition("=")
        if not sign or role not in ROLES or not name:
            raise InputError(f"--columns: {part!r} is not one of {', '.join(f'{role}=NAME' for role in ROLES)}")
        mapping[role] = name
    return mapping


def integers(text: str, option: str) -> list[int]:
    """`1..5`, `1,2` or `3` -> the integers named."""
    try:
        if ".." in text:
            low, high = (int(part) for part in text.split(".."))
            return list(range(low, high + 1))
        return [int(part) for part in split(text)]
    except ValueError:
        raise InputError(f"{option}: {text!r} is neither like 1..5 nor like 1,2") from None
