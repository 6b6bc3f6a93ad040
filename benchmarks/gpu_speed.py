"""Speed on one GPU, side by side in one run: GEMM with signals, copies, fused kernels.

Run from the project's folder: ``python benchmarks/gpu_speed.py [--part gemm|copy|fused]
[--json FILE] [--quick]``; without ``--part`` all three. Each part prints a table; the file
gets everything that was measured, with the day, the command and the environment.

gemm   the single-source GEMM with a wait and a signal per tile beside cuBLAS
copy   puts and all-gathers by CTAs beside the fastest plain Triton copy kernel
fused  AG+GEMM and GEMM+RS beside their own parts one after another, on 4 PEs
"""

from __future__ import annotations

import argparse
import datetime
import json
import shlex
import sys
import time
from pathlib import Path
from typing import Any

from tdsim.errors import TdsimError

PARTS = ("gemm", "copy", "fused")


def local_part(part: str, quick: bool) -> dict[str, Any]:
    """A part that runs in this process; nothing of it may be imported before the job's PEs."""
    import gpu_copy
    import gpu_gemm

    return (gpu_gemm if part == "gemm" else gpu_copy).run(quick)


def measured(parts: list[str], quick: bool) -> dict[str, Any]:
    """What each part found. The job comes first: this process must not hold the GPU then."""
    found: dict[str, Any] = {}
    for part in sorted(parts, key=PARTS.index, reverse=True):
        print(f"\n{part}", flush=True)
        began = time.perf_counter()
        if part == "fused":
            import gpu_fused

            found[part] = gpu_fused.run(quick)
        else:
            begin_local()
            found[part] = local_part(part, quick)
        found[part]["seconds"] = round(time.perf_counter() - began, 1)
        print(f"{part}: {found[part]['seconds']} s")
    return found


def begin_local() -> None:
    """Take the GPU, once."""
    import gpu_local
    import torch.distributed as dist

    if not dist.is_initialized():
        gpu_local.start()


def environment() -> dict[str, Any]:
    """Names and versions, as the backend's records have them."""
    begin_local()
    from tdsim.backend_gpu.runtime.environment import environment

    return environment(None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--part", choices=PARTS, action="append", help="all if not given")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the record here")
    parser.add_argument("--quick", action="store_true", help="few shapes, few repeats")
    args = parser.parse_args()
    found = measured(args.part or list(PARTS), args.quick)
    if args.json:
        record = {
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "command": shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
            "environment": environment(),
            "parts": found,
        }
        args.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    try:
        main()
    except TdsimError as error:
        raise SystemExit(f"gpu_speed: {error}") from None
