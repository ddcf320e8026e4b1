"""Arguments and messages that `approve` and `reject` share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stream.commands._output import emit_json, tables

if TYPE_CHECKING:
    from stream.release.approval import Order

Publication = Annotated[str, typer.Argument(metavar="PUBLICATION", show_default=False)]
Number = Annotated[int, typer.Argument(metavar="N", min=1, help="Number of the held release.", show_default=False)]
By = Annotated[str, typer.Option("--by", metavar="NAME", help="Name of the person who decides.", show_default=False)]
Why = Annotated[str, typer.Option("--why", metavar="TEXT", help="For which reason.", show_default=False)]
Config = Annotated[
    Path | None,
    typer.Option("-c", "--config", help="Configuration file of the daemon, or of the replay.", show_default=False),
]
Output = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="DIR", help="Folder of the replay, or of the daemon.", show_default=False),
]


def give(
    order: Order,
    publication: str,
    number: int,
    by: str,
    why: str,
    config: Path | None,
    output: Path | None,
    *,
    json: bool,
) -> int:
    """Decide, and print the outcome; exit 3 if the gate no longer passes an approved release."""
    from models.errors import InputError
    from stream.config import sources
    from stream.operator.approval import decide

    if config is None and output is None:
        raise InputError("give the folder of the release with -o, or the configuration of its daemon with -c")
    settings = None if config is None else sources.load(config)
    if settings is not None:
        made = decide(settings, publication, number, order, by, why, output=output)
    else:
        made = decide(output or Path(), publication, number, order, by, why)
    if json:
        emit_json(
            {
                "publication": publication,
                "number": number,
                "decision": order,
                "status": made.status,
                "again": made.again,
                # The ledger keeps the name and the reason of the first decision, not these.
                "by": None if made.again else by,
                "why": None if made.again else why,
                "reasons": list(made.reasons),
                "offset": made.offset,
            }
        )
    elif made.status == "ordered":
        tables().print(f"{order} is at offset {made.offset} of the delta topic; `veilstream releases` shows the end")
    elif made.status == "refused":
        tables().print(f"release {number} of {publication} is not published, and stays held: {'; '.join(made.reasons)}")
    elif made.again:
        tables().print(
            f"release {number} of {publication} was {made.status} before: nothing changes, and the ledger "
            "keeps the name and the reason of that decision"
        )
    elif made.status == "approved":
        tables().print(f"release {number} of {publication} is approved by {by}")
    else:
        tables().print(f"release {number} of {publication} is rejected by {by}; its number is never used")
    return 3 if made.status == "refused" else 0
