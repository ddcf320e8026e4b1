"""Ways of a mutant into a process: into its functions, or at the import of its module."""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
import types
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

PLAIN = (int, float, str, tuple, frozenset, set, Fraction, np.generic)
"""Types of the constants that are given to an imported module."""

FUNCTION = 0x1  # CO_OPTIMIZED: a function's body, not a module's or a class's


def places(original: types.CodeType, mutated: types.CodeType) -> list[str]:
    """Qualified names of the outermost functions whose bodies differ; "" where a module's or class's own code does."""
    return sorted(set(_places(original, mutated)))


def _places(one: types.CodeType, other: types.CodeType) -> Iterator[str]:
    inner = [(a, b) for a, b in zip(_codes(one), _codes(other), strict=False)]
    if _shape(one) != _shape(other):
        yield ""
    for a, b in inner:
        if a.co_flags & FUNCTION:
            if not same(a, b):
                yield a.co_qualname
        else:
            yield from _places(a, b)


def same(one: types.CodeType, other: types.CodeType) -> bool:
    """Whether two functions do the same, apart from where they appear."""
    return _shape(one) == _shape(other) and all(same(a, b) for a, b in zip(_codes(one), _codes(other), strict=True))


def _codes(code: types.CodeType) -> list[types.CodeType]:
    return [const for const in code.co_consts if isinstance(const, types.CodeType)]


def _shape(code: types.CodeType) -> tuple[Any, ...]:
    consts = tuple(
        ("code", const.co_qualname) if isinstance(const, types.CodeType) else (type(const), repr(const))
        for const in code.co_consts
    )
    return (
        code.co_name, code.co_code, consts, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars,
        code.co_flags, code.co_argcount, code.co_exceptiontable,
    )  # fmt: skip


def function_code(code: types.CodeType, name: str) -> types.CodeType | None:
    """The code of the function of this qualified name."""
    for inner in _codes(code):
        if inner.co_flags & FUNCTION:
            if inner.co_qualname == name:
                return inner
        elif (found := function_code(inner, name)) is not None:
            return found
    return None


def is_kernel(module: types.ModuleType, name: str) -> bool:
    return hasattr(vars(module).get(name), "py_func")


def plant(module: types.ModuleType, name: str, code: types.CodeType) -> bool:
    """Give a function of an imported module another body; False if it cannot be found."""
    _forget_results(module)
    if is_kernel(module, name):
        _plant_kernel(module, name, code)
        return True
    owner: Any = module
    *path, last = name.split(".")
    for part in path:
        owner = getattr(owner, part)
    found = vars(owner).get(last)
    if isinstance(found, property):
        found = found.fget
    found = getattr(found, "__func__", found)
    found = getattr(found, "wrapped", found)  # pydantic's proxy of a validator
    found = getattr(found, "__func__", found)
    while hasattr(found, "__wrapped__"):
        found = found.__wrapped__
    if not isinstance(found, types.FunctionType) or found.__code__.co_freevars != code.co_freevars:
        return False
    found.__code__ = code
    return True


def _forget_results(module: types.ModuleType) -> None:
    """Empty every cache of the project: callers of the function may hold what it gave without the fault."""
    rooms = [other for path, other in list(sys.modules.items()) if path.partition(".")[0] in {"models", "stream"}]
    for other in (module, *rooms):
        for held in list(vars(other).values()):
            for one in (held, *(vars(held).values() if isinstance(held, type) else ())):
                clear = getattr(getattr(one, "__func__", one), "cache_clear", None)
                if isinstance(clear, types.BuiltinMethodType):
                    clear()


def plant_module(module: types.ModuleType, source: str) -> bool:
    """Give an imported module the constants and defaults of another text; False where more than they would differ.

    Constants go to every module that imported them; kernels have theirs compiled in, and are compiled again. Classes of
    pydantic hold theirs in validators, and kernels of other modules may hold them too: such mutants wait for a fresh
    import.
    """
    fresh = types.ModuleType(module.__name__)
    exec(compile(source, module.__file__ or "", "exec", dont_inherit=True), vars(fresh))
    kernels = _kernels(module)
    for path, other in list(sys.modules.items()):
        callers = path.startswith("models.") and other is not module and _kernels(other)
        if callers and any(vars(other).get(name) is kernel for name, kernel in kernels.items()):
            return False
    _forget_results(module)
    found = False
    for name, new in vars(fresh).items():
        old = vars(module).get(name)
        if isinstance(old, types.FunctionType) and isinstance(new, types.FunctionType):
            found |= _take_defaults(old, new)
        elif isinstance(old, type) and isinstance(new, type) and old.__module__ == module.__name__:
            if hasattr(old, "__pydantic_validator__"):
                continue
            for key, method in vars(new).items():
                held, given = (getattr(one, "__func__", one) for one in (vars(old).get(key), method))
                if isinstance(held, types.FunctionType) and isinstance(given, types.FunctionType):
                    found |= _take_defaults(held, given)
        elif isinstance(new, PLAIN) and not name.startswith("__"):
            if type(new) is type(old) and new == old:
                continue
            found = True
            for other in list(sys.modules.values()):
                if vars(other).get(name) is old:
                    setattr(other, name, new)
    _compile_again(kernels)
    return found


def _take_defaults(old: types.FunctionType, new: types.FunctionType) -> bool:
    same = old.__defaults__ == new.__defaults__ and old.__kwdefaults__ == new.__kwdefaults__
    old.__defaults__, old.__kwdefaults__ = new.__defaults__, new.__kwdefaults__
    return not same


def warm(module: types.ModuleType) -> None:
    """Compile the kernels of a module once and forget them: forks then find numba's own tables ready, which take longer
    than most kernels."""
    import numba

    for kernel in _kernels(module).values():
        for signature in kernel.signatures:
            numba.njit(kernel.py_func).compile(signature)


def _kernels(module: types.ModuleType) -> dict[str, Any]:
    """The kernels that a module defines."""
    held = [value for value in vars(module).values() if hasattr(value, "py_func")]
    return {value.py_func.__name__: value for value in held if value.py_func.__module__ == module.__name__}


def _plant_kernel(module: types.ModuleType, name: str, code: types.CodeType) -> None:
    """Give a kernel another body; those that call it are compiled again too, as they hold compiled code of the old."""
    own = _kernels(module)
    stale = {name}
    for _ in own:
        stale |= {key for key, value in own.items() if stale & set(value.py_func.__code__.co_names)}
    old = own[name].py_func
    function = types.FunctionType(code, vars(module), name, old.__defaults__)
    function.__module__ = module.__name__
    _compile_again({key: own[key] for key in stale}, {name: function})


def _compile_again(kernels: dict[str, Any], bodies: dict[str, Any] | None = None) -> None:
    """Put kernels without compiled code, and without the cache on disk, in the place of these wherever they appear."""
    import numba

    from models import compiled

    for key, dispatcher in kernels.items():
        fresh = compiled._compiled_once(numba.njit((bodies or {}).get(key, dispatcher.py_func)))
        for other in list(sys.modules.values()):
            for held, value in list(getattr(other, "__dict__", {}).items()):
                if value is dispatcher:
                    setattr(other, held, fresh)


class AtImport(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from another text than its file's; its kernels are compiled again."""

    def __init__(self, name: str, path: str, source: str) -> None:
        self.name, self.path, self.source = name, path, source

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        return (
            importlib.util.spec_from_file_location(fullname, self.path, loader=self) if fullname == self.name else None
        )

    def exec_module(self, module: types.ModuleType) -> None:
        import numba

        from models import compiled

        cached = compiled._compiled

        def compiled_again(function: Any, **options: Any) -> Any:
            if function.__module__ != self.name:
                return cached(function, **options)
            return compiled._compiled_once(numba.njit(**options)(function))

        compiled._compiled = compiled_again  # type: ignore[assignment]
        exec(compile(self.source, self.path, "exec"), vars(module))
