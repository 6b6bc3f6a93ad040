# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
# ruff: noqa: ANN001, ANN201 - Triton evaluates the annotations of device functions
"""Views on the device: tuples with named fields, made by ``specs`` and changed only here.

``ptr`` first element; ``shape`` int32 sizes; ``stride0`` elements from row to row;
``row_bias`` always 0, but opaque once :func:`after` has tied the view to a wait; ``dtype`` a
pointer whose only use is its element type, since a tuple that helpers return holds no
constants; ``peers`` (symmetric views) the table of heap addresses by PE; ``desc`` (tiled
views) the TMA descriptor. A tuple lacks the fields that a view does not have.
"""

from __future__ import annotations

from typing import Any

import triton.language as tl
from triton.language import core

from .device import MY_PE, device
from .ordering import constant_word, opaque_zero


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, core.constexpr) else value


@core.builtin
def as_tuple(value: Any, _semantic: Any = None) -> Any:
    """*value*, or the tuple that holds it alone: offsets and shapes of one axis."""
    if isinstance(_plain(value), tuple):
        return core.tuple([core.constexpr(item) for item in value.value])
    return value if isinstance(value, core.tuple) else core.tuple([value])


@core.builtin
def is_view(value: Any, _semantic: Any = None) -> Any:
    """Whether *value* is a view, known at compile time."""
    return core.constexpr(isinstance(value, core.tuple))


@core.builtin
def moves_by_descriptor(view: Any, shape: Any, _semantic: Any = None) -> Any:
    """Whether *view* was declared to be moved in tiles of exactly *shape*."""
    if "desc" not in view.type.fields:
        return core.constexpr(False)
    sizes = [_plain(size) for size in shape]
    return core.constexpr(sizes == list(view.desc.block_shape))


@core.builtin
def one_element(view: Any, _semantic: Any = None) -> Any:
    """The shape of a tile that holds one element of *view*."""
    return core.tuple([core.constexpr(1)] * len(list(view.shape)))


@core.builtin
def element_type(dtype: Any, _semantic: Any = None) -> Any:
    """The Triton type that *dtype* names: a dtype, or the ``dtype`` field of a view."""
    if isinstance(dtype, core.tensor):
        return core.constexpr(dtype.dtype.element_ty)
    return core.constexpr(dtype)


@core.builtin
def changed(
    view: Any, ptr: Any = None, row_bias: Any = None, count: Any = None, without: Any = "",
    _semantic: Any = None,
) -> Any:  # fmt: skip
    """*view* with another first element, bias or number of rows, *without* some fields."""
    dropped = _plain(without).split()
    fields = tuple(name for name in view.type.fields if name not in dropped)
    values = {name: getattr(view, name) for name in fields}
    if ptr is not None:
        values["ptr"] = ptr
    if row_bias is not None:
        values["row_bias"] = row_bias
    if count is not None:
        rows = _semantic.cast(_semantic.to_tensor(count), core.int32)
        values["shape"] = core.tuple([rows, *list(view.shape)[1:]])
    types = core.tuple_type([value.type for value in values.values()], fields)
    return core.tuple(list(values.values()), types)


@device
def first_element(view):
    """Pointer to the view's first element, behind the wait it is tied to."""
    if len(view.shape) == 1:
        return view.ptr + view.row_bias
    else:
        return view.ptr + view.row_bias * view.stride0


@device
def on_peer(ptr, peers, pe):
    """The place of the symmetric *ptr* on *pe*, which must be load/store-reachable."""
    distance = constant_word(peers + pe) - constant_word(peers + MY_PE)
    there = cast_pointer(ptr, tl.int8) + tl.multiple_of(distance, 16)
    return cast_pointer(there, ptr.dtype.element_ty)


@device
def cast_pointer(ptr, element):
    """*ptr* as a pointer to *element*."""
    return ptr.to(tl.pointer_type(element), bitcast=True)


@device
def symm_at(view, pe):
    tl.static_assert(is_symmetric(view), "symm_at needs a symmetric view")
    return changed(view, ptr=on_peer(view.ptr, view.peers, pe), without="peers desc")


@core.builtin
def is_symmetric(view: Any, _semantic: Any = None) -> Any:
    """Whether *view* lies in the symmetric heap, known at compile time."""
    return core.constexpr("peers" in view.type.fields)


@device
def rows(view, start, count):
    """The descriptor goes: its edge is the whole tensor's, not the sub-view's."""
    ptr = view.ptr + tl.cast(start, tl.int64) * row_step(view)
    return changed(view, ptr=ptr, count=count, without="desc")


@device
def row_step(view):
    """Elements from one index of axis 0 to the next."""
    if len(view.shape) == 1:
        return 1
    else:
        return view.stride0


@device
def after(token, x):
    if is_view(x):
        return changed(x, row_bias=x.row_bias + opaque_zero(token))
    else:
        return x + opaque_zero(token)


LOWERINGS = (symm_at, rows, after)
