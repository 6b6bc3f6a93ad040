"""Backend 2: kernels on real GPUs, through stock Triton and, beyond one node, NVSHMEM.

Importing this package imports neither: ``compile.compile_kernel`` does, when it is asked for.
"""

from .world import World

__all__ = ["World"]
