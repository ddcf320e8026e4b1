"""`veilstream demo`: the bundled log, published and explained, from the installed program alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Annotated

import typer

from models.errors import InputError

PANEL = "Publish"

BUNDLED = Path(__file__).with_name("_hospital")
"""Log and configuration of the demo, as part of the package."""

COMPILED = frozenset(
    {
        "models.attacks.linkability._edges",
        "models.anonymize.kernels.followed",
        "connectors.xes_write._lay_out",
    }
)
"""Kernels that are worth compiling for the bundled log. All others take longer to compile than to run on it as plain
Python: `walk` of models.attacks.search 5 seconds against a tenth of one (docs/decisions/066)."""

LOWEST_PRIORITY = 19
"""Of a process, on Unix."""

COMPILE_SECONDS = 60.0
"""Seconds that a finished demo waits for the compiling process. A busy computer gives it hardly any time."""


def command(
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="A new folder for the results.")] = Path(
        "veilstream-demo"
    ),
) -> int:
    """Publish the bundled log of a made-up hospital, and show where the results are."""
    from models.compiled import cache_folder, keeps_compiled

    if output.exists():
        raise InputError(f"{output}: exists already; remove it, or name another folder with -o")
    output.mkdir(parents=True)
    for file in sorted(BUNDLED.iterdir()):
        shutil.copyfile(file, output / file.name)
    log, config = str(output / "hospital.xes.gz"), str(output / "hospital.toml")
    typer.echo(
        "A made-up hospital: 2,041 patients, half a year. Analysts get groups of completed cases, whenever 200 have\n"
        "completed; the public gets noisy counts every four weeks. Before a release leaves, it is attacked together\n"
        "with all earlier ones. This takes a few seconds.\n"
    )
    if keeps_compiled("models.attacks.search", "walk"):
        return _publish(log, config, output)
    if cache_folder() is None:
        with _plain_arithmetic():
            return _publish(log, config, output)
    with _compiling(log, config) as compiler:
        with _plain_arithmetic():
            code = _publish(log, config, output)
        if code == 0:
            _wait_for(compiler)
    return code


def _publish(log: str, config: str, output: Path) -> int:
    """Replay the log, write the report, and explain the results."""
    releases, report = str(output / "releases"), str(output / "report.html")
    code = _run("replay", log, "-c", config, "-o", releases, "--final")
    if code == 0:
        code = _run("report", releases, "--source", log, "-o", report)
    if code != 0:
        return code
    typer.echo(
        "\nSAFE: every bound that was set holds for each release, and for any two of them together (noise: for all).\n"
        "KA = 20: somebody who knows two steps of\n"
        "a patient finds at least 20 patients with them, or none. FA, CA, BA: the same if somebody compares releases.\n"
        "\n"
        f"  for recipients    {releases}/public\n"
        f"  for you alone     {report} (open it in a browser), {releases}/operator\n"
        f"  log and settings  {log}, {config}\n"
        "\n"
        "Your own log (the first command prints the second one with the options that your file needs):\n"
        "\n"
        "  veilstream inspect YOUR.csv\n"
        "  veilstream replay YOUR.csv --sensitive ATTRIBUTE -o mine --final"
    )
    return 0


@contextmanager
def _compiling(log: str, config: str) -> Iterator[subprocess.Popen[bytes]]:
    """Compile the kernels in another process, which replays the same log, while the block runs.

    The process has the lowest priority, so that the demo comes first on a single processor.
    """
    with tempfile.TemporaryDirectory() as folder:
        # -P: a file `models.py` in the current folder is not ours.
        program = (sys.executable, "-P", "-m", "stream.commands")
        words = ("replay", log, "-c", config, "-o", str(Path(folder) / "releases"), "--final")
        compiler = subprocess.Popen(  # noqa: S603 - this program
            [*program, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            os.setpriority(os.PRIO_PROCESS, compiler.pid, LOWEST_PRIORITY)
            yield compiler
        finally:
            compiler.terminate()
            compiler.wait()


def _wait_for(compiler: subprocess.Popen[bytes]) -> None:
    """Wait for the compiling process, for up to a minute or until Ctrl-C. Compiled code is kept."""
    if compiler.poll() is not None:
        return
    typer.echo("\nCompiling for this computer, once, for up to a minute. Ctrl-C leaves it to your first replay.")
    try:
        compiler.wait(COMPILE_SECONDS)
    except subprocess.TimeoutExpired:
        typer.echo("This computer is busy: your first replay compiles the rest.")
    except KeyboardInterrupt:
        typer.echo()


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
