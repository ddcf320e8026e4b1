"""Time and figures of the account of a ledger: `python -m benchmarks.account [--charges 10000] [--json]`.

For each kind of noisy release, with a ledger that has so many charges, in CPU seconds: to read it back (`restart`); of
the next release from its beginning until its charge is durable (`charge`: budget, gate and ledger of a pipeline, with a
limit of epsilon and one of the process; nothing is kept from an earlier composition); of the release after that one,
which finds what earlier charges composed (`next_charge`); of the forecast that metrics show (`forecast`). Then epsilon
of the sum and of the account, and delta. `dp-synthetic, changed 64 times` has as many ended stretches as an account
keeps apart: each is composed once in the life of a process. `52 of 1/52` and `100 of 1/100` are Laplace releases at
delta_dp 5e-7.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import tempfile
import time
from collections.abc import Mapping
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from models.dp import account
from models.dp.privacy_loss import _pure_losses
from models.dp.spending import MOST_STRETCHES, Spending
from models.dp.zcdp import PURE
from models.eventlog import EventLog
from stream.config.settings import Settings
from stream.ledger.entries import WithheldBody, WithheldEntry, charge_entry, key_of, write_entry
from stream.ledger.layout import OperatorLayout
from stream.ledger.view import LedgerView
from stream.release.contract import Attempt, Exposure
from stream.release.failpoints import Failpoint, Faults
from stream.release.mechanisms.dp_variants import DpVariants
from stream.release.schedule import SimulatedClock
from stream.run.service import ProcessContext, ReleaseService

DELTA = Fraction(5, 10_000_000)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="JSON on stdout (always on)")
    parser.add_argument("--charges", type=int, default=10_000)
    asked = parser.parse_args()
    terms = {"epsilon": "1/100", "delta_dp": "1e-6"}
    mechanisms: dict[str, dict[str, Any]] = {
        "dp-variants": {"kind": "dp-variants", **terms},
        "dp-log": {"kind": "dp-log", "epsilon": "3/100", "delta_dp": "1e-6", "time_share": "1/3"},
        "dp-synthetic": {"kind": "dp-synthetic", **terms},
        "dp-synthetic with times": {"kind": "dp-synthetic", **terms, "max_duration": "30d"},
        "dp-model with times": {"kind": "dp-model", **terms, "max_duration": "30d"},
    }
    document: dict[str, Any] = {"benchmark": "account", "charges": asked.charges}
    for name, keys in mechanisms.items():
        document[name] = timed(keys, asked.charges)
    changed = f"dp-synthetic, changed {MOST_STRETCHES} times"
    document[changed] = timed(mechanisms["dp-synthetic"], asked.charges, changes=MOST_STRETCHES)
    for number in (52, 100):
        mechanism = DpVariants(epsilon=Fraction(1, number), delta_dp=DELTA)
        stated = account.loss(PURE, Spending().with_charge(mechanism.charge(), mechanism.draws(), number)).charge
        document[f"{number} of 1/{number}"] = {"epsilon": float(stated.epsilon), "delta": float(stated.delta)}
    print(json.dumps(document, indent=2))


def timed(mechanism: Mapping[str, Any], number: int, changes: int = 0) -> dict[str, float | int | None]:
    """Return times and figures of a ledger of one mechanism, which is given as in a configuration.

    Its epsilon changed so often, after equally many charges each.
    """
    chosen = settings(mechanism)
    times: dict[str, float] = {}

    def note(step: str) -> None:
        times.setdefault(step, time.process_time())

    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "out"
        fill(output, chosen, number, changes)
        service = ReleaseService(chosen, output, context=ProcessContext(clock=SimulatedClock()), faults=Faults(note))
        pipeline = service.pipelines["p"]
        begin = time.process_time()
        LedgerView(service.ledger.entries())
        restart = time.process_time() - begin

        account.loss_of_stretch.cache_clear()
        account.agrees.cache_clear()
        _pure_losses.cache_clear()
        charges = []
        for cut in ("p/next/0/0", "p/after/0/0"):
            times.clear()
            begin = time.process_time()
            decision = pipeline.attempt(attempt(cut))
            charges.append(times[Failpoint.CHARGED] - begin)
            assert not any(reason.code in ("epsilon", "delta", "process_budget") for reason in decision.because)

        begin = time.process_time()
        left = pipeline.releases_left
        forecast = time.process_time() - begin
        spent = pipeline.spent.charge
        summed = pipeline.account.spending.summed
        service.close()
    return {
        "restart": round(restart, 3),
        "charge": round(charges[0], 3),
        "next_charge": round(charges[1], 3),
        "forecast": round(forecast, 3),
        "left": left,
        "sum": float(summed.epsilon),
        "epsilon": float(spent.epsilon),
        "delta": float(spent.delta),
    }


def settings(mechanism: Mapping[str, Any]) -> Settings:
    """Return a configuration with limits that the next release does not reach."""
    publication = {
        "name": "p",
        "window": {"manual": True},
        "mechanism": dict(mechanism),
        "gate": {"max_epsilon": 1000},
        "audit": {"risk": False, "utility": False, "leakage": False},
    }
    process = {"name": "account", "budget": {"max_epsilon": 2000, "max_delta": "0.5"}}
    return Settings.model_validate({"min_free_bytes": 0, "process": process, "publication": [publication]})


def fill(output: Path, chosen: Settings, number: int, changes: int) -> None:
    """Make a ledger with so many charges of attempts that were withheld; the last ones are those of the settings."""
    ReleaseService(chosen, output, context=ProcessContext(clock=SimulatedClock())).close()
    mechanism = chosen.publication[0].build_mechanism
    epsilons = [mechanism.charge().epsilon * (1 + Fraction(step, 1000)) for step in range(changes, -1, -1)]
    mechanisms = [mechanism.model_copy(update={"epsilon": epsilon}) for epsilon in epsilons]
    charges = [(one.charge(), one.draws()) for one in mechanisms]
    rows = []
    for place in range(number):
        cost, draws = charges[place * len(charges) // number]
        charge = charge_entry("p", f"p/{place}/0/0", cost, draws=draws)
        withheld = WithheldEntry(publication="p", cut=charge.cut, body=WithheldBody(["utility: too low"]))
        rows += [(key_of(entry), entry.publication, write_entry(entry)) for entry in (charge, withheld)]
    with closing(sqlite3.connect(OperatorLayout(output).ledger)) as ledger, ledger:
        ledger.executemany("INSERT INTO entries(key, publication, body) VALUES(?, ?, ?)", rows)


def attempt(cut: str) -> Attempt:
    """Return a cut of many equal cases."""
    log = EventLog.from_traces([(("a", "b"), None)] * 2000)
    exposure = Exposure(log, np.ones(log.n_cases, dtype=np.bool_), (), 0)
    return Attempt(cut, "manual", 0, exposure, {})


if __name__ == "__main__":
    main()
