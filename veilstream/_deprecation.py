"""Keep names of the public API for a while after they were renamed (docs/python-api.md, "What stays")."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def renamed_keywords(**new_names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Accept former keywords of a function with a DeprecationWarning that names the new ones.

    Parameters
    ----------
    **new_names
        The new keyword by its former one.

    Examples
    --------
    >>> @renamed_keywords(k="K")
    ... def least(*, K=20):
    ...     return K
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     least(k=5)
    5
    >>> print(caught[0].message)
    least: k is now called K; the former name will be removed
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def accepting(*arguments: P.args, **keywords: P.kwargs) -> R:
            for former, new in new_names.items():
                if former not in keywords:
                    continue
                if new in keywords:
                    raise TypeError(f"{function.__name__}: {former} is the former name of {new}; pass one of them")
                _warn(f"{function.__name__}: {former} is now called {new}; the former name will be removed", 1)
                keywords[new] = keywords.pop(former)
            return function(*arguments, **keywords)

        return accepting

    return decorate


def successor(module: str, name: str, new_names: Mapping[str, str]) -> str:
    """Return the new name of a former public name, with a DeprecationWarning; for `__getattr__` of a module.

    Raises
    ------
    AttributeError
        The name was never public.
    """
    if name not in new_names:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    _warn(f"{module}.{name} is now called {module}.{new_names[name]}; the former name will be removed", 2)
    return new_names[name]


def _warn(message: str, levels: int) -> None:
    """Warn at the line so many calls above the caller."""
    warnings.warn(message, DeprecationWarning, stacklevel=2 + levels)
