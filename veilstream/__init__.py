"""Publish event logs with privacy, and measure what releases give away: the public Python API.

    import veilstream as vs

Functions take pandas DataFrames as pm4py makes them, pm4py's EventLog, the EventLog of `models`, or the path of a file,
and return logs of the same kind. Their keywords are the options of the command line. Names that are not in `__all__`
may change without notice (docs/python-api.md).
"""

from __future__ import annotations

from veilstream import _foreign

_foreign.check()

# After the check, so that it refuses a foreign package before anything is imported from it.
from models.errors import BoundError, InputError, RefusedError, VeilstreamError  # noqa: E402
from veilstream._logs import example_log, read_log  # noqa: E402
from veilstream._measures import assess, attack, leakage, risk, utility  # noqa: E402
from veilstream._releases import anonymize, replay, synthesize  # noqa: E402
from veilstream._results import Measurement, Release, ReleaseSeries  # noqa: E402
from veilstream._series import read_series  # noqa: E402

__all__ = [
    "BoundError",
    "InputError",
    "Measurement",
    "RefusedError",
    "Release",
    "ReleaseSeries",
    "VeilstreamError",
    "anonymize",
    "assess",
    "attack",
    "example_log",
    "leakage",
    "read_log",
    "read_series",
    "replay",
    "risk",
    "synthesize",
    "utility",
]
