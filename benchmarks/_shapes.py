"""Synthetic logs in the shape of four logs that are often published. They contain no data of a real person."""

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

PROBLEM_PATH = ("Accepted", "Queued", "Accepted", "Completed")
TICKET_PATH = ("Assign seriousness", "Take in charge ticket", "Resolve ticket")
TICKET_EXTRAS = (
    "Take in charge ticket", "Wait", "Require upgrade", "Insert ticket", "Create SW anomaly", "Resolve SW anomaly",
    "Schedule intervention", "DUPLICATE", "VERIFIED", "RESOLVED", "INVALID",
)  # fmt: skip


def _log(traces: list[list[str]], generator: np.random.Generator) -> EventLog:
    """Return a log in which a case begins every few hours, and an event follows another after hours to days."""
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


def closed_problems_like(seed: int = 1) -> EventLog:
    """Return 1,487 problems of 4 activities and about 6,600 events: begun over six years, all closed in five months.

    Such an export selects the cases that were closed in its last months, so no case completes while most of them
    begin. Half of them begin in the last two years.
    """
    generator = np.random.default_rng(seed)
    ids, names, times = [], [], []
    opened = 1_136_073_600_000_000_000
    closing = opened + 6 * 365 * DAY
    for case in range(1487):
        share = 1 - generator.power(3)
        begin = closing - int(share * 6 * 365 * DAY) - DAY
        end = closing + int(generator.uniform(0, 150 * DAY))
        trace = list(PROBLEM_PATH)
        if generator.random() < 0.25:
            trace.insert(2, "Unmatched")
        trace[1:1] = ["Queued"] * int(generator.geometric(0.8) - 1)
        moments = np.sort(generator.uniform(begin, end - DAY, len(trace) - 1)).tolist()
        moments[0] = begin
        for activity, moment in zip(trace, [*moments, end], strict=True):
            ids.append(f"p{case}")
            names.append(activity)
            times.append(int(moment))
    return EventLog.from_events(ids, names, np.asarray(times, dtype=np.int64), unit="ns")


def helpdesk_like(seed: int = 1) -> EventLog:
    """Return 4,580 tickets of 14 activities and about 21,000 events over three years and a half.

    Nine in ten take the usual path with a repetition here or there; a ticket is resolved after days, and closed by
    itself weeks after that, so that some ninety tickets are open at any time.
    """
    generator = np.random.default_rng(seed)
    rarity = 1.0 / np.arange(1, len(TICKET_EXTRAS) + 1) ** 2
    rarity /= rarity.sum()
    ids, names, times = [], [], []
    begin = 1_262_304_000_000_000_000
    for case in range(4580):
        begin += int(generator.exponential(6.7 * 60)) * MINUTE
        moment = begin
        trace = list(TICKET_PATH)
        for _ in range(int(generator.geometric(0.65)) - 1):
            place = int(generator.integers(1, len(trace)))
            trace.insert(place, str(generator.choice(TICKET_EXTRAS, p=rarity)))
        for activity in trace:
            ids.append(f"t{case}")
            names.append(activity)
            times.append(moment)
            moment += int(generator.exponential(2 * DAY)) + MINUTE
        ids.append(f"t{case}")
        names.append("Closed")
        times.append(moment + int(generator.uniform(10, 30) * DAY))
    return EventLog.from_events(ids, names, np.asarray(times, dtype=np.int64), unit="ns")
