"""Discovery quality: how well the model found in the release explains the original log.

Source: tlkc-privacy-extended-2021, section 6.2.1: discover a model from the release (inductive miner infrequent, noise
threshold 0.2), measure its fitness, precision and F1 against the original. Fitness is by alignments by default: token
replay passes over activities that the model lacks, and so rates a release that dropped them too well (Sepsis, weak
seq: .976 by replay, .757 by alignments). Replay is the fast choice.

The one place that imports pm4py: it prints a banner and warns about optional parts on import.
"""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from models.errors import InputError
from models.eventlog import EventLog
from models.utility.graphs import Agreement

if TYPE_CHECKING:
    import pandas as pd

NOISE = 0.2
"""Noise threshold of the paper's experiments."""

Method = Literal["alignment", "replay"]


def discovery_quality(
    original: EventLog, released: EventLog, method: Method = "alignment", noise: float = NOISE
) -> Agreement:
    """Fitness of the release's model on the original log by `method`, and its precision.

    Precision is by escaping edges of replayed prefixes under either method: aligning every prefix of every variant
    takes hours on logs like Sepsis. InputError when a log has no events.
    """
    if method not in ("alignment", "replay"):
        raise InputError(f"fitness method {method!r} is not one of alignment, replay")
    if not original.n_events or not released.n_events:
        raise InputError("discovery quality compares two logs with at least one event each")
    with _quiet() as pm4py:
        model = pm4py.discover_petri_net_inductive(_frame(released), noise_threshold=noise)
        frame = _frame(original)
        measure = pm4py.fitness_alignments if method == "alignment" else pm4py.fitness_token_based_replay
        fitness = measure(frame, *model)
        precision = pm4py.precision_token_based_replay(frame, *model)
    return Agreement(float(fitness["log_fitness"]), float(precision))


def _frame(log: EventLog) -> pd.DataFrame:
    """What pm4py reads: control flow only, times are the position in the trace."""
    import pandas as pd

    position = np.arange(log.n_events) - np.repeat(log.starts[:-1], log.lengths)
    return pd.DataFrame(
        {
            "case:concept:name": log.case_of_event.astype(str),
            "concept:name": [str(name) for name in log.activity.decode()],
            "time:timestamp": pd.to_datetime(position, unit="s", utc=True),
        }
    )


@contextlib.contextmanager
def _quiet() -> Iterator[Any]:
    """pm4py without its banner, its warnings and its progress bars."""
    level = logging.root.manager.disable
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        try:
            import pm4py

            yield pm4py
        finally:
            logging.disable(level)
