"""The Python subset of kernels: what stock Triton (3.6) compiles, checked at definition.

A simulator that accepts what the compiler rejects is worthless, so each refusal names the
file, the line and the cure. Types are not checked here: the compile suite proves those.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

from tdsim.errors import KernelDefinitionError
from tdsim.lang import _seam

_REFUSED: dict[type[ast.AST], tuple[str, str]] = {
    ast.Break: ("break", "put the condition into the loop's bounds or a while test"),
    ast.Continue: ("continue", "put the rest of the body under an if"),
    ast.Try: ("try", "kernels cannot raise; check arguments in the host program"),
    ast.Raise: ("raise", "check arguments in the host program"),
    ast.Lambda: ("lambda", "write a @td.function helper"),
    ast.With: ("with", "call the operations directly"),
    ast.Yield: ("yield", "waiting is td.signal_wait_until; a kernel never yields"),
    ast.YieldFrom: ("yield from", "waiting is td.signal_wait_until; a kernel never yields"),
    ast.Await: ("await", "waiting is td.signal_wait_until"),
    ast.Global: ("global", "pass the value as an argument"),
    ast.Nonlocal: ("nonlocal", "pass the value as an argument"),
    ast.ListComp: ("a list comprehension", "write a for loop over range"),
    ast.DictComp: ("a dict comprehension", "write a for loop over range"),
    ast.SetComp: ("a set comprehension", "write a for loop over range"),
    ast.GeneratorExp: ("a generator expression", "write a for loop over range"),
    ast.Dict: ("a dict", "pass values as separate arguments"),
    ast.Set: ("a set", "pass values as separate arguments"),
    ast.JoinedStr: ("an f-string", "use a literal string"),
    ast.Starred: ("a starred argument", "write the arguments out"),
    ast.Import: ("import", "import at the top of the file"),
    ast.ImportFrom: ("import", "import at the top of the file"),
    ast.ClassDef: ("a class", "use tuples and separate arguments"),
    ast.Delete: ("del", "let the name go out of use"),
    ast.NamedExpr: ("a walrus assignment", "assign on a line of its own"),
    ast.Match: ("match", "use if and elif"),
}


def check_subset(tree: ast.FunctionDef, file: str, scope: Mapping[str, Any]) -> None:
    """Refuse what Triton cannot compile in *tree*; raise at the first offence in text order."""
    _check_signature(tree, file)
    offences = [*_offences(tree), *_wait_offences(tree, scope)]
    if offences:
        line, what, cure = min(offences)
        raise KernelDefinitionError(file, line, what, cure)


def _check_signature(tree: ast.FunctionDef, file: str) -> None:
    args = tree.args
    if args.vararg or args.kwarg:
        cure = "name every parameter"
        raise KernelDefinitionError(file, tree.lineno, "*args and **kwargs in a kernel", cure)
    if args.kwonlyargs:
        line = args.kwonlyargs[0].lineno
        cure = "drop the `*`; keyword passing still works"
        raise KernelDefinitionError(file, line, "keyword-only parameters in a kernel", cure)


def _offences(tree: ast.FunctionDef) -> Iterator[tuple[int, str, str]]:
    for node in ast.walk(tree):
        refused = _REFUSED.get(type(node))
        if refused:
            yield node.lineno, f"Triton cannot compile {refused[0]} in a kernel", refused[1]  # type: ignore[attr-defined]
        elif isinstance(node, ast.FunctionDef) and node is not tree:
            yield node.lineno, "a nested function in a kernel", "write a @td.function helper"
        elif isinstance(node, (ast.For, ast.While)):
            yield from _loop_offences(node)
        elif isinstance(node, ast.Compare) and len(node.ops) > 1:
            yield node.lineno, "a chained comparison in a kernel", "join two with &"
        elif isinstance(node, ast.BoolOp) and not all(map(_is_bool, node.values)):
            yield node.lineno, "and/or on values that are not comparisons", "compare with != 0"
        elif _is_not(node) and not _is_bool(node.operand):
            yield node.lineno, "not on a value that is no comparison", "write == 0"


def _is_not(node: ast.AST) -> TypeGuard[ast.UnaryOp]:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)


def _is_bool(node: ast.expr) -> bool:
    if _is_not(node):
        return _is_bool(node.operand)
    return isinstance(node, (ast.Compare, ast.BoolOp)) or (
        isinstance(node, ast.Constant) and isinstance(node.value, bool)
    )


def _loop_offences(loop: ast.For | ast.While) -> Iterator[tuple[int, str, str]]:
    if loop.orelse:
        yield loop.lineno, "else on a loop in a kernel", "put it after the loop"
    for node in ast.walk(loop):
        if isinstance(node, ast.Return):
            yield (
                node.lineno,
                "return inside a loop in a kernel",
                "set a value, return after it",
            )
    if isinstance(loop, ast.For):
        call = loop.iter
        name = call.func if isinstance(call, ast.Call) else None
        is_range = (isinstance(name, ast.Name) and name.id == "range") or (
            isinstance(name, ast.Attribute) and name.attr == "range"
        )
        if not is_range:
            yield loop.lineno, "a for loop over something other than range", "loop over range"
        if not isinstance(loop.target, ast.Name):
            yield loop.lineno, "a for loop with several targets", "loop over one index"


def _wait_offences(
    tree: ast.FunctionDef, scope: Mapping[str, Any]
) -> Iterator[tuple[int, str, str]]:
    """A wait orders only what depends on its token, so a token that nobody uses is a bug.

    Compilers move loads above a wait that they do not depend on: inside a software-pipelined
    loop all 50 of 50 runs on an H200 read stale data without the token.
    """
    used = {
        n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)
    }
    cure = (
        "write `token = td.signal_wait_until(...)` and td.after(token, view) for what follows"
    )
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and _is_wait(node.value, scope):
            yield node.lineno, "the token of a wait is dropped", cure
        elif isinstance(node, ast.Assign) and _is_wait(node.value, scope):
            target = node.targets[0]
            if isinstance(target, ast.Name) and target.id not in used:
                yield node.lineno, f"the token {target.id!r} of a wait reaches nothing", cure


def _is_wait(node: ast.expr, scope: Mapping[str, Any]) -> bool:
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Attribute):
        name = node.func.attr
    elif isinstance(node.func, ast.Name):
        name = getattr(scope.get(node.func.id), "__name__", node.func.id)
    else:
        return False
    found = _seam.OPS.get(name)
    return found is not None and found.waits
