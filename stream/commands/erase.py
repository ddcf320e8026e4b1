"""`veilstream erase`: remove a case from the state and every later release. Its id is read from standard input.

An id on the command line would be visible in the process list and in the shell's history.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from stream.commands import _options as options
from stream.commands._output import emit_json, tables

PANEL = "Operate"


def command(
    config: Annotated[Path, typer.Option("-c", "--config", help="The configuration file.", show_default=False)],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Folder of a replay, or of the daemon (its key).")
    ] = None,
    json: options.Json = False,
) -> None:
    """Erase the cases whose ids come on standard input, one a line."""
    from models.errors import InputError
    from stream.config import sources

    cases = _case_ids(sys.stdin.buffer.read())
    loaded = sources.load(config)
    if loaded.source is not None:
        from stream.daemon import operator_commands as orders

        offset = orders.erase(loaded, loaded.source, output or Path("out"), cases)
        if json:
            emit_json({"command": "erase", "cases": len(cases), "offset": offset})
        else:
            tables().print(
                f"erase is at offset {offset} of the delta topic; the coordinator logs how many of the cases it "
                "knew, and veilstream report names the releases that hold them"
            )
        return
    if output is None:
        raise InputError("give the folder of a replay with -o")
    from stream.operator.idle_folder import erase_in_folder

    report = erase_in_folder(loaded, output, cases)
    if json:
        emit_json(report)
        return
    console = tables()
    console.print(f"{report['known']} of {len(cases)} cases were in the state; all are refused from now on")
    if report["known"] < len(cases):
        console.print(
            "Compare the ids that were not in the state with the source: spaces, leading zeros, and upper "
            "and lower case count"
        )
    if report["archived_events"]:
        console.print(f"{report['archived_events']} events of them were removed from the archive")
    for name, numbers in report["releases"].items():
        if numbers:
            console.print(f"already out in {name}: {', '.join(map(str, numbers))}")


def _case_ids(data: bytes) -> list[str]:
    """Split ids, one a line, each once; without a byte order mark: with it a case would not be found."""
    from models.errors import InputError

    try:
        lines = data.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        number = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"standard input, line {number}: is not UTF-8 text") from None
    cases = list(dict.fromkeys(line.rstrip("\r") for line in lines if line.strip()))
    if not cases:
        raise InputError("no case id on standard input (one a line)")
    return cases
