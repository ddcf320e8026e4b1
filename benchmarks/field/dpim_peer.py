"""DPIM of Schulze et al. (2024, arXiv 2407.04595), run in an environment that has pm4py 2.2.31.

Reads a JSON object from standard input: `code` (a folder with the authors' `main.py` and `utils`, as shipped),
`epsilon`, `lower` and `upper` (bounds of the number of pairs), `threshold` (of the fitness), `limit` (CPU seconds) and
`cases`, each a list of activities. Writes one: `model` (PNML; null if the program gave no tree) and `cpu`. It imports
nothing of veilstream.
"""

from __future__ import annotations

import contextlib
import datetime
import importlib
import io
import json
import resource
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any


def main() -> None:
    """Answer one request."""
    warnings.simplefilter("ignore")
    question = json.load(sys.stdin)
    resource.setrlimit(resource.RLIMIT_CPU, (question["limit"], question["limit"] + 5))
    sys.path.insert(0, question["code"])
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        answer = _released(question)
    json.dump(answer, sys.stdout)


def _released(question: dict[str, Any]) -> dict[str, Any]:
    # By name: they are no dependencies of this project. Before pm4py, whose import takes seconds: they may be missing.
    code, parsing = importlib.import_module("main"), importlib.import_module("utils.eventLog_parsing")
    import pm4py

    log = _log(question["cases"])
    pairs, steps_of_cases, activities = parsing.xesFile().createPermutations_XES(log)
    program = code.DPIM()
    program.epsilon = question["epsilon"]
    program.fit_trehsold = question["threshold"]  # its own spelling
    # As its `initialization` sets the bounds.
    most = activities**2 - 1
    program.lower_bound = question["lower"] if activities <= question["lower"] <= most else activities
    program.upper_bound = question["upper"] if activities <= question["upper"] <= most else most
    begin = time.process_time()
    tree = program.create_tree(pairs, steps_of_cases, program.epsilon, log)
    cpu = time.process_time() - begin
    if tree is False:
        return {"model": None, "cpu": cpu}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.pnml"
        pm4py.write_pnml(*pm4py.convert_to_petri_net(tree), str(path))
        return {"model": path.read_text(encoding="utf-8"), "cpu": cpu}


def _log(cases: list[list[str]]) -> Any:
    from pm4py.objects.log.obj import Event, EventLog, Trace

    log = EventLog()
    for number, case in enumerate(cases):
        trace = Trace(attributes={"concept:name": str(number)})
        for position, activity in enumerate(case):
            moment = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(seconds=position)
            trace.append(Event({"concept:name": activity, "time:timestamp": moment}))
        log.append(trace)
    return log


if __name__ == "__main__":
    main()
