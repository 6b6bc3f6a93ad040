"""Which names outside itself a function uses, and which attributes of them."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

Chain = tuple[str, ...]
"""Attribute names after the root: ``("tiles", "load")`` of ``td.tiles.load``."""


def references(fn: Callable[..., Any]) -> Mapping[str, Mapping[Chain, int]]:
    """Root names in order of use, each with its attribute chains and the line of the first use.

    Body, defaults and annotations count, for Triton evaluates all three; decorators do not.
    """
    tree = ast.parse(textwrap.dedent(inspect.getsource(fn))).body[0]
    assert isinstance(tree, ast.FunctionDef)
    collector = _Collector(set(fn.__code__.co_varnames), fn.__code__.co_firstlineno - 1)
    collector.visit(tree.args)
    for statement in tree.body:
        collector.visit(statement)
    return collector.found


class _Collector(ast.NodeVisitor):
    """Collects chains rooted in a name that is not local to the function."""

    def __init__(self, local_names: set[str], lines_above: int) -> None:
        self.found: dict[str, dict[Chain, int]] = {}
        self._local_names = local_names
        self._lines_above = lines_above

    def visit_Attribute(self, node: ast.Attribute) -> None:
        chain: list[str] = []
        root: ast.expr = node
        while isinstance(root, ast.Attribute):
            chain.insert(0, root.attr)
            root = root.value
        if isinstance(root, ast.Name):
            self._note(root, tuple(chain))
        else:
            self.visit(root)

    def visit_Name(self, node: ast.Name) -> None:
        self._note(node, ())

    def _note(self, root: ast.Name, chain: Chain) -> None:
        if root.id not in self._local_names:
            line = self._lines_above + root.lineno
            self.found.setdefault(root.id, {}).setdefault(chain, line)
