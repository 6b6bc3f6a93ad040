"""What a kernel's text says about its loops: pure ones, ones that may fold, what they carry."""

from __future__ import annotations

import ast
import builtins
import types
from collections.abc import Callable
from typing import Any

from tdsim.errors import KernelDefinitionError, UnmodelledError
from tdsim.lang import OPS, Function, Unmodelled

_BUILTINS = (range, min, max, int, float, len)
"""Python's own functions that Triton compiles."""


def is_pure(body: list[ast.stmt], scope: dict[str, Any], owner: Function) -> bool:
    """Whether *body* holds no operation that others see or that can block, through helpers."""
    return all(
        _call_is_pure(node, scope, owner)
        for statement in body
        for node in ast.walk(statement)
        if isinstance(node, ast.Call)
    )


def _call_is_pure(node: ast.Call, scope: dict[str, Any], owner: Function) -> bool:
    target = resolve(node.func, scope, owner)
    if isinstance(target, Function):
        inner = scope_of(target.fn)
        return is_pure(target.source.tree.body, inner, target)
    found = OPS.get(getattr(target, "__name__", ""))
    return not (found is not None and found.call is target and found.visible)


def resolve(node: ast.expr, scope: dict[str, Any], owner: Function) -> Any:
    """The object that the called expression *node* names, or None; refuses what Triton would.

    Kernels call operations, decorated helpers and a few built-ins, nothing else.
    """
    target = _look_up(node, scope)
    if target is None or isinstance(target, Function) or _is_op(target):
        return target
    if any(target is known for known in _BUILTINS):
        return target
    place = f"{owner.source.file}:{node.lineno}"
    if isinstance(target, Unmodelled):
        raise UnmodelledError(
            f"{ast.unparse(node)} ({target.construct})", place, target.instead
        )
    if str(getattr(target, "__module__", "")).partition(".")[0] == "triton":
        cure = "call operations of tdsim.lang instead"
        raise UnmodelledError(f"{ast.unparse(node)} of Triton", place, cure)
    plain = isinstance(target, types.FunctionType)
    raise KernelDefinitionError(
        owner.source.file,
        node.lineno,
        f"{owner.name} calls {getattr(target, '__name__', ast.unparse(node))}, "
        + ("a plain Python function" if plain else "which Triton cannot compile"),
        "decorate it with @td.function" if plain else "call operations of tdsim.lang instead",
    )


def _look_up(node: ast.expr, scope: dict[str, Any]) -> Any:
    if isinstance(node, ast.Name):
        return scope.get(node.id, getattr(builtins, node.id, None))
    if isinstance(node, ast.Attribute):
        base = _look_up(node.value, scope)
        return getattr(base, node.attr, None) if isinstance(base, types.ModuleType) else None
    return None


def _is_op(target: Any) -> bool:
    found = OPS.get(getattr(target, "__name__", ""))
    return found is not None and found.call is target


def is_foldable(loop: ast.For, scope: dict[str, Any], owner: Function) -> bool:
    """Whether every iteration costs the same: no branch or inner bound varies."""
    varying = stores_in(loop.body) | names_in(loop.target)
    for statement in loop.body:
        for node in ast.walk(statement):
            if (
                isinstance(node, (ast.If, ast.IfExp, ast.While))
                and names_in(node.test) & varying
            ):
                return False
            if isinstance(node, ast.For) and names_in(node.iter) & varying:
                return False
            if isinstance(node, ast.Call):
                target = resolve(node.func, scope, owner)
                if isinstance(target, Function) and _branches(target):
                    return False
    return True


def _branches(function: Function) -> bool:
    """Whether *function* or a helper of it decides anything, or loops with own bounds."""
    scope = scope_of(function.fn)
    for node in ast.walk(function.source.tree):
        if isinstance(node, (ast.If, ast.IfExp, ast.While, ast.For)):
            return True
        if isinstance(node, ast.Call):
            target = resolve(node.func, scope, function)
            if isinstance(target, Function) and _branches(target):
                return True
    return False


def read_first(body: list[ast.stmt], written: set[str]) -> set[str]:
    """Names that *body* may read before it has surely written them; *written* grows."""
    found: set[str] = set()
    for statement in body:
        if isinstance(statement, ast.If):
            found |= names_in(statement.test) - written
            then, other = set(written), set(written)
            found |= read_first(statement.body, then) | read_first(statement.orelse, other)
            written |= then & other
        elif isinstance(statement, (ast.For, ast.While)):  # may run no iteration at all
            head = statement.iter if isinstance(statement, ast.For) else statement.test
            target = names_in(statement.target) if isinstance(statement, ast.For) else set()
            found |= names_in(head) - written
            found |= read_first(statement.body, written | target)
        else:
            found |= loads_in([statement]) - written
            written |= stores_in([statement])
    return found


def loads_by_loop(tree: ast.FunctionDef) -> dict[int, set[str]]:
    """For each loop, the names that the function reads outside it."""
    result = {}
    for loop in ast.walk(tree):
        if isinstance(loop, ast.For):
            inside = {id(node) for statement in loop.body for node in ast.walk(statement)}
            result[id(loop)] = {
                node.id
                for node in ast.walk(tree)
                if isinstance(node, ast.Name)
                and isinstance(node.ctx, ast.Load)
                and id(node) not in inside
            }
    return result


def names_in(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def loads_in(body: list[ast.stmt]) -> set[str]:
    nodes = (n for s in body for n in ast.walk(s) if isinstance(n, ast.Name))
    return {n.id for n in nodes if isinstance(n.ctx, ast.Load)}


def stores_in(body: list[ast.stmt]) -> set[str]:
    nodes = (n for s in body for n in ast.walk(s) if isinstance(n, ast.Name))
    return {n.id for n in nodes if isinstance(n.ctx, ast.Store)}


def scope_of(fn: Callable[..., Any]) -> dict[str, Any]:
    scope = dict(fn.__globals__)
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        scope[name] = cell.cell_contents
    return scope


def called(node: ast.Call, owner: Function) -> Any:
    """The object that the call *node* in the text of *owner* names, or None."""
    return resolve(node.func, scope_of(owner.fn), owner)
