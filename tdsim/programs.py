"""Programs by name, and what they are given: the same for every backend.

Library names come through entry points, ``file.py:program`` from disk.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import numpy as np

from tdsim.errors import KernelFileError, TdsimError, UnknownNameError
from tdsim.lang import Arrays, DType, Program

GROUP = "tdsim.kernels"


def library() -> dict[str, EntryPoint]:
    """Entry points of the installed library, by name; nothing is imported."""
    return {point.name: point for point in sorted(entry_points(group=GROUP), key=str)}


def load_program(name: str | Program) -> Program:
    """The program called *name*: a library name, or ``path/to/file.py:program``.

    Raises :class:`UnknownNameError` or :class:`KernelFileError`.
    """
    if isinstance(name, Program):
        return name
    if ".py" in name:
        return _from_file(name)
    points = library()
    if name not in points:
        raise UnknownNameError("kernel", name, (*points, "path/to/file.py:program"))
    found = points[name].load()
    assert isinstance(found, Program)
    return found


def _from_file(text: str) -> Program:
    path, _, name = text.rpartition(":") if ":" in text else (text, "", "")
    file = Path(path)
    if not file.is_file():
        raise KernelFileError(
            "no such file", str(file), "path/to/file.py:program", "check the path"
        )
    programs = {k: v for k, v in _import(file).items() if isinstance(v, Program)}
    own = {
        k: v for k, v in programs.items() if v.host.__code__.co_filename == str(file.resolve())
    }
    if not name and len(own) == 1:
        return next(iter(own.values()))
    if name not in programs:
        choices = (
            ", ".join(own or programs) or "none: decorate a host function with @td.program"
        )
        raise KernelFileError(
            f"no program '{name}'" if name else "no program is named",
            str(file),
            f"one of its programs ({choices})",
            f"write {file}:PROGRAM",
        )
    return programs[name]


def _import(file: Path) -> dict[str, object]:
    """The names a kernel file defines; its folder is importable while it is read."""
    spec = importlib.util.spec_from_file_location(file.stem, file.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(file.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except TdsimError:
        raise
    except (Exception, SystemExit) as error:
        raise KernelFileError(
            " ".join(f"{type(error).__name__}: {error}".split()),
            str(file),
            "a file that imports",
            f"run python {file} to see where it fails",
        ) from None
    finally:
        sys.path.pop(0)
    return vars(module)


def standard_inputs(
    program: Program,
    sizes: Mapping[str, int],
    dtype: DType,
    n_pes: int,
    seed: int,
    call: int,
) -> Arrays:
    """Fresh standard normal inputs of one call, for all ranks, from *seed* and *call* alone."""
    result: Arrays = {}
    for number, (name, tensor) in enumerate(program.tensors.items()):
        if tensor.role == "input":
            shape = tensor.shape(sizes, f"{program.name} tensor {name}")
            result[name] = [
                np.random.default_rng((seed, call, number, rank))
                .standard_normal(shape, np.float32)
                .astype(dtype.numpy)
                for rank in range(n_pes)
            ]
    return result
