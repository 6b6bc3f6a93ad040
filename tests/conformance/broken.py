"""The trap programs with their cure taken out: what the GPU shows is what the cure is for.

Each program here is one of the conformance suite, compiled with other device functions, so it is
run like any other: ``tests/conformance/broken.py:loop_wait_untied``. It is right on the simulator
and on a GPU only with the shipped lowering; here it should give wrong results or hang. Only its
own kernels are touched: the text is re-bound against a ``td`` whose operations reach the broken
functions, so good and broken programs fit into one job.

What each shows, or why it may show nothing:

- *loads are tied to waits* (``loop_wait_untied``, ``helper_wait_untied``): the pipeliner loads
  two parts ahead of the wait. Wrong whenever the part is not there yet, so practically always.
- *releases hold the pipeliner* (``turns_unheld``): the wait of a CTA's next tile moves above the
  signal of this one. Hangs at once.
- *releases join the CTA* (``release_unjoined``): warp 0 has nothing to load, so its signal is
  some microseconds ahead of the other warps' stores. Wrong practically always.
- *releases wait for TMA* (``tile_unwritten``): the signal races with a tile that has left shared
  memory and is on its way to the L2. Both take the same way, and the tile has a head start of
  the ``.read`` wait and a barrier, so that wrong runs are rare or absent; PTX promises nothing
  without the full wait, which is why the cure stays.
- *waits fence for TMA* (``tile_unfenced``): TMA reads through the L2, where an acquired store of
  another SM lies already. A stale tile needs a line that TMA has cached before, which Hopper is
  not known to do for tiles; the fence is what PTX demands between the two proxies.
- *one thread adds* (``add_by_all_threads``): the first piece counts for all, so that the reader
  takes the second before it was sent. Wrong in every call.
- *waits acquire* (``wait_unacquired``): the second read hits the lines in the L1 that the first
  has brought there. Wrong whenever both ran on one SM, which is always.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import FunctionType, ModuleType
from typing import Any

import programs_signals as signals
import programs_traps as traps
import triton.language as tl
from tdsim.backend_gpu.lowering import ordering
from tdsim.backend_gpu.lowering import signals as signal_lowering
from tdsim.backend_gpu.lowering.device import ASYNC_PROXY, DeviceFunction, device
from tdsim.backend_gpu.lowering.namespace import LOWERINGS
from tdsim.backend_gpu.lowering.views import on_peer

from tdsim import lang as td


@device
def untied_zero(token):
    """A plain 0, which depends on no wait."""
    return 0


@device
def unfenced_zero(token):
    """Tied to the wait, but without the fence that lets TMA see what was acquired."""
    zero = tl.inline_asm_elementwise("mov.u32 $0, 0;", "=r,r", [token], tl.int32, True, 1)
    return tl.multiple_of(zero, 16)


@device
def unheld_join():
    """The full join as assembly, which the pipeliner looks through."""
    if ASYNC_PROXY:
        tl.inline_asm_elementwise(
            "cp.async.bulk.wait_group 0; bar.sync 0; mov.u32 $0, 0;",
            "=r",
            [],
            tl.int32,
            False,
            1,
        )


@device
def lonely_join():
    """Each thread waits for its own tiles and for no other thread."""
    if ASYNC_PROXY:
        tl.inline_asm_elementwise(
            "cp.async.bulk.wait_group 0; mov.u32 $0, 0;", "=r", [], tl.int32, False, 1
        )


@device
def early_join():
    """All threads meet, but tiles of TMA may still be on their way."""
    tl.debug_barrier()


@device
def update_by_all_threads(sig, i, value, op, pe, scope: tl.constexpr = "sys"):
    """What a scalar extern call does: every thread of the CTA updates the signal."""
    word = on_peer(sig.ptr + i, sig.peers, pe)
    operand = signal_lowering.operand(sig, value, op)
    if op == "set":
        tl.inline_asm_elementwise(
            "st.release.sys.global.b64 [$1], $2; mov.u32 $0, 0;", "=r,l,l", [word, operand],
            tl.int32, False, 1,
        )  # fmt: skip
    else:
        tl.inline_asm_elementwise(
            "red.release.sys.global.add.u64 [$1], $2; mov.u32 $0, 0;", "=r,l,l",
            [word, operand], tl.int32, False, 1,
        )  # fmt: skip


@device
def relaxed_add(pointer, value, sem, scope):
    """An atomic that orders nothing, whatever *sem* says."""
    return tl.atomic_add(pointer, value, sem="relaxed", scope=scope)


Swaps = Mapping[Any, Any]
"""Device functions to what takes their place."""


def _module(original: ModuleType, changes: Mapping[str, Any]) -> ModuleType:
    """A module that is *original* but for *changes*."""
    module = ModuleType(original.__name__.rpartition(".")[2])
    public = {name: value for name, value in vars(original).items() if name[:2] != "__"}
    vars(module).update({**public, **changes})
    return module


def _rebound(fn: Any, names: Mapping[str, Any]) -> Any:
    """*fn* with other values of some global names."""
    changed = FunctionType(
        fn.__code__, {**fn.__globals__, **names}, fn.__name__, fn.__defaults__
    )
    changed.__annotations__ = fn.__annotations__
    changed.__qualname__, changed.__module__ = fn.__qualname__, fn.__module__
    return changed


class _Swap:
    """Makes functions reach the swapped device functions wherever they reached the original ones.

    Kernels, helpers and host functions of *home*, a module, are re-bound; the same object comes
    back if it reaches none of the originals.
    """

    def __init__(self, swaps: Swaps, home: str) -> None:
        self._swaps, self._home = swaps, home
        self._known: dict[int, Any] = {}

    def __call__(self, value: Any) -> Any:
        if isinstance(value, DeviceFunction) and value in self._swaps:
            return self._swaps[value]
        if value is td:
            operations = {name: (op, self(op)) for name, op in LOWERINGS.items()}
            changed = {name: new for name, (old, new) in operations.items() if new is not old}
            return _module(td, changed)
        if id(value) not in self._known:
            self._known[id(value)] = value  # also ends where a name leads back
            self._known[id(value)] = self._rebuilt(value)
        return self._known[id(value)]

    def _rebuilt(self, value: Any) -> Any:
        if isinstance(value, FunctionType) and value.__module__ == self._home:
            return _rebound(value, self._names(value))
        if isinstance(value, DeviceFunction | td.Function):
            names = self._names(value.fn)
            if any(new is not value.fn.__globals__[name] for name, new in names.items()):
                return type(value)(_rebound(value.fn, names))
        return value

    def _names(self, fn: Any) -> dict[str, Any]:
        scope = fn.__globals__
        return {name: self(scope[name]) for name in fn.__code__.co_names if name in scope}


def _without(program: td.Program, swaps: Swaps) -> td.Program:
    """*program* with its kernels re-bound, so that *swaps* take the place of device functions."""
    swap = _Swap(swaps, program.host.__module__)
    return dataclasses.replace(program, host=swap(program.host))


_RELAXED_SPIN = DeviceFunction(
    _rebound(signal_lowering.spin.fn, {"tl": _module(tl, {"atomic_add": relaxed_add})})
)

loop_wait_untied = _without(traps.wait_in_a_pipelined_loop, {ordering.opaque_zero: untied_zero})
helper_wait_untied = _without(traps.token_through_helpers, {ordering.opaque_zero: untied_zero})
turns_unheld = _without(traps.two_ctas_take_turns, {ordering.release_join: unheld_join})
release_unjoined = _without(
    traps.a_release_covers_all_threads, {ordering.release_join: lonely_join}
)
tile_unwritten = _without(
    traps.a_stored_tile_is_there_when_signalled, {ordering.release_join: early_join}
)
tile_unfenced = _without(
    traps.a_stored_tile_is_there_when_signalled, {ordering.opaque_zero: unfenced_zero}
)
add_by_all_threads = _without(
    signals.an_add_counts_once, {signal_lowering.update_near: update_by_all_threads}
)
wait_unacquired = _without(
    signals.a_wait_sees_past_a_warm_cache,
    {signal_lowering.spin: _RELAXED_SPIN, ordering.opaque_zero: unfenced_zero},
)
