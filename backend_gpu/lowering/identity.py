# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
# ruff: noqa: ANN001, ANN201 - Triton evaluates the annotations of device functions
"""Identity: constants of the process (see ``World``), so no extern asks for them.

They reach the kernel as int32 values, not as constexprs: Triton folds constexprs with Python's
``//`` and ``%``, while ``(my_pe() - 1) % n_pes()`` must truncate as on the GPU.
"""

from __future__ import annotations

from typing import Any

import triton.language as tl
from triton.language import core

from .device import MY_PE, N_PES, PES_PER_NODE, device


@core.builtin
def value(number: Any, _semantic: Any = None) -> Any:
    """*number* as an int32: since Triton 3.7 a function may return a constexpr as it is."""
    return _semantic.to_tensor(number)


@device
def program_id(axis=0):
    return tl.program_id(axis)


@device
def num_programs(axis=0):
    return tl.num_programs(axis)


@device
def my_pe():
    return value(MY_PE)


@device
def n_pes():
    return value(N_PES)


@device
def my_node():
    return value(MY_PE // PES_PER_NODE)


@device
def n_nodes():
    return value(N_PES // PES_PER_NODE)


@device
def local_pe():
    return value(MY_PE % PES_PER_NODE)


@device
def n_local_pes():
    return value(PES_PER_NODE)


LOWERINGS = (
    program_id, num_programs, my_pe, n_pes, my_node, n_nodes, local_pe, n_local_pes,
)  # fmt: skip
