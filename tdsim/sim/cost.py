"""What a stretch of computation costs: from counted work to picoseconds.

A CTA counts the tensor-core work, bytes and elements of a stretch; at the end of it they become
time as in a software pipeline: the longest of tensor cores, L2 and HBM, plus the latency of the
first load, plus the stores. A stretch's duration is fixed when it ends its counting, from the
CTAs resident at that moment (not a fluid flow).
"""

from __future__ import annotations

import math

from tdsim.topology import Machine, TileSpec
from tdsim.units import PS_PER_S

VECTOR_ELEMENTS_PER_S = 128 * 1_700_000_000
"""Element-wise results of one SM: 128 lanes at 1.7 GHz (Hopper white paper: 128 FP32 cores)."""
MAX_SM_SHARE = 2
"""One SM's TMA loads reach at most this multiple of its fair L2 share (assumed)."""
TILE_DRAIN_PS = 5_400_000
"""Draining a tile's stores and refilling the pipeline before the next tile, in a loop that is
not flattened. Measured on one H200, Triton 3.6, 8192 cubed bf16, tile 128x256x64: 699 TFLOP/s
without flattening is 101 us a tile, of which tensor cores take 93, the first load and the
store's bytes 3; the rest is this."""
LIBRARY_TILE_PS = 3_500_000
"""What a vendor GEMM loses per tile instead: 735 TFLOP/s in the same run is 96.5 us a tile."""


class Costs:
    """Cost rates of one machine's GPUs, in picoseconds per unit."""

    def __init__(self, machine: Machine, slowdown: float = 1.0) -> None:
        gpu = machine.gpu
        self.gpu, self.host = gpu, machine.host
        self.num_sms = gpu.num_sms
        self.slowdown = slowdown
        self.l2_bytes_per_s = gpu.l2.bytes_per_s
        self.hbm_bytes_per_s = gpu.hbm.bytes_per_s
        self.sm_copy_per_s = gpu.sm_copy.bytes_per_s
        self._mma: dict[tuple[int, int, int, str], int] = {}

    def tile(self, m: int, n: int, k: int, dtype: str) -> TileSpec | None:
        """What was measured of GEMMs with tiles m x n in steps of k, if anything."""
        return self.gpu.tiles.get((m, n, k)) if dtype in ("bf16", "fp16") else None

    def copy_per_s(self, multiplying: int) -> int:
        """What one CTA copies per second beside *multiplying* CTAs of its PE."""
        share = min(multiplying / self.num_sms, 1.0)
        return round(self.sm_copy_per_s * (1 - share * (1 - self.gpu.busy_copy)))

    def mma_ps(self, m: int, n: int, k: int, dtype: str) -> int:
        """Tensor-core time of one m x n x k tile product on one SM."""
        key = (m, n, k, dtype)
        found = self._mma.get(key)
        if found is None:
            flops = self.gpu.flops.get(dtype, self.gpu.flops["fp32"])
            known = self.tile(m, n, k, dtype)
            efficiency = known.efficiency if known else self.gpu.mma_efficiency
            rate = flops / self.num_sms * efficiency
            # wgmma works on 64 rows and at least 16 deep: less is padded
            padded = 2 * max(m, 64) * max(n, 16) * max(k, 16)
            found = self._mma[key] = round(padded * PS_PER_S / rate * self.slowdown)
        return found

    def stretch_ps(
        self,
        mma: int,
        elements: int,
        loaded: int,
        hbm: int,
        stored: int,
        resident: int,
        tile: TileSpec | None = None,
        turns: int = 0,
    ) -> int:
        """Duration of a stretch with *resident* CTAs on the GPU.

        *mma* in picoseconds; *loaded*, *hbm*, *stored* in bytes; *turns* of loops that load
        without a product. A measured *tile* has its loads from L2 in its efficiency.
        """
        active = max(1, resident)
        compute = mma + elements * PS_PER_S // VECTOR_ELEMENTS_PER_S
        if not mma:
            moving = self._moving_ps(compute, loaded + stored, active, turns)
            return moving + (self.host.load_latency_ps if loaded else 0)
        if loaded:
            hbm_share = self.hbm_bytes_per_s // active
            memory = hbm * PS_PER_S // hbm_share
            if not tile:
                most = MAX_SM_SHARE * self.l2_bytes_per_s // self.num_sms
                share = min(self.l2_bytes_per_s // active, most)
                memory = max(
                    loaded * PS_PER_S // share, hbm * PS_PER_S // min(hbm_share, share)
                )
            compute = max(compute, memory) + self.host.load_latency_ps
            compute += tile.drain_ps if tile else TILE_DRAIN_PS
        if stored:
            share = min(self.hbm_bytes_per_s // active, 2 * self.sm_copy_per_s)
            compute += stored * PS_PER_S // share
        return compute

    def _moving_ps(self, vector: int, moved: int, active: int, turns: int) -> int:
        """Vector work, loads and stores of *moved* bytes by one of *active* CTAs; no product.

        Alone a CTA is bound by the latency of each turn and by what one SM moves, many by the
        memory they share. Near the crossing both are felt: the two add as on a soft link.
        """
        own = max(vector, moved * PS_PER_S // (2 * self.sm_copy_per_s))
        together = moved * active * PS_PER_S // self.hbm_bytes_per_s
        return round(math.hypot(own + turns * self.host.loop_load_ps, together))

    def sharing(self, tiles_across: int) -> int:
        """How many CTAs of a wave read the same operand tile: a wave is about square."""
        return max(1, min(math.isqrt(self.num_sms), tiles_across))
