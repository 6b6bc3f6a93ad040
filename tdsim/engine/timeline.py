"""What happened when, and because of what: segments linked to their causes.

Every stretch of a CTA, stream, copy engine or link that delayed somebody is a segment. Walking
from the last one back through *cause* gives the critical path across all ranks.
"""

from __future__ import annotations

from collections.abc import Iterator


class Segment:
    """A stretch of time on one lane of one rank, in picoseconds.

    *kind* is what the time went to: compute, comm, reduce, copy, wait, launch, link, barrier,
    signal, host. *cause* is the segment that had to end before this one could.
    """

    __slots__ = ("begin", "cause", "detail", "end", "kind", "lane", "rank")

    def __init__(
        self,
        kind: str,
        rank: int,
        lane: str,
        begin: int,
        end: int,
        cause: Segment | None,
        detail: str = "",
    ) -> None:
        self.kind, self.rank, self.lane = kind, rank, lane
        self.begin, self.end, self.cause, self.detail = begin, end, cause, detail

    def __repr__(self) -> str:
        return f"<{self.kind} rank {self.rank} {self.lane} {self.begin}..{self.end}>"


def critical_path(last: Segment | None, start: int) -> list[Segment]:
    """The chain of causes that ends with *last*, in time order, without overlaps from *start*.

    Waiting segments are left out: what was waited for stands in their place. The lengths sum
    to the time from *start* to the end of *last*, apart from gaps nobody accounts for.
    """
    path: list[Segment] = []
    frontier = last.end if last else start
    for segment in _causes(last):
        begin = max(segment.begin, start)
        end = min(segment.end, frontier)
        if segment.kind != "wait" and end > begin:
            path.append(
                Segment(
                    segment.kind, segment.rank, segment.lane, begin, end, None, segment.detail
                )
            )
            frontier = begin
        if frontier <= start:
            break
    return path[::-1]


def _causes(segment: Segment | None) -> Iterator[Segment]:
    while segment is not None:
        yield segment
        segment = segment.cause
