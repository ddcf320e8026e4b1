"""One way to compile a kernel, cached on disk if that is possible, else compiled in memory.

numba refuses at import when neither `__pycache__` nor the user's cache folder can be written (a read-only container,
a service without a home); set NUMBA_CACHE_DIR there to keep the compiled code between runs. Code that is loaded
from a cache runs: a folder that other users can write is not used.
"""

from __future__ import annotations

import glob
import inspect
import logging
import os
import secrets
import stat
from collections.abc import Callable, Collection
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, ParamSpec, TypeVar, cast

import numba
import numpy as np

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

log = logging.getLogger("veilstream")
compiling_log = logging.getLogger("veilstream.compiled")

_TYPES: Any = numba.types
"""Types of numba, as `Any`: its annotations lack names that are used here."""


def _load_quickly(cache: Any) -> None:
    """Let the cache of a kernel load without tables that only compiling needs, and survive an upgrade.

    These tables cost every command a fifth of a second. Kernels on numbers and arrays need no more of numba's
    runtime than is initialized here. A version of numba that lacks these inner names loads in its own way.
    """
    try:
        from numba.core.runtime.nrt import rtsys

        load = cache._load_overload
    except (ImportError, AttributeError):
        return

    def load_overload(signature: Any, context: Any) -> Any:
        rtsys.initialize(context)
        code = None
        try:
            code = load(signature, context)
        except (AttributeError, ImportError):
            # The index of an older version may name a class that was renamed since. It is read before its age
            # is checked, so it is emptied, and the kernel is compiled again.
            cache.flush()
        if code is None:
            _report_compiling()
        return code

    cache.load_overload = load_overload


def _keep_consistent(compiled: Any) -> None:
    """Let no process run cached code of an earlier source, or of another signature.

    numba has three gaps, which are closed here:

    * It compares the file of a kernel, but not the kernels and constants that are compiled into it. They are
      added to the stamp of the source.
    * It writes the index before the code, under a number that code of an earlier source may have. A process
      that reads in between would run that code. Here the code is written first.
    * Two processes that compile for different signatures at once take one number. Here numbers are random.

    A version of numba that lacks these inner names keeps its code in its own way.
    """
    try:
        files = compiled._cache._cache_file
        load_index, save_index, save_code = files._load_index, files._save_index, files._save_data
        load, stamp, base = files.load, files._source_stamp, files._index_name.removesuffix(".nbi")
    except AttributeError:
        return
    folder = Path(compiled.stats.cache_path)

    @cache
    def complete_stamp() -> None:
        # Not before a first call: a kernel can call one that is defined below it.
        callees = sorted(_compiled_in(compiled.py_func))
        if callees:
            files._source_stamp = (stamp, callees)

    def load_code(key: Any) -> Any:
        complete_stamp()
        return load(key)

    def save(key: Any, code: Any) -> None:
        complete_stamp()
        is_first = not load_index()
        name = f"{base}.{secrets.randbits(63)}.nbc"
        save_code(name, code)
        names = {**load_index(), key: name}
        save_index(names)
        if is_first:
            # Other files are of an earlier source. New code that another process is about to enter in the
            # index may be among them: it is compiled once more.
            for path in folder.glob(f"{glob.escape(base)}.*.nbc"):
                if path.name not in names.values():
                    path.unlink(missing_ok=True)

    files.load, files.save = load_code, save


def _compiled_in(function: Callable[..., Any]) -> set[tuple[str, str]]:
    """Return names and digests of what is compiled into a kernel from outside of its file.

    These are constants, and the code of all functions that it calls. The code is that which this process has
    imported; the files may have changed since.
    """
    parts: set[tuple[str, str]] = set()
    unread, seen = [function], {function}
    while unread:
        caller = unread.pop()
        for name in _names(caller.__code__):
            value = caller.__globals__.get(name)
            if isinstance(value, (int, float, str, tuple, np.generic)):
                parts.add((f"{caller.__module__}.{name}", repr(value)))
                continue
            callee = inspect.unwrap(getattr(value, "py_func", value)) if callable(value) else None
            if not isinstance(callee, FunctionType) or callee in seen:
                continue
            seen.add(callee)
            unread.append(callee)
            if callee.__module__ != function.__module__:
                parts.add((f"{callee.__module__}.{callee.__qualname__}", _digest(callee.__code__)))
    return parts


def _digest(code: CodeType) -> str:
    """Return the digest of a code, which does not depend on where and when it was installed."""
    constants = [_digest(part) if isinstance(part, CodeType) else repr(part) for part in code.co_consts]
    return sha256(repr((code.co_code, constants, code.co_names)).encode()).hexdigest()


def _names(code: CodeType) -> set[str]:
    """Return the global names of a code, and of all code within it."""
    return set(code.co_names).union(*(_names(part) for part in code.co_consts if isinstance(part, CodeType)))


@cache
def _report_compiling() -> None:
    """Report once in a process that it compiles: without a word, the first run of a program seems to hang."""
    compiling_log.info("compiling for this computer, once; a first run takes up to half a minute longer")


def _alike(numba_type: Any) -> Any:
    """Return int64 for all types that would compile to the same code: a constant or a narrower integer."""
    plain = _TYPES.unliteral(numba_type)
    if isinstance(plain, _TYPES.Integer) and plain.signed:
        return _TYPES.int64
    return plain


def _compiled_once(dispatcher: Any) -> Any:
    """Let kernels call this kernel with int64, whatever signed integer they pass.

    Otherwise numba compiles a copy for each constant and each width: `shift(linker, i, j, -1)` four times, which
    doubled the first start.
    """
    template = dispatcher.get_call_template
    dispatcher.get_call_template = lambda args, kws: template(tuple(_alike(argument) for argument in args), kws)
    return dispatcher


class _PlainMode:
    """Whether kernels run as plain Python, for the whole process."""

    compiled_kernels: frozenset[str] | None = None
    """Kernels that are compiled although the others are not; None: all are compiled."""


def run_plainly(except_for: Collection[str]) -> None:
    """Run the kernels of modules that are imported from now on as plain Python.

    Compiling a kernel takes a tenth of a second to five seconds, and most kernels take less than that for a small log.
    The code is the same, but not always the arithmetic: a narrow integer of numpy can overflow where numba widens it.
    So this is only for a log on which a test compares both (docs/decisions/066).

    Parameters
    ----------
    except_for
        Names of kernels (`module.function`) that are compiled with everything that they call: those that would run
        longer than it takes to compile them.
    """
    _PlainMode.compiled_kernels = frozenset(except_for)


def runs_plainly() -> bool:
    """Return whether kernels run as plain Python."""
    return _PlainMode.compiled_kernels is not None


def keeps_compiled(module: str, name: str) -> bool:
    """Return whether an earlier process left the compiled code of a kernel, from the module as it is now.

    Parameters
    ----------
    module, name
        Import path of the module, and name of the kernel in it.
    """
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        return False
    source, folder = Path(spec.origin), cache_folder()
    if folder is None:
        return False
    changed = source.stat().st_mtime
    return any(index.stat().st_mtime >= changed for index in folder.rglob(f"{source.stem}.{name}-*.nbi"))


def cache_folder() -> Path | None:
    """Return a folder that has the compiled code of all kernels below it; None if no code is kept."""

    def probe() -> None:
        """Represent any kernel."""

    njit: Any = numba.njit
    try:
        folder: str = njit(cache=True)(probe).stats.cache_path
    except RuntimeError:
        return None
    # numba has a folder for each folder of modules: `__pycache__` in it, or one below the cache folder of the user.
    return Path(folder).parent if _ours(folder) else None


def kernel(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compile with `numba.njit(cache=True)`, or without a cache where numba finds no folder for one.

    A call releases the interpreter: other threads go on, such as the fold of a daemon while a release is audited.

    Parameters
    ----------
    function
        A function of arrays, numbers and named tuples of these.
    """
    return _plain(function) if _is_plain(function) else _compiled(function, nogil=True)


def part(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compile a kernel that only kernels call.

    It has no entry for Python, which costs more to compile than most of these kernels.

    Parameters
    ----------
    function
        A function that only kernels and other parts call.
    """
    return _plain(function) if _is_plain(function) else _compiled(function, no_cpython_wrapper=True)


def inlined_part(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compile a kernel into each kernel that calls it, as if its lines were written there.

    It is for a few lines in an innermost loop that take slices of arrays. For each slice that is passed to another
    kernel, compiled code counts a reference, which can take as long as those lines.

    Parameters
    ----------
    function
        A function that only kernels and other parts call.
    """
    return _plain(function) if _is_plain(function) else _compiled(function, inline="always")


def wraps_around(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Declare that the unsigned integers of a kernel wrap around on purpose; below `kernel` or `part`.

    Compiled code wraps silently. As plain Python, NumPy would warn of an overflow at each scalar that wraps.

    Parameters
    ----------
    function
        The function, not compiled yet.
    """
    _WRAPPING.add(f"{function.__module__}.{function.__name__}")
    return function


_WRAPPING: set[str] = set()


def _plain(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Return the function as it is. A kernel that is compiled all the same can call it, and compiles its own copy."""
    from numba.extending import overload, register_jitable

    registered: Any = register_jitable
    plain: Callable[Parameters, Result] = registered(function)
    if f"{function.__module__}.{function.__name__}" not in _WRAPPING:
        return plain
    quiet = np.errstate(over="ignore")(function)
    overloading: Any = overload
    overloading(quiet, strict=False)(lambda *_arguments, **_keywords: function)
    return quiet


def _is_plain(function: Callable[..., Any]) -> bool:
    compiled_kernels = _PlainMode.compiled_kernels
    return compiled_kernels is not None and f"{function.__module__}.{function.__name__}" not in compiled_kernels


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
        others_write = bool(status.st_mode & stat.S_IWOTH)
        # In a sticky folder, such as /tmp, others cannot replace a folder that is not theirs.
        is_protected = bool(status.st_mode & stat.S_ISVTX) and place != path
        replaceable = others_write and not is_protected
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
    _keep_consistent(compiled)
    _load_quickly(compiled._cache)
    return cast("Callable[Parameters, Result]", _compiled_once(compiled))
