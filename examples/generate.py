"""The bundled sample log: a small hospital, made up from a seed. No person's data went into it.

`python -m examples.generate [FILE]` writes `hospital.xes.gz` of the program, the same log at every run, and next to it
`hospital.csv.gz`: the same events as an office exports them, by semicolon, in order of time, with times such as
`31/01/2025 14:05:00` of the clock in Berlin.

About 2,000 cases over 26 weeks from 2025-01-06: more arrivals in the daytime and on working days, a diagnosis
(sensitive), an age, staff as resources, rework, and from week 15 on a concept drift: CT scans take over from X-rays,
and fast-track patients leave without a doctor's second look.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from zoneinfo import ZoneInfo

import numpy as np

from connectors import write_log
from connectors.output import writing
from models.eventlog import EventLog

SEED = 20250106
START = datetime(2025, 1, 6, tzinfo=ZoneInfo("Europe/Berlin"))
WEEKS = 26
DRIFT = START + timedelta(weeks=14)
PER_DAY = 11.0
"""Mean arrivals of a day, give or take: nights and weekends have fewer."""

DIAGNOSES = {
    "injury": 0.34, "infection": 0.22, "cardiac": 0.16, "gastric": 0.14, "neurological": 0.09, "psychiatric": 0.05,
}  # fmt: skip
STAFF = {
    "Registration": ("Clerk 1", "Clerk 2", "Clerk 3"),
    "Triage": ("Nurse 1", "Nurse 2", "Nurse 3", "Nurse 4"),
    "Consultation": ("Doctor 1", "Doctor 2", "Doctor 3"),
    "Blood test": ("Laboratory 1", "Laboratory 2"),
    "X-ray": ("Radiology 1", "Radiology 2"),
    "CT scan": ("Radiology 2", "Radiology 3"),
    "Surgery": ("Surgeon 1", "Surgeon 2"),
    "Medication": ("Nurse 2", "Nurse 3", "Nurse 5"),
    "Admission": ("Ward 1", "Ward 2"),
    "Discharge": ("Clerk 1", "Clerk 2", "Clerk 3"),
}
MINUTES = {
    "Registration": 0, "Triage": 15, "Consultation": 50, "Blood test": 35, "X-ray": 40, "CT scan": 55,
    "Surgery": 240, "Medication": 30, "Admission": 90, "Discharge": 60,
}  # fmt: skip
"""Mean waiting time before each activity."""
IMAGED = {"injury": 0.85, "cardiac": 0.35, "neurological": 0.6}
TESTED = {"infection": 0.9, "cardiac": 0.8, "gastric": 0.6, "neurological": 0.3}
ADMITTED = {"infection": 0.25, "cardiac": 0.45, "neurological": 0.4, "psychiatric": 0.3}


def pick(rng: Random, weights: dict[str, float]) -> str:
    """One of the keys, drawn by weight."""
    at = rng.random() * sum(weights.values())
    for value, weight in weights.items():
        at -= weight
        if at < 0:
            return value
    return next(reversed(weights))


def path(rng: Random, diagnosis: str, drifted: bool) -> list[str]:
    """The activities of one case."""
    steps = ["Registration", "Triage"]
    if drifted and diagnosis in ("injury", "gastric") and rng.random() < 0.4:
        return [*steps, "Medication", "Discharge"]
    tests = []
    if rng.random() < TESTED.get(diagnosis, 0.1):
        tests.append("Blood test")
    if rng.random() < IMAGED.get(diagnosis, 0.05):
        tests.append("CT scan" if drifted and rng.random() < 0.7 else "X-ray")
    if len(tests) == 2 and rng.random() < 0.3:
        tests.reverse()
    steps += [*tests, "Consultation"]
    if tests and rng.random() < 0.12:
        steps += [tests[-1], "Consultation"]
    if diagnosis == "injury" and rng.random() < 0.15:
        steps += ["Surgery"]
    elif rng.random() < 0.55:
        steps += ["Medication"]
    if steps[-1] == "Surgery" or rng.random() < ADMITTED.get(diagnosis, 0.05):
        steps += ["Admission"]
    return [*steps, "Discharge"]


def arrivals(rng: Random) -> list[datetime]:
    """Arrival times: a Poisson process thinned by the hour of the day and the day of the week."""
    result, now, end = [], START, START + timedelta(weeks=WEEKS)
    while True:
        now += timedelta(days=rng.expovariate(2.16 * PER_DAY))
        if now >= end:
            return result
        local = now.astimezone(START.tzinfo)
        weekday = 1.0 if local.weekday() < 5 else 0.65
        if 8 <= local.hour < 18:
            daytime = 1.0
        elif 18 <= local.hour < 23:
            daytime = 0.35
        else:
            daytime = 0.1
        if rng.random() < weekday * daytime:
            result.append(now.astimezone(UTC).replace(microsecond=0))


def age(rng: Random, diagnosis: str) -> int:
    """Years, older for cardiac cases."""
    middle = 66 if diagnosis == "cardiac" else 44
    return max(1, min(97, round(middle + 17 * (rng.random() + rng.random() + rng.random() - 1.5) * 2)))


def hospital(seed: int = SEED) -> EventLog:
    """The log; equal seeds give equal logs."""
    rng = Random(seed)
    rows: list[tuple[str, str, int, str]] = []
    people: dict[str, dict[str, object]] = {"diagnosis": {}, "age": {}}
    for number, moment in enumerate(arrivals(rng), 1):
        case, diagnosis = f"P{number:05d}", pick(rng, DIAGNOSES)
        people["diagnosis"][case], people["age"][case] = diagnosis, age(rng, diagnosis)
        for activity in path(rng, diagnosis, moment >= DRIFT):
            moment += timedelta(
                seconds=int(rng.expovariate(1.0) * 60 * MINUTES[activity]) + (activity != "Registration")
            )
            staff = STAFF[activity]
            rows.append((case, activity, int(moment.timestamp()), staff[int(rng.random() * len(staff))]))
    cases, activities, seconds, staff_names = zip(*rows, strict=True)
    times = np.asarray(seconds, dtype=np.int64) * 1_000_000_000
    return EventLog.from_events(cases, activities, times, staff_names, people, unit="ns")


CLOCK = ZoneInfo("Europe/Berlin")
HEADER = ("Case ID", "Activity", "Complete Timestamp", "Resource", "diagnosis", "age")


def write_twin(log: EventLog, path: Path) -> None:
    """The log as a CSV file of the kind that people have."""
    cases = log.case_of_event.tolist()
    people = [log.case_attributes[name].decode() for name in ("diagnosis", "age")]
    rows = zip(cases, log.activity.decode(), log.time.tolist(), log.resource.decode(), strict=True)
    with writing(path) as stream:
        table = csv.writer(stream, delimiter=";", lineterminator="\n")
        table.writerow(HEADER)
        for case, activity, time, staff in sorted(rows, key=lambda row: row[2]):
            local = datetime.fromtimestamp(time // 1_000_000_000, CLOCK)
            own = [values[case] for values in people]
            table.writerow([log.case_ids[case], activity, local.strftime("%d/%m/%Y %H:%M:%S"), staff, *own])


_BUNDLED = Path(__file__).with_name("hospital.xes.gz").resolve()
"""The link next to this program leads to the log that `veilstream demo` replays."""


def main(arguments: Sequence[str]) -> None:
    """Write the log to the file named, or to the one that comes with the program."""
    target = Path(arguments[0]) if arguments else _BUNDLED
    log = hospital()
    write_log(log, target)
    write_twin(log, target.with_name(target.name.partition(".")[0] + ".csv.gz"))
    print(f"{target}: {log.n_cases} cases, {log.n_events} events, {len(set(log.traces()))} variants")


if __name__ == "__main__":
    main(sys.argv[1:])
