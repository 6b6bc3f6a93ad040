"""All conformance runs: which program, with which shape, tunables and types, on how many PEs.

Each contract is stated once, as a program with its reference. ``test_conformance.py`` runs all
entries on the simulator; :func:`cases` gives the same entries as cases of a GPU job.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tdsim.records import Case

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
ANY = (1, 2, 4, 8)
LOCAL = (1, 2)
"""Worlds of contracts that involve one PE only: the second shows that PEs do not mix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One contract under one choice of its knobs.

    *file* and *name* say where the program is; *tolerance* is the largest relative norm of an
    output's error (0: every bit is right); *broken* is the same program in ``broken.py``,
    compiled without the cure that it needs.
    """

    file: str
    name: str
    shape: Mapping[str, int]
    tunables: Mapping[str, Any] = field(default_factory=dict)
    dtype: str = "fp32"
    worlds: tuple[int, ...] = ANY
    tolerance: float = 0.0
    broken: str | None = None

    @property
    def path(self) -> str:
        """The program as commands take it, from the repository's root."""
        return f"{FOLDER.relative_to(ROOT)}/{self.file}.py:{self.name}"

    def __str__(self) -> str:
        return "-".join([self.name, *map(str, self.tunables.values()), self.dtype])


def _entries(
    file: str,
    name: str,
    shape: Mapping[str, int],
    *,
    dtypes: tuple[str, ...] = ("fp32",),
    tunables: tuple[Mapping[str, Any], ...] = ({},),
    **rest: Any,
) -> Iterator[Entry]:
    """The product of *tunables* and *dtypes*."""
    for chosen in tunables:
        for dtype in dtypes:
            yield Entry(file=file, name=name, shape=shape, tunables=chosen, dtype=dtype, **rest)


def _each(name: str, *values: Any) -> tuple[dict[str, Any], ...]:
    return tuple({name: value} for value in values)


ODD = {"M": 37, "N": 88}
"""No multiple of a tile, but rows of whole 16 bytes, as descriptors need."""
TINY = {"M": 5, "N": 37}
"""Rows of an odd number of elements: 2-byte types have no better alignment than theirs."""
BOTH = _each("move", "pointer", "tiled")
HALVES = ("bf16", "fp16")


def _tiles() -> Iterator[Entry]:
    def of(name: str, shape: Mapping[str, int] = ODD, **rest: Any) -> Iterator[Entry]:
        return _entries("programs_tiles", name, shape, worlds=LOCAL, **rest)

    yield from of("load_masks_edges", tunables=BOTH, dtypes=("bf16",))
    yield from of("load_masks_edges", {"M": 21, "N": 53})
    yield from of("store_masks_edges", tunables=BOTH, dtypes=("bf16",))
    yield from of("rows_end_where_they_say", tunables=BOTH, dtypes=("fp16",))
    yield from of("one_axis_masks_edges", {"N": 203}, dtypes=("bf16",))
    yield from of("one_axis_masks_edges", {"N": 200}, tunables=BOTH[1:])
    yield from of("every_type_is_stored_and_loaded", tunables=BOTH)
    yield from of("tiles_are_made", {"M": 3, "N": 83}, dtypes=("bf16",))


def _values() -> Iterator[Entry]:
    def of(name: str, shape: Mapping[str, int] = ODD, **rest: Any) -> Iterator[Entry]:
        return _entries("programs_values", name, shape, worlds=LOCAL, **rest)

    yield from of("element_wise_rounds_once", dtypes=("fp32", "bf16", "fp16"))
    yield from of("functions_are_float32", tolerance=1e-6)
    yield from of("functions_are_float32", dtypes=("bf16",), tolerance=4e-3)
    yield from of("reductions_of_whole_numbers", {"M": 27, "N": 61}, dtypes=("fp32", "bf16"))
    yield from of("reductions_of_normal_values", {"M": 27, "N": 61}, tolerance=1e-6)
    square = {"M": 77, "N": 104}
    exact = "products_of_whole_numbers"
    yield from of(exact, square, tunables=BOTH[:1], dtypes=("fp16",))
    yield from of(exact, square, tunables=BOTH[1:], dtypes=("bf16",))
    yield from of("products_of_normal_values", square, tolerance=2e-3)
    yield from of("products_of_normal_values", square, dtypes=("bf16",), tolerance=4e-3)
    yield from of("results_have_tritons_types", {"M": 1, "N": 1})


def _integers() -> Iterator[Entry]:
    yield from _entries("programs_integers", "scalars_are_int32", {"M": 1, "N": 1}, worlds=(1,))
    yield from _entries("programs_integers", "tiles_of_ints", ODD, worlds=(1,))
    shape = {"M": 1, "N": 1}
    yield from _entries("programs_integers", "instances_and_pes_know_their_place", shape)


def _signals() -> Iterator[Entry]:
    def of(name: str, shape: Mapping[str, int], **rest: Any) -> Iterator[Entry]:
        return _entries("programs_signals", name, shape, **rest)

    yield from of("waits_end_when_their_comparison_holds", {"M": 6, "N": 72}, worlds=LOCAL)
    counted = "an_add_counts_once"
    yield from of(
        counted,
        {"M": 6, "N": 37},
        tunables=_each("num_warps", 4, 8, 16),
        broken="add_by_all_threads",
    )
    hows = _each("how", "putmem_signal", "putmem_signal_nbi")
    yield from of(counted, {"M": 6, "N": 37}, tunables=hows)
    yield from of(
        "a_wait_sees_past_a_warm_cache", ODD, tunables=_each("on", "view", "offset"),
        worlds=LOCAL, broken="wait_unacquired",
    )  # fmt: skip
    yield from of(
        "signals_chain_the_ctas_of_a_launch", {"M": 16, "N": 88}, dtypes=("fp32", "bf16"),
        worlds=LOCAL,
    )  # fmt: skip
    yield from of("atomics_return_what_was_there", {"M": 1, "N": 1}, worlds=LOCAL)
    yield from of("the_last_to_count_sees_all", ODD, dtypes=("bf16",), worlds=LOCAL)


def _puts() -> Iterator[Entry]:
    def of(name: str, shape: Mapping[str, int], **rest: Any) -> Iterator[Entry]:
        return _entries("programs_puts", name, shape, **rest)

    hows = _each(
        "how", "putmem_signal", "putmem_signal_nbi", "putmem", "putmem_nbi_fence",
        "putmem_nbi_quiet", "two_puts_fence", "putmem_lines",
    )  # fmt: skip
    behind, aligned = "data_lie_behind_their_signal", {"M": 32, "N": 64}
    yield from of(behind, TINY, tunables=hows[1:], dtypes=("bf16",))
    yield from of(behind, aligned, tunables=hows[:1])
    yield from of("a_get_has_the_data_on_return", TINY, dtypes=("bf16",))
    shifts = _each("shift", 0, 1, 4)
    place = "puts_have_any_size_and_place"
    yield from of(place, {"P": 24}, tunables=shifts, dtypes=("bf16",))
    yield from of("pes_store_neighbouring_elements", {"N": 61}, dtypes=HALVES)
    yield from of("fenced_puts_arrive_in_order", {"M": 8, "N": 136})
    reuse = _each("how", "putmem", "putmem_signal")
    yield from of("a_source_is_free_after_its_put", TINY, tunables=reuse)
    yield from of("stores_at_peers_lie_behind_a_signal", TINY, dtypes=("bf16",))
    yield from of("loads_reach_every_pe_of_the_node", TINY, dtypes=("fp16",))
    yield from of("peers_write_a_symmetric_output", {"M": 5, "N": 40})


def _barriers() -> Iterator[Entry]:
    def of(name: str, shape: Mapping[str, int], **rest: Any) -> Iterator[Entry]:
        return _entries("programs_barriers", name, shape, **rest)

    hows = _each("how", "barrier_all", "quiet_sync_all")
    yield from of("a_barrier_completes_puts", TINY, tunables=hows)
    yield from of("barriers_follow_each_other", TINY)
    yield from of("a_grid_barrier_shows_all_stores", {"M": 5, "N": 72}, worlds=LOCAL)
    yield from of("one_instance_meets_for_all", {"M": 3, "N": 41}, dtypes=("bf16",))
    yield from of("signals_chain_the_pes_of_a_job", {"N": 53})


def _host() -> Iterator[Entry]:
    def of(name: str, shape: Mapping[str, int] = TINY, **rest: Any) -> Iterator[Entry]:
        return _entries("programs_host", name, shape, **rest)

    yield from of("copies_reach_every_pe_of_the_node", tunables=_each("way", "push", "pull"))
    yield from of("streams_and_kernels_signal_each_other", worlds=LOCAL)
    yield from of("a_stream_barrier_completes_puts")
    yield from of("a_signal_follows_its_stream", tunables=_each("op", "add", "set"))
    yield from of("forks_and_joins_order_streams", worlds=LOCAL)
    yield from of("local_memory_is_kept", {"M": 1, "N": 1}, worlds=LOCAL)
    square = {"M": 29, "N": 56}
    sides = _each("side", "load", "store")
    yield from of("tiles_move_through_a_peers_view", square, tunables=sides, dtypes=("bf16",))


def _traps() -> Iterator[Entry]:
    def of(name: str, shape: Mapping[str, int], **rest: Any) -> Iterator[Entry]:
        return _entries("programs_traps", name, shape, worlds=LOCAL, **rest)

    both = _each("move", "tiled", "pointer")
    deep = {"K": 512}
    for name, shape, broken in (
        ("wait_in_a_pipelined_loop", deep, "loop_wait_untied"),
        ("token_through_helpers", deep, "helper_wait_untied"),
        ("two_ctas_take_turns", {"steps": 8}, "turns_unheld"),
    ):
        yield from of(name, shape, tunables=both, dtypes=("bf16",), broken=broken)
    long = {"rounds": 8, "N": 1024}
    yield from of("a_release_covers_all_threads", long, broken="release_unjoined")
    for store, load, broken in (
        ("tiled", "pointer", "tile_unwritten"),
        ("pointer", "tiled", "tile_unfenced"),
    ):
        ways = ({"store": store, "load": load},)
        name = "a_stored_tile_is_there_when_signalled"
        yield from of(name, {"tiles": 8}, tunables=ways, dtypes=("bf16",), broken=broken)


ENTRIES: tuple[Entry, ...] = tuple(
    entry
    for part in (_tiles, _values, _integers, _signals, _puts, _barriers, _host, _traps)
    for entry in part()
)


def cases(n_pes: int, pes_per_node: int, *, runs: int = 3, calls: int = 3) -> list[Case]:
    """The entries that a job of *n_pes* PEs runs, in nodes of *pes_per_node*, as data runs.

    Contracts of one PE are left out where there are several nodes: they know of none.
    """
    several_nodes = n_pes > pes_per_node
    return [
        _case(entry, entry.path, runs, calls)
        for entry in ENTRIES
        if n_pes in entry.worlds and (entry.worlds == ANY or not several_nodes)
    ]


def trap_pairs(*, runs: int = 20, calls: int = 3) -> list[tuple[Case, Case]]:
    """Each trap's program with its cure and without: right, then wrong or hanging.

    For one PE. ``broken.py`` says what to expect of each program without its cure; a hang ends
    its job, so give each of those a job of its own.
    """
    return [
        (
            _case(entry, entry.path, runs, calls),
            _case(entry, f"{FOLDER.relative_to(ROOT)}/broken.py:{entry.broken}", runs, calls),
        )
        for entry in ENTRIES
        if entry.broken
    ]


def _case(entry: Entry, program: str, runs: int, calls: int) -> Case:
    return Case(
        program=program,
        shape=dict(entry.shape),
        tunables=dict(entry.tunables),
        dtype=entry.dtype,
        runs=runs,
        calls=calls,
        warmup=0,
        repeats=0,
    )


def tolerance(case: Case) -> float:
    """The largest relative norm of an error that *case* of :func:`cases` may show."""
    (found,) = {
        entry.tolerance
        for entry in ENTRIES
        if (entry.path, entry.dtype) == (case.program, case.dtype)
    }
    return found
