"""What `make test` leaves out are variants of what it runs (tests/night.toml); what it begins with exists."""

from __future__ import annotations

from tests.conftest import LONGEST, NIGHT, ROOT, collected
from tests.docs.test_guarantees import TESTS

KEPT = ("tests/golden/", "tests/mutants/")
"""Folders of which `make test` runs everything."""


def _function(test: str) -> str:
    """The id of a test without its parameters."""
    return test.partition("[")[0]


def test_every_named_test_exists() -> None:
    """Its function, and its parameters where this run has collected its file."""
    files = {test.partition("::")[0] for test in collected}
    wrong = []
    for test in {*NIGHT, *NIGHT.values()}:
        path, _, function = _function(test).partition("::")
        file = ROOT / path
        defined = file.exists() and f"\ndef {function}(" in file.read_text(encoding="utf-8")
        if not defined or (path in files and test not in collected):
            wrong.append(test)
    assert wrong == []


def test_the_test_that_covers_a_variant_runs_by_day() -> None:
    assert [test for test, covering in NIGHT.items() if covering in NIGHT] == []
    assert [test for test in NIGHT if test.startswith(KEPT)] == []


def test_no_promise_is_left_to_the_night() -> None:
    """A row of docs/guarantees.md whose test is listed here keeps the test that covers it."""
    functions = {_function(test): _function(covering) for test, covering in NIGHT.items()}
    lost = []
    for number, names in TESTS.items():
        lost += [(number, name) for name in names if name in functions and functions[name] not in names]
    assert lost == []


def test_files_that_come_first_exist() -> None:
    assert [file for file in sorted(LONGEST) if not (ROOT / file).is_file()] == []
