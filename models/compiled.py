"""One way to compile a kernel, cached on disk where that is possible and compiled in memory where it is not.

numba refuses at import when neither `__pycache__` nor the user's cache folder can be written (a read-only container,
a service without a home); set NUMBA_CACHE_DIR there to keep the compiled code between runs. Code that is loaded
from a cache runs: a folder that other users can write is not used.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

log = logging.getLogger("veilstream")

_TYPES: Any = numba.types
"""Without the annotations of numba, which leave out what is asked of it here."""


def _load_quickly(cache: Any) -> None:
    """Let a kernel's cache load without the tables that only compiling needs.

    They cost every command a fifth of a second, and kernels on numbers and arrays need nothing else of numba's runtime.
    Another numba, without these inner names, loads in its own way.
    """
    try:
        from numba.core.runtime.nrt import rtsys

        load, guard = cache._load_overload, cache._guard_against_spurious_io_errors
    except (ImportError, AttributeError):
        return

    def load_overload(signature: Any, context: Any) -> Any:
        rtsys.initialize(context)
        with guard():
            return load(signature, context)

    cache.load_overload = load_overload


def _alike(numba_type: Any) -> Any:
    """Return int64 for all types that would compile to the same code: a constant or a narrower integer."""
    plain = _TYPES.unliteral(numba_type)
    return _TYPES.int64 if isinstance(plain, _TYPES.Integer) and plain.signed else plain


def _compiled_once(dispatcher: Any) -> Any:
    """Let kernels call this kernel with int64, whatever signed integer they pass.

    Otherwise numba compiles a copy for each constant and each width: `shift(linker, i, j, -1)` four times, which
    doubled the first start.
    """
    template = dispatcher.get_call_template
    dispatcher.get_call_template = lambda args, kws: template(tuple(_alike(argument) for argument in args), kws)
    return dispatcher


def kernel(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """`numba.njit(cache=True)`, or without a cache where numba finds no folder for one."""
    return _compiled(function)


def part(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compile a kernel that only kernels call.

    It has no entry for Python, which costs more to compile than most of these kernels.
    """
    return _compiled(function, no_cpython_wrapper=True)


@cache
def _ours(folder: str) -> bool:
    """Return whether nobody else can put code into a cache folder, and warn once if somebody can.

    The folder must belong to this user, to root or to the owner of this program, and no other user may write it or
    replace it.
    """
    trusted = {0, os.geteuid(), os.stat(__file__).st_uid}
    path = Path(folder).resolve()
    for place in (path, *path.parents):
        status = place.stat()
        replaceable = bool(status.st_mode & stat.S_IWOTH) and not (status.st_mode & stat.S_ISVTX and place != path)
        if replaceable or status.st_uid not in trusted:
            log.warning("%s: other users can write here, so compiled code is not kept in %s (chmod o-w)", place, folder)
            return False
    return True


def _compiled(function: Callable[Parameters, Result], **options: Any) -> Callable[Parameters, Result]:
    njit: Any = numba.njit
    try:
        compiled = njit(cache=True, **options)(function)
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
        return cast("Callable[Parameters, Result]", _compiled_once(njit(**options)(function)))
    if not _ours(compiled.stats.cache_path):
        return cast("Callable[Parameters, Result]", _compiled_once(njit(**options)(function)))
    _load_quickly(compiled._cache)
    return cast("Callable[Parameters, Result]", _compiled_once(compiled))
