"""The kernels of the library with arguments to compile them for, and what they take of a GPU.

``python tests/backend_gpu/library_calls.py`` writes ``resources.json`` anew: do so after a change
that is meant to change it, and look at the difference.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
from dataclasses import asdict
from pathlib import Path

import tdsim.kernels
import triton
from lowering_tools import COUNTERS, INT, ONE_NODE, SIGNALS, heap, view
from tdsim.backend_gpu.lowering.compile import compile_kernel
from tdsim.kernels.copying import MOVE_TILE, MOVE_WARPS
from triton.backends.compiler import GPUTarget

from tdsim import lang as td

RECORD = Path(__file__).with_name("resources.json")
CHIPS = (90, 100)
TILE = {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "GROUP_M": 8}
MOVES = dict(zip(("BLOCK_M", "BLOCK_N"), MOVE_TILE, strict=True))
WARPS = dict.fromkeys(("copy_rows", "sum_slots"), MOVE_WARPS)
"""By kernel, where it is not the default."""
CALLS = {
    "copy_rows": ({"dst": view(), "src": view()}, MOVES),
    "push_kernel": ({"gathered": heap(), "ready": SIGNALS}, {}),
    "send_between_nodes": ({"gathered": heap(), "ready": SIGNALS}, {}),
    "wait_for_all": ({"ready": SIGNALS, "parts": INT}, {}),
    "all_gather_gemm": (
        {
            "a": heap(128, 64), "b": view(64, 256), "c": view(128, 256), "ready": SIGNALS,
            "num_comm": INT, "parts": INT,
        },
        TILE,
    ),
    "gemm_scatter": (
        {
            "a": view(128, 64), "b": view(64, 256), "partial": heap(128, 256),
            "counter": COUNTERS, "slots": heap(), "arrived": SIGNALS, "done": SIGNALS,
            "num_comm": INT,
        },
        TILE,
    ),
    "scatter_kernel": ({"partial": heap(), "slots": heap(), "arrived": SIGNALS}, {}),
    "sum_slots": (
        {
            "out": view(), "own": heap(), "own_row": INT, "slots": heap(), "arrived": SIGNALS,
            "first_slot": INT, "own_slot": INT, "num_slots": INT, "parts": INT,
        },
        MOVES,
    ),
    "send_node_sum": (
        {"node_sums": heap(), "node_slots": heap(), "node_arrived": SIGNALS, "node": INT},
        {},
    ),
}  # fmt: skip


def _library():
    """All kernels of the library, by name."""
    names = [m.name for m in pkgutil.iter_modules(tdsim.kernels.__path__)]
    modules = [importlib.import_module(f"tdsim.kernels.{name}") for name in names]
    values = [value for module in modules for value in vars(module).values()]
    return {value.name: value for value in values if isinstance(value, td.Kernel)}


KERNELS = _library()


def compiled_for(name, chip=90, **build):
    """Kernel *name*, compiled for one node of sm_*chip*."""
    args, constexprs = CALLS[name]
    target = GPUTarget("cuda", chip, 32)
    build = {"num_warps": WARPS.get(name, 8), **build}
    return compile_kernel(
        KERNELS[name], args, constexprs, world=ONE_NODE, target=target, **build
    )


def main():
    kernels = {
        name: {f"sm_{chip}": asdict(compiled_for(name, chip).resources) for chip in CHIPS}
        for name in sorted(KERNELS)
    }
    record = {"triton": triton.__version__, "kernels": kernels}
    RECORD.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
