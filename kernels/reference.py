"""NumPy references: from the inputs of all ranks to the outputs of all ranks.

Sums and products are float64, so that an error against them is the kernel's alone.
"""

import numpy as np

from tdsim import lang as td


def allgather(tensors: td.Arrays) -> td.Arrays:
    """Every rank ends with all shards, in rank order."""
    gathered = np.concatenate(tensors["x"])
    return {"y": [gathered for _ in tensors["x"]]}


def reduce_scatter(tensors: td.Arrays) -> td.Arrays:
    """Rank r ends with rows r of the float64 sum over ranks."""
    total = sum(x.astype(np.float64) for x in tensors["x"])
    return {"y": np.split(total, len(tensors["x"]))}


def ag_gemm(tensors: td.Arrays) -> td.Arrays:
    """Gathered a times each rank's columns of b, in float64."""
    a = np.concatenate(tensors["a"]).astype(np.float64)
    return {"c": [a @ b.astype(np.float64) for b in tensors["b"]]}


def gemm_rs(tensors: td.Arrays) -> td.Arrays:
    """Rank r ends with rows r of the sum over ranks of a times b, in float64."""
    pairs = zip(tensors["a"], tensors["b"], strict=True)
    total = sum(a.astype(np.float64) @ b.astype(np.float64) for a, b in pairs)
    return {"c": np.split(total, len(tensors["a"]))}
