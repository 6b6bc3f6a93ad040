"""The seam: where an operation of the language meets the reader that executes it.

A *reader* is the backend's side of one running program instance: the simulator's CTA, for
example. The language checks an operation's arguments once and hands the reader a legal call;
a reader never sees a user mistake that the language can know. The GPU backend does not come
through here: it re-binds kernels to Triton device functions that carry the same names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

from tdsim.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """One operation of the language.

    *visible*: another program instance can observe it, or it can block. A loop that holds no
    visible operation is a pure-compute stretch, which a reader may cost without running it.
    *waits*: it returns a token that loads must be tied to with :func:`tdsim.lang.after`.
    """

    name: str
    call: Callable[..., Any]
    visible: bool
    waits: bool


_ops: dict[str, Op] = {}
OPS: Mapping[str, Op] = MappingProxyType(_ops)
"""Every operation by name: the conformance suite and the lowering test close over it."""

_reader: Any = None


def op(*, visible: bool = False, waits: bool = False) -> Callable[[F], F]:
    """Register the decorated function as an operation of the language."""

    def register(fn: F) -> F:
        _ops[fn.__name__] = Op(name=fn.__name__, call=fn, visible=visible, waits=waits)
        return fn

    return register


def activate(reader: Any) -> None:
    """Make *reader* the one that operations of the running code go to."""
    global _reader
    _reader = reader


def reader() -> Any:
    """Return the active reader; a clear error outside a running kernel."""
    if _reader is None:
        raise UsageError(
            what="a tdsim.lang operation was called outside a running kernel",
            where="tdsim.lang",
            expected="a call from inside a @td.kernel that a program launched",
            cure="launch the kernel with ctx.launch(...) from a @td.program",
        )
    return _reader
