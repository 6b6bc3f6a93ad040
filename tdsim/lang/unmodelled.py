"""Constructs of GPU kernels that stay outside the language, known by name.

A kernel that uses one is defined without complaint, and running it ends with the verdict
UNKNOWN: nothing is claimed about a program of which a part is not modelled.
"""

from __future__ import annotations

from dataclasses import dataclass

_SIGNALS = "td.signal_op and td.signal_wait_until synchronise whole program instances"
_ATOMICS = "td.atomic_add is the atomic operation; a lock can be a ticket (docs/language.md)"
_TILES = "td.load and td.store of ctx-tiled views are pipelined by the compiler"
_FAMILIES = {
    "mbarrier_": ("an mbarrier inside a CTA", _SIGNALS),
    "cluster_": ("a thread block cluster", _SIGNALS),
    "async_": ("an asynchronous-proxy copy inside a CTA", _TILES),
    "tma_": ("an asynchronous-proxy copy inside a CTA", _TILES),
    "proxy_": ("a fence between the generic and the asynchronous proxy", _TILES),
    "lane_": ("an operation of single threads of a CTA", _SIGNALS),
    "warp_": ("a warp-specialised part of a CTA", _SIGNALS),
    "multimem_": ("a multicast address", "td.putmem to each PE reaches the same memory"),
}
_NAMES = {
    "atomic_cas": ("a compare-and-swap", _ATOMICS),
    "atomic_xchg": ("an atomic exchange", _ATOMICS),
    "debug_barrier": ("a barrier inside a CTA", _SIGNALS),
}


@dataclass(frozen=True, slots=True)
class Unmodelled:
    """Stands for a device operation that the language lacks: what it is, and what to use."""

    construct: str
    instead: str


def unmodelled(name: str) -> Unmodelled | None:
    """What ``td.NAME`` is if it names a construct outside the language, else None."""
    found = _NAMES.get(name)
    for prefix, family in _FAMILIES.items():
        if name.startswith(prefix):
            found = family
    return Unmodelled(*found) if found else None
