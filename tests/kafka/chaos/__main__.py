"""`python -m tests.kafka.chaos`: see `make chaos`. One JSON line at the end; exit 1 where anything was found."""

from __future__ import annotations

import argparse
import json
import random
import sys

from tests.kafka.bugs import BUGS
from tests.kafka.chaos.catalogue import CATALOGUE, WAITS
from tests.kafka.chaos.run import run, say
from tests.kafka.chaos.schedule import allowed, strikes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--faults", type=int, default=1_000_000, help="stop after so many")
    parser.add_argument("--seed", type=int, default=None, help="as an earlier run printed it (default: a new one)")
    parser.add_argument("--round", type=int, default=None, help="only this round of the seed")
    parser.add_argument("--only", action="append", default=[], metavar="KIND")
    parser.add_argument("--also", action="append", default=[], metavar="KIND", help="a kind that waits, or `waiting`")
    parser.add_argument("--bug", choices=sorted(BUGS), default="", help="plant it: the run must find it")
    parser.add_argument("--list", action="store_true", help="the catalogue, and the schedule of the first round")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(1_000_000) if options.seed is None else options.seed
    kinds = allowed(options.only, options.also)
    if options.list:
        for name, kind in CATALOGUE.items():
            print(f"{name:32} {kind.place:6} {kind.outcome}" + (f" [off: {WAITS[name]}]" if name in WAITS else ""))
        for faults in strikes(seed, options.round or 1, kinds):
            print(json.dumps([fault.description() for fault in faults]))
        return 0
    say(f"seed {seed}; the same again: make chaos SEED={seed}" + "".join(f" --also {one}" for one in options.also))
    rounds = range(1, 1_000_000) if options.round is None else (options.round,)
    figures = run(seed, kinds, seconds=options.hours * 3600, most=options.faults, rounds=rounds, bug=options.bug)
    print(json.dumps(figures))
    return 1 if figures["findings"] else 0


if __name__ == "__main__":
    sys.exit(main())
