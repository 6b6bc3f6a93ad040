"""A space-time picture of a story: a line for each actor, time downwards, signals as arrows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from tdsim.check.story import Event, label

LANE, ROW, TOP, MARGIN = 46, 24, 120, 28
TEXT_WIDTH = 900
INK, FAINT, RED, BLUE = "#1d2733", "#b9c2cc", "#c8283c", "#3569b3"
FONT = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"


def story_picture(title: str, story: Sequence[Event]) -> str:
    """An SVG of *story*; its first and last events, the two that met, are red."""
    return "\n".join(_Drawing(title, story).parts()) + "\n"


class _Drawing:
    def __init__(self, title: str, story: Sequence[Event]) -> None:
        self.title, self.story = title, story
        lanes = sorted({(event.rank, event.who) for event in story})
        self.x = {who: MARGIN + LANE * i for i, (_, who) in enumerate(lanes)}
        self.y = {event.number: TOP + ROW * i for i, event in enumerate(story)}
        self.text_x = MARGIN + LANE * len(lanes)
        self.bottom = TOP + ROW * len(story)

    def parts(self) -> Iterator[str]:
        width, height = self.text_x + TEXT_WIDTH, self.bottom + MARGIN
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" font-family="{FONT}" font-size="13">'
        )
        yield (
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" '
            f'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="{BLUE}"/>'
            "</marker></defs>"
        )
        yield f'<rect width="{width}" height="{height}" fill="#fff"/>'
        yield f'<text x="{MARGIN - 8}" y="22" fill="{INK}">{escape(self.title)}</text>'
        for who, x in self.x.items():
            yield (
                f'<line x1="{x}" y1="{TOP - 14}" x2="{x}" y2="{self.bottom}" stroke="{FAINT}"/>'
            )
            yield (
                f'<text x="{x}" y="{TOP - 20}" fill="{INK}" font-size="11" '
                f'transform="rotate(-24 {x} {TOP - 20})">{escape(who)}</text>'
            )
        for event in self.story:
            yield from self._arrow(event)
        for event in self.story:
            yield from self._event(event)
        yield "</svg>"

    def _arrow(self, event: Event) -> Iterator[str]:
        """From the event that *event* answers, if that is in the picture."""
        begin = next((e for e in self.story if e.number == event.cause), None)
        if begin is not None:
            x1, y1 = self.x[begin.who], self.y[begin.number]
            x2, y2 = self.x[event.who], self.y[event.number]
            yield (
                f'<path d="M{x1} {y1}C{x1 + 18} {(y1 + y2) // 2} {x2 + 18} {(y1 + y2) // 2} '
                f'{x2 + 6} {y2}" fill="none" stroke="{BLUE}" marker-end="url(#tip)"/>'
            )

    def _event(self, event: Event) -> Iterator[str]:
        x, y = self.x[event.who], self.y[event.number]
        colour = RED if event in (self.story[0], self.story[-1]) else INK
        yield f'<circle cx="{x}" cy="{y}" r="4" fill="{colour}"/>'
        yield (
            f'<line x1="{x + 6}" y1="{y}" x2="{self.text_x - 6}" y2="{y}" stroke="#e9edf1"/>'
        )
        yield (
            f'<text x="{self.text_x}" y="{y + 4}" fill="{colour}">{escape(label(event))}</text>'
        )
