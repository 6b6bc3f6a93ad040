"""What ``make demo`` shows: predict, check, scale and draw AllGather + GEMM on 8 H800.

The shape is the MLP up-projection of Llama 3 70B at 8192 tokens.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from tdsim.cli import main

SHAPE = "M=8192,N=28672,K=8192"


def step(*arguments: str) -> None:
    """Run one tdsim command as a user would, and say which."""
    print(f"\n$ tdsim {' '.join(arguments)}")
    code = main(arguments)
    if code:
        sys.exit(code)


def demo(folder: Path) -> None:
    begin = time.perf_counter()
    folder.mkdir(parents=True, exist_ok=True)
    step("predict", "ag_gemm", "--shape", SHAPE, "--topology", "h800x8")
    step("check", "ag_gemm", "--topology", "h800x8")
    step("scale", "ag_gemm", "--shape", SHAPE, "--worlds", "8,16,32,64")
    trace, picture = str(folder / "ag_gemm.json.gz"), str(folder / "ag_gemm.svg")
    step("trace", "ag_gemm", "--shape", SHAPE, "--output", trace, "--output", picture)
    print(f"\ndone in {time.perf_counter() - begin:.1f} s")


if __name__ == "__main__":
    demo(Path(sys.argv[1] if len(sys.argv) > 1 else "out"))
