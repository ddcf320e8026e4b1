"""One way to compile a kernel, cached on disk where that is possible and compiled in memory where it is not.

numba refuses at import when neither `__pycache__` nor the user's cache folder can be written (a read-only container,
a service without a home); set NUMBA_CACHE_DIR there to keep the compiled code between runs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, ParamSpec, TypeVar, cast

import numba

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_BLAS = "scipy.linalg.cython_blas"


def _without_blas() -> None:
    """Let numba believe that there is no BLAS: it would import all of scipy.linalg (0.3 CPU s of every command's
    start) for matrix products, and no kernel here has one."""
    modules: dict[str, Any] = cast("dict[str, Any]", sys.modules)
    if _BLAS in modules:
        return
    modules[_BLAS] = None
    try:
        import_module("numba.np.arraymath")
    finally:
        del modules[_BLAS]


_without_blas()


def kernel(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """`numba.njit(cache=True)`, or without a cache where numba finds no folder for one."""
    try:
        return cast("Callable[Parameters, Result]", numba.njit(cache=True)(function))
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
        return cast("Callable[Parameters, Result]", numba.njit(function))
