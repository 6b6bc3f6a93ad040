"""Size expressions such as ``"M/world"``: exact integers, or a clear error."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from tdsim.errors import ShapeError


def evaluate(text: str, values: Mapping[str, int], where: str) -> int:
    """Value of *text* over the names in *values*; division must be exact.

    Raises :class:`~tdsim.errors.ShapeError` if a name is unknown or a division leaves a rest.
    """
    return _value(ast.parse(text, mode="eval").body, text, values, where)


def _value(node: ast.expr, text: str, values: Mapping[str, int], where: str) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.Name) and node.id in values:
        return values[node.id]
    if isinstance(node, ast.BinOp):
        left = _value(node.left, text, values, where)
        right = _value(node.right, text, values, where)
        if isinstance(node.op, ast.Add):
            return left + right
        if isinstance(node.op, ast.Sub):
            return left - right
        if isinstance(node.op, ast.Mult):
            return left * right
        if isinstance(node.op, ast.Div):
            return _exact(left, right, node, where)
    raise ShapeError(
        what=f"size expression {text!r} cannot be computed",
        where=where,
        expected="+ - * / over " + ", ".join(values),
        cure="name only the program's shape keys, its tunables, world, nodes and node_size",
    )


def _exact(left: int, right: int, node: ast.BinOp, where: str) -> int:
    if right == 0 or left % right:
        raise ShapeError(
            what=f"{ast.unparse(node.left)} = {left} does not divide by "
            f"{ast.unparse(node.right)} = {right}",
            where=where,
            expected=f"a multiple of {right}",
            cure=f"use {ast.unparse(node.left)} = {left + -left % right if right else 1}",
        )
    return left // right
