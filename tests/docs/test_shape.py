"""The shape of the code, as numbers that hold: complexity, arguments, and documents without a type."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.conftest import ROOT

PACKAGES = ("models", "connectors", "stream")
Function = ast.FunctionDef | ast.AsyncFunctionDef

MOST_ARGUMENTS = 12
MOST_UNTYPED = 80
P95 = 9

_BRANCHES = (ast.If, ast.IfExp, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.Assert)


def sources() -> Iterator[Path]:
    """Every file of the three packages."""
    for package in PACKAGES:
        yield from sorted((ROOT / package).rglob("*.py"))


def functions() -> Iterator[tuple[str, Function]]:
    """Every function with its place, methods and inner ones too."""
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, Function):
                yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", node


def complexity(function: ast.AST) -> int:
    """Ways through a function (McCabe, with conditions counted each): one, and one more for each branch, `and`, `or`,
    `case` and condition of a comprehension. What an inner function or a lambda decides is its own."""
    found = 1
    for node in _inside(function):
        if isinstance(node, _BRANCHES):
            found += 1
        elif isinstance(node, ast.comprehension):
            found += len(node.ifs)
        elif isinstance(node, ast.BoolOp):
            found += len(node.values) - 1
        elif isinstance(node, ast.Match):
            found += len(node.cases)
    return found


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, Function | ast.Lambda):
            yield child
            yield from _inside(child)


def arguments(function: Function) -> int:
    """How many values a function takes, `self` included."""
    given = function.args
    named = len(given.posonlyargs) + len(given.args) + len(given.kwonlyargs)
    return named + (given.vararg is not None) + (given.kwarg is not None)


def test_how_complexity_is_counted() -> None:
    """By hand: each branch is one, a chain of `or` one for each, and an inner function counts for itself."""
    text = """
def outer(a, b):
    if a or b or not a:
        return [x for x in a if x]
    def inner():
        while a:
            pass
    match b:
        case 1: return 2
        case _: return 3
"""
    assert complexity(ast.parse(text).body[0]) == 1 + (1 + 2) + 1 + 2


def test_functions_are_simple() -> None:
    """Of a hundred functions ninety-five have nine ways through or fewer."""
    found = sorted(complexity(function) for _, function in functions())
    assert len(found) > 1000
    assert found[int(0.95 * len(found))] <= P95


def test_no_function_takes_more_than_twelve_arguments() -> None:
    """What belongs together is given as one object, also to compiled kernels (numba reads named
    tuples) and to commands (stream/commands/_options.py shows groups of options to Typer)."""
    many = {place: arguments(function) for place, function in functions()}
    assert {place: count for place, count in many.items() if count > MOST_ARGUMENTS} == {}


def test_documents_have_types() -> None:
    """Few lines of stream handle a mapping of which nothing is known: configuration as it is read, and states of the
    fold; a name for the same thing does not help."""
    lines = [line for path in sources() if "stream" in path.parts for line in path.read_text().splitlines()]
    untyped = [line for line in lines if "dict[str, Any]" in line]
    assert len(untyped) < MOST_UNTYPED
    assert not [line for line in untyped if "TypeAlias" in line or line.startswith(("Json =", "JSON ="))]
