"""`python -m tests.mutants [FILE ...]`: plant every mutant, run its tests, and list those that live."""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import os
import sys
import tempfile
import tomllib
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
OUT = ROOT / "out" / "mutants"
"""Results of the last runs, one file a module: an artifact, which a full run makes again."""

LEAST = 0.95
"""Share of mutants that must be killed in all the modules together."""

DEAD = {"killed", "timeout"}
NOT_RUN = "not run"
"""Outcome of a mutant that a run did not come to."""

WARM = (
    "numpy", "pandas", "numba", "scipy.special", "scipy.stats", "scipy.sparse", "opendp.prelude", "lxml.etree",
    "pydantic", "msgspec", "typer", "rich.table", "rich.progress", "pyarrow.parquet", "cryptography.fernet", "jinja2",
    "fsspec", "structlog", "prometheus_client", "cosmic_ray.mutating",
)  # fmt: skip
"""Modules that every test imports, none of the project: mutants of constants fork from here."""


def main() -> int:
    """Run the groups of the named files (all without names); 0 if every survivor is explained and 95 % are dead."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("files", nargs="*", help="modules, such as models/dp/strict.py (default: all of targets.toml)")
    parser.add_argument("--fresh", action="store_true", help="also run what was killed before and has not changed")
    parser.add_argument("--list", action="store_true", help="only print the results for the program as it is")
    parser.add_argument("--lines", type=_lines, metavar="FROM-TO", help="only the faults of these lines of one module")
    arguments = parser.parse_args()
    if arguments.lines and len(arguments.files) != 1:
        parser.error("--lines are those of one module")
    os.chdir(ROOT)
    groups = tomllib.loads((HERE / "targets.toml").read_text(encoding="utf-8"))["group"]
    wanted = [os.path.relpath(path, ROOT) for path in arguments.files]
    unknown = set(wanted) - {path for group in groups for path in group["modules"]}
    if unknown:
        parser.error(f"not in targets.toml: {', '.join(sorted(unknown))}")
    results = []
    for group in groups:
        modules = [path for path in group["modules"] if not wanted or path in wanted]
        if modules:
            if not arguments.list:
                _run(modules, group["tests"], arguments.fresh, arguments.lines)
            found = _state if arguments.list else _known
            results += [result for path in modules for result in found(path).values()]
    return _verdict(results)


def _lines(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def _file(path: str) -> Path:
    return OUT / f"{path.replace('/', '.')}.json"


def _known(path: str) -> dict[str, dict[str, Any]]:
    file = _file(path)
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def _state(path: str) -> dict[str, dict[str, Any]]:
    """Return every fault of a module as the last run here left it.

    A fault that no run here came to counts as a survivor if it has a reason, else as not run.
    """
    from tests.mutants.operators import mutants

    text = Path(path).read_text(encoding="utf-8")
    original = compile(text, path, "exec", dont_inherit=True)
    known, explained = _known(path), reasons()
    found = {}
    for mutant in mutants(text):
        key = _key(text, mutant)
        if key in known and known[key]["outcome"] != NOT_RUN:
            found[key] = known[key]
        elif _changes(original, mutant.source):
            outcome = "survived" if (path, mutant.before, mutant.after) in explained else NOT_RUN
            found[key] = _record(path, "", mutant, outcome, 0.0)
    return found


def reasons() -> dict[tuple[str, str, str], str]:
    """Return why no test can notice a fault, by module, line before and line after."""
    by_module = tomllib.loads((HERE / "survivors.toml").read_text(encoding="utf-8"))
    explained = {}
    for module, faults in by_module.items():
        for fault, reason in faults.items():
            before, _, after = fault.partition(" => ")
            explained[module, before, after] = reason
    return explained


def _save(path: str, found: dict[str, dict[str, Any]]) -> None:
    _file(path).write_text(json.dumps(found, indent=0), encoding="utf-8")


def _run(modules: list[str], tests: list[str], fresh: bool, part: range | None = None) -> None:
    from tests.mutants.operators import mutants
    from tests.mutants.running import NO_CHANGE

    os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = tempfile.mkdtemp()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    OUT.mkdir(parents=True, exist_ok=True)
    chosen: dict[str, Any] = {}
    keys: dict[int, str] = {}
    known: dict[str, dict[str, Any]] = {}
    for path in modules:
        text = Path(path).read_text(encoding="utf-8")
        known[path] = {}
        chosen[path] = []
        found = _known(path)
        original = compile(text, path, "exec", dont_inherit=True)
        for mutant in mutants(text):
            key = _key(text, mutant)
            keys[id(mutant)] = key
            again = part is None or mutant.line in part
            dead = key in found and found[key]["outcome"] in DEAD
            if dead and not (again and fresh):
                known[path][key] = found[key]
                known[path][key]["line"] = mutant.line
            elif _changes(original, mutant.source):
                before = None if again else found.get(key)
                known[path][key] = before or _record(path, "", mutant, NOT_RUN, 0.0)
                if again:
                    chosen[path].append(mutant)
        rest = len(known[path]) - len(chosen[path])
        print(
            f"{path}: {len(chosen[path])} to run, {rest} {'left as they are' if part else 'known to die'}", flush=True
        )
        _save(path, known[path])
    for name in WARM:
        importlib.import_module(name)

    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        _session(chosen, tests, write)
    os.close(write)
    late: list[Any] = []
    everything = {(path, number): mutant for path, found in chosen.items() for number, mutant in enumerate(found)}

    def note(path: str, function: str, mutant: Any, outcome: str, seconds: float) -> None:
        if outcome == NO_CHANGE:
            known[path].pop(keys[id(mutant)], None)
            return
        known[path][keys[id(mutant)]] = _record(path, function, mutant, outcome, seconds)
        if outcome in {"survived", "no test"}:
            print(f"{outcome}: {path}:{mutant.line} {function}\n  - {mutant.before}\n  + {mutant.after}", flush=True)
        _save(path, known[path])

    from tests.mutants.running import at_import

    with os.fdopen(read, encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            if "say" in record:
                print(record["say"], flush=True)
                continue
            mutant = everything[record["path"], record["number"]]
            if "tests" in record:
                late.append((record["path"], mutant, record["tests"], record["took"]))
            else:
                note(record["path"], record["function"], mutant, record["outcome"], record["seconds"])
    _, status = os.waitpid(pid, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        raise SystemExit("the tests fail without a mutant, or the session ended early")
    for path, mutant, reached, took in late:
        outcome, seconds = at_import(path, mutant, reached, took)
        note(path, "", mutant, outcome, seconds)


def _changes(original: Any, source: str) -> bool:
    """Whether the text is another program, and one at all: annotations alone are none."""
    from tests.mutants import planting

    try:
        return bool(planting.places(original, compile(source, original.co_filename, "exec", dont_inherit=True)))
    except SyntaxError:
        return False


def _record(path: str, function: str, mutant: Any, outcome: str, seconds: float) -> dict[str, Any]:
    return {
        "module": path, "function": function, "line": mutant.line, "operator": mutant.operator,
        "before": mutant.before, "after": mutant.after, "outcome": outcome, "seconds": round(seconds, 2),
    }  # fmt: skip


def _key(text: str, mutant: Any) -> str:
    """Return the key of a mutant: a killed one stays killed while its surroundings (20 lines on each side) do not
    change.
    """
    lines = text.splitlines()
    around = "\n".join(lines[max(0, mutant.line - 20) : mutant.line + 20])
    return hashlib.sha256(f"{around}\0{mutant.before}\0{mutant.after}\0{mutant.operator}".encode()).hexdigest()[:16]


def _session(chosen: dict[str, Any], tests: list[str], write: int) -> None:
    import pytest

    from tests.mutants.running import ARGUMENTS, Session

    numbers = {id(mutant): number for found in chosen.values() for number, mutant in enumerate(found)}

    def send(record: dict[str, Any]) -> None:
        os.write(write, (json.dumps(record) + "\n").encode())

    def report(path: str, function: str, mutant: Any, outcome: str, seconds: float) -> None:
        send(
            {"path": path, "number": numbers[id(mutant)], "function": function, "outcome": outcome, "seconds": seconds}
        )

    session = Session(chosen, report, lambda text: send({"say": text}))
    silent = os.open(OUT / "session.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    code = 1
    try:
        code = int(pytest.main([*ARGUMENTS, *tests], plugins=[session]))
        for path, mutant, reached, took in session.at_import:
            send({"path": path, "number": numbers[id(mutant)], "tests": reached, "took": took})
        code = 1 if session.failed else code
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _verdict(results: list[dict[str, Any]]) -> int:
    explained = reasons()
    by_module: dict[str, Counter[str]] = {}
    open_ones = []
    for result in results:
        counted = by_module.setdefault(result["module"], Counter())
        if result["outcome"] == NOT_RUN:
            counted["not run"] += 1
        elif result["outcome"] not in {"survived", "no test"}:
            counted["killed"] += 1
        elif (result["module"], result["before"], result["after"]) in explained:
            counted["explained"] += 1
        else:
            counted["open"] += 1
            open_ones.append(result)
    whole = sum(by_module.values(), Counter())
    print("module | mutants | killed | explained | open | not run")
    for module, counted in (*by_module.items(), ("all", whole)):
        columns = (counted.total(), *(counted[what] for what in ("killed", "explained", "open", "not run")))
        print(" | ".join((module, *map(str, columns))))
    run = whole.total() - whole["not run"]
    print(f"{whole['killed'] / max(run, 1):.1%} of those that were run are killed")
    for result in open_ones:
        print(f"  {result['module']}:{result['line']} {result['function']}")
        print(f"    - {result['before']}\n    + {result['after']}")
    return 0 if whole["killed"] >= LEAST * whole.total() and not open_ones and not whole["not run"] else 1


if __name__ == "__main__":
    sys.exit(main())
