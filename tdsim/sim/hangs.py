"""Why a run ended with program instances still waiting: a readable answer."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

import networkx as nx

from tdsim.lang import Function, Kernel
from tdsim.sim.instrument import called
from tdsim.sim.signals import SignalArray, Waiter

_MAX_LINES = 12
_WRITERS = {"signal_op", "putmem_signal", "putmem_signal_nbi", "grid_barrier"}


def explain(world: Any) -> tuple[object, ...]:
    """Lines of a hang report: who waits, the cycle, and grids without a slot."""
    blocked = list(_blocked(world))
    lines: list[object] = [waiter for waiter, _ in blocked[:_MAX_LINES]]
    if len(blocked) > _MAX_LINES:
        lines.append(f"... and {len(blocked) - _MAX_LINES} more")
    lines += _cycle(world, blocked)
    for rank, gpu in enumerate(world.gpus):
        for grid in gpu.sms.waiting:
            left = grid.count - grid.next
            lines.append(
                f"{grid.label}: {left} of {grid.count} CTAs have no SM slot; "
                f"all {gpu.sms.num_sms} SMs of PE {rank} are held by waiting CTAs"
            )
    for barrier in world.barriers.values():
        if barrier.arrived:
            missing = [pe for pe in range(world.n_pes) if pe not in barrier.arrived]
            lines.append(f"{barrier.name}: PEs {missing} have not arrived")
    return tuple(lines)


def _blocked(world: Any) -> Iterator[tuple[Waiter, Any]]:
    """Every wait that nobody answered, with the launch it belongs to (None for a stream)."""
    for launch in world.launches:
        for cta in launch.ctas.values():
            if cta.blocked_on is not None:
                cta.blocked_on.line = world.place(launch.kernel, cta.fiber.frame)
                yield cta.blocked_on, launch
    for waiter in world.stream_waits.values():
        yield waiter, None


def _cycle(world: Any, blocked: list[tuple[Waiter, Any]]) -> list[str]:
    """A cycle of waits: who waits for a signal that another waiting one writes."""
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
    return ["wait-for cycle: " + " -> ".join([edges[0][0], *(b for _, b in edges)])]


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
