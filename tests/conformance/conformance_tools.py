"""What conformance programs share: a copy by tiles, references of exchanges, one-line contracts.

References return what each operation's contract says, in the inputs' own element type, so that
programs which only move data compare bit for bit.
"""

import numpy as np

from tdsim import lang as td


@td.function
def copy_tiles(dst, src, first, stride):
    """Copy *src* to *dst* by tiles of 16 x 32, every *stride*-th from *first* on."""
    num_n = td.cdiv(src.shape[1], 32)
    for tile in range(first, td.cdiv(src.shape[0], 16) * num_n, stride):
        row = tile // num_n * 16
        col = tile % num_n * 32
        td.store(dst, (row, col), td.load(src, (row, col), (16, 32)))


@td.kernel
def copy_kernel(dst, src):
    """Copy *src* to *dst* with all instances of the grid."""
    copy_tiles(dst, src, td.program_id(0), td.num_programs(0))


def contract(*, out, reference, work=(), tunables=None, **tensors):
    """A ``@td.program`` over ``x[M, N]`` with an output ``y`` of dimensions *out*.

    Further inputs are given by name, as is another kind of ``x``. *tunables* are choices by
    name, the default first.
    """
    return td.program(
        shape=("M", "N"),
        tensors={"x": td.Input("M", "N"), **tensors, "y": td.Output(*out)},
        work=work,
        reference=reference,
        small_shape="M=37,N=88",
        tunables={
            name: td.Tunable(choices[0], choices, "which way the contract is exercised")
            for name, choices in (tunables or {}).items()
        },
    )


def same(tensors):
    """Every rank ends with its own x."""
    return {"y": list(tensors["x"])}


def from_previous(tensors):
    """Rank r ends with the x of rank r - 1, the first with the last's."""
    x = tensors["x"]
    return {"y": [x[rank - 1] for rank in range(len(x))]}


def all_shards(tensors):
    """Every rank ends with the x of all ranks, in rank order."""
    gathered = np.concatenate(tensors["x"])
    return {"y": [gathered for _ in tensors["x"]]}


def of_node(tensors):
    """Every rank ends with the x of its node's ranks; ``nodes`` is as long as a node is big."""
    size = len(tensors["nodes"][0])
    x = tensors["x"]
    return {
        "y": [
            np.concatenate(x[rank // size * size : (rank // size + 1) * size])
            for rank in range(len(x))
        ]
    }


def whole(x, factor=4):
    """*x* times *factor*, truncated to whole numbers, in float32: sums of them are exact."""
    return np.trunc(x.astype(np.float32) * np.float32(factor)).astype(np.float32)
