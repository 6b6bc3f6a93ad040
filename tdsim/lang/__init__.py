"""The whole language of overlapped kernels: ``from tdsim import lang as td``.

Kernels import this package and nothing else. Names are Triton's and OpenSHMEM's; where a
guarantee differs, the operation's docstring says so first.
"""

from typing import Any

from tdsim.lang._seam import OPS, Op, activate
from tdsim.lang.definition import Function, Kernel, constexpr, function, kernel
from tdsim.lang.dtypes import (
    DType,
    bfloat16,
    dtype,
    float16,
    float32,
    from_numpy,
    int1,
    int32,
    int64,
)
from tdsim.lang.host import Context, HostView, Team
from tdsim.lang.identity import (
    local_pe,
    my_node,
    my_pe,
    n_local_pes,
    n_nodes,
    n_pes,
    num_programs,
    program_id,
)
from tdsim.lang.program import (
    AllGather,
    Arrays,
    Gemm,
    Input,
    Output,
    Program,
    ReduceScatter,
    Step,
    Tensor,
    Tunable,
    program,
    require,
)
from tdsim.lang.remote import (
    after,
    barrier_all,
    fence,
    getmem,
    grid_barrier,
    putmem,
    putmem_lines,
    putmem_nbi,
    putmem_signal,
    putmem_signal_nbi,
    quiet,
    rows,
    signal_op,
    signal_wait_until,
    symm_at,
    sync_all,
)
from tdsim.lang.tiles import (
    arange,
    atomic_add,
    cast,
    cdiv,
    dot,
    exp,
    exp2,
    full,
    load,
    log,
    max,
    maximum,
    minimum,
    store,
    sum,
    trans,
    where,
    zeros,
)
from tdsim.lang.unmodelled import Unmodelled, unmodelled

__all__ = [
    "OPS", "AllGather", "Arrays", "Context", "DType", "Function", "Gemm", "HostView",
    "Input", "Kernel", "Op", "Output", "Program", "ReduceScatter", "Step", "Team", "Tensor",
    "Tunable", "Unmodelled", "activate", "after", "arange", "atomic_add", "barrier_all",
    "bfloat16",
    "cast", "cdiv", "constexpr", "dot", "dtype", "exp", "exp2", "fence", "float16",
    "float32", "from_numpy", "full", "function", "getmem", "grid_barrier", "int1",
    "int32", "int64", "kernel", "load", "local_pe", "log", "max", "maximum", "minimum",
    "my_node", "my_pe", "n_local_pes", "n_nodes", "n_pes", "num_programs", "program",
    "program_id", "putmem", "putmem_lines", "putmem_nbi", "putmem_signal", "putmem_signal_nbi",
    "quiet",
    "require", "rows", "signal_op", "signal_wait_until", "store", "sum", "symm_at",
    "sync_all", "trans", "where", "zeros",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Names of constructs that are not modelled: UNKNOWN when run, not a misspelling."""
    found = unmodelled(name)
    if found is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return found
