"""Re-binding: the text of a kernel, compiled by stock Triton against other globals.

``@td.kernel`` and ``@td.function`` objects hold plain Python functions. Lowering makes a new
function from the same code whose globals are only the names it uses, each translated: the
operations of the language to their device functions, helpers to re-bound helpers (also those
reached through modules and closures), plain values to constexprs. No source is generated.
"""

from __future__ import annotations

import ast
import enum
import functools
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import CellType, FunctionType, ModuleType
from typing import Any

import triton.language as tl
from triton.runtime.jit import JITFunction

from tdsim import lang
from tdsim.errors import KernelDefinitionError

from .device import DeviceFunction, Fact, Facts
from .division import NAMES, Divisions
from .namespace import LOWERINGS
from .references import Chain, references
from .stamps import start

_START = "__tdsim_start__"
_OP_NAMES = {op.call: name for name, op in lang.OPS.items()}


class Lowered(JITFunction):  # type: ignore[misc] # Triton is untyped
    """A re-bound function. Its cache key also holds what Triton's own leaves out.

    Triton hashes a function's text and constexpr globals, but neither constants reached through
    a module nor the code of builtins: a compile would find stale code in the disk cache.
    *libraries* are those that it may call, also through others, in whatever branch. It begins
    with a call of the global that *first* names, if any.
    """

    def __init__(
        self, fn: FunctionType, salt: str, libraries: frozenset[str], first: str = ""
    ) -> None:
        super().__init__(fn)
        self._salt, self._first = salt, first
        self.libraries = libraries

    def parse(self) -> ast.Module:
        """The text as Triton compiles it."""
        tree: ast.Module = super().parse()
        function = tree.body[0]
        if self._first and isinstance(function, ast.FunctionDef):
            call = ast.Expr(ast.Call(ast.Name(self._first, ast.Load()), [], []))
            ast.copy_location(call, function.body[0])
            function.body.insert(0, ast.fix_missing_locations(call))
        Divisions().visit(tree)
        return tree

    @property
    def cache_key(self) -> str:
        return hashlib.sha256(f"{super().cache_key} {self._salt}".encode()).hexdigest()


class Binder:
    """Re-binds functions and values for one set of facts, each function once."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._lowered: dict[Any, Lowered] = {}
        self._open: set[Any] = set()
        self._names: Counter[str] = Counter()

    def lower(self, function: lang.Function | DeviceFunction) -> Lowered:
        """The Triton function of *function*; a function that reaches itself is refused."""
        if function not in self._lowered:
            if function in self._open:
                code = function.fn.__code__
                raise KernelDefinitionError(
                    code.co_filename,
                    code.co_firstlineno,
                    f"{code.co_name} calls itself",
                    "Triton inlines helpers: write a loop",
                )
            self._open.add(function)
            try:
                traced = self._facts.traced and _is_kernel(function)
                self._lowered[function] = self._rebound(function.fn, traced)
            finally:
                self._open.remove(function)
        return self._lowered[function]

    def bind(self, value: Any, where: _Place) -> Any:
        """*value* as Triton must see it under the name that it has in the text."""
        if isinstance(value, lang.Function | DeviceFunction) and not _is_kernel(value):
            return self.lower(value)
        if value is lang.constexpr:
            return tl.constexpr
        if isinstance(value, Fact):
            return tl.constexpr(self._facts.value(value))
        if isinstance(value, FunctionType) and value in _OP_NAMES:
            return self._lowering(_OP_NAMES[value])
        if isinstance(value, tl.constexpr) or _is_triton(value):
            return value
        return tl.constexpr(_constant(value, where))

    def constant(self, value: Any, kernel: lang.Kernel, name: str) -> Any:
        """*value* for parameter *name* of *kernel*; helpers may be passed too (epilogues)."""
        code = kernel.fn.__code__
        place = _Place(code.co_filename, f"{name} of {kernel.name}", code.co_firstlineno)
        bound = self.bind(value, place)
        return bound.value if isinstance(bound, tl.constexpr) else bound

    def _lowering(self, name: str) -> Any:
        lowering = LOWERINGS[name]
        return self.lower(lowering) if isinstance(lowering, DeviceFunction) else lowering

    def _rebound(self, fn: Any, traced: bool) -> Lowered:
        outside = _outside(fn)
        names: dict[str, Any] = {}
        salt = [_backend_key()]
        for root, chains in references(fn).items():
            if root in outside:
                place = _Place(fn.__code__.co_filename, root, min(chains.values()))
                names[root] = self._bind_chains(outside[root], chains, place, salt)
        if traced:
            names[_START] = self.lower(start)
        free = fn.__code__.co_freevars
        rebound = FunctionType(
            fn.__code__,
            {**NAMES, **{name: value for name, value in names.items() if name not in free}},
            fn.__name__,
            None,
            tuple(CellType(names.get(name)) for name in free),
        )
        place = _Place(fn.__code__.co_filename, fn.__name__, fn.__code__.co_firstlineno)
        rebound.__defaults__ = tuple(self.bind(d, place) for d in fn.__defaults__ or ()) or None
        rebound.__annotations__ = _constexprs(fn)
        rebound.__module__ = fn.__module__
        rebound.__qualname__ = self._unique_name(fn)
        values = (*names.values(), *(rebound.__defaults__ or ()))
        first = _START if traced else ""
        return Lowered(rebound, " ".join(salt), frozenset(libraries(values)), first)

    def _bind_chains(
        self, value: Any, chains: Mapping[Chain, int], place: _Place, salt: list[str]
    ) -> Any:
        """*value*, or, of a module, a module of the attributes that *chains* name."""
        if not _is_scope(value):
            return self.bind(value, place)
        scope = ModuleType(getattr(value, "__name__", place.name))
        for head in dict.fromkeys(chain[0] for chain in chains if chain):
            rest = {chain[1:]: line for chain, line in chains.items() if chain[:1] == (head,)}
            inner = _Place(place.file, f"{place.name}.{head}", min(rest.values()))
            bound = self._bind_chains(_attribute(value, head, inner), rest, inner, salt)
            if isinstance(bound, tl.constexpr):
                salt.append(f"{inner.name}={bound.value!r}")
            setattr(scope, head, bound)
        return scope

    def _unique_name(self, fn: Any) -> str:
        """Triton tells functions apart by name, so two closures of one text need two names."""
        full_name = f"{fn.__module__}.{fn.__qualname__}"
        self._names[full_name] += 1
        count = self._names[full_name]
        return fn.__qualname__ if count == 1 else f"{fn.__qualname__}_{count}"


def libraries(values: Iterable[Any]) -> Iterator[str]:
    """The libraries that text may call which reaches these bound values."""
    for value in values:
        if isinstance(value, ModuleType) and not _is_triton(value):
            yield from libraries(vars(value).values())
        else:
            yield from getattr(value, "libraries", ())


class _Place:
    """Where a name is used, for errors."""

    __slots__ = ("file", "line", "name")

    def __init__(self, file: str, name: str, line: int) -> None:
        self.file, self.name, self.line = file, name, line


def _outside(fn: Any) -> Mapping[str, Any]:
    """What the free and global names of *fn* stand for; Python's builtins stay Triton's."""
    cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
    return {**fn.__globals__, **{name: cell.cell_contents for name, cell in cells.items()}}


def _is_kernel(value: Any) -> bool:
    return isinstance(value, lang.Kernel)


def _is_triton(value: Any) -> bool:
    name = "__name__" if isinstance(value, ModuleType) else "__module__"
    home = getattr(value, name, None) or ""
    return getattr(value, "__triton_builtin__", False) or home.startswith("triton.")


def _is_scope(value: Any) -> bool:
    """Whether only attributes of *value* are of use: a module, or a class of int constants."""
    if isinstance(value, ModuleType):
        return not _is_triton(value)
    return isinstance(value, type) and issubclass(value, enum.IntEnum)


def _attribute(value: Any, name: str, place: _Place) -> Any:
    try:
        return getattr(value, name)
    except AttributeError:
        raise KernelDefinitionError(
            place.file, place.line, f"{place.name} does not exist", "correct the name"
        ) from None


def _constant(value: Any, place: _Place) -> Any:
    """*value* as a constant of Triton: a number, a string, a dtype or a tuple of them."""
    if isinstance(value, lang.DType):
        return getattr(tl, value.name)
    if value is None or isinstance(value, bool | str | float):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, tuple):
        return tuple(_constant(item, place) for item in value)
    if isinstance(value, lang.Unmodelled):
        what = f"{place.name}, {value.construct}, has no lowering"
        raise KernelDefinitionError(place.file, place.line, what, value.instead)
    raise KernelDefinitionError(
        place.file,
        place.line,
        f"{place.name} is a {type(value).__name__}, which a kernel cannot use",
        "use numbers, strings, dtypes, tuples of them, or @td.function helpers",
    )


def _constexprs(fn: Any) -> dict[str, Any]:
    """The annotations that matter, in Triton's type."""
    return {
        name: tl.constexpr
        for name, note in fn.__annotations__.items()
        if getattr(note, "__name__", str(note)).split(".")[-1] == "constexpr"
    }


@functools.cache
def _backend_key() -> str:
    """A hash of this package's own text, which device builtins are part of."""
    texts = (path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
    return hashlib.sha256(b"".join(texts)).hexdigest()
