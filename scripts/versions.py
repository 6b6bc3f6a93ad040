"""Whether the installed Triton links the installed NVSHMEM, seen and as the table has it.

Compiles a kernel that leaves its node, for each chip of the compile suite, past the check that
refuses sets known not to work.
"""

from __future__ import annotations

import sys
import time

import triton
from tdsim.backend_gpu.launcher.far_kernel import signal_other_node
from tdsim.backend_gpu.lowering import SignalSpec, World, compile
from tdsim.backend_gpu.lowering.device_library import device_library
from tdsim.backend_gpu.lowering.versions import LINKS
from triton.backends.compiler import GPUTarget

from tdsim.errors import UsageError

CHIPS = (80, 90, 100)


def main() -> int:
    for chip in CHIPS:
        start = time.perf_counter()
        try:
            library = device_library(chip)
            version = library.version
            expected = LINKS.get(triton.__version__, {}).get(version)
            compile.check_links = lambda *_: None  # the table must not answer for the compiler
            compile.compile_kernel(
                signal_other_node,
                {"ready": SignalSpec()},
                world=World(0, 2, 1),
                target=GPUTarget("cuda", chip, 32),
            )
            seen = f"links in {time.perf_counter() - start:.0f} s"
        except UsageError as error:
            sys.stdout.write(f"sm_{chip}: {error}\n")
            continue
        except ValueError as error:  # Triton's word for bitcode that it cannot read
            seen = f"does not link: {error}"
        known = {None: "not in the table", True: "links", False: "does not link"}[expected]
        sys.stdout.write(
            f"sm_{chip}: Triton {triton.__version__}, NVSHMEM {version} ({library.path.name}): "
            f"{seen}; table: {known}\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
