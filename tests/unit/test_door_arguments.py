"""Arguments of another type end in one line that names the argument, whatever function they are given to."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import veilstream as vs
from veilstream._arguments import ELSEWHERE, OWN_MESSAGE, TYPES

FUNCTIONS: list[Callable[..., Any]] = [
    value for name in vs.__all__ if inspect.isfunction(value := getattr(vs, name)) and name != "example_log"
]


api: Any = vs
"""The functions without their types: a type checker would refuse most of these calls."""

VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@pytest.fixture(scope="module")
def frame() -> Any:
    times = pd.date_range("2025-01-01", periods=90, freq="h", tz="UTC")
    cases = [str(row // 3) for row in range(90)]
    return pd.DataFrame({"case:concept:name": cases, "concept:name": [*"abc"] * 30, "time:timestamp": times})


def _annotations(function: Callable[..., Any]) -> dict[str, str]:
    return {name: parameter.annotation for name, parameter in inspect.signature(function).parameters.items()}


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_no_value_of_a_foreign_type_gets_past_the_check(function: Callable[..., Any], frame: Any) -> None:
    """The message names the argument. An annotation that nothing checks would fail the first assertion."""
    parameters = inspect.signature(function).parameters
    required = {name: frame for name, parameter in parameters.items() if parameter.default is inspect.Parameter.empty}
    for name, annotation in _annotations(function).items():
        plain = annotation.removesuffix(" | None")
        assert plain in TYPES or plain.startswith(ELSEWHERE), annotation
        if plain not in TYPES or name in OWN_MESSAGE:
            continue
        bound = {each: value for each, value in required.items() if parameters[each].kind not in VARIADIC}
        with pytest.raises(vs.InputError, match=rf"^{name}: give .*; this is of type object$"):
            function(**{**bound, name: object()})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda log: api.attack(log, log, n="x"), "n: give a whole number, or a list of them; this is of type str"),
        (lambda log: api.attack(log, log, n=[1, None]), "n: give .*; this is a list of NoneType, int"),
        (lambda log: api.attack(log, log, bk_length=True), "bk_length: give a whole number; this is of type bool"),
        (
            lambda log: api.attack(log, log, bk=[7]),
            "bk: give a list of lists of names, such as .*; this is a list of int",
        ),
        (lambda log: api.risk(log, sensitive=None), "sensitive: give a name, or a list of names; this is None"),
        (lambda log: api.risk(log, draws=1.5), "draws: give a whole number; this is of type float"),
        (lambda log: api.risk(log, seed=-1), "seed must be at least 0"),
        (lambda log: api.assess(log, original=log, targets=-1), "targets must be at least 1"),
        (lambda log: api.leakage(log, epsilon=None), "epsilon: give a number, or a list of numbers; this is None"),
        (lambda log: api.replay(log, final="no"), "final: give True or False; this is of type str"),
        (lambda log: api.replay(log, process="timezone"), "process: give a mapping; this is of type str"),
        (
            lambda log: api.replay(log, publication=["weekly"]),
            "publication: give a mapping, or .*; this is a list of str",
        ),
        (lambda log: api.anonymize(log, bins={"age": 7}), "bins: give a mapping from names to lists of numbers"),
        (lambda log: api.utility(log, log, timezone=2), "timezone: give a text; this is of type int"),
        (lambda log: api.read_series(log), "folder: give a path; this is of type DataFrame"),
    ],
)
def test_the_message_says_what_to_give(frame: Any, call: Callable[[Any], Any], message: str) -> None:
    """Each of these ended in a TypeError of the line that used the value first, or was taken for true."""
    with pytest.raises(vs.InputError, match=rf"^{message}"):
        call(frame)


def test_values_of_numpy_and_pandas_are_numbers_and_lists(frame: Any) -> None:
    """A notebook has them where it computes an argument."""
    plain = api.attack(frame, frame, n=[1], bk_length=2).document
    assert api.attack(frame, frame, n=np.int64(1), bk_length=np.int64(2)).document["results"] == plain["results"]
    assert api.attack(frame, frame, n=np.array([1])).document["results"] == plain["results"]
    assert api.attack(frame, frame, n=range(1, 2), bk=[("a", "b")]).document["results"] == plain["results"]
    measured = api.risk(frame, projection=pd.Index(["E"]), points=np.int64(1), draws=2)
    assert measured.to_dataframe()["m"].tolist() == [1]


def test_a_path_may_be_a_path_or_a_text(frame: Any, tmp_path: Path) -> None:
    """Both name the same file."""
    file = tmp_path / "log.csv"
    frame.to_csv(file, index=False)
    assert vs.read_log(file).equals(vs.read_log(str(file)))
