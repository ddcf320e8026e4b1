"""Time and figures of the account of a ledger: `python -m benchmarks.account [--charges 10000] [--json]`.

For each kind of noisy release: CPU seconds to read so many entries back (`restart`), those of one more charge in the
account (`charge`: nothing is kept from an earlier one), epsilon of the sum and of the account, and delta. `52 weekly`
and `100` are Laplace releases of 1/52 and 1/100 at delta_dp 5e-7.
"""

from __future__ import annotations

import argparse
import json
import time
from fractions import Fraction
from typing import Any

from models.dp import account
from models.dp.privacy_loss import _pure_losses
from models.dp.spending import Spending
from models.dp.zcdp import PURE
from stream.ledger.entries import charge_entry, read_entry, write_entry
from stream.ledger.view import LedgerView
from stream.release.contract import Mechanism
from stream.release.mechanisms.dp_log import DpLog
from stream.release.mechanisms.dp_synthetic import DpSynthetic
from stream.release.mechanisms.dp_variants import DpVariants

DELTA = Fraction(1, 1_000_000)
EPSILON = Fraction(1, 100)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="JSON on stdout (always on)")
    parser.add_argument("--charges", type=int, default=10_000)
    asked = parser.parse_args()
    mechanisms: dict[str, Mechanism] = {
        "dp-variants": DpVariants(epsilon=EPSILON, delta_dp=DELTA),
        "dp-log": DpLog(epsilon=3 * EPSILON, delta_dp=DELTA, time_share=Fraction(1, 3)),
        "dp-synthetic": DpSynthetic(epsilon=EPSILON, delta_dp=DELTA),
        "dp-synthetic with times": DpSynthetic(epsilon=EPSILON, delta_dp=DELTA, max_duration="30d"),
    }
    document: dict[str, Any] = {"benchmark": "account", "charges": asked.charges}
    for name, mechanism in mechanisms.items():
        document[name] = timed(mechanism, asked.charges)
    for number in (52, 100):
        mechanism = DpVariants(epsilon=Fraction(1, number), delta_dp=DELTA / 2)
        stated = account.loss(PURE, Spending().with_charge(mechanism.charge(), mechanism.draws(), number)).charge
        document[f"{number} of 1/{number}"] = {"epsilon": float(stated.epsilon), "delta": float(stated.delta)}
    print(json.dumps(document, indent=2))


def timed(mechanism: Mechanism, number: int) -> dict[str, float]:
    """Return times and figures of a ledger of one mechanism."""
    charge, draws = mechanism.charge(), mechanism.draws()
    lines = [write_entry(charge_entry("p", f"cut-{place}", charge, draws=draws)) for place in range(number)]
    begin = time.process_time()
    view = LedgerView(read_entry(line) for line in lines)
    restart = time.process_time() - begin
    account.loss_of_stretch.cache_clear()
    account.agrees.cache_clear()
    _pure_losses.cache_clear()
    begin = time.process_time()
    _, spending = view.account("p").spending_with("next", charge, draws, once=False)
    stated = account.loss(PURE, spending).charge
    return {
        "restart": round(restart, 3),
        "charge": round(time.process_time() - begin, 3),
        "sum": float(spending.summed.epsilon),
        "epsilon": float(stated.epsilon),
        "delta": float(stated.delta),
    }


if __name__ == "__main__":
    main()
