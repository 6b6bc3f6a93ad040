"""``check``: each verdict from a program that earns it, and the words it is reported in."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tdsim import lang as td
from tdsim.check import check
from tdsim.errors import ShapeError, UsageError


@td.kernel
def exchange(y, x, mail, ready, wait: td.constexpr, last: td.constexpr):
    """Put x to the next PE and, when its own has come (if *wait*), copy it to y."""
    me = td.my_pe()
    td.putmem_signal(mail, x, ready, 0, 1, "set", (me + 1) % td.n_pes())
    row = 0
    if wait:
        token = td.signal_wait_until(ready, 0, "ge", 1)
        row = td.after(token, row)
    for i in range(last):
        td.store(y, (i, 0), td.load(mail, (row + i, 0), (1, 8)))


def ring(wait=True, last=4, scale=1.0, work=(), tensors=None, reference=None):
    """A program that shifts x one PE on; its flaws are chosen by the arguments."""

    def shifted(inputs):
        x = inputs["x"]
        return {"y": [x[rank - 1] * x[0].dtype.type(scale) for rank in range(len(x))]}

    @td.program(
        shape=("M",),
        tensors=tensors or {"x": td.Input("M", "8"), "y": td.Output("M", "8")},
        work=work,
        reference=reference or shifted,
        small_shape="M=4",
    )
    def shift(ctx, x, y):
        """Shift x one PE on."""
        mail, ready = ctx.symmetric(x.shape, x.dtype), ctx.signals(1)
        ctx.barrier_all()
        ctx.launch(exchange, 1, (y, x, mail, ready, wait, last))

    return shift


@pytest.mark.parametrize("kernel", ["allgather", "reduce_scatter", "ag_gemm", "gemm_rs"])
def test_the_library_is_clean(kernel):
    result = check(kernel, topology="h800x2", calls=2)
    assert (result.verdict, result.findings, result.exit_code) == ("CLEAN", (), 0)


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
def test_a_correct_exchange_is_clean_in_every_dtype(dtype):
    result = check(ring(), topology="h800x4", dtype=dtype, seeds=3)
    assert (result.verdict, result.seeds, result.calls) == ("CLEAN", (0, 1, 2), 3)
    assert result.text().startswith(f"shift on h800x4, M 4, {dtype}: CLEAN (3 calls")


def test_a_missing_wait_is_a_race_and_the_wrong_data_name_unwritten_memory():
    result = check(ring(wait=False), topology="h800x4")
    assert (result.verdict, result.exit_code) == ("RACE", 1)
    finding = result.findings[-1]
    assert finding.verdict == "WRONG-RESULT"
    assert finding.message.startswith("y on rank ")
    assert (
        "in call 0: 32 of 32 elements are wrong, the first at [0, 0]: got NaN, so it was "
        in (finding.message)
    )
    assert "see it again with --seed 0" in result.text()


def test_a_part_that_is_never_written_is_named_with_its_place():
    message = check(ring(last=3), topology="h800x2").findings[0].message
    assert "y on rank 0 in call 0: 8 of 32 elements are wrong, the first at [3, 0]" in message


def test_a_wrong_value_is_shown_beside_the_expected_one():
    message = check(ring(scale=2.0), topology="h800x2", dtype="fp32").findings[0].message
    value = np.random.default_rng((0, 0, 0, 1)).standard_normal((4, 8), np.float32)[0, 0]
    assert f"the first at [0, 0]: got {value:.6g}; expected {2 * value:.6g}" in message
    assert "32 of 32 elements are wrong" in message


def test_programs_that_only_move_data_must_be_exact_and_gemms_may_round():
    slightly = 1 + 2**-7
    assert check(ring(scale=slightly), topology="h800x2").verdict == "WRONG-RESULT"
    gemm = (td.Gemm("M", "8", "8"),)
    assert check(ring(scale=slightly, work=gemm), topology="h800x2").verdict == "CLEAN"


def test_a_finding_is_found_again_with_its_seed():
    found = check(ring(wait=False), topology="h800x4", seed=5, seeds=4)
    assert found.seeds == (5,)
    again = check(ring(wait=False), topology="h800x4", seed=found.findings[0].seed)
    assert again.findings == found.findings


@td.kernel
def send_unfenced(y, x, mail, ready):
    """Put x to the PE half the world away and signal, with nothing that orders the two."""
    far = (td.my_pe() + td.n_pes() // 2) % td.n_pes()
    td.putmem_nbi(mail, x, far)
    td.signal_op(ready, 0, 1, "set", far)
    token = td.signal_wait_until(ready, 0, "ge", 1)
    td.store(y, (0, 0), td.load(mail, (td.after(token, 0), 0), (4, 8)))


def half_way_round():
    """A program that hides its flaw on NVLink, where deliveries keep their order."""

    def shifted(inputs):
        x = inputs["x"]
        return {"y": [x[rank - len(x) // 2] for rank in range(len(x))]}

    @td.program(
        shape=("M",),
        tensors={"x": td.Input("M", "8"), "y": td.Output("M", "8")},
        work=(),
        reference=shifted,
        small_shape="M=4",
    )
    def swap(ctx, x, y):
        """Swap x with the PE half the world away."""
        mail, ready = ctx.symmetric(x.shape, x.dtype), ctx.signals(1)
        ctx.barrier_all()
        ctx.launch(send_unfenced, 1, (y, x, mail, ready))

    return swap


def test_an_unfenced_put_is_found_between_nodes_and_hidden_inside_one():
    assert check(half_way_round(), topology="h800x8").verdict == "CLEAN"
    assert check(half_way_round(), topology="h800x16").verdict == "RACE"


def test_a_result_is_json():
    result = check(ring(wait=False), topology="h800x2")
    data = json.loads(json.dumps(result.to_json()))
    assert (data["verdict"], data["topology"], data["shape"]) == (
        "RACE", "h800x2", {"M": 4},
    )  # fmt: skip
    assert data["findings"][0]["seed"] == 0


@td.kernel
def wait_for_nobody(y, never):
    """Nobody sets the signal."""
    token = td.signal_wait_until(never, 0, "ge", 1)
    td.store(y, (td.after(token, 0), 0), td.zeros((4, 8), td.float32))


@td.kernel
def write_far_away(y, mail, ready):
    """Signal a PE that does not exist."""
    td.signal_op(ready, 0, 1, "set", td.n_pes())


@td.kernel
def take_an_int_for_a_view(y, count):
    """Fail in the middle of the kernel."""
    td.store(y, (count.shape[0], 0), td.zeros((4, 8), td.float32))


def one_launch(kernel, *extra):
    """A program that launches *kernel* on y and whatever *extra* makes of the context."""

    @td.program(
        shape=("M",),
        tensors={"y": td.Output("M", "8")},
        work=(),
        reference=lambda inputs: {"y": []},
        small_shape="M=4",
    )
    def once(ctx, y):
        """Launch one kernel."""
        ctx.launch(kernel, 1, (y, *(make(ctx) for make in extra)))

    return once


def test_a_wait_that_nobody_ends_is_a_hang_with_the_line_and_the_value():
    result = check(one_launch(wait_for_nobody, lambda ctx: ctx.signals(1)), topology="h800x2")
    assert (result.verdict, result.exit_code) == ("HANG!", 1)
    message = result.findings[0].message
    assert message.startswith("deadlock at ")
    assert "waits for never[0] ge 1" in message
    assert "test_check.py:" in message


def test_a_pe_out_of_range_is_an_api_error():
    program = one_launch(
        write_far_away,
        lambda ctx: ctx.symmetric((4, 8), td.float32),
        lambda ctx: ctx.signals(1),
    )
    result = check(program, topology="h800x2")
    assert result.verdict == "API-ERROR"
    assert "names PE 2, which does not exist" in result.findings[0].message
    assert "PEs are 0 to 1" in result.findings[0].message


def test_a_kernel_that_raises_is_a_verdict_with_its_own_line():
    result = check(one_launch(take_an_int_for_a_view, lambda ctx: 0), topology="h800x2")
    assert (result.verdict, result.exit_code) == ("API-ERROR", 1)
    line = take_an_int_for_a_view.fn.__code__.co_firstlineno + 3
    message = result.findings[0].message
    assert message.startswith(f"{__file__}:{line}: ")
    assert "AttributeError: " in message


def test_a_reference_that_raises_is_a_verdict_with_its_own_line():
    def broken(inputs):
        return {"y": inputs["z"]}

    (finding,) = check(ring(reference=broken), topology="h800x2").findings
    assert finding.verdict == "API-ERROR"
    assert finding.message.startswith(f"{__file__}:{broken.__code__.co_firstlineno + 1}: ")
    assert "the reference of shift failed: KeyError: 'z'" in finding.message


def test_a_shape_too_large_to_hold_is_refused_with_the_cure():
    with pytest.raises(ShapeError) as refused:
        check("ag_gemm", topology="h800x8", shape={"M": 65536, "N": 65536, "K": 65536})
    assert str(refused.value) == (
        "ag_gemm: a check would hold 72.0 GiB of tensors; expected at most 2 GiB over all ranks "
        "and calls; check a smaller shape (leave --shape out for the program's own)"
    )


@pytest.mark.parametrize("name", ["seeds", "calls"])
def test_no_seeds_and_no_calls_are_refused(name):
    with pytest.raises(UsageError, match=f"{name} = 0; expected at least 1"):
        check(ring(), topology="h800x2", **{name: 0})


@pytest.mark.parametrize(
    ("reference", "sentence"),
    [
        (lambda t: {}, "the reference returns nothing; expected y, as its tensors say"),
        (
            lambda t: {"y": [a[:2] for a in t["x"]]},
            r"the reference makes y of shape \[2, 8\]; expected \[4, 8\], as its tensors say",
        ),
        (
            lambda t: {"y": t["x"][:1]},
            "the reference makes y for 1 ranks; expected 2, as its tensors say",
        ),
    ],
    ids=["names", "shape", "ranks"],
)
def test_a_reference_that_does_not_fit_its_tensors_is_refused(reference, sentence):
    with pytest.raises(UsageError, match=sentence):
        check(ring(reference=reference), topology="h800x2")
