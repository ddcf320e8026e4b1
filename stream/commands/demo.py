"""`veilstream demo`: the bundled log, published and explained, from the installed program alone."""

from __future__ import annotations

import shutil
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated

import typer

from models.errors import InputError

PANEL = "Publish"

BUNDLED = Path(__file__).with_name("_hospital")
"""Log and configuration of the demo, as part of the package."""

_LINKABILITY = "models.attacks.linkability."

COMPILED = frozenset(
    {
        *(_LINKABILITY + part for part in ("_edges", "_mark", "_matched", "_least", "_doubled")),
        *(_LINKABILITY + part for part in ("_may_leave", "_subsequence")),
        "models.anonymize.kernels.followed",
        "connectors.xes_write._lay_out",
    }
)
"""Kernels that are worth compiling for the bundled log. All others take longer to compile than to run on it as plain
Python: `walk` of models.attacks.search 5 seconds against a tenth of one (docs/decisions/066)."""


def command(
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="A new folder for the results.")] = Path(
        "veilstream-demo"
    ),
) -> int:
    """Publish the bundled log of a made-up hospital, and show where the results are."""
    from models.compiled import keeps_compiled

    if output.exists():
        raise InputError(f"{output}: exists already; remove it, or name another folder with -o")
    output.mkdir(parents=True)
    for file in sorted(BUNDLED.iterdir()):
        shutil.copyfile(file, output / file.name)
    log, config, releases, report = (
        str(output / name) for name in ("hospital.xes.gz", "hospital.toml", "releases", "report.html")
    )
    typer.echo(
        "A made-up hospital: 2,041 patients, half a year. Analysts get groups of completed cases, whenever 200 have\n"
        "completed; the public gets noisy counts every four weeks. Before a release leaves, it is attacked together\n"
        "with all earlier ones. This takes a few seconds.\n"
    )
    is_warm = keeps_compiled("models.attacks.search", "walk")
    with nullcontext() if is_warm else _plain_arithmetic():
        code = _run("replay", log, "-c", config, "-o", releases, "--final")
        if code == 0:
            code = _run("report", releases, "--source", log, "-o", report)
    if code != 0:
        return code
    typer.echo(
        "\nSAFE: every bound that was set holds for all releases together. KA = 20: whoever knows two steps of a\n"
        "patient finds at least 20 patients with them, or none. FA, CA, BA: the same for those who compare releases.\n"
        "\n"
        f"  for recipients    {releases}/public\n"
        f"  for you alone     {report} (open it in a browser), {releases}/operator\n"
        f"  log and settings  {log}, {config}\n"
        "\n"
        "Your own log (the first run compiles for half a minute, once; the first command prints the second one\n"
        "with the options that your file needs):\n"
        "\n"
        "  veilstream inspect YOUR.csv\n"
        "  veilstream replay YOUR.csv --sensitive ATTRIBUTE -o mine --final"
    )
    return 0


def _run(*words: str) -> int:
    """Run a command of the program as a user would type it, and show it."""
    from stream.commands import execute

    typer.echo(f"$ veilstream {' '.join(words)}")
    return execute(list(words))


def _plain_arithmetic() -> AbstractContextManager[None]:
    """Run kernels as plain Python from now on. Their hashes overflow on purpose, and numpy would warn of it."""
    import numpy as np

    from models.compiled import run_plainly

    run_plainly(COMPILED)
    return np.errstate(over="ignore")
