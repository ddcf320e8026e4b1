"""Speed as ratios of two things measured in turn, in one run; the figures themselves are in benchmarks/."""

from __future__ import annotations

import contextlib
import gc
import io
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from benchmarks import fold as fold_benchmark
from connectors import read_log, xes
from stream.fold.records import Delta
from stream.replay.log_source import records_from_log

SAMPLE = Path(__file__).parents[2] / "examples" / "hospital.xes.gz"
ROUNDS = 4


def least(*works: Callable[[], object]) -> list[float]:
    """CPU seconds of each, the least of several rounds in turn: other work on the machine only ever adds."""
    found = [float("inf")] * len(works)
    for _ in range(ROUNDS):
        for place, work in enumerate(works):
            gc.collect()
            begin = time.process_time()
            work()
            found[place] = min(found[place], time.process_time() - begin)
    return found


@pytest.fixture(scope="module")
def importer():
    """pm4py's XES importer, without its banner and warnings."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        from pm4py.objects.log.importer.xes import importer
    return importer


@pytest.mark.logs
def test_the_xes_reader_takes_at_most_nine_tenths_of_pm4py(importer, logs: Path):
    """Sepsis, against the faster of pm4py's fastest variants; benchmarks/read_xes.py reads four logs."""
    log = logs / "sepsis.xes.gz"
    quiet = {"show_progress_bar": False}
    ours, *theirs = least(
        lambda: xes.read(log),
        lambda: importer.apply(str(log), variant=importer.Variants.LINE_BY_LINE, parameters=quiet),
        lambda: importer.apply(str(log), variant=importer.Variants.CHUNK_REGEX, parameters=quiet),
    )
    assert ours <= 0.9 * min(theirs)


def test_the_fold_takes_at_most_eight_times_the_bare_decoding():
    """Strings to codes, cases, completion and S1 cuts beside msgspec's work on the same bytes: ten samples in a row."""
    log = read_log(SAMPLE)
    (_, record), *_ = records_from_log(log, pseudonym=fold_benchmark.name, batch=log.n_events)
    span = record.rows[-1][3] - record.rows[0][3] + 1
    rows = [
        (offset + copy * log.n_events, f"{copy}{case[1:]}", activity, time_ns + copy * span, *rest)
        for copy in range(10)
        for offset, case, activity, time_ns, *rest in record.rows
    ]
    blobs = [
        (
            begin,
            msgspec.json.encode(
                Delta(src="log", p=0, prev=begin - 1, last=begin + len(part) - 1, n=len(part), rows=part)
            ),
        )
        for begin in range(0, len(rows), 2000)
        for part in [rows[begin : begin + 2000]]
    ]
    rules, decoder = fold_benchmark.rules_of(log.n_cases), msgspec.json.Decoder(Delta)
    whole, decoding = least(
        lambda: fold_benchmark.fold_all(rules, blobs), lambda: fold_benchmark.decode_all(decoder, blobs)
    )
    assert whole <= 8 * decoding
