"""Check the types of arguments by the annotations of the public functions, before anything is read or measured."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from numbers import Integral, Real
from typing import Any, NamedTuple, ParamSpec, TypeVar

from models.errors import InputError

P = ParamSpec("P")
R = TypeVar("R")


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_whole(value: Any) -> bool:
    # Integral has numpy's whole numbers too. True is one for Python, and a slip here.
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real | Decimal) and not isinstance(value, bool)


def _is_amount(value: Any) -> bool:
    return _is_number(value) or _is_text(value)


def _is_truth(value: Any) -> bool:
    import numpy as np

    # A text such as "no" would count as true.
    return isinstance(value, bool | np.bool_)


def _is_path(value: Any) -> bool:
    return isinstance(value, str | os.PathLike)


def _is_mapping(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_list(value: Any, accepts: Callable[[Any], bool]) -> bool:
    """Return whether all members pass; an iterator is none, as the check would use it up."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable) or iter(value) is value:
        return False
    return all(accepts(member) for member in value)


def _is_name(value: Any) -> bool:
    return _is_text(value) or _is_whole(value)  # frames can have numbers for names


def _is_names(value: Any) -> bool:
    return _is_text(value) or _is_list(value, _is_name)


class ArgumentType(NamedTuple):
    """The values that an annotation accepts, in words for messages and as a predicate."""

    words: str
    accepts: Callable[[Any], bool]


TEXT = ArgumentType("a text", _is_text)
WHOLE = ArgumentType("a whole number", _is_whole)
NUMBER = ArgumentType("a number", _is_number)
AMOUNT = ArgumentType('a number, or a text such as "1/3"', _is_amount)
PATH = ArgumentType("a path", _is_path)
TABLE = ArgumentType("a mapping", _is_mapping)

TYPES: Mapping[str, ArgumentType] = {
    "bool": ArgumentType("True or False", _is_truth),
    "float": NUMBER,
    "float | str": AMOUNT,
    "float | str | Sequence[float | str]": ArgumentType(
        "a number, or a list of numbers", lambda value: _is_amount(value) or _is_list(value, _is_amount)
    ),
    "int": WHOLE,
    "int | Sequence[int]": ArgumentType(
        "a whole number, or a list of them", lambda value: _is_whole(value) or _is_list(value, _is_whole)
    ),
    "Lifecycle": TEXT,
    "Mapping[str, Any]": TABLE,
    "Mapping[str, Any] | Sequence[Mapping[str, Any]]": ArgumentType(
        "a mapping, or a list of mappings", lambda value: _is_mapping(value) or _is_list(value, _is_mapping)
    ),
    "Mapping[str, Sequence[float]]": ArgumentType(
        "a mapping from names to lists of numbers",
        lambda value: _is_mapping(value) and all(_is_list(edges, _is_number) for edges in value.values()),
    ),
    "Mapping[str, str]": TABLE,
    "Method": TEXT,
    "Minimum": TEXT,
    "Names": ArgumentType("a name, or a list of names", _is_names),
    "Points | Sequence[Points]": ArgumentType(
        'a whole number, a text such as "50%", or a list of them',
        lambda value: _is_name(value) or _is_list(value, _is_name),
    ),
    "Sequence[Names]": ArgumentType(
        'a list of lists of names, such as [["A", "B"]]', lambda value: _is_list(value, _is_names)
    ),
    "str": TEXT,
    "str | Mapping[str, Any]": ArgumentType("a text or a mapping", lambda value: _is_text(value) or _is_mapping(value)),
    "str | os.PathLike[str]": PATH,
    "Structure": TEXT,
    "Unit": TEXT,
}
"""The values that each annotation of a public function accepts, apart from None.

Annotations are compared as they are written: their names are imported for the type checker alone, since these imports
are slow. Logs and literals are not here: they are checked where they are read.
"""

ELSEWHERE = ("Any", "Literal[", "Log", "Release")
"""Beginnings of annotations whose values are checked where they are used."""

OWN_MESSAGE = ("path",)
"""Arguments with a better message: `read_log` names the functions that take a log which is no file."""

LEAST = {"seed": 0, "targets": 1}
"""The least value of arguments that would end in an error of a library below it."""


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Check the types of the arguments at each call of a public function.

    Parameters
    ----------
    function
        A public function whose parameters all have annotations.

    Returns
    -------
    Callable
        The function behind the check. It has the same signature and docstring.

    Raises
    ------
    InputError
        An argument of another type. The message has its name and no value.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            arguments = signature.bind(*args, **kwargs).arguments
        except TypeError:
            return function(*args, **kwargs)  # raises it again, with the name of the function
        for name, value in arguments.items():
            _check(name, signature.parameters[name].annotation, value)
        return function(*args, **kwargs)

    return wrapper


def _check(name: str, annotation: str, value: Any) -> None:
    expected = TYPES.get(annotation.removesuffix(" | None"))
    if expected is None or name in OWN_MESSAGE or (value is None and annotation.endswith(" | None")):
        return
    if not expected.accepts(value):
        raise InputError(f"{name}: give {expected.words}; this is {_described(value)}")
    if name in LEAST and value < LEAST[name]:
        raise InputError(f"{name} must be at least {LEAST[name]}")


def _described(value: Any) -> str:
    """Return the type of a value, with those of its members if it is a list; never the value."""
    if isinstance(value, list | tuple | set) and value:
        members = sorted({type(member).__name__ for member in value})
        return f"a {type(value).__name__} of {', '.join(members)}"
    return "None" if value is None else f"of type {type(value).__name__}"


def members(value: Any) -> list[Any]:
    """Return a list of a single value or of several.

    Parameters
    ----------
    value
        One value, or a collection of values.
    """
    return [value] if _is_amount(value) else list(value)
