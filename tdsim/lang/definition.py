"""``@td.kernel`` and ``@td.function``: what a kernel is before anyone runs it."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tdsim.errors import KernelDefinitionError, UsageError
from tdsim.lang import _seam
from tdsim.lang.subset import check_subset


class constexpr:  # noqa: N801 - Triton's spelling
    """Annotation of a parameter whose value is known when the kernel is compiled."""


@dataclass(frozen=True, slots=True)
class Source:
    """The text of a kernel: parsed once, line numbers as in the user's file."""

    file: str
    line: int
    tree: ast.FunctionDef


class Function:
    """A device helper: called from kernels and other helpers, returns values or tuples."""

    kind = "function"

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn
        self.name = fn.__name__
        self.source = _read_source(fn)
        self.params = tuple(inspect.signature(fn).parameters)
        self.constexprs = frozenset(
            name for name, note in fn.__annotations__.items() if _is_constexpr(note)
        )
        self.__doc__ = fn.__doc__
        check_subset(self.source.tree, self.source.file, fn.__globals__)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _seam.reader().call(self, args, kwargs)

    def __repr__(self) -> str:
        return f"<td.{self.kind} {self.name}>"


class Kernel(Function):
    """An entry point: launched as a grid of program instances by ``ctx.launch``."""

    kind = "kernel"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise UsageError(
            what=f"kernel {self.name} was called like a function",
            where=f"{self.source.file}:{self.source.line}",
            expected="a launch from a host program",
            cure=f"write ctx.launch({self.name}, grid=..., args=(...))",
        )


def kernel(fn: Callable[..., Any]) -> Kernel:
    """Define a kernel. What Triton cannot compile is refused here, with file, line and cure."""
    return Kernel(fn)


def function(fn: Callable[..., Any]) -> Function:
    """Define a device helper that kernels call (Triton's ``@triton.jit`` on a helper)."""
    return Function(fn)


def _is_constexpr(note: Any) -> bool:
    return note is constexpr or (isinstance(note, str) and note.split(".")[-1] == "constexpr")


def _read_source(fn: Callable[..., Any]) -> Source:
    code = fn.__code__
    try:
        lines, first = inspect.getsourcelines(fn)
    except OSError:
        raise KernelDefinitionError(
            code.co_filename,
            code.co_firstlineno,
            f"the source of {fn.__name__} cannot be read",
            "define kernels in a file, not in exec() or an interactive prompt",
        ) from None
    tree = ast.parse(textwrap.dedent("".join(lines))).body[0]
    ast.increment_lineno(tree, first - 1)
    if not isinstance(tree, ast.FunctionDef):
        raise KernelDefinitionError(
            code.co_filename, first, "a kernel is a plain function", "use `def`, not lambda"
        )
    return Source(code.co_filename, first, tree)
