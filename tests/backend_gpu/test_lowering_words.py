"""What a kernel takes from its module and leaves for the host: words, hang reports, stamps."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

pytest.importorskip("triton", reason="the compile suite needs triton")

from lowering_tools import (
    COUNTERS,
    INT,
    ONE_NODE,
    SIGNALS,
    TWO_NODES,
    Ttgir,
    heap,
    instructions,
    last_before,
    scalar_stores,
    threads_where,
    view,
)
from tdsim.backend_gpu.lowering import compile as compiler
from tdsim.backend_gpu.lowering import words
from tdsim.backend_gpu.lowering.compile import compile_kernel
from tdsim.backend_gpu.lowering.specs import ViewSpec
from tdsim.backend_gpu.lowering.stamps import keep_time, keep_timer_step
from tdsim.backend_gpu.lowering.words import (
    COMPARISONS,
    END,
    Entry,
    Event,
    EventKind,
    Report,
    Trace,
    WaitKind,
    Word,
)
from triton.backends.compiler import GPUTarget

from tdsim import lang as td
from tdsim.errors import UsageError


@td.kernel
def one_wait(ready, out, i, CMP: td.constexpr = "ge"):
    token = td.signal_wait_until(ready, i, CMP, 3)
    td.store(td.after(token, out), 0, td.full(1, 1, td.int32))


@td.kernel
def one_barrier(sig, KIND: td.constexpr):
    if KIND == "barrier_all":
        td.barrier_all()
    if KIND == "sync_all":
        td.sync_all()
    if KIND == "grid_barrier":
        td.grid_barrier(sig, 0)


@td.kernel
def one_operation(x, y, sig, pe, i, KIND: td.constexpr):
    if KIND == "put":
        td.putmem_nbi(x, y, pe)
    if KIND == "put_signal":
        td.putmem_signal(x, y, sig, i, 1, "add", pe)
    if KIND == "get":
        td.getmem(y, x, pe)
    if KIND == "signal_op":
        td.signal_op(sig, i, 1, "add", pe)
    if KIND == "wait":
        token = td.signal_wait_until(sig, i, "ge", 1)
        td.store(x, (td.after(token, 0), 0), td.zeros((16, 16), td.bfloat16))
    if KIND == "store":
        td.store(y, (0, 0), td.zeros((16, 16), td.bfloat16))


WAIT = {"ready": SIGNALS, "out": COUNTERS, "i": INT}
OPERANDS = {"x": heap(), "y": view(), "sig": SIGNALS, "pe": INT, "i": INT}


def _words_read(ptx):
    """The indices of the words that a PTX text reads."""
    offsets = re.findall(r"\[tdsim_words(?:\+(\d+))?\]", ptx)
    return {Word(int(offset or 0) // 8) for offset in offsets}


def test_a_barrier_reads_its_area_from_a_word_that_the_host_can_find():
    compiled = compile_kernel(
        one_barrier, {"sig": SIGNALS}, {"KIND": "sync_all"}, world=ONE_NODE
    )
    size = 8 * words.NUM_WORDS
    declared = rf"^\.visible \.global \.align \d+ \.b8 {words.SYMBOL}\[{size}\];$"
    assert re.search(declared, compiled.ptx, re.MULTILINE)
    assert words.SYMBOL.encode() in compiled.cubin
    assert compiled.module_words
    assert _words_read(compiled.ptx) == {Word.SYNC_AREA}


@pytest.mark.parametrize(
    ("kind", "world"), [("grid_barrier", ONE_NODE), ("sync_all", TWO_NODES)]
)
def test_a_kernel_that_needs_no_word_has_none(kind, world):
    compiled = compile_kernel(one_barrier, {"sig": SIGNALS}, {"KIND": kind}, world=world)
    assert not compiled.module_words
    assert "tdsim_word" not in compiled.ptx


def test_every_word_has_a_place_in_the_module():
    assert max(Word) < words.NUM_WORDS
    assert f"[{words.NUM_WORDS} x i64] zeroinitializer" in words.LIBRARY.read_text()


@td.kernel
def copies(wide, narrow, BLOCK: td.constexpr):
    tile = td.load(wide, (0, 0), (BLOCK, 64))
    td.store(narrow, (0, 0), td.cast(tile, td.float32))


def test_tensor_maps_follow_the_descriptor_arguments():
    args = {"wide": view(32, 64), "narrow": view(32, 64, dtype=td.float32)}
    compiled = compile_kernel(copies, args, {"BLOCK": 32}, world=ONE_NODE)
    wide, narrow = compiled.tensor_maps
    assert (wide.block, wide.element_bytes, wide.element_type) == ((32, 64), 2, 10)
    assert (narrow.element_bytes, narrow.element_type) == (4, 7)
    assert narrow.block == (32, 32), "a swizzled row holds at most 128 bytes"
    assert not wide.fp4_padded
    assert wide.swizzle == narrow.swizzle == 3


@pytest.mark.parametrize(("arch", "maps"), [(80, 0), (90, 2), (100, 2)])
def test_a_chip_without_tma_needs_no_tensor_maps(arch, maps):
    args = {"wide": view(32, 64), "narrow": view(32, 64, dtype=td.float32)}
    target = GPUTarget("cuda", arch, 32)
    compiled = compile_kernel(copies, args, {"BLOCK": 32}, world=ONE_NODE, target=target)
    assert len(compiled.tensor_maps) == maps


@pytest.mark.parametrize("num_warps", [4, 16])
def test_a_launch_learns_the_number_of_warps(num_warps):
    compiled = compile_kernel(one_wait, WAIT, world=ONE_NODE, num_warps=num_warps)
    assert compiled.num_warps == num_warps
    assert re.search(rf"\.reqntid {32 * num_warps}\b", compiled.ptx)


@pytest.mark.parametrize(
    ("fields", "found", "expected"),
    [
        ({"global_scratch_size": 128}, "global_scratch_size=128", "0"),
        ({"profile_scratch_size": 8}, "profile_scratch_size=8", "0"),
        ({"num_ctas": 2}, "num_ctas=2", "1"),
        ({"cluster_dims": [2, 1, 1]}, "cluster_dims=[2, 1, 1]", "(1, 1, 1)"),
    ],
)
def test_a_binary_that_only_triton_could_launch_is_refused(fields, found, expected):
    with pytest.raises(UsageError) as caught:
        compiler._check_launchable(SimpleNamespace(name="gemm", **fields))
    assert str(caught.value) == (
        f"kernel gemm: Triton compiled it with {found}; expected {expected}; "
        "compile with another version of Triton, see lowering/versions.py"
    )


# -- hang reports ----------------------------------------------------------------------------


def _watched(cmp="ge"):
    return compile_kernel(one_wait, WAIT, {"CMP": cmp}, world=ONE_NODE, debug=True)


def _entry(compiled):
    """What the words of an entry are set to: the lines that each is computed from."""
    ttgir = Ttgir(compiled.ttgir)
    values = [ttgir.sources(1, i) for i in scalar_stores(ttgir)]
    assert len(values) % len(Entry) == 0
    return values[-len(Entry) :]


def test_a_plain_wait_has_neither_timer_nor_report():
    compiled = compile_kernel(one_wait, WAIT, world=ONE_NODE)
    assert not compiled.module_words
    for trace_of_it in ("globaltimer", "tdsim_word", "bar.red", "smid"):
        assert trace_of_it not in compiled.ptx


def test_a_watched_wait_reads_the_report_and_the_timeout():
    compiled = _watched()
    assert _words_read(compiled.ptx) == {Word.REPORT, Word.TIMEOUT_NS}
    assert compiled.ptx.count("%globaltimer") >= 2
    assert not re.search(r"\btrap\b", compiled.ptx)


def test_all_threads_leave_a_watched_wait_together():
    """Every branch on time or flag follows a vote: only votes make values of many threads one."""
    ttgir = Ttgir(_watched().ttgir)
    branches = [
        i for i, line in enumerate(ttgir.lines) if re.search(r"scf\.(if|condition)", line)
    ]
    timed = [i for i in branches if "globaltimer" in ttgir.sources(0, i)]
    assert timed
    for line in timed:
        sources = ttgir.sources(0, line)
        assert "bar.red.or.pred" in sources
        assert "ld.relaxed.sys.global.b64" in sources


def test_one_thread_writes_the_entry_and_then_the_flag():
    text = instructions(_watched().ptx)
    (flag,) = [i for i, t in enumerate(text) if "atom.global.sys.release.exch" in t]
    (count,) = [i for i, t in enumerate(text) if "atom.global.sys.relaxed.add" in t]
    entry = [i for i in range(count, flag) if "st.global.b64" in text[i]]
    assert len(entry) == Report.ENTRY_WORDS
    for i in (flag, count, *entry):
        predicate = re.match(r"@(%p\d+) ", text[i])[1]
        assert threads_where(text, predicate, 256) == [0]


def test_an_entry_lies_within_the_capacity_at_its_own_words():
    text = instructions(_watched().ptx)
    (count,) = [i for i, t in enumerate(text) if "atom.global.sys.relaxed.add" in t]
    guard = next(t for t in text[count:] if t.startswith("setp"))
    assert re.fullmatch(rf"setp\.gt\.s64 %p\d+, %rd\d+, {Report.CAPACITY - 1}", guard)
    (flag,) = [i for i, t in enumerate(text) if "atom.global.sys.release.exch" in t]
    number = [re.search(r", (\d+)$", t) for t in text[count:flag] if t.startswith("add.s64")]
    first = 8 * Report.ENTRIES
    offsets = [int(found[1]) for found in number if found]
    assert offsets == [first + 8 * word for word in sorted(Entry)]
    assert Report.ENTRIES + Report.CAPACITY * len(Entry) == words.REPORT_WORDS


@pytest.mark.parametrize("cmp", COMPARISONS)
def test_an_entry_names_the_comparison_by_its_place_in_the_list(cmp):
    values = _entry(_watched(cmp))
    code = re.search(r"arith.constant (\d+) : i64", values[Entry.COMPARISON])
    assert int(code[1]) == COMPARISONS.index(cmp)
    assert "get_program_id x" in values[Entry.PROGRAM_0]
    assert "get_program_id y" in values[Entry.PROGRAM_1]
    assert "get_num_programs x" in values[Entry.NUM_PROGRAMS_0]


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        ("grid_barrier", WaitKind.GRID_BARRIER),
        ("barrier_all", WaitKind.BARRIER_ALL),
        ("sync_all", WaitKind.BARRIER_ALL),
    ],
)
def test_barriers_are_watched_too_and_named_by_their_kind(kind, number):
    args = {"sig": SIGNALS}
    compiled = compile_kernel(one_barrier, args, {"KIND": kind}, world=ONE_NODE, debug=True)
    assert f"arith.constant {number} : i64" in _entry(compiled)[Entry.KIND]
    assert Word.TIMEOUT_NS in _words_read(compiled.ptx)


def test_a_wait_for_another_node_is_watched_without_its_bitcode(monkeypatch):
    monkeypatch.setattr(compiler, "device_library", None)
    compiled = compile_kernel(one_wait, WAIT, world=TWO_NODES, debug=True)
    assert Word.TIMEOUT_NS in _words_read(compiled.ptx)


@td.kernel
def wait_in_k_loop(a, b, c, ready, K):
    acc = td.zeros((128, 128), td.float32)
    for k in range(0, K, 64):
        token = td.signal_wait_until(ready, k // 64, "ge", 1)
        a_tile = td.load(td.after(token, a), (0, k), (128, 64))
        acc = td.dot(a_tile, td.load(b, (k, 0), (64, 128)), acc)
    td.store(c, (0, 0), acc)


def test_a_watched_wait_leaves_the_k_loop_pipelined():
    args = {"a": view(128, 64), "b": view(64, 128), "c": view(), "ready": SIGNALS, "K": INT}
    compiled = compile_kernel(wait_in_k_loop, args, world=ONE_NODE, debug=True)
    assert "memdesc<3x128x64xbf16" in compiled.ttgir
    assert "globaltimer" in compiled.ptx


# -- stamps ----------------------------------------------------------------------------------

STAMPED = {
    "wait": [EventKind.WAIT, EventKind.WAIT + END, EventKind.STORE + END],
    "put": [EventKind.PUT, EventKind.PUT + END],
    "put_signal": [EventKind.PUT, EventKind.PUT + END],
    "get": [EventKind.GET, EventKind.GET + END],
    "signal_op": [EventKind.SIGNAL_OP, EventKind.SIGNAL_OP + END],
    "store": [EventKind.STORE + END],
}


def _events(compiled):
    """The stores of the events of a TTGIR text, in its order, as rows of defining lines."""
    ttgir = Ttgir(compiled.ttgir)
    values = [ttgir.sources(1, i) for i in scalar_stores(ttgir)]
    return [values[i : i + len(Event)] for i in range(0, len(values), len(Event))]


def _traced(kind):
    return compile_kernel(one_operation, OPERANDS, {"KIND": kind}, world=ONE_NODE, traced=True)


@pytest.mark.parametrize("kind", STAMPED)
def test_a_kernel_is_stamped_where_it_starts_and_an_operation_at_both_its_ends(kind):
    compiled = _traced(kind)
    for event, what in zip(_events(compiled), [EventKind.START, *STAMPED[kind]], strict=True):
        assert "globaltimer" in event[Event.TIME]
        constants = {int(n) for n in re.findall(r"constant (\d+) : i64", event[Event.WHAT])}
        assert what in constants | {0}
        assert words.SM in constants
        assert "%smid" in event[Event.WHAT]
        assert "get_program_id x" in event[Event.PROGRAM]
        assert "get_program_id y" in event[Event.PROGRAM]
    assert _words_read(compiled.ptx) == {Word.TRACE, Word.TRACE_CAPACITY}


@pytest.mark.parametrize("kind", ["barrier_all", "sync_all", "grid_barrier"])
def test_barriers_are_stamped(kind):
    args = {"sig": SIGNALS}
    compiled = compile_kernel(one_barrier, args, {"KIND": kind}, world=ONE_NODE, traced=True)
    _, begin, end = _events(compiled)
    number = EventKind.GRID_BARRIER if kind == "grid_barrier" else EventKind.BARRIER_ALL
    assert f"constant {number} : i64" in begin[Event.WHAT]
    assert f"constant {number + END} : i64" in end[Event.WHAT]


@pytest.mark.parametrize(("kind", "payload"), [("wait", "%i"), ("put", "%pe"), ("get", "%pe")])
def test_a_stamp_carries_the_signal_or_the_pe(kind, payload):
    text = _traced(kind).ttgir
    stored = re.findall(r"arith.extsi (%\w+) : i32 to i64", text)
    assert payload in stored


@pytest.mark.parametrize("kind", STAMPED)
def test_a_stamp_reads_the_time_right_behind_a_barrier_and_ends_in_one(kind):
    text = instructions(_traced(kind).ptx)
    times = [i for i, t in enumerate(text) if "%globaltimer" in t]
    assert len(times) == 1 + len(STAMPED[kind])
    for time in times:
        count = next(
            i for i in range(time, len(text)) if "atom.global.gpu.relaxed.add" in text[i]
        )
        barrier = last_before(text, r"^bar\.sync 0$", time)
        assert not any(re.search(r"\b(ld|st|atom|cp)\.", t) for t in text[barrier:time])
        assert not any(re.search(r"\b(ld|st|atom|cp)\.global", t) for t in text[time:count])
        predicate = re.match(r"@(%p\d+) ", text[count])[1]
        assert threads_where(text, predicate, 256) == [0]
        after = text[count:]
        stores = [i for i, t in enumerate(after) if "st.global.b64" in t][: len(Event)]
        assert any(re.fullmatch(r"bar\.sync 0", t) for t in after[stores[-1] :])


def test_an_event_lies_behind_the_counter_and_within_the_capacity():
    text = instructions(_traced("store").ptx)
    (_, count) = (i for i, t in enumerate(text) if "atom.global.gpu.relaxed.add" in t)
    capacity = next(
        re.match(r"ld\.global\.b64 (%rd\d+), \[tdsim_words\+32\]", t)
        for t in text[count:]
        if "tdsim_words" in t
    )[1]
    guard = next(t for t in text[count:] if t.startswith("setp"))
    assert re.match(rf"setp\.(ge|lt)\.s64 %p\d+, %rd\d+, {capacity}$", guard)
    added = [re.search(r", (\d+)$", t) for t in text[count:] if t.startswith("add.s64")]
    offsets = [int(found[1]) for found in added if found]
    assert offsets == [8 * (Trace.EVENTS + word) for word in sorted(Event)]
    assert len(Event) == Trace.EVENT_WORDS


@td.kernel
def wait_then_multiply(a, b, c, ready, K):
    token = td.signal_wait_until(ready, 0, "ge", 1)
    row = td.after(token, 0)
    acc = td.zeros((128, 128), td.float32)
    for k in range(0, K, 64):
        a_tile = td.load(a, (row, k), (128, 64))
        acc = td.dot(a_tile, td.load(b, (k, 0), (64, 128)), acc)
    td.store(c, (0, 0), acc)


def test_stamps_around_a_k_loop_leave_it_as_it_is():
    args = {"a": view(128, 64), "b": view(64, 128), "c": view(), "ready": SIGNALS, "K": INT}
    compiled = compile_kernel(wait_then_multiply, args, world=ONE_NODE, traced=True)
    ttgir = Ttgir(compiled.ttgir)
    (loop,) = ttgir.loops()
    body = "\n".join(ttgir.operation(loop))
    assert "memdesc<3x128x64xbf16" in compiled.ttgir
    assert "gpu.barrier" not in body
    assert "globaltimer" not in body
    assert len(_events(compiled)) == 4


@td.function
def one_tile(y):
    td.store(y, (0, 0), td.zeros((16, 16), td.bfloat16))


@td.kernel
def by_helper(y):
    """Its text begins with words."""
    one_tile(y)


def test_a_kernel_is_stamped_where_it_starts_and_its_helpers_are_not():
    compiled = compile_kernel(by_helper, {"y": view()}, world=ONE_NODE, traced=True)
    started, stored = _events(compiled)
    assert f"constant {EventKind.START} : i64" in started[Event.WHAT]
    assert f"constant {EventKind.STORE + END} : i64" in stored[Event.WHAT]


TIMES = ViewSpec(dtype=td.int64, ndim=1, aligned=False)


@td.kernel
def meet_at(times, i):
    td.barrier_all()
    keep_time(times, i)


def test_the_time_that_is_kept_is_read_behind_everything_before_it():
    compiled = compile_kernel(meet_at, {"times": TIMES, "i": INT}, world=ONE_NODE, num_warps=1)
    text = instructions(compiled.ptx)
    (time,) = [i for i, t in enumerate(text) if "%globaltimer" in t]
    barrier = last_before(text, r"^bar\.sync 0$", time)
    assert not any(re.search(r"\b(ld|st|atom)\.global", t) for t in text[barrier:time])
    (kept,) = [t for t in text if "st.global.b64" in t]
    assert re.match(r"mov\.u64 (%rd\d+)", text[time])[1] in kept
    assert text.index(kept) > time


@td.kernel
def step_at(times, i, reads):
    keep_timer_step(times, i, reads)


def test_the_timers_step_is_the_least_of_positive_ones():
    args = {"times": TIMES, "i": INT, "reads": INT}
    text = instructions(compile_kernel(step_at, args, world=ONE_NODE, num_warps=1).ptx)
    assert sum("%globaltimer" in t for t in text) == 2
    positive = next(re.match(r"setp\.gt\.s64 (%p\d+), %rd\d+, 0$", t) for t in text
                    if t.startswith("setp.gt.s64"))[1]  # fmt: skip
    assert any(t.startswith("min.s64") for t in text)
    assert any(t.startswith("selp.b64") and t.endswith(positive) for t in text)
