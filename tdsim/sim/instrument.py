"""Kernels made runnable: the same text, with loops and integer arithmetic under control.

The simulator re-compiles a kernel's syntax tree, line numbers kept, with two changes. A loop
with no visible operation in it goes through :func:`pure_loop`, so that its cost can be taken
from one iteration (timing mode) or summed as a software pipeline. ``//`` and ``%`` truncate as
in C; in functional mode int32 results of ``+ - *`` wrap.
"""

from __future__ import annotations

import ast
import builtins
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tdsim.errors import KernelDefinitionError
from tdsim.lang import OPS, Function
from tdsim.lang import _seam as seam


@dataclass(frozen=True, slots=True)
class Loop:
    """A pure loop: whether one iteration may stand for all, as far as the text shows."""

    foldable: bool


class Prepared:
    """A kernel or helper compiled for one mode. *functional* checks int32 wrap-around."""

    def __init__(self, function: Function, functional: bool) -> None:
        rewriter = _Rewriter(function, functional)
        tree = rewriter.rewrite()
        self.call = _compile(function, tree)


_cache: dict[tuple[Function, bool], Callable[..., Any]] = {}


def prepare(function: Function, functional: bool) -> Callable[..., Any]:
    """The callable that runs *function* under the active reader."""
    found = _cache.get((function, functional))
    if found is None:
        found = _cache[function, functional] = Prepared(function, functional).call
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
    cta.end_loop(outer, 1)


def carried(values: dict[str, Any], names: tuple[str, ...]) -> None:
    """Report what an iteration leaves for the next: any scalar forbids folding."""
    if any(isinstance(values.get(name), (int, float)) for name in names):
        seam.reader().carries_scalar = True


def c_div(a: Any, b: Any) -> Any:
    """``a // b`` truncated towards zero, as on the GPU."""
    if not (isinstance(a, int) and isinstance(b, int)) or (a >= 0 and b > 0):
        return a // b
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def c_mod(a: Any, b: Any) -> Any:
    """``a % b`` with the sign of *a*, as on the GPU."""
    if not (isinstance(a, int) and isinstance(b, int)) or (a >= 0 and b > 0):
        return a % b
    return a - c_div(a, b) * b


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
        self.scope = _scope(function.fn)

    def rewrite(self) -> ast.FunctionDef:
        tree = ast.parse(ast.unparse(self.tree)).body[0]
        _copy_lines(self.tree, tree)
        assert isinstance(tree, ast.FunctionDef)
        _SpellOut().visit(tree)
        tree.decorator_list = []
        tree.returns = None
        for arg in tree.args.args:
            arg.annotation = None
        self.loads_outside = _loads_by_loop(tree)
        tree.body = [self.visit(statement) for statement in tree.body]
        return tree

    def visit_For(self, node: ast.For) -> ast.For:
        pure = is_pure(node.body, self.scope, self.function)
        outside = self.loads_outside[id(node)]
        foldable = pure and _is_foldable(node, self.scope, self.function)
        stores = _stores(node.body)
        carried_in = _read_first(node.body, _names(node.target)) & stores
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
        inner = _scope(target.fn)
        return is_pure(target.source.tree.body, inner, target)
    found = OPS.get(getattr(target, "__name__", ""))
    return not (found is not None and found.call is target and found.visible)


def resolve(node: ast.expr, scope: dict[str, Any], owner: Function) -> Any:
    """The object that the called expression *node* names; undecorated helpers are refused."""
    if isinstance(node, ast.Name):
        target = scope.get(node.id, getattr(builtins, node.id, None))
    elif isinstance(node, ast.Attribute):
        base = resolve(node.value, scope, owner)
        target = getattr(base, node.attr, None) if isinstance(base, types.ModuleType) else None
    else:
        target = None
    if isinstance(target, types.FunctionType) and not _is_op(target):
        raise KernelDefinitionError(
            owner.source.file,
            node.lineno,
            f"{owner.name} calls {target.__name__}, a plain Python function",
            "decorate it with @td.function",
        )
    return target


def _is_op(target: types.FunctionType) -> bool:
    found = OPS.get(target.__name__)
    return found is not None and found.call is target


def _is_foldable(loop: ast.For, scope: dict[str, Any], owner: Function) -> bool:
    """Whether every iteration costs the same: no branch or inner bound varies."""
    varying = _stores(loop.body) | _names(loop.target)
    for statement in loop.body:
        for node in ast.walk(statement):
            if isinstance(node, (ast.If, ast.IfExp, ast.While)) and _names(node.test) & varying:
                return False
            if isinstance(node, ast.For) and _names(node.iter) & varying:
                return False
            if isinstance(node, ast.Call):
                target = resolve(node.func, scope, owner)
                if isinstance(target, Function) and _branches(target):
                    return False
    return True


def _branches(function: Function) -> bool:
    """Whether *function* or a helper of it decides anything, or loops with own bounds."""
    scope = _scope(function.fn)
    for node in ast.walk(function.source.tree):
        if isinstance(node, (ast.If, ast.IfExp, ast.While, ast.For)):
            return True
        if isinstance(node, ast.Call):
            target = resolve(node.func, scope, function)
            if isinstance(target, Function) and _branches(target):
                return True
    return False


def _read_first(body: list[ast.stmt], written: set[str]) -> set[str]:
    """Names that *body* may read before it has surely written them; *written* grows."""
    found: set[str] = set()
    for statement in body:
        if isinstance(statement, ast.If):
            found |= _names(statement.test) - written
            then, other = set(written), set(written)
            found |= _read_first(statement.body, then) | _read_first(statement.orelse, other)
            written |= then & other
        elif isinstance(statement, (ast.For, ast.While)):  # may run no iteration at all
            is_for = isinstance(statement, ast.For)
            found |= _names(statement.iter if is_for else statement.test) - written
            target = _names(statement.target) if is_for else set()
            found |= _read_first(statement.body, written | target)
        else:
            found |= _loads([statement]) - written
            written |= _stores([statement])
    return found


def _loads_by_loop(tree: ast.FunctionDef) -> dict[int, set[str]]:
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


def _names(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def _loads(body: list[ast.stmt]) -> set[str]:
    nodes = (n for s in body for n in ast.walk(s) if isinstance(n, ast.Name))
    return {n.id for n in nodes if isinstance(n.ctx, ast.Load)}


def _stores(body: list[ast.stmt]) -> set[str]:
    nodes = (n for s in body for n in ast.walk(s) if isinstance(n, ast.Name))
    return {n.id for n in nodes if isinstance(n.ctx, ast.Store)}


def _call(name: str, args: list[ast.expr], at: ast.AST) -> ast.Call:
    call = ast.Call(func=ast.Name(name, ast.Load()), args=args, keywords=[])
    ast.copy_location(call, at)
    return ast.fix_missing_locations(call)


def _copy_lines(source: ast.AST, target: ast.AST) -> None:
    """Give *target*, an equal tree, the line numbers of *source*."""
    for old, new in zip(ast.walk(source), ast.walk(target), strict=True):
        if hasattr(old, "lineno"):
            ast.copy_location(new, old)


def _scope(fn: Callable[..., Any]) -> dict[str, Any]:
    scope = dict(fn.__globals__)
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        scope[name] = cell.cell_contents
    return scope


def _compile(function: Function, tree: ast.FunctionDef) -> Callable[..., Any]:
    module = ast.Module(body=[tree], type_ignores=[])
    code = compile(ast.fix_missing_locations(module), function.source.file, "exec")
    scope = {**_scope(function.fn), **_RUNTIME}
    exec(code, scope)
    compiled: Callable[..., Any] = scope[tree.name]
    compiled.__defaults__ = function.fn.__defaults__
    return compiled


def called(node: ast.Call, owner: Function) -> Any:
    """The object that the call *node* in the text of *owner* names, or None."""
    return resolve(node.func, _scope(owner.fn), owner)
