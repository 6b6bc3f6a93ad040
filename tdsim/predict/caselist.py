"""Lists of cases for validation: what runs where, and which results no fit may look at.

A list is a JSON file::

    {"topology": "h200-shared-4",
     "placement": {"n_pes": 4, "pes_per_node": 4, "share_gpu": true},
     "cases": [{"program": "allgather", "shape": {"M": 4096, "K": 8192},
                "tunables": {"comm": "pull"}, "held_back": true}, ...]}

A case may also give every other field of :class:`tdsim.records.Case`. The path of a program
file is relative to the list's folder.
"""

from __future__ import annotations

import dataclasses
import json
import os.path
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tdsim.errors import UnknownNameError, UsageError
from tdsim.records import Case, Placement, Record

KEY = "validation"
"""Where a record's environment keeps what :meth:`CaseList.note` says."""
_FORM = "a JSON object with topology, placement and cases"


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseList:
    """Cases on one placement, predicted on *topology*; *held_back* are labels of cases."""

    topology: str
    placement: Placement
    cases: tuple[Case, ...]
    held_back: frozenset[str] = frozenset()

    def to_json(self) -> dict[str, Any]:
        """The list as a file holds it, with only those fields that differ from defaults."""
        return {
            "topology": self.topology,
            "placement": dataclasses.asdict(self.placement),
            "cases": [
                {
                    **_fields(case),
                    **({"held_back": True} if label(case) in self.held_back else {}),
                }
                for case in self.cases
            ],
        }

    def note(self) -> dict[str, Any]:
        """What a record must keep of the list, so that it can be judged without the list."""
        return {"topology": self.topology, "held_back": sorted(self.held_back)}


def label(case: Case) -> str:
    """What makes the case this one: program, shape, tunables, dtype; not how often it runs."""
    parts = [case.program, dict(case.shape), dict(case.tunables), case.dtype]
    return json.dumps(parts, sort_keys=True)


def read_list(path: str | Path) -> CaseList:
    """The list in the file *path*.

    Raises :class:`UsageError` for a file that is no list, has no case or one twice.
    """
    where = str(path)
    data = _read(path)
    cases, held_back = [], set()
    for number, entry in enumerate(data["cases"]):
        if not isinstance(entry, dict) or not isinstance(entry.get("shape"), dict):
            raise UsageError(f"case {number} is {entry!r}", where, "program and shape")
        fields = dict(entry)
        held = fields.pop("held_back", False)
        case = _make(Case, {**fields, "program": _resolved(fields.get("program"), path)}, where)
        cases.append(case)
        held_back |= {label(case)} if held else set()
    _check_unique(cases, where)
    return CaseList(
        topology=str(data["topology"]),
        placement=_make(Placement, data["placement"], where),
        cases=tuple(cases),
        held_back=frozenset(held_back),
    )


def note_of(record: Record) -> CaseList | None:
    """The list that *record* was measured from, as far as it says; None if it does not."""
    note = record.environment.get(KEY)
    if not isinstance(note, Mapping):
        return None
    return CaseList(
        topology=str(note["topology"]),
        placement=record.placement,
        cases=tuple(found.case for found in record.measurements),
        held_back=frozenset(note["held_back"]),
    )


def _read(path: str | Path) -> dict[str, Any]:
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = f"not a list of cases ({type(error).__name__}: {error})"
        raise UsageError(reason, str(path), _FORM, "name such a file") from None
    missing = {"topology", "placement", "cases"} - set(data if isinstance(data, dict) else ())
    if missing or not isinstance(data["cases"], list) or not data["cases"]:
        reason = f"no {', '.join(sorted(missing))}" if missing else "no case"
        raise UsageError(reason, str(path), _FORM, "add it")
    return dict(data)


def _make(kind: Any, fields: Any, where: str) -> Any:
    known = [field.name for field in dataclasses.fields(kind)]
    for name in fields:
        if name not in known:
            raise UnknownNameError("key", name, known, where)
    try:
        return kind(**fields)
    except TypeError as error:
        raise UsageError(str(error), where, f"the fields of a {kind.__name__}") from None


def _resolved(program: Any, path: str | Path) -> str:
    """*program* as seen from here, if it is a file named relative to the list."""
    if not isinstance(program, str) or not program:
        raise UsageError(f"program {program!r}", str(path), "a name or FILE.py:PROGRAM")
    if ".py" not in program:
        return program
    return os.path.normpath(Path(path).parent / program)


def _check_unique(cases: Iterable[Case], where: str) -> None:
    seen = set()
    for case in cases:
        if label(case) in seen:
            raise UsageError(
                f"{label(case)} is there twice", where, "each case once", "drop one"
            )
        seen.add(label(case))


def _fields(case: Case) -> dict[str, Any]:
    """The fields of *case* without those that have their defaults."""
    plain = dataclasses.asdict(Case(program=case.program, shape={}))
    given = dataclasses.asdict(case)
    return {
        name: value
        for name, value in given.items()
        if name == "program" or value != plain[name]
    }
