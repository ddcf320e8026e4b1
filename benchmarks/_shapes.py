"""Made-up logs in the shape of two that are often published: nothing in them is of a real person."""

from __future__ import annotations

import numpy as np

from models.eventlog import EventLog

MINUTE = 60_000_000_000
DAY = 24 * 60 * MINUTE

RECEIPT_PATH = ("Confirm receipt", "Check receipt", "Adjust report", "Draft advice", "Print advice", "Send advice")
RECEIPT_EXTRAS = tuple(f"Extra step {number:02d}" for number in range(1, 22))
FUNNEL = (
    "Apply", "Check documents", "Screen", "Phone call", "Test", "Rate test", "Interview", "Rate interview",
    "Second interview", "References", "Salary", "Offer", "Sign", "Onboard",
)  # fmt: skip


def _log(traces: list[list[str]], generator: np.random.Generator) -> EventLog:
    """A log in which a case begins every few hours, and an event follows another after hours to days."""
    ids, names, times = [], [], []
    begin = 1_700_000_000_000_000_000
    for case, trace in enumerate(traces):
        begin += int(generator.integers(30, 600)) * MINUTE
        moment = begin
        for activity in trace:
            ids.append(f"c{case}")
            names.append(activity)
            times.append(moment)
            moment += int(generator.exponential(DAY)) + MINUTE
    return EventLog.from_events(ids, names, np.asarray(times, dtype=np.int64), unit="ns")


def receipt_like(seed: int = 1) -> EventLog:
    """Return 1,434 cases of 27 activities: half of them take the usual path, most of the others leave out its end or
    have one step more, and a few have rare steps."""
    generator = np.random.default_rng(seed)
    rarity = 1.0 / np.arange(1, len(RECEIPT_EXTRAS) + 1) ** 1.5
    rarity /= rarity.sum()
    traces = []
    for _ in range(1434):
        trace = list(RECEIPT_PATH)
        kind = generator.random()
        if kind < 0.2:
            trace = trace[: int(generator.integers(1, len(trace)))]
        if kind >= 0.7:
            for _ in range(int(generator.geometric(0.6))):
                place = int(generator.integers(1, len(trace) + 1))
                trace.insert(place, str(generator.choice(RECEIPT_EXTRAS, p=rarity)))
        traces.append(trace)
    return _log(traces, generator)


def recruiting_like(seed: int = 1) -> EventLog:
    """Return 2,000 applications in a long funnel: a quarter drops out at each of 14 steps, by a rejection or silently,
    and some steps are repeated or swapped."""
    generator = np.random.default_rng(seed)
    traces = []
    for _ in range(2000):
        trace = []
        for step in FUNNEL:
            trace.append(step)
            if generator.random() < 0.05:
                trace.append(step)
            if generator.random() < 0.25:
                break
        if len(trace) > 3 and generator.random() < 0.06:
            place = int(generator.integers(1, len(trace) - 1))
            trace[place], trace[place + 1] = trace[place + 1], trace[place]
        if trace[-1] != FUNNEL[-1] and generator.random() < 0.7:
            trace.append("Reject")
        traces.append(trace)
    return _log(traces, generator)
