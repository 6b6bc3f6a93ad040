"""Output: tables and progress on terminals, and JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tdsim.files import write_whole


def say(text: str) -> None:
    """One line (or block) of a command's result."""
    sys.stdout.write(text + "\n")


def write_json(value: Any, path: str | None = None) -> None:
    """*value* as JSON, to standard output or, whole or not at all, to *path*."""
    text = json.dumps(value, indent=2)
    if path is None:
        say(text)
    else:
        write_whole(path, f"{text}\n".encode(), "--output")


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table: rich on a terminal, aligned plain text when piped."""
    rows = [list(row) for row in rows]
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table

        drawn = Table(*columns, title=title, title_justify="left")
        for row in rows:
            drawn.add_row(*row)
        Console().print(drawn)
        return
    widths = [max(len(r[i]) for r in [list(columns), *rows]) for i in range(len(columns))]
    say(title)
    for row in [list(columns), *rows]:
        say("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip())


@contextmanager
def progress(title: str, total: int) -> Iterator[Any]:
    """A progress bar on a terminal; ``advance(text)`` after each step. Nothing when piped."""
    if not sys.stderr.isatty():
        yield lambda text="": None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda text="": bar.update(task, advance=1, description=f"{title} {text}")
