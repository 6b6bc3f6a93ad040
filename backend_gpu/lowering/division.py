# mypy: disable-error-code="untyped-decorator"
"""``//`` and ``%`` of kernels. Triton truncates tensors as C does, but folds two constants as
Python does: ``-7 // 2`` would depend on who knows the 7.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from triton.language import core

from tdsim.lang.integers import c_div, c_mod


@core.builtin
def quotient(a: Any, b: Any, _semantic: Any = None) -> Any:
    """``a // b`` towards zero; of two constants a constant."""
    x, y = (core._unwrap_if_constexpr(value) for value in (a, b))
    if _is_tensor(x) or _is_tensor(y):
        return _semantic.floordiv(x, y)
    return core.constexpr(c_div(x, y))


@core.builtin
def remainder(a: Any, b: Any, _semantic: Any = None) -> Any:
    """``a % b`` with the sign of *a*; of two constants a constant."""
    x, y = (core._unwrap_if_constexpr(value) for value in (a, b))
    if _is_tensor(x) or _is_tensor(y):
        return _semantic.mod(x, y)
    return core.constexpr(c_mod(x, y))


def _is_tensor(value: Any) -> bool:
    return isinstance(value, core.tensor)


NAMES: Mapping[str, Any] = MappingProxyType(
    {"__tdsim_quotient__": quotient, "__tdsim_remainder__": remainder}
)
"""What a text must know that :class:`Divisions` went over."""
_CALLS: Mapping[type[ast.operator], str] = MappingProxyType(
    dict(zip((ast.FloorDiv, ast.Mod), NAMES, strict=True))
)


class Divisions(ast.NodeTransformer):
    """Makes each ``//`` and ``%`` a call; lines stay."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        if type(node.op) not in _CALLS:
            return node
        name = ast.Name(_CALLS[type(node.op)], ast.Load())
        call = ast.copy_location(ast.Call(name, [node.left, node.right], []), node)
        return ast.fix_missing_locations(call)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        self.generic_visit(node)
        if type(node.op) not in _CALLS or not isinstance(node.target, ast.Name):
            return node
        before = ast.copy_location(ast.Name(node.target.id, ast.Load()), node)
        value = ast.copy_location(ast.BinOp(before, node.op, node.value), node)
        return ast.copy_location(ast.Assign([node.target], self.visit_BinOp(value)), node)
