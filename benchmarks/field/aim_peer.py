"""AIM of McKenna, Mullins, Sheldon and Miklau (2022, arXiv 2201.12677), run in an environment that has `mbi`.

Reads a JSON object from standard input: `code` (the folder `mechanisms` of the authors' repository, as shipped),
`epsilon`, `delta`, `sizes` (of the columns of `COLUMNS`), `rows` (lists of codes), `weights` (one a row) and `limit`
(CPU seconds). Writes one: `table` (the cells of the released model over all columns, row by row) and `cpu`. It imports
nothing of veilstream.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import resource
import sys
import time
from typing import Any

COLUMNS = ("previous", "next", "position")


def main() -> None:
    """Answer one request."""
    question = json.load(sys.stdin)
    resource.setrlimit(resource.RLIMIT_CPU, (question["limit"], question["limit"] + 5))
    sys.path.insert(0, question["code"])
    with contextlib.redirect_stdout(io.StringIO()):  # AIM reports each round
        answer = _released(question)
    json.dump(answer, sys.stdout)


def _released(question: dict[str, Any]) -> dict[str, Any]:
    import numpy as np

    # By name: they are no dependencies of this project.
    mechanism, mbi = importlib.import_module("aim"), importlib.import_module("mbi")
    domain = mbi.Domain(COLUMNS, tuple(question["sizes"]))
    steps = mbi.Dataset(np.asarray(question["rows"]), domain, np.asarray(question["weights"]))
    begin = time.process_time()
    model, _ = mechanism.AIM(question["epsilon"], question["delta"]).run(steps, [(COLUMNS, 1.0)])
    table = np.asarray(model.project(COLUMNS).datavector(), dtype=float)
    return {"table": table.tolist(), "cpu": time.process_time() - begin}


if __name__ == "__main__":
    main()
