"""Who this process is in the job: what a kernel's identity operations are compiled to."""

from __future__ import annotations

from dataclasses import dataclass

from tdsim.errors import UsageError


@dataclass(frozen=True, slots=True)
class World:
    """One PE's place in the job; nodes are runs of *pes_per_node* consecutive PEs.

    These are facts of the process, so kernels are compiled for them: tile orders fold to
    constants, no extern call asks for them, and a one-node world needs no NVSHMEM bitcode.
    The price is that every process compiles its own kernels.
    """

    pe: int
    n_pes: int
    pes_per_node: int

    def __post_init__(self) -> None:
        legal = 0 < self.pes_per_node <= self.n_pes and self.n_pes % self.pes_per_node == 0
        if not (legal and 0 <= self.pe < self.n_pes):
            raise UsageError(
                what=f"PE {self.pe} of {self.n_pes} with {self.pes_per_node} PEs per node",
                where="World",
                expected="0 <= pe < n_pes and nodes of equal size",
                cure="give n_pes as a multiple of pes_per_node",
            )

    @property
    def lanes(self) -> int:
        """The smallest power of two that holds one lane per PE, as tiles need."""
        return 1 << (self.n_pes - 1).bit_length()

    @property
    def single_node(self) -> bool:
        """Whether every PE is load/store-reachable from this one."""
        return self.n_pes == self.pes_per_node
