"""Programs: what every command takes. A host function plus what must be known about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tdsim.errors import ShapeError, UnknownNameError, UsageError
from tdsim.lang.expr import evaluate

Arrays = dict[str, list[Any]]
"""Tensors by name, one NumPy array per rank."""
Reference = Callable[[Arrays], Arrays]


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor that a program is given: *dims* are size expressions, per rank, in elements.

    A *symmetric* one lives in the symmetric heap, at the same place on every PE.
    """

    dims: tuple[str, ...]
    role: str
    symmetric: bool = False

    def shape(self, values: Mapping[str, int], where: str) -> tuple[int, ...]:
        return tuple(evaluate(d, values, where) for d in self.dims)


def Input(*dims: str, symmetric: bool = False) -> Tensor:  # noqa: N802 - reads as a type where it is used
    """A tensor that the caller fills (standard normal values in tests and checks)."""
    return Tensor(dims, "input", symmetric)


def Output(*dims: str, symmetric: bool = False) -> Tensor:  # noqa: N802
    """A tensor that the program fills, every element of it."""
    return Tensor(dims, "output", symmetric)


@dataclass(frozen=True, slots=True)
class Tunable:
    """A knob: its *default*, the legal *choices*, and what it does."""

    default: Any
    choices: tuple[Any, ...]
    doc: str


@dataclass(frozen=True, slots=True)
class Gemm:
    """An unfused step: one local GEMM of m x k times k x n on each rank."""

    m: str
    n: str
    k: str


@dataclass(frozen=True, slots=True)
class AllGather:
    """An unfused step: all ranks gather; *elements* counts the gathered result on one rank."""

    elements: str


@dataclass(frozen=True, slots=True)
class ReduceScatter:
    """An unfused step: sum over ranks, scattered; *elements* counts one rank's whole input."""

    elements: str


Step = Gemm | AllGather | ReduceScatter


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A host function and its contract: shape keys, tensors, knobs, work and reference.

    The host function is called once per rank as ``host(ctx, **tensors, **tunables)``; see
    :class:`tdsim.lang.Context` for what *ctx* offers. The default dtype of tensors is the one
    asked for on the command line (bf16). *work* lists the unfused steps that the program
    replaces, from which FLOPs, bytes, bound and baseline follow.
    """

    name: str
    host: Callable[..., None]
    shape: tuple[str, ...]
    tensors: Mapping[str, Tensor]
    tunables: Mapping[str, Tunable]
    work: tuple[Step, ...]
    reference: Reference
    small_shape: str
    doc: str

    def sizes(self, shape: Mapping[str, int], world: int, nodes: int) -> dict[str, int]:
        """All names a size expression may use; every shape key must be given and positive."""
        for key in shape:
            if key not in self.shape:
                raise UnknownNameError(f"shape key of {self.name}", key, self.shape)
        missing = [key for key in self.shape if key not in shape]
        if missing:
            raise ShapeError(
                what=f"shape key {missing[0]} is missing",
                where=self.name,
                expected=",".join(f"{k}=..." for k in self.shape),
                cure=f"add {missing[0]}=... to --shape",
            )
        for key, size in shape.items():
            if size < 1:
                raise ShapeError(
                    what=f"{key} = {size}", where=self.name, expected="a size of at least 1",
                    cure="give a positive size",
                )  # fmt: skip
        return {**shape, "world": world, "nodes": nodes, "node_size": world // nodes}

    def tuned(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """The tunables with *chosen* laid over the defaults; unknown or illegal is an error."""
        values = {name: t.default for name, t in self.tunables.items()}
        for name, value in chosen.items():
            if name not in self.tunables:
                raise UnknownNameError(f"tunable of {self.name}", name, tuple(self.tunables))
            legal = self.tunables[name].choices
            if value not in legal:
                raise UsageError(
                    what=f"{name}={value}",
                    where=self.name,
                    expected="one of " + ", ".join(map(str, legal)),
                    cure="pick a legal value",
                )
            values[name] = value
        return values

    def default_shape(self, world: int, nodes: int) -> dict[str, int]:
        """A small shape that this program's check runs when none is given."""
        names = {"world": world, "nodes": nodes, "node_size": world // nodes}
        pairs = (item.split("=") for item in self.small_shape.split(","))
        return {key: evaluate(text, names, self.name) for key, text in pairs}


def require(condition: bool, *, what: str, expected: str, cure: str) -> None:
    """Refuse a request in a host program with one clear line, unless *condition* holds."""
    if not condition:
        raise UsageError(what=what, where="host program", expected=expected, cure=cure)


def program(
    *,
    shape: tuple[str, ...],
    tensors: Mapping[str, Tensor],
    work: tuple[Step, ...],
    reference: Reference,
    small_shape: str,
    tunables: Mapping[str, Tunable] | None = None,
) -> Callable[[Callable[..., None]], Program]:
    """Make a host function a program. *small_shape* (``"M=96*world,N=80"``) is for checks.

    *reference* maps the inputs of all ranks to the outputs of all ranks, in NumPy. Outputs are
    compared in float64 with what it returns, so sums are best made in float64 too.
    """

    def define(host: Callable[..., None]) -> Program:
        return Program(
            name=host.__name__,
            host=host,
            shape=shape,
            tensors=MappingProxyType(dict(tensors)),
            tunables=MappingProxyType(dict(tunables or {})),
            work=work,
            reference=reference,
            small_shape=small_shape,
            doc=(host.__doc__ or "").strip(),
        )

    return define
