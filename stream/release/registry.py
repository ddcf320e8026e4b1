"""Find the kinds of a plug-in package: one file a kind, found by looking, not by listing."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Iterator
from typing import Any


def kinds_of(package: str, path: Iterable[str], base: type[Any]) -> Iterator[type[Any]]:
    """Yield the subclasses of `base` that the modules of a package define.

    Parameters
    ----------
    package, path
        `__name__` and `__path__` of the package.
    base
        The class of the plug-ins.
    """
    for info in pkgutil.iter_modules(path):
        module = importlib.import_module(f"{package}.{info.name}")
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, base) and value.__module__ == module.__name__:
                yield value
