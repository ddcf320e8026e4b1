"""The mutants of a module: each is the whole text of the module with one small fault."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.provider import OperatorProvider

COMPARISONS = {
    "Lt": ("LtE", "GtE"),
    "LtE": ("Lt", "Gt"),
    "Gt": ("GtE", "LtE"),
    "GtE": ("Gt", "Lt"),
    "Eq": ("NotEq",),
    "NotEq": ("Eq",),
    "Is": ("IsNot",),
    "IsNot": ("Is",),
}
"""The bound moved by one, and the opposite: what else a comparison may become is caught wherever these are."""

ARITHMETIC = {
    "Add": "Sub",
    "Sub": "Add",
    "Mul": "FloorDiv",
    "Div": "Mul",
    "FloorDiv": "Mul",
    "Mod": "Mul",
    "Pow": "Mul",
    "RShift": "LShift",
    "LShift": "RShift",
    "BitOr": "BitAnd",
    "BitAnd": "BitOr",
    "BitXor": "BitAnd",
}
"""One other operator for each."""

OPERATORS = (
    *(f"ReplaceComparisonOperator_{one}_{other}" for one, others in COMPARISONS.items() for other in others),
    *(f"ReplaceBinaryOperator_{one}_{other}" for one, other in ARITHMETIC.items()),
    "ReplaceUnaryOperator_Delete_USub",
    "ReplaceUnaryOperator_Delete_Not",
    "ReplaceUnaryOperator_Delete_Invert",
    "AddNot",
    "ReplaceTrueWithFalse",
    "ReplaceFalseWithTrue",
    "ReplaceAndWithOr",
    "ReplaceOrWithAnd",
    "ReplaceBreakWithContinue",
    "ReplaceContinueWithBreak",
    "NumberReplacer",
    "ZeroIterationForLoop",
)

NOT_BEHAVIOUR = ("@dataclass(", "@lru_cache(", "@cache(")
"""Lines left alone: how a class guards its attributes, how much a cache holds."""

BOUNDS = {"min", "max", "minimum", "maximum", "clip", "nextafter", "abs", "sorted", "permutation"}
"""Calls that bound, round or shuffle what they are given; taken away, what they are given is in their place."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault: `before` and `after` are the changed lines, `ordinal` counts equal changes of one module."""

    operator: str
    line: int
    before: str
    after: str
    ordinal: int
    source: str


def mutants(source: str) -> Iterator[Mutant]:
    """Every mutant of a module's text; some differ in an annotation only and are dropped by who compiles them."""
    seen: Counter[tuple[str, str]] = Counter()
    for operator, mutated in (*_library(source), *_unwrapped(source), *_deleted(source)):
        line, before, after = _change(source, mutated)
        if before == after or before.startswith(NOT_BEHAVIOUR):
            continue
        if operator == "ReplaceBinaryOperator_BitOr_BitAnd" and _bare(source) == _bare(mutated):
            continue  # int | None in an annotation
        seen[before, after] += 1
        yield Mutant(operator, line, before, after, seen[before, after], mutated)


def _library(source: str) -> Iterator[tuple[str, str]]:
    provider, tree = OperatorProvider(), get_ast(source)
    nodes = list(ast_nodes(tree))
    for name in OPERATORS:
        operator = provider[name]()
        places = sum(len(list(operator.mutation_positions(node))) for node in nodes)
        for occurrence in range(places):
            mutated = mutate_code(source, operator, occurrence)
            if mutated is not None:
                yield name, mutated


def _unwrapped(source: str) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name not in BOUNDS or any(isinstance(one, ast.Starred) for one in node.args):
            continue
        if name == "permutation":  # the order of the source in place of a random one
            if len(node.args) == 1:
                yield "TakeBoundAway", _with(source, node, f"np.arange({ast.unparse(node.args[0])})")
            continue
        for kept in node.args[: 1 if name in {"clip", "nextafter", "abs", "sorted"} else 2]:
            yield "TakeBoundAway", _with(source, node, f"({ast.get_source_segment(source, kept)})")


def _deleted(source: str) -> Iterator[tuple[str, str]]:
    tree = ast.parse(source)
    for parent in ast.walk(tree):
        if isinstance(parent, ast.Module | ast.ClassDef):
            continue
        for field in ("body", "orelse", "finalbody"):
            statements = getattr(parent, field, None)
            for node in statements if isinstance(statements, list) else ():  # a lambda's body is one expression
                if _removable(node, isinstance(parent, ast.If)):
                    yield "DeleteStatement", _with(source, node, "pass")


def _removable(node: ast.stmt, guarded: bool) -> bool:
    """A statement without which the rest still has all its names."""
    match node:
        case ast.Raise() | ast.AugAssign():
            return True
        case ast.Return():
            return guarded
        case ast.Expr(value=ast.Call() | ast.Await()):
            return True
        case ast.Assign(targets=[target], value=value):
            names = {one.id for one in ast.walk(value) if isinstance(one, ast.Name)}
            return isinstance(target, ast.Subscript | ast.Attribute) or (
                isinstance(target, ast.Name) and target.id in names
            )
        case _:
            return False


def _with(source: str, node: ast.expr | ast.stmt, text: str) -> str:
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line.encode()))
    raw = source.encode()
    begin = starts[node.lineno - 1] + node.col_offset
    end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
    return (raw[:begin] + text.encode() + raw[end:]).decode()


def _bare(source: str) -> str:
    """The program without its annotations."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        match node:
            case ast.arg():
                node.annotation = None
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                node.returns = None
            case ast.AnnAssign():
                node.annotation = ast.Constant(None)
    return ast.dump(tree)


def _change(source: str, mutated: str) -> tuple[int, str, str]:
    """First changed line, and the changed lines before and after, blanks folded."""
    one, other = source.splitlines(), mutated.splitlines()
    first = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    tail = 0
    while tail < min(len(one), len(other)) - first and one[-1 - tail] == other[-1 - tail]:
        tail += 1
    return (
        first + 1,
        " ".join(" ".join(one[first : len(one) - tail]).split()),
        " ".join(" ".join(other[first : len(other) - tail]).split()),
    )
