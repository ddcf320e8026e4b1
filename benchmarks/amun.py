"""Amun: time and utility of every design, compared with Table 6 of the paper.

Run `python -m benchmarks.amun --json`. CPU seconds of the mechanism only (the log is read before), least of `--rounds`
after a first run that compiles: `cpu_released` with noise from the cryptographic source, `cpu_seeded` with seeded
noise, `cpu_without_noise` the same less the time spent in drawing noise for counts and times.
Reach (DESIGN section 7): Sepsis / BPIC 2012 <= 0.1 / 0.5 s without noise, <= 0.3 / 3 s with. The distances are means
over `--rounds` seeded releases, as the paper measures them and matched by edge; `paper_prior` repeats them with the
prior that reproduces the paper's tables, `uncompressed` without equation 4 and with copies that share only their own
case's epsilon. Logs: the folder VEILSTREAM_LOGS. Read docs/dp.md for what differs and why.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.papers.amun import PRINTED
from connectors import read_log
from models.dp import amun, noise
from models.errors import BoundError
from models.eventlog import EventLog, Ints
from models.utility.graphs import directly_follows, edge_distance
from models.utility.variants import variant_changes

LOGS = {"sepsis": "Sepsis", "urineweginfectie": "Unrineweginfectie", "bpic2012": "BPIC12"}
"""File and the paper's name of each log."""

DELTAS = (0.2, 0.3, 0.4)
DESIGNS: tuple[amun.Design, ...] = ("sampling", "filtering", "oversampling")
ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="JSON on stdout (always on)")
    parser.add_argument("--log", action="append", choices=sorted(LOGS), help="only this log; repeatable")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    print(json.dumps(measure(arguments.log or list(LOGS), arguments.rounds), indent=2))


def measure(names: list[str], rounds: int) -> dict[str, Any]:
    """Return all figures by log, design and delta."""
    folder = Path(os.environ.get("VEILSTREAM_LOGS", ROOT.parent / "shared" / "logs"))
    table = PRINTED["table6"]
    results: dict[str, Any] = {}
    for name in names:
        log = read_log(folder / f"{name}.xes.gz")
        amun.release(log, delta=0.4, variant="sampling")
        results[name] = {
            design: {
                str(delta): {**_figures(log, design, delta, rounds), "paper": _paper(table, LOGS[name], design, delta)}
                for delta in DELTAS
            }
            for design in DESIGNS
        }
    return results


class _Timed(noise.NoiseSource):
    """A source that adds up the CPU seconds spent in drawing noise."""

    __slots__ = ("spent",)

    def __init__(self, seed: int | None) -> None:
        super().__init__(None if seed is None else np.random.default_rng(seed))
        object.__setattr__(self, "spent", 0.0)

    def _add(self, begin: float) -> None:
        object.__setattr__(self, "spent", self.spent + time.process_time() - begin)

    def laplace(self, scale: float, size: int) -> Ints:
        begin = time.process_time()
        drawn = super().laplace(scale, size)
        self._add(begin)
        return drawn

    def laplace_each(self, scales: npt.NDArray[np.float64], which: Ints) -> Ints:
        begin = time.process_time()
        drawn = super().laplace_each(scales, which)
        self._add(begin)
        return drawn


def _figures(log: EventLog, design: amun.Design, delta: float, rounds: int) -> dict[str, Any]:
    figures = _released(log, design, delta, rounds)
    if "refused" in figures:
        return figures
    return {
        "cpu_released": _least_seconds(log, design, delta, rounds),
        **figures,
        "paper_prior": _released(log, design, delta, rounds, prior="paper-tables"),
        "uncompressed": _released(log, design, delta, rounds, compression="none", replicas="own"),
    }


def _least_seconds(log: EventLog, design: amun.Design, delta: float, rounds: int) -> float | None:
    """Return CPU seconds of a release with cryptographic noise; None if every round was refused."""
    seconds = []
    for _ in range(rounds):
        begin = time.process_time()
        try:
            amun.release(log, delta=delta, variant=design)
        except BoundError:  # the noise may delete all cases where the filter left a handful
            continue
        seconds.append(time.process_time() - begin)
    return min(seconds, default=None)


def _released(log: EventLog, design: amun.Design, delta: float, rounds: int, **options: Any) -> dict[str, Any]:
    """Return means over seeded releases and the least times; {"refused": reason} if the mechanism refuses."""
    seconds: list[tuple[float, float]] = []
    rows: list[dict[str, float]] = []
    for seed in range(rounds):
        draw = _Timed(seed)
        begin = time.process_time()
        try:
            release = amun.release(log, delta=delta, variant=design, draw=draw, **options)
        except BoundError as error:
            return {"refused": str(error)}
        total = time.process_time() - begin
        seconds.append((total, total - draw.spent))
        distance = edge_distance(directly_follows(log), directly_follows(release.log))
        changes = variant_changes(log, release.log)
        rows.append(
            {
                "emd_frequency": distance.emd_frequency,
                "emd_time_months": distance.emd_time_months,
                "matched_frequency": distance.mae_frequency,
                "matched_time_months": distance.mae_time_months,
                "cases": release.log.n_cases,
                "cases_filtered": release.operator["cases_filtered"],
                "lost_variants": changes.lost,
                "new_variants": changes.new,
            }
        )
    return {
        "cpu_seeded": min(seconds)[0],
        "cpu_without_noise": min(mechanism for _, mechanism in seconds),
        **{key: round(fmean(row[key] for row in rows), 3) for key in rows[0]},
    }


def _paper(table: dict[str, Any], name: str, design: amun.Design, delta: float) -> dict[str, float] | None:
    row = table.get(name, {}).get(str(delta))
    if row is None:
        return None
    return {"emd_frequency": row["freq"][design[0]], "emd_time_months": row["time_months"][design[0]]}


if __name__ == "__main__":
    main()
