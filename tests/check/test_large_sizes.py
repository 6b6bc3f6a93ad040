"""B38: offsets of huge outputs, in runs without data, because nobody could hold those."""

from __future__ import annotations

import pytest
from helpers import run

from tdsim import lang as td
from tdsim.errors import ApiError

MIB = 2**20


@td.kernel
def place_shards(out, count):
    """Store the first elements of a shard in each CTA; offsets are int32, as in Triton."""
    td.store(out, td.program_id(0) * count, td.zeros(64, td.bfloat16))


def gather_into(mib_per_pe):
    def host(ctx):
        count = mib_per_pe * MIB // 2
        out = ctx.symmetric((ctx.n_pes * count,), td.bfloat16)
        ctx.launch(place_shards, ctx.n_pes, (out, count))

    return run(host, "h800x8", functional=False)


def test_an_offset_beyond_int32_is_refused_with_its_line():
    with pytest.raises(ApiError) as refused:
        gather_into(768)
    line = place_shards.source.tree.body[1].lineno
    first = 6 * 768 * MIB // 2
    assert str(refused.value).startswith(f"{__file__}:{line}: offset {first} into symmetric#0")
    assert "is beyond int32, in which kernels compute" in str(refused.value)


def test_offsets_within_int32_are_right():
    assert gather_into(256).time_ps > 0
