"""Runs the tests of a group once, then each mutant in a fork of it with the tests that reach its function."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
import time
import types
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.mutants import planting
from tests.mutants.operators import Mutant

PROCESSOR = 4.0
"""Seconds of the processor that a mutant may take beyond four times what its tests take: a loop without end is known by
them. Seconds of the clock say nothing, as other processes compute too."""

IMPORTS = 50.0
"""The same again where everything is imported and every kernel of the module compiled again."""

IDLE = 60.0
"""Seconds after which a mutant that has not used the processor waits for something that does not come."""

LEAST = 0.3
"""Seconds of the processor in that time that are none: every process that can continue gets more."""

POLL = 0.005
"""Seconds between two looks at a mutant."""

MEMORY = 6 << 30
"""Bytes that a mutant may hold: one that asks for more is killed by that."""

STOPPED = "not run"
"""Outcome of a mutant whose process was ended from outside, such as for want of memory: that is not a result."""

NO_CHANGE = "no change"
"""Outcome of a mutant of an annotation, or of one that is not a program: none at all."""

Report = Callable[[str, str, Mutant, str, float], None]
"""(path, function, mutant, outcome, seconds)."""


def name_of(path: str) -> str:
    return path.removesuffix(".py").replace("/", ".")


class Session:
    """pytest plugin whose test loop runs everything once with a trace, then the mutants.

    `reports`: item -> outcome of the clean run must be no failure; mutants of constants are left in `at_import`.
    """

    def __init__(self, chosen: dict[str, list[Mutant]], report: Report, say: Callable[[str], None]) -> None:
        self.chosen, self.report, self.say = chosen, report, say
        self.failed = False
        self.at_import: list[tuple[str, Mutant, list[str], float]] = []
        self.hits: dict[tuple[str, str], set[int]] = defaultdict(set)
        self.took: list[float] = []

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.failed |= report.failed

    def pytest_runtestloop(self, session: Any) -> bool:
        self.items = session.items
        paths = {os.path.abspath(path): path for path in self.chosen}
        for number, item in enumerate(self.items):
            begin = time.process_time()
            with _traced(paths, self.hits, number):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
            self.took.append(time.process_time() - begin)
            if self.failed:
                self.say(f"fails without a mutant: {item.nodeid}")
                return True
        everything = list(range(len(self.items)))
        outcome, seconds, _ = forked(lambda: self._some_fail(everything), PROCESSOR + 4 * sum(self.took))
        if outcome != "survived":
            self.failed = True
            self.say("a fork without a mutant fails: every mutant would count as killed")
            return True
        self.say(f"{len(self.items)} tests pass in {sum(self.took):.0f} s, and again in a fork in {seconds:.0f} s")
        for path, mutants in self.chosen.items():
            self._module(path, mutants)
        return True

    def _module(self, path: str, mutants: list[Mutant]) -> None:
        module = importlib.import_module(name_of(path))
        with open(path, encoding="utf-8") as file:
            text = file.read()
        original = compile(text, os.path.abspath(path), "exec", dont_inherit=True)
        begin = time.process_time()
        planting.warm(module)
        self.compiling = time.process_time() - begin
        users = {
            item.module.__name__
            for item in self.items
            if any(getattr(value, "__module__", None) == module.__name__ for value in vars(item.module).values())
        }  # a class of pydantic is asked without that any function of its module runs
        everything = self._tests_of(users).union(*(numbers for (one, _), numbers in self.hits.items() if one == path))
        for mutant in mutants:
            try:
                mutated = compile(mutant.source, os.path.abspath(path), "exec", dont_inherit=True)
            except SyntaxError:
                mutated = original
            where = planting.places(original, mutated)
            if not where:
                self.report(path, "", mutant, NO_CHANGE, 0.0)
                continue
            if len(where) > 1 or where[0].split(".")[-1][:1] in ("", "<"):  # "<genexpr>" of the module
                if not self._constant(path, mutant, everything, module):
                    self._later(path, mutant, everything)
                continue
            code = planting.function_code(mutated, where[0])
            assert code is not None
            kernel = planting.is_kernel(module, where[0])
            reached = self._callers(module, where[0]) | everything if kernel else self.hits[path, where[0]]
            self._one(path, where[0], mutant, reached, module, code)

    def _callers(self, module: types.ModuleType, name: str) -> set[int]:
        """Tests of the modules that import a kernel: compiled code is not traced."""
        kernel = vars(module)[name]
        holders = {m.__name__ for m in list(sys.modules.values()) if vars(m).get(name) is kernel} if kernel else set()
        return set().union(
            *(numbers for (one, _), numbers in self.hits.items() if name_of(one) in holders), self._tests_of(holders)
        )

    def _tests_of(self, holders: set[str]) -> set[int]:
        return {number for number, item in enumerate(self.items) if item.module.__name__ in holders}

    def _constant(self, path: str, mutant: Mutant, reached: Iterable[int], module: types.ModuleType) -> bool:
        """A mutant of a constant or a default in a fork of this process; False if it cannot be planted here."""
        unfit = 77
        ordered = self._ordered(reached)

        def body() -> bool:
            if not planting.plant_module(module, mutant.source):
                os._exit(unfit)
            return self._some_fail(ordered)

        outcome, seconds, code = forked(body, self._limit(ordered))
        if code != unfit:
            self.report(path, "", mutant, outcome, seconds)
        return code != unfit

    def _some_fail(self, ordered: list[int]) -> bool:
        self.failed = False
        for number in ordered:
            item = self.items[number]
            item._initrequest()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
            if self.failed:
                return True
        return False

    def _later(self, path: str, mutant: Mutant, reached: Iterable[int]) -> None:
        ordered = self._ordered(reached)
        self.at_import.append(
            (path, mutant, [self.items[i].nodeid for i in ordered], sum(self.took[i] for i in ordered))
        )

    def _limit(self, tests: Iterable[int]) -> float:
        """Seconds of the processor after which a mutant of the module at hand is one without end."""
        return PROCESSOR + 4 * (self.compiling + sum(self.took[number] for number in tests))

    def _ordered(self, reached: Iterable[int]) -> list[int]:
        return sorted(reached, key=self.took.__getitem__)

    def _one(
        self, path: str, name: str, mutant: Mutant, reached: Iterable[int], module: types.ModuleType,
        code: types.CodeType,
    ) -> None:  # fmt: skip
        ordered = self._ordered(reached)
        if not ordered:
            self.report(path, name, mutant, "no test", 0.0)
            return

        def body() -> bool:
            return planting.plant(module, name, code) and self._some_fail(ordered)

        outcome, seconds, _ = forked(body, self._limit(ordered))
        self.report(path, name, mutant, outcome, seconds)


def forked(body: Callable[[], bool], limit: float) -> tuple[str, float, int]:
    """Run `body` in a fork; return outcome, seconds and exit code.

    The mutant is killed if `body` returns true, dies or does not end, and survives otherwise. `body` does not end if it
    takes `limit` seconds of the processor, or none for a long time. Looks are counted and not seconds, so that the
    whole run can be stopped for a while and continue.
    """
    begin = time.monotonic()
    pid = os.fork()
    if pid == 0:
        _child(body, limit)
    looks, used = 0, -1.0
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        took = time.monotonic() - begin
        if done:
            code = os.waitstatus_to_exitcode(status)
            return OUTCOMES.get(code, "killed"), took, code
        looks += 1
        if looks % int(IDLE / POLL) == 0:
            before, used = used, _processor(pid)
            if used < before + LEAST:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                return "timeout", took, -signal.SIGKILL
        time.sleep(POLL)


OUTCOMES = {0: "survived", -signal.SIGPROF: "timeout", -signal.SIGKILL: STOPPED, -signal.SIGTERM: STOPPED}
"""By exit code; every other is a kill."""


def _processor(pid: int) -> float:
    """Seconds of the processor that a process has used, if the system reports them; else a new number."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return time.monotonic()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _child(body: Callable[[], bool], seconds: float) -> None:
    import resource

    code = 1
    try:
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        signal.setitimer(signal.ITIMER_PROF, seconds)  # ends the process by SIGPROF
        code = 1 if body() else 0
    finally:
        os._exit(code)


def at_import(path: str, mutant: Mutant, tests: list[str], took: float) -> tuple[str, float]:
    """A mutant of a constant, a default or a class: a fork that has imported nothing of the project imports it."""

    def body() -> bool:
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        sys.meta_path.insert(0, planting.AtImport(name_of(path), os.path.abspath(path), mutant.source))
        # 4, 5: a test that is no longer there is no kill
        return int(pytest.main([*ARGUMENTS, "-x", *tests])) not in (0, 4, 5)

    return forked(body, PROCESSOR + IMPORTS + 4 * took)[:2] if tests else ("no test", 0.0)


ARGUMENTS = ("-q", "-p", "no:randomly", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header", "-r", "N")


class _traced:
    """Notes which functions of the chosen files run, under the number of a test."""

    def __init__(self, paths: dict[str, str], hits: dict[tuple[str, str], set[int]], number: int) -> None:
        self.paths, self.hits, self.number = paths, hits, number

    def _called(self, frame: types.FrameType, event: str, _: Any) -> None:
        path = self.paths.get(frame.f_code.co_filename)
        if path is not None:
            self.hits[path, frame.f_code.co_qualname.split(".<locals>")[0]].add(self.number)

    def __enter__(self) -> None:
        threading.settrace(self._called)
        sys.settrace(self._called)

    def __exit__(self, *_: Any) -> None:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
