"""The smallest kernel that leaves its node: does Triton take the installed device library?

``python -m tdsim.backend_gpu.launcher.far_kernel`` compiles it and prints JSON.
"""

from __future__ import annotations

import json
import sys

from tdsim import lang as td
from tdsim.errors import TdsimError

from ..lowering import SignalSpec, World


@td.kernel
def signal_other_node(ready):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201
    td.signal_op(ready, 0, 1, "add", 1)


def main() -> None:
    from ..lowering.compile import compile_kernel

    try:
        world = World(0, 2, 1)
        compiled = compile_kernel(signal_other_node, {"ready": SignalSpec()}, world=world)
        answer: dict[str, object] = {"externs": list(compiled.externs)}
    except TdsimError as error:
        answer = {"error": str(error)}
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()
