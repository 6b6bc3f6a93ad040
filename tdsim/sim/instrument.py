"""Kernels made runnable: the same text, with loops and integer arithmetic under control.

The simulator re-compiles a kernel's syntax tree, line numbers kept, with two changes. A loop
with no visible operation in it goes through :func:`pure_loop`, so that its cost can be taken
from one iteration (timing mode) or summed as a software pipeline. ``//`` and ``%`` truncate as
in C; in functional mode int32 results of ``+ - *`` wrap.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

from tdsim.lang import Function
from tdsim.lang import _seam as seam
from tdsim.lang.integers import c_div, c_mod
from tdsim.sim.loops import (
    is_foldable,
    is_pure,
    loads_by_loop,
    names_in,
    read_first,
    resolve,
    scope_of,
    stores_in,
)

_cache: dict[tuple[Function, bool], Callable[..., Any]] = {}


def prepare(function: Function, functional: bool) -> Callable[..., Any]:
    """The callable that runs *function* under the active reader; *functional* wraps int32."""
    found = _cache.get((function, functional))
    if found is None:
        found = _cache[function, functional] = _compile(
            function, _Rewriter(function, functional).rewrite()
        )
    return found


def pure_loop(indices: Any, foldable: bool) -> Iterator[int]:
    """Iterate over *indices*, costing the loop as one pipelined stretch of the active CTA.

    If *foldable* and the loop carries no scalar from one iteration to the next (told by
    :func:`carried`), only the first iteration runs and stands for all.
    """
    cta = seam.reader()
    trips = len(indices)
    if trips == 0:
        return
    outer = cta.begin_loop()
    fold = foldable and cta.folds and trips > 1
    cta.carries_scalar = False
    for index in indices:
        yield index
        if fold:
            if not cta.carries_scalar:
                cta.end_loop(outer, trips)
                return
            fold = False
    cta.end_loop(outer, 1, trips)


def carried(values: dict[str, Any], names: tuple[str, ...]) -> None:
    """Report what an iteration leaves for the next: any scalar forbids folding."""
    if any(isinstance(values.get(name), (int, float)) for name in names):
        seam.reader().carries_scalar = True


def int32(value: Any) -> Any:
    """*value* wrapped to int32 if it is a plain int, which is what kernels compute with."""
    if type(value) is int and not -(2**31) <= value < 2**31:
        return (value + 2**31) % 2**32 - 2**31
    return value


_RUNTIME = {
    "__pure_loop__": pure_loop,
    "__carried__": carried,
    "__c_div__": c_div,
    "__c_mod__": c_mod,
    "__int32__": int32,
}


class _Rewriter(ast.NodeTransformer):
    def __init__(self, function: Function, functional: bool) -> None:
        self.function, self.functional = function, functional
        self.tree = function.source.tree
        self.scope = scope_of(function.fn)
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call):
                resolve(node.func, self.scope, function)

    def rewrite(self) -> ast.FunctionDef:
        tree = ast.parse(ast.unparse(self.tree)).body[0]
        _copy_lines(self.tree, tree)
        assert isinstance(tree, ast.FunctionDef)
        _SpellOut().visit(tree)
        tree.decorator_list = []
        tree.returns = None
        for arg in tree.args.args:
            arg.annotation = None
        self.loads_outside = loads_by_loop(tree)
        tree.body = [self.visit(statement) for statement in tree.body]
        return tree

    def visit_For(self, node: ast.For) -> ast.For:
        pure = is_pure(node.body, self.scope, self.function)
        outside = self.loads_outside[id(node)]
        foldable = pure and is_foldable(node, self.scope, self.function)
        stores = stores_in(node.body)
        carried_in = read_first(node.body, names_in(node.target)) & stores
        names = sorted(carried_in | (stores & outside))
        node.iter = self.visit(node.iter)
        node.body = [self.visit(statement) for statement in node.body]
        if pure:
            flag = ast.Constant(foldable)
            node.iter = _call("__pure_loop__", [node.iter, flag], node.iter)
            if foldable and names:
                last = node.body[-1]
                values = _call("locals", [], last)  # some names may not be bound
                known = ast.Tuple([ast.Constant(n) for n in names], ast.Load())
                report = ast.Expr(_call("__carried__", [values, known], last))
                node.body.append(ast.copy_location(report, last))
            ast.fix_missing_locations(node)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        name = {ast.FloorDiv: "__c_div__", ast.Mod: "__c_mod__"}.get(type(node.op))
        if name:
            return _call(name, [node.left, node.right], node)
        if self.functional and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult)):
            return _call("__int32__", [node], node)
        return node


class _SpellOut(ast.NodeTransformer):
    """``x += y`` as ``x = x + y``, so that one rule covers both spellings."""

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.Assign:
        left = ast.copy_location(ast.Name(ast.unparse(node.target), ast.Load()), node)
        value = ast.copy_location(ast.BinOp(left, node.op, node.value), node)
        return ast.copy_location(ast.Assign([node.target], value), node)


def _call(name: str, args: list[ast.expr], at: ast.AST) -> ast.Call:
    call = ast.Call(func=ast.Name(name, ast.Load()), args=args, keywords=[])
    ast.copy_location(call, at)
    return ast.fix_missing_locations(call)


def _copy_lines(source: ast.AST, target: ast.AST) -> None:
    """Give *target*, an equal tree, the line numbers of *source*."""
    for old, new in zip(ast.walk(source), ast.walk(target), strict=True):
        if hasattr(old, "lineno"):
            ast.copy_location(new, old)


def _compile(function: Function, tree: ast.FunctionDef) -> Callable[..., Any]:
    module = ast.Module(body=[tree], type_ignores=[])
    code = compile(ast.fix_missing_locations(module), function.source.file, "exec")
    scope = {**scope_of(function.fn), **_RUNTIME}
    exec(code, scope)
    compiled: Callable[..., Any] = scope[tree.name]
    compiled.__defaults__ = function.fn.__defaults__
    return compiled
