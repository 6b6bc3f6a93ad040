"""Waits of debug kernels that outlasted their limit, as sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..lowering.words import COMPARISONS, REPORT_WORDS, Entry, Report, WaitKind, Word

Describe = Callable[[int], tuple[str, int]]
"""From the address of a word to its name and how far one call moves it (0: not by calls)."""


class WaitReport:
    """Where this PE's debug kernels report waits of more than *limit_s* seconds."""

    def __init__(self, limit_s: float) -> None:
        import torch  # the sentences below need none

        self._area = torch.zeros(REPORT_WORDS, dtype=torch.int64).pin_memory()
        self.words: Mapping[Word, int] = {
            Word.REPORT: self._area.data_ptr(),
            Word.TIMEOUT_NS: int(limit_s * 1e9),
        }

    def lines(self, describe: Describe) -> list[str]:
        """One sentence per reported wait, in the order in which they gave up."""
        return sentences(self._area.tolist(), describe)


def sentences(area: list[int], describe: Describe) -> list[str]:
    """What the words of a report say, see ``Report`` of ``words.py``."""
    count = min(area[Report.COUNT], Report.CAPACITY)
    words = range(Report.ENTRIES, Report.ENTRIES + count * Report.ENTRY_WORDS)
    starts = words[:: Report.ENTRY_WORDS]
    return [_sentence(area[i : i + Report.ENTRY_WORDS], describe) for i in starts]


def _sentence(entry: list[int], describe: Describe) -> str:
    name, per_call = describe(entry[Entry.ADDRESS])
    target, seen = entry[Entry.TARGET], entry[Entry.SEEN]
    call = (target - 1) // per_call if per_call else 0
    values = f"{target - call * per_call}, seen {seen - call * per_call}"
    cta = f"{entry[Entry.PROGRAM_0]} of {entry[Entry.NUM_PROGRAMS_0]}"
    kind = WaitKind(entry[Entry.KIND]).name.lower().replace("_", " ")
    during = f" in call {call}" if per_call else ""
    cmp = COMPARISONS[entry[Entry.COMPARISON]]
    return f"program instance {cta} waits at a {kind}{during}: {name} {cmp} {values}"
