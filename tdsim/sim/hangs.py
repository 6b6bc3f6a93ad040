"""Why a run ended with program instances still waiting: a readable answer."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

import networkx as nx

from tdsim.errors import DeadlockError
from tdsim.lang import Function, Kernel
from tdsim.sim.loops import called
from tdsim.sim.signals import SignalArray, Waiter

_MAX_LINES = 12
_WRITERS = {"signal_op", "putmem_signal", "putmem_signal_nbi", "putmem_lines", "grid_barrier"}


def deadlock(world: Any) -> DeadlockError:
    """The error for a run whose queue is empty although its calls are not complete."""
    blocked = list(_blocked(world))
    notes = [
        *_cycle(blocked),
        *_without_a_slot(world),
        *_missing_at_barriers(world),
        *_different_launches(world),
    ]
    groups: dict[Any, list[Any]] = {}
    for waiter, launch in blocked:
        key = (waiter.pe, id(launch), str(waiter.line), waiter.sig.name)
        groups.setdefault(key, []).append(waiter)
    for key, line in _in_barriers(world):
        groups.setdefault(key, []).append(line)
    count = sum(map(len, groups.values()))
    return DeadlockError(world.env.now, _grouped(groups), count, notes)


def missing_allocation(world: Any, kind: str, made: dict[int, int]) -> DeadlockError:
    """The error for an allocation of *kind* that only some make; *made*: how many by rank."""
    least = min(made.values())
    there = [str(rank) for rank in sorted(made) if made[rank] > least]
    missing = [str(rank) for rank in sorted(made) if made[rank] == least]
    line = f"PE {', '.join(there)}: in ctx.{kind}, allocation {least} of the call"
    note = (
        f"PE {', '.join(missing)} never makes it; allocations are collective: make the same on "
        "every PE, or allocate for a team"
    )
    return DeadlockError(world.env.now, [line], len(there), [note])


def _grouped(groups: dict[Any, list[Any]]) -> list[str]:
    """One line for the instances of a launch that wait at one place for one signal array."""
    lines = [
        str(first) + (f" (and {len(rest)} more instances there)" if rest else "")
        for first, *rest in groups.values()
    ]
    left = len(lines) - _MAX_LINES
    return [*lines[:_MAX_LINES], *([f"... and {left} more places"] if left > 0 else [])]


def _without_a_slot(world: Any) -> Iterator[str]:
    for rank, gpu in enumerate(world.gpus):
        for grid in gpu.sms.waiting:
            left = grid.count - grid.next
            yield (
                f"{grid.label}: {left} of {grid.count} CTAs have no SM slot; "
                f"all {gpu.sms.num_sms} SMs of PE {rank} are held by waiting CTAs"
            )


def _missing_at_barriers(world: Any) -> Iterator[str]:
    for barrier in world.barriers.values():
        if barrier.arrived:
            missing = [str(pe) for pe in barrier.pes if pe not in barrier.arrived]
            yield f"{barrier.name}: PE {', '.join(missing)} has not arrived"


def _different_launches(world: Any) -> Iterator[str]:
    """Kernels that PEs launched with different grids, or that some have not launched."""
    launched: dict[str, dict[int, list[Any]]] = {}
    for launch in world.launches:
        by_rank = launched.setdefault(launch.kernel.name, {})
        by_rank.setdefault(launch.rank, []).append(launch.grid)
    for name, by_rank in launched.items():
        least = min(map(len, by_rank.values()))
        for grids in zip(*(by_rank[rank][:least] for rank in sorted(by_rank)), strict=True):
            if len(set(grids)) > 1:
                pairs = zip(sorted(by_rank), grids, strict=True)
                shown = ", ".join(f"{list(grid)} on PE {rank}" for rank, grid in pairs)
                yield f"{name} has different grids: {shown}"
                break
        missing = [str(rank) for rank in range(world.n_pes) if rank not in by_rank]
        if 0 < len(missing) < len(by_rank):
            yield f"{name}: PE {', '.join(missing)} has not launched it"


def _blocked(world: Any) -> Iterator[tuple[Waiter, Any]]:
    """Every wait that nobody answered, with the launch it belongs to (None for a stream)."""
    for launch in world.launches:
        for cta in launch.ctas.values():
            if cta.blocked_on is not None:
                line = world.place(launch.kernel, cta.fiber.frame)
                sig, i, cmp, value = cta.blocked_on
                yield Waiter(cta.name, launch.rank, sig, i, cmp, value, line), launch
    for waiter in world.stream_waits.values():
        yield waiter, None


def _in_barriers(world: Any) -> Iterator[tuple[Any, str]]:
    """Who waits for other PEs instead of a signal, with a key of those that are alike."""
    for launch in world.launches:
        for cta in launch.ctas.values():
            if cta.blocked_on is None:
                line = world.place(launch.kernel, cta.fiber.frame)
                yield (id(launch), line), f"{cta.name} at {line}: waits for the other PEs"
    for key, barrier in world.barriers.items():
        for rank in barrier.arrived if key != "device" else ():
            yield (barrier.name, rank), f"PE {rank}: waits in {barrier.name}"


def _cycle(blocked: list[tuple[Waiter, Any]]) -> list[str]:
    """A cycle of waits (for signals that another waiting one writes) and who waits for it."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    writers: dict[int, list[tuple[Waiter, Any]]] = {}
    for waiter, launch in blocked:
        for sig in _written(launch) if launch is not None else ():
            writers.setdefault(id(sig), []).append((waiter, launch))
    for waiter, _ in blocked:
        for other, _ in writers.get(id(waiter.sig), ())[:64]:
            if other is not waiter:
                graph.add_edge(waiter.name, other.name)
    try:
        edges = nx.find_cycle(graph)
    except nx.NetworkXNoCycle:
        return []
    cycle = {name for edge in edges for name in edge}
    reached = {name: nx.descendants(graph, name) for name in graph if name not in cycle}
    tail = [name for name in sorted(reached) if reached[name] & cycle]
    shown = [*tail[:_MAX_LINES], *(["..."] if len(tail) > _MAX_LINES else [])]
    lines = ["wait-for cycle: " + " -> ".join([edges[0][0], *(b for _, b in edges)])]
    return lines + ([f"waits for the cycle: {', '.join(shown)}"] if tail else [])


def _written(launch: Any) -> list[SignalArray]:
    """Signal arrays among a launch's arguments, if its kernel's text writes signals."""
    if not _writes(launch.kernel, set()):
        return []
    return [a for a in launch.args if isinstance(a, SignalArray)]


def _writes(function: Function | Kernel, seen: set[str]) -> bool:
    if function.name in seen:
        return False
    seen.add(function.name)
    for node in ast.walk(function.source.tree):
        if isinstance(node, ast.Call):
            target = called(node, function)
            if isinstance(target, Function) and _writes(target, seen):
                return True
            if getattr(target, "__name__", "") in _WRITERS:
                return True
    return False
