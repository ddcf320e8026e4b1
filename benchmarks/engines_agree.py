"""Compare the answers of the engines on public logs: table of variants, plan, cases, counts, audits and series.

`python -m benchmarks.engines_agree [--logs sepsis,bpic2012] [--engines duckdb,spark] [--json]`. Each log is written as
Parquet, and once more with the events of its earlier half, as an earlier release; the answers of the engines are
compared with those of `embedded`. Of `tlkc` and `identity` this includes a series that shows everything again
(`replay --engine`), with a cut when half of the cases have begun and one at the end: decisions, content and all audits.
The exit code is 1 if anything differs. The logs are those of VEILSTREAM_LOGS.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import SecretStr

from benchmarks.scale import settings
from connectors import read_log, write_log
from connectors.reading import Reading
from models.eventlog import EventLog
from models.variants import VariantPlan
from stream.commands import build_app
from stream.engine import open_engine
from stream.engine.building import builder
from stream.engine.contract import CountQuery, Draws, Engine
from stream.release import single
from stream.release.contract import Exposure
from stream.release.public_files import carried
from stream.run.replay import Replay
from stream.testing import verifier

SENSITIVE = {"sepsis": ("Diagnose",), "bpic2013-incidents": ("impact",)}
"""Attribute that C bounds; the other logs have none."""

KEY = Draws(b"the same draws by every engine!!")


@dataclass(frozen=True, slots=True)
class TwoReleases:
    """A log as Parquet, and an earlier release of it."""

    whole: Path
    earlier: Path
    sensitive: tuple[str, ...] = ()


def names(folder: Path) -> Iterator[str]:
    """Return the names of the public logs, the smallest log first."""
    for path in sorted(folder.iterdir(), key=lambda path: path.stat().st_size):
        if path.name.endswith((".xes.gz", ".csv")):
            yield path.name.partition(".")[0]


def write_releases(folder: Path, name: str, work: Path) -> TwoReleases:
    """Write the log of a name as Parquet files into `work`."""
    source = next(path for path in sorted(folder.iterdir()) if path.name.startswith(f"{name}."))
    log = read_log(source, reading=Reading(timezone="UTC"))
    releases = TwoReleases(work / f"{name}.parquet", work / f"{name}-earlier.parquet", SENSITIVE.get(name, ()))
    write_log(log, releases.whole)
    write_log(_earlier(log), releases.earlier)
    return releases


def _earlier(log: EventLog) -> EventLog:
    """Return the part of the log before the median of the times."""
    return log.select_events(log.time <= np.sort(log.time)[log.n_events // 2], drop_empty=True)


def answers_of(kind: str, releases: TwoReleases, work: Path) -> dict[str, Any]:
    """Return the answers of an engine by part; they must be equal for all engines."""
    work.mkdir(exist_ok=True)
    engine = open_engine(kind, releases.whole, Reading(), work)
    try:
        result = _released(engine, releases.sensitive)
    finally:
        engine.close()
    return {**result, "audits": _audits(kind, releases)}


def _released(engine: Engine, sensitive: tuple[str, ...]) -> dict[str, Any]:
    """Return the table of variants, the plan and the cases of a release by the engine."""
    mechanism = single.mechanism_of("tlkc", {"suppression": "exact", "K": 5, "L": 2, "C": "0.9"})
    counted = engine.count(CountQuery(mechanism.variants_by(), sensitive))
    log, count = counted.table.log, counted.table.count
    exposure = Exposure(log, np.ones(log.n_cases, dtype=np.bool_), sensitive, 0, cases=count)
    build, _seconds = single.release_once(mechanism, exposure, keep_resources=False)
    plan = VariantPlan.of(carried(build), build.origin, count)
    counts = dict(single.summary(mechanism, exposure, build, 0.0))
    cases: list[tuple[str, int]] = []
    for batch in engine.leaving(plan, KEY):
        cases += zip(batch.ids, batch.trace.tolist(), strict=True)
    return {
        "table": list(counted.table.decoded().items()),
        "plan": (list(plan.traces.traces()), plan.row.tolist(), plan.trace.tolist(), plan.count.tolist()),
        "cases": cases,
        "counts": json.loads(json.dumps(counts, default=str)),
    }


def _audits(kind: str, releases: TwoReleases) -> Any:
    """Return the attack on the two releases."""
    arguments = ["attack", str(releases.earlier), str(releases.whole), "--n", "0..2", "--engine", kind, "--json"]
    if releases.sensitive:
        arguments += ["--sensitive", ",".join(releases.sensitive)]
    printed = io.TextIOWrapper(io.BytesIO())
    with redirect_stdout(printed):
        build_app("attack")(arguments, standalone_mode=False)
    printed.seek(0)
    return json.loads(printed.read())


DRAWN = ("seconds", "published", "files", "chain")
"""Parts of an audit that differ from run to run: durations, moments, and digests of files with drawn ids."""


def series_of(kind: str, mechanism: str, releases: TwoReleases, output: Path) -> dict[str, Any]:
    """Return decisions, content and audits of a series of two releases that show everything."""
    log = read_log(releases.whole)
    chosen = settings(mechanism, log.n_cases)
    process = chosen.process.model_copy(update={"sensitive": releases.sensitive})
    as_xes = {"formats": ("xes",)}  # which the verifier reads
    publication = tuple(table.model_copy(update=as_xes) for table in chosen.publication)
    # One key for all: resources are named alike.
    given = {"key": SecretStr("ab" * 32), "process": process, "publication": publication}
    chosen = chosen.model_copy(update=given)
    outcome = Replay(chosen, output, built_by=builder(kind, output)).run(log, final=True)
    audits = [dict(decision.audit) for _, decision in outcome.decisions]
    return {
        "decisions": verifier.decisions(output),
        "contents": verifier.contents(output),
        "audits": [{name: part for name, part in audit.items() if name not in DRAWN} for audit in audits],
    }


def all_answers(kind: str, releases: TwoReleases, work: Path) -> dict[str, Any]:
    """Return the answers of an engine, and its series."""
    series = {
        f"series of {mechanism}": series_of(kind, mechanism, releases, work / f"{kind}-{mechanism}")
        for mechanism in ("tlkc", "identity")
    }
    return {**answers_of(kind, releases, work / kind), **series}


def main() -> None:
    """Compare, and print one line for each log and engine."""
    folder = Path(os.environ.get("VEILSTREAM_LOGS", Path(__file__).resolve().parents[2] / "shared" / "logs"))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", default=",".join(names(folder)))
    parser.add_argument("--engines", default="duckdb,spark")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    rows = []
    for name in chosen.logs.split(","):
        with tempfile.TemporaryDirectory() as text:
            work = Path(text)
            releases = write_releases(folder, name, work)
            wanted = all_answers("embedded", releases, work)
            for kind in chosen.engines.split(","):
                begin, answers = time.monotonic(), all_answers(kind, releases, work)
                equal = {part: answers[part] == wanted[part] for part in wanted}
                rows.append({"log": name, "engine": kind, **equal, "seconds": round(time.monotonic() - begin, 1)})
                print(rows[-1], file=sys.stderr)
    if chosen.json:
        print(json.dumps({"runs": rows}))
    if not all(value for row in rows for value in row.values() if isinstance(value, bool)):
        sys.exit(1)


if __name__ == "__main__":
    main()
