"""How device functions are written: text for Triton plus facts known when it is lowered.

A device function is plain Triton code. It becomes a Triton function only when a kernel is
lowered, by the same re-binding as the kernel itself, because then its facts are constants: who
this PE is, whether the job has one node, whether the chip has an asynchronous copy proxy,
whether the build is one to debug or to trace.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .world import World


@dataclass(frozen=True, slots=True, eq=False)
class DeviceFunction:
    """A function of the device library, not yet bound to a world."""

    fn: Callable[..., Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"{self.fn.__name__} is text for Triton: call it from a kernel")


def device(fn: Callable[..., Any]) -> DeviceFunction:
    """Make *fn* a device function: legal Triton text whose globals may hold facts."""
    return DeviceFunction(fn)


@dataclass(frozen=True, slots=True)
class Fact:
    """A name that device text reads as a compile-time constant."""

    name: str


MY_PE: Any = Fact("pe")
N_PES: Any = Fact("n_pes")
PES_PER_NODE: Any = Fact("pes_per_node")
SINGLE_NODE: Any = Fact("single_node")
LANES: Any = Fact("lanes")
ASYNC_PROXY: Any = Fact("async_proxy")
"""Whether the chip moves tiles by bulk asynchronous copies (TMA, sm_90 and newer)."""
DEBUG: Any = Fact("debug")
"""Whether waits end after a time and report."""
TRACED: Any = Fact("traced")
"""Whether operations leave time stamps."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The values of all facts for one world, chip and build; equal facts, equal code."""

    world: World
    async_proxy: bool
    debug: bool = False
    traced: bool = False

    def value(self, fact: Fact) -> int | bool:
        """The value of *fact*: one of the fields here, or of the world."""
        home = self.world if hasattr(self.world, fact.name) else self
        value: int | bool = getattr(home, fact.name)
        return value
