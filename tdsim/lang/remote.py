"""Views of memory on other PEs and one-sided copies, with NVSHMEM's names and guarantees.

Copies are made by the whole CTA (NVSHMEM's ``_block`` calls): every program instance that
reaches the call makes one copy. Views are contiguous and of equal size.
"""

from __future__ import annotations

from typing import Any

from tdsim.errors import ApiError
from tdsim.lang._seam import op, reader

View = Any
_SIGNAL_OPS = ("set", "add")
_LINES = (8, 128)
_SCOPES = ("sys", "gpu")
_COMPARES = ("eq", "ne", "gt", "ge", "lt", "le")


@op()
def symm_at(view: View, pe: int) -> View:
    """The same symmetric memory on *pe*, for load and store (``nvshmem_ptr``).

    Differs from ``nvshmem_ptr``: a PE that is not load/store-reachable (another node) is an
    API error, not a null pointer. Stores become visible there only before a later release.
    """
    return reader().symm_at(view, pe)


@op()
def rows(view: View, start: int, count: int) -> View:
    """The sub-view of *count* rows (axis 0) from *start*; nothing is copied."""
    return reader().rows(view, start, count)


@op()
def after(token: Any, x: Any) -> Any:
    """*x* (a view or an int), whose uses are ordered after the wait that gave *token*.

    The reference system calls this ``consume_token``. The lowering makes the dependence real
    (an opaque instruction fed by the token), so the compiler's pipeliner cannot hoist a load
    above the wait, and the loop stays pipelined.
    """
    return reader().after(token, x)


@op(visible=True)
def putmem(dst: View, src: View, pe: int) -> None:
    """Copy *src* into *dst* on *pe* (``nvshmemx_putmem_block``).

    Returns when *src* may be reused.

    *dst* names this PE's symmetric memory; the same place on *pe* is written. Delivery is not
    ordered against other puts: use :func:`fence`, :func:`quiet` or a put with signal.
    """
    reader().put(dst, src, pe, blocking=True)


@op(visible=True)
def putmem_nbi(dst: View, src: View, pe: int) -> None:
    """As :func:`putmem`, but returns at once: *src* must stay intact until :func:`quiet`."""
    reader().put(dst, src, pe, blocking=False)


@op(visible=True)
def putmem_signal(
    dst: View,
    src: View,
    sig: Any,
    i: int,
    value: int,
    op: str,
    pe: int,
) -> None:
    """Copy *src* into *dst* on *pe*, then update signal *i* there.

    The signal becomes visible only after this copy's data; it says nothing about earlier
    non-blocking puts. Returns when *src* may be reused (``nvshmemx_putmem_signal_block``).
    """
    _check_option("op", op, _SIGNAL_OPS)
    reader().put(dst, src, pe, blocking=True, signal=(sig, i, value, op))


@op(visible=True)
def putmem_signal_nbi(
    dst: View,
    src: View,
    sig: Any,
    i: int,
    value: int,
    op: str,
    pe: int,
) -> None:
    """As :func:`putmem_signal`, but returns at once (``nvshmemx_putmem_signal_nbi_block``)."""
    _check_option("op", op, _SIGNAL_OPS)
    reader().put(dst, src, pe, blocking=False, signal=(sig, i, value, op))


@op(visible=True)
def putmem_lines(
    dst: View, src: View, sig: Any, i: int, value: int, line: int, pe: int
) -> None:
    """Copy *src* into *dst* on *pe* in lines that carry their own flags, then set signal *i*.

    Differs from NVSHMEM, which has no such call: it is what NCCL's LL (*line* 8 bytes, half of
    them data) and LL128 (*line* 128, of which 120 are data) do. The wait for the signal stands
    for the polling of the flags, so it tells of the data only if every link of the path
    delivers *line* bytes as one. Returns when *src* may be reused.
    """
    if line not in _LINES:
        raise ApiError(f"line={line}", "tdsim.lang", "write 8 (LL) or 128 (LL128)")
    reader().put_lines(dst, src, (sig, i, value, "set"), line, pe)


@op(visible=True)
def getmem(dst: View, src: View, pe: int) -> None:
    """Copy *src* on *pe* into the local *dst*; the data is there on return."""
    reader().get(dst, src, pe)


@op(visible=True)
def fence() -> None:
    """Order this CTA's earlier puts before its later ones, PE by PE (``nvshmem_fence``)."""
    reader().fence()


@op(visible=True)
def quiet() -> None:
    """Return when all of this CTA's puts are complete at their targets (``nvshmem_quiet``)."""
    reader().quiet()


@op(visible=True)
def signal_op(sig: Any, i: int, value: int, op: str, pe: int, scope: str = "sys") -> None:
    """Update signal *i* on *pe*: *op* is ``"set"`` or ``"add"`` (``nvshmemx_signal_op``).

    Stronger than NVSHMEM: a release at system scope after a CTA barrier, so the calling CTA's
    earlier stores and blocking puts are visible to whoever waits for it. Earlier non-blocking
    puts need :func:`quiet` (or :func:`fence`, for the same PE) first.

    With *scope* ``"gpu"`` it is a release for this GPU only: another PE may see neither the
    word nor the stores before it, until the kernel has ended.
    """
    _check_option("op", op, _SIGNAL_OPS)
    _check_option("scope", scope, _SCOPES)
    reader().signal_op(sig, i, value, op, pe, scope)


@op(visible=True, waits=True)
def signal_wait_until(sig: Any, i: int, cmp: str, value: int) -> Any:
    """Wait until this PE's signal *i* compares true with *value*; return a token.

    *cmp* is ``"eq" "ne" "gt" "ge" "lt" "le"``. Stronger than NVSHMEM's call: acquires at system
    scope and joins the CTA. Orders only what depends on the token: see :func:`after`.
    """
    _check_option("cmp", cmp, _COMPARES)
    return reader().signal_wait_until(sig, i, cmp, value)


@op(visible=True)
def barrier_all() -> None:
    """Complete all puts, then wait for all PEs (``nvshmem_barrier_all``).

    One program instance of each PE calls it; the other instances need :func:`grid_barrier`.
    """
    reader().quiet()
    reader().sync_all()


@op(visible=True)
def sync_all() -> None:
    """Wait for all PEs without completing puts (``nvshmem_sync_all``)."""
    reader().sync_all()


@op(visible=True)
def grid_barrier(sig: Any, i: int) -> None:
    """Wait for every program instance of this grid; needs them all resident at once.

    *sig* is a signal array with ``per_call`` equal to the number of program instances; each
    barrier of a launch uses an own index *i*. Acquire and release at GPU scope.
    """
    reader().grid_barrier(sig, i)


def _check_option(name: str, value: str, legal: tuple[str, ...]) -> None:
    if value not in legal:
        choices = " ".join(f'"{v}"' for v in legal)
        raise ApiError(f"{name}={value!r}", "tdsim.lang", f"write one of {choices}")
