"""What a kernel reads from its module and writes for the host: words, reports and events.

A kernel that needs a fact of the run reads it from the global ``tdsim_words`` of its module
(``runtime.ll``), int64 words that the host sets after it has loaded the module and before the
first launch. So no address is compiled in, and cached machine code serves every run.

This module knows no Triton: lowering and runtime share it.
"""

from __future__ import annotations

import enum
from pathlib import Path

SYMBOL = "tdsim_words"
"""The global's name, for ``cuModuleGetGlobal``. Modules that read no word lack it."""

NUM_WORDS = 8
"""Words of the global; those that :class:`Word` does not name are spare."""

LIBRARY = Path(__file__).with_name("runtime.ll")
"""The text that Triton links into kernels that read a word."""


class Word(enum.IntEnum):
    """Index of each word. One that a kernel needs must be set; the others may stay 0."""

    SYNC_AREA = 0
    """Address of this PE's symmetric barrier area, which ``barrier_all`` and ``sync_all`` of a
    one-node world use. The area holds int64 words, in this order: ``n_pes`` arrival words, zero
    at first; one count of barriers, zero at first; the ``n_pes`` addresses of the area on every
    PE, as this process sees them."""
    REPORT = 1
    """Address of the hang report (:class:`Report`) as the device sees it. Kernels compiled with
    *debug* need it. It lies in host memory, so the host reads it while kernels run."""
    TIMEOUT_NS = 2
    """Nanoseconds that a wait of a kernel compiled with *debug* lasts at most."""
    TRACE = 3
    """Address of this kernel's trace buffer (:class:`Trace`); at 0 it writes no events."""
    TRACE_CAPACITY = 4
    """Events that the trace buffer has room for."""


class Report(enum.IntEnum):
    """Layout of the hang report: int64 words, all zero at first.

    A wait of a debug kernel that outlasts ``TIMEOUT_NS`` writes an entry and sets the abort
    flag. The flag ends every wait of this PE's debug kernels: one that was waiting already
    writes an entry too, one that begins later ends at once and writes none. The kernels then
    run to their ends with whatever values they have. The host may set the flag as well.
    """

    ABORT = 0
    """The abort flag: 0, or 1 from the first hang on."""
    COUNT = 1
    """Entries that were offered; those beyond ``CAPACITY`` were not written."""
    ENTRIES = 2
    """The first word of the first entry."""
    ENTRY_WORDS = 8
    """Words of an entry, see :class:`Entry`."""
    CAPACITY = 64
    """Entries that there is room for."""


REPORT_WORDS = Report.ENTRIES + Report.CAPACITY * Report.ENTRY_WORDS
"""Size of the report in int64 words."""


class Entry(enum.IntEnum):
    """Words of an entry of the hang report, in their order."""

    ADDRESS = 0
    """Address of the awaited word, on this PE."""
    COMPARISON = 1
    """Index in :data:`COMPARISONS`."""
    TARGET = 2
    """What the word was compared with; the base of the call is included."""
    SEEN = 3
    """The word's last value."""
    PROGRAM_0 = 4
    PROGRAM_1 = 5
    NUM_PROGRAMS_0 = 6
    KIND = 7
    """See :class:`WaitKind`."""


COMPARISONS = ("eq", "ne", "gt", "ge", "lt", "le")
"""A wait's comparison is reported as its index here."""


class WaitKind(enum.IntEnum):
    """What a wait of the hang report belongs to."""

    SIGNAL = 0
    GRID_BARRIER = 1
    BARRIER_ALL = 2
    """``barrier_all`` or ``sync_all`` of one node; NVSHMEM's own waits are not watched."""


class Trace(enum.IntEnum):
    """Layout of the trace buffer: int64 words, the counter zero at first."""

    COUNT = 0
    """Events that were offered; those beyond ``TRACE_CAPACITY`` were not written."""
    EVENTS = 2
    """The first word of the first event; word 1 is reserved."""
    EVENT_WORDS = 4
    """Words of an event, see :class:`Event`. They are in no order of time."""


class Event(enum.IntEnum):
    """Words of an event of the trace, in their order."""

    TIME = 0
    """The GPU's global timer in nanoseconds; it may advance in steps of up to about 1 us."""
    WHAT = 1
    """:class:`EventKind`, plus 256 at an end, plus the SM's number times 65536."""
    PROGRAM = 2
    """``program_id(0)``, plus ``program_id(1)`` times 2**32."""
    PAYLOAD = 3
    """Signal index of a wait, signal or grid barrier; PE of a put or get; otherwise 0."""


class EventKind(enum.IntEnum):
    """The traced operations: a begin and an end of each, but only the end of a store and only
    the begin of a program instance."""

    WAIT = 0
    PUT = 1
    """A put, with or without a signal."""
    GET = 2
    BARRIER_ALL = 3
    """``barrier_all`` or ``sync_all``."""
    GRID_BARRIER = 4
    SIGNAL_OP = 5
    STORE = 6
    START = 7
    """A program instance starts."""


END = 256
"""Added to an event's kind at the end of its operation."""
SM = 65536
"""What an event's SM number is multiplied by."""
