"""`veilstream verify DIR`: check a whole output folder against its ledger."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stream.commands import _options as options
from stream.commands._output import emit_json, filled, grid, show_verdicts, tables
from stream.values.amounts import number_of

if TYPE_CHECKING:
    from stream.operator.verify import VerifyResult
    from stream.release.verdict import Verdict

PANEL = "Operate"
COUNTS = ("releases", "files", "waiting", "burned", "withheld", "held", "rejected", "epsilon", "delta")


BEFORE_ANY_ATTEMPT = (
    "note: a run that ends before its first attempt leaves no trace in the ledger: if the last one stopped with an "
    "error, such as a full disk, mend that and run it again first"
)
"""The ledger of a run that a full disk ended looks like that of a run whose window has not closed yet."""


def command(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The output folder of a replay or daemon.", show_default=False)
    ],
    store: Annotated[
        str, typer.Option("--store", metavar="URL", help="fsspec URL of the releases, if not in DIR.")
    ] = "",
    config: Annotated[
        Path | None,
        typer.Option("-c", "--config", help="Configuration with the checkpoint_key, to check encrypted checkpoints."),
    ] = None,
    json: options.Json = False,
) -> int:
    """Check releases, manifests, operator's files, checkpoints and budgets against the ledger.

    It only reads. Exit 3 if something does not hold, or if no release was ever sealed.
    """
    from stream.operator.verify import verify

    keys = None
    if config is not None:
        from stream.config.sources import load  # loads all mechanisms, for which most calls have no use

        keys = load(config).storage_keys
    result = verify(folder, store or None, keys)
    nothing = _nothing_sealed(folder, result)
    if json:
        emit_json({"folder": str(folder), **result.document(), "verdicts": [verdict.as_json() for verdict in nothing]})
        return 3 if nothing or not result.holds else 0
    _show(result, nothing)
    return 3 if nothing or not result.holds else 0


def _show(result: VerifyResult, nothing: list[Verdict]) -> None:
    """Print whether everything holds, a row for each publication, and notes."""
    from models.dp.account import RULE_TEXTS

    console = tables()
    if nothing:
        from stream.release.verdict import NO_WINDOW

        show_verdicts(nothing)
        console.print("its ledger was read without a fault; there is no release to compare with it")
        if any(verdict.sentence == NO_WINDOW for verdict in nothing):
            console.print(BEFORE_ANY_ATTEMPT)
    elif result.holds:
        total = sum(publication.releases for publication in result.publications)
        files = sum(publication.files for publication in result.publications)
        compared = f"{number_of(total, 'release')}, {number_of(files, 'file')}"
        console.print(f"[+] HOLDS: {compared}, as the ledger sealed them", style="green")
    else:
        problems = number_of(len(result.problems), "problem")
        console.print(f"[x] DOES NOT HOLD: {problems}", style="red")
        wrong = grid("publication", "number", "kind", "what does not hold", word_columns=4)
        for problem in result.problems:
            wrong.add_row(problem.publication, str(problem.sequence or ""), problem.kind, problem.text)
        console.print(wrong)
    rows: list[list[str | None]] = []
    for row in result.publications:
        counts = [_amount_or_none(getattr(row, name)) for name in COUNTS]
        rows.append([row.name, *counts])
    console.print(filled(("publication", *COUNTS), rows, title="", word_columns=1))
    for row in result.publications:
        if row.waited:
            console.print(f"note: {number_of(row.waited, 'cut')} of {row.name} waited and released nothing")
        if row.superseded:
            console.print(f"note: held releases of {row.name} that a later one replaced: {row.superseded}")
        if row.epsilon:
            console.print(f"note: epsilon and delta of {row.name}: {RULE_TEXTS[row.rule]}")
    for note in result.notes:
        console.print(f"note: {note}")


def _nothing_sealed(folder: Path, result: VerifyResult) -> list[Verdict]:
    """Return the verdicts of a sound folder in which no release was ever sealed: nothing was there to be checked."""
    if not result.holds or any(
        publication.releases or publication.held or publication.waiting or publication.burned
        for publication in result.publications
    ):
        return []
    from stream.operator.history import verdicts_of

    return verdicts_of(folder)


def _amount_or_none(value: float) -> str | None:
    """Return a number as text; None for 0, so that a column of only zeros is left out."""
    return f"{value:g}" if value else None
