"""A call of `stream.testing.killer` as a process: `python -m tests.replay.dying FUNCTION ARGUMENTS`, in JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from stream.testing import killer

FUNCTIONS = {"replay": killer.replay, "decide": killer.decide}
PATHS = ("log", "config", "output")


def main(function: str, text: str) -> None:
    """Call the function with named arguments."""
    arguments = json.loads(text)
    arguments.update({name: Path(arguments[name]) for name in PATHS if name in arguments})
    FUNCTIONS[function](**arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
