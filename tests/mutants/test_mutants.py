"""The harness of mutation testing: what it plants, how it plants it, and the reasons for what survives."""

from __future__ import annotations

import tomllib
import types
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import ROOT
from tests.mutants import planting
from tests.mutants.__main__ import reasons

GROUPS = tomllib.loads((ROOT / "tests/mutants/targets.toml").read_text(encoding="utf-8"))["group"]

SOURCE = """LIMIT = 3


class Bounded:
    @property
    def least(self):
        return min(self.value, LIMIT)


def bounded(value: int | None) -> int:
    if value < LIMIT:
        raise ValueError
    value += 1
    return value
"""


def test_every_explained_survivor_is_a_line_of_the_program() -> None:
    """Each reason is a sentence, and its line is in its module: a reason without a line is deleted."""
    for (module, before, after), reason in reasons().items():
        text = " ".join((ROOT / module).read_text(encoding="utf-8").split())
        assert before in text, (module, before)
        assert before != after
        assert len(reason.split()) >= 4, (module, before)


def test_targets_are_there() -> None:
    """Every module, test file and test of the targets exists, and every module of models/dp is a target."""
    tests = [name.partition("::") for group in GROUPS for name in group["tests"]]
    named = {*(path for group in GROUPS for path in group["modules"]), *(path for path, _, _ in tests)}
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []
    assert [name for path, _, name in tests if f"def {name}" not in (ROOT / path).read_text(encoding="utf-8")] == []
    of_dp = {str(path.relative_to(ROOT)) for path in (ROOT / "models/dp").rglob("*.py") if path.name != "__init__.py"}
    assert of_dp <= named


def test_faults_that_are_planted() -> None:
    """Numbers, comparisons, bounds and statements; never an annotation alone."""
    pytest.importorskip("cosmic_ray")
    from tests.mutants.operators import mutants

    found = {(one.before, one.after) for one in mutants(SOURCE)}
    assert {
        ("LIMIT = 3", "LIMIT = 4"),
        ("return min(self.value, LIMIT)", "return (self.value)"),
        ("return min(self.value, LIMIT)", "return (LIMIT)"),
        ("if value < LIMIT:", "if value <= LIMIT:"),
        ("if value < LIMIT:", "if value >= LIMIT:"),
        ("raise ValueError", "pass"),
        ("value += 1", "pass"),
    } <= found
    original = compile(SOURCE, "bounded.py", "exec", dont_inherit=True)
    where = {
        one.after: planting.places(original, compile(one.source, "bounded.py", "exec", dont_inherit=True))
        for one in mutants(SOURCE)
    }
    assert where["return (LIMIT)"] == ["Bounded.least"]
    assert where["pass"] == ["bounded"]
    assert where["LIMIT = 4"] == [""]


def test_a_constant_of_a_module_with_kernels_is_compiled_into_them() -> None:
    """The kernels are compiled again with it; who holds them gets the new ones, and a second planting gives it back."""
    from models.dp import discrete

    def largest() -> int:
        words = np.asarray([5, 5, *[0, 1] * 128, 0, *[9] * 20], dtype=np.uint64)
        return int(discrete.discrete_laplace(np.asarray([2.0**56]), np.zeros(1, np.int64), lambda _: words)[0])

    source = Path(discrete.__file__).read_text(encoding="utf-8")
    before = largest()
    assert planting.plant_module(discrete, source.replace("0x7FFFFFFFFFFFFFFF", "0x0FFFFFFFFFFFFFFF"))
    try:
        assert (before >> 56, largest() >> 56) == (127, 15)
    finally:
        assert planting.plant_module(discrete, source)
    assert largest() == before


def test_a_fault_is_planted_into_what_others_hold() -> None:
    """The function that callers imported before, a property, a method and a cached function get the new body."""
    import functools

    text = SOURCE + "\n\n@cache\ndef cached():\n    return 1\n\n\n@cache\ndef above():\n    return bounded(5)\n"
    module = types.ModuleType("bounded")
    vars(module)["cache"] = functools.cache
    exec(compile(text, "bounded.py", "exec", dont_inherit=True), vars(module))
    held, kept = module.bounded, module.Bounded()
    kept.value = 9
    assert (held(5), kept.least, module.cached(), module.above()) == (6, 3, 1, 6)
    mutated = compile(
        text.replace("value += 1", "value += 2").replace("min(", "max(").replace("return 1", "return 2"),
        "bounded.py",
        "exec",
        dont_inherit=True,
    )
    for name in ("bounded", "Bounded.least", "cached"):
        code = planting.function_code(mutated, name)
        assert code is not None
        assert planting.plant(module, name, code)
    assert (held(5), kept.least, module.cached()) == (7, 9, 2)
    assert module.above() == 7, "what a caller remembers is of the function without the fault"


def _burn() -> bool:
    while True:
        pass


def _wait() -> bool:
    import time

    while True:
        time.sleep(3600)


def _ended_from_outside() -> bool:
    import os
    import signal

    os.kill(os.getpid(), signal.SIGKILL)
    return True


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        (_burn, "timeout"), (_wait, "timeout"), (_ended_from_outside, "not run"), (lambda: True, "killed"),
        (lambda: 1 // 0, "killed"), (lambda: False, "survived"),
    ],
    ids=lambda one: getattr(one, "__name__", one),
)  # fmt: skip
def test_what_ends_a_mutant(body: Callable[[], bool], outcome: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Endless work and endless waiting are kills; an end that came from outside is none."""
    pytest.importorskip("cosmic_ray")
    from tests.mutants import running

    monkeypatch.setattr(running, "IDLE", 2.0)
    assert running.forked(body, 0.2)[0] == outcome
