"""Representations of records: short, and free of what the log says of persons."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import connectors
import models
from connectors import read_log, write_log
from connectors.kafka.events import SourceEvent
from models.anonymize.tlkc import anonymize
from models.attacks.correspondence import anonymity
from models.dp import amun, noise, strict
from models.eventlog import EventLog, SimpleLog
from models.knowledge import Knowledge

SECRET = re.compile("CANARY|4711|2031|1923")
LONGEST = 400


def canary() -> EventLog:
    """Sixty cases whose ids, activities, resources, values and times can be found in a text."""
    cases = [f"CANARYCASE{number // 2}" for number in range(120)]
    start = np.datetime64("2031-07-13", "ns").astype(np.int64)
    return EventLog.from_events(
        cases,
        ["CANARYIN", "CANARYOUT"] * 60,
        start + np.arange(120) * 10**9,
        ["CANARYNURSE"] * 120,
        {"diagnosis": {case: f"CANARY{place % 3}" for place, case in enumerate(cases)}},
        unit="ns",
    )


def results(tmp_path: Path) -> list[Any]:
    """Return the results of the documented functions in a notebook."""
    log = canary()
    simple = SimpleLog.from_log(log, ["diagnosis"])
    attacked = anonymity(simple, simple, bk_length=1, n=[0])
    write_log(log, tmp_path / "log.parquet")
    return [
        log,
        log.activity,
        log.resource,
        simple,
        read_log(tmp_path / "log.parquet"),
        anonymize(log, L=1, K=2, C=1, sensitive=["diagnosis"]),
        attacked,
        attacked.results[0],
        amun.release(log, delta=0.2, draw=noise.simulated(1)),
        strict.release_variants(log, epsilon=5, delta_dp=1e-2, draw=noise.simulated(1)),
        SourceEvent("CANARYCASE1", "CANARYIN", 1_923_000_000, "CANARYNURSE", None, "4711", False),
    ]


def test_no_result_prints_content(tmp_path: Path) -> None:
    """Also inside a list and in an f-string."""
    for result in results(tmp_path):
        for text in (repr(result), str(result), f"{[result]}"):
            assert not SECRET.search(text)
            assert len(text) <= LONGEST
    assert repr(canary()) == "EventLog(n_cases=60, n_events=120)"


CONTENT = re.compile(
    r"EventLog|SimpleLog|Column|Ints|Codes|Floats|Words|Whole|NDArray|Message|Mapping\[str, Any\]|Bytes|bytes"
)
"""Types in an annotation that carry content of a log."""

PLAIN = {
    "connectors.kafka.formats.Formats": "functions that decode, no records",
    "models.dp.noise.NoiseSource": "a generator of random numbers",
    "connectors.kafka.events.Schema": "names of columns, from the configuration",
    "connectors.inspection.Inspection": "the report of `inspect`: names and shapes, which are made to be shown",
}
"""Records without a representation of their own although such a type is in one of their annotations, and why."""


def modules(package: ModuleType) -> list[ModuleType]:
    found = pkgutil.walk_packages(package.__path__, package.__name__ + ".")
    return [importlib.import_module(one.name) for one in found]


def records() -> list[type]:
    """Every record class of the two packages."""
    found = []
    for module in [*modules(models), *modules(connectors)]:
        for _, one in inspect.getmembers(module, inspect.isclass):
            is_record = dataclasses.is_dataclass(one) or hasattr(one, "_fields") or hasattr(one, "__struct_fields__")
            if one.__module__ == module.__name__ and is_record:
                found.append(one)
    return found


def test_every_record_that_holds_content_has_a_short_representation() -> None:
    """A new record joins here, or says why it needs none."""
    assert len(records()) > 100
    missing = []
    for one in records():
        holds = any(CONTENT.search(str(kind)) for kind in one.__annotations__.values())
        own = getattr(one.__repr__, "content_free", False) or ("__repr__" in one.__dict__ and one.__name__ == "Column")
        name = f"{one.__module__}.{one.__qualname__}"
        if holds and not own and name not in PLAIN:
            missing.append(name)
    assert missing == []


@pytest.mark.parametrize("structure", ["seq", "rel"])
def test_configuration_still_prints_itself(structure: Any) -> None:
    """Records that people chose themselves keep the representation of dataclasses."""
    assert f"structure='{structure}'" in repr(Knowledge(structure, "ac"))
