"""A gate before measured calls: what is queued behind it waits until the host is done."""

from __future__ import annotations

import torch

from . import driver


class Gate:
    """Holds the main stream, and all that is forked from it, until it is opened.

    A word of the host's memory, which no stream writes: streams share hardware queues, and one
    that waits holds up whatever is queued behind it, also what would end the wait.
    """

    def __init__(self, stream: torch.cuda.Stream) -> None:
        self._stream = stream
        self._word = torch.zeros(1, dtype=torch.int64, pin_memory=True)
        self._number = 0

    def close(self) -> None:
        """Let nothing pass that is queued from now on."""
        self._number += 1
        word = self._word.data_ptr()
        driver.wait_word(self._stream.cuda_stream, word, "ge", self._number)

    def open(self) -> None:
        """Let everything pass."""
        self._word[0] = self._number
