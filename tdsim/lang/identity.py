"""Who am I: program instances (Triton's words) and processing elements (OpenSHMEM's)."""

from __future__ import annotations

from tdsim.lang._seam import op, reader


@op()
def program_id(axis: int = 0) -> int:
    """Index of this program instance along *axis* of its grid (Triton ``program_id``)."""
    return reader().program_id(axis)  # type: ignore[no-any-return]


@op()
def num_programs(axis: int = 0) -> int:
    """Size of the grid along *axis* (Triton ``num_programs``)."""
    return reader().num_programs(axis)  # type: ignore[no-any-return]


@op()
def my_pe() -> int:
    """This processing element's number, 0 to ``n_pes() - 1`` (OpenSHMEM ``shmem_my_pe``)."""
    return reader().my_pe()  # type: ignore[no-any-return]


@op()
def n_pes() -> int:
    """How many processing elements the job has (OpenSHMEM ``shmem_n_pes``)."""
    return reader().n_pes()  # type: ignore[no-any-return]


@op()
def my_node() -> int:
    """The node (host) of this PE: ``my_pe() // n_local_pes()``."""
    return reader().my_node()  # type: ignore[no-any-return]


@op()
def n_nodes() -> int:
    """How many nodes the job spans."""
    return reader().n_nodes()  # type: ignore[no-any-return]


@op()
def local_pe() -> int:
    """This PE's number inside its node (NVSHMEM team ``NVSHMEMX_TEAM_NODE``)."""
    return reader().local_pe()  # type: ignore[no-any-return]


@op()
def n_local_pes() -> int:
    """How many PEs each node has; every node has the same number."""
    return reader().n_local_pes()  # type: ignore[no-any-return]
