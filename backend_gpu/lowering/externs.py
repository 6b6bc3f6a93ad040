"""Calls into linked libraries, as Triton externs: NVSHMEM's device library and ``runtime.ll``.

Only what leaves the node calls NVSHMEM. A ``_block`` call is made by all threads of a CTA
together. The others act once per calling thread, so the caller must guard them with
``is_first_thread``. Each takes addresses as int64 and returns nothing; the int32 result is only
what an extern of Triton must have.
"""

from __future__ import annotations

from typing import Any

from triton.language import core

_I32, _I64 = core.int32, core.int64
SIGNAL_SET: Any = core.constexpr(9)
SIGNAL_ADD: Any = core.constexpr(10)


def _extern(
    symbol: str, *types: Any, result: Any = _I32, pure: bool = False, library: str = "nvshmem"
) -> Any:
    """A callable of device text that casts its arguments to *types* and calls *symbol*.

    Its ``libraries`` say where the symbol is.
    """

    def call(*args: Any, _semantic: Any = None) -> Any:
        values = [
            _semantic.cast(_semantic.to_tensor(arg), kind)
            for arg, kind in zip(args, types, strict=True)
        ]
        symbols = {types: (symbol, result)}
        return core.extern_elementwise("", "", values, symbols, pure, _semantic=_semantic)

    builtin = core.extern(call)
    builtin.libraries = frozenset({library})
    return builtin


putmem_block = _extern("nvshmemx_putmem_block", _I64, _I64, _I64, _I32)
putmem_nbi_block = _extern("nvshmemx_putmem_nbi_block", _I64, _I64, _I64, _I32)
getmem_block = _extern("nvshmemx_getmem_block", _I64, _I64, _I64, _I32)
_PUT_SIGNAL = (_I64, _I64, _I64, _I64, _I64, _I32, _I32)
putmem_signal_block = _extern("nvshmemx_putmem_signal_block", *_PUT_SIGNAL)
putmem_signal_nbi_block = _extern("nvshmemx_putmem_signal_nbi_block", *_PUT_SIGNAL)
signal_op = _extern("nvshmemx_signal_op", _I64, _I64, _I32, _I32)
fence = _extern("nvshmem_fence")
quiet = _extern("nvshmem_quiet")
barrier_all_block = _extern("nvshmemx_barrier_all_block")
sync_all_block = _extern("nvshmemx_sync_all_block")
word = _extern("tdsim_word", _I32, result=_I64, pure=True, library="tdsim")
"""The word of the module with this index, see ``words.Word``. Pure, since nobody writes it
while the kernel runs: wherever a compiler moves the read, it finds the same."""
word_here = _extern("tdsim_word", _I32, result=_I64, library="tdsim")
"""The same, read where the text says: no register holds it from one read to the next."""
