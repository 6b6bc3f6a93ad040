"""From the text of a kernel to a cubin: Triton alone, without a GPU and without torch.

Importing this package does not import Triton: ``compile.compile_kernel`` does.
"""

from .specs import ArgSpec, ScalarSpec, SignalSpec, ViewSpec
from .world import World

__all__ = ["ArgSpec", "ScalarSpec", "SignalSpec", "ViewSpec", "World"]
