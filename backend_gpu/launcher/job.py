"""The folder through which a launcher and its PEs talk: a job goes in, results come out.

Writers rename whole files into place, so a file that is there can be read.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tdsim.files import write_whole
from tdsim.records import Job, Measurement

_LONGEST_ROOT = 60
"""Characters of a temporary folder's name that leave room for the MPS daemon's sockets: the
kernel takes 107 characters for one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Why a rank gave up, as it wrote it down; *at* orders the reports of a job."""

    rank: int
    kind: str
    what: str
    where: str = ""
    expected: str = ""
    cure: str = ""
    case: int | None = None
    report: tuple[str, ...] = ()
    at: int = 0


@dataclass(frozen=True, slots=True)
class JobFolder:
    """Names and contents of one job's files."""

    path: Path

    @classmethod
    def temporary(cls) -> JobFolder:
        """A fresh, private folder with a short name."""
        root = tempfile.gettempdir()
        short = root if len(root) <= _LONGEST_ROOT else "/tmp"
        return cls(Path(tempfile.mkdtemp(prefix="tdsim-", dir=short)))

    def renew(self) -> None:
        """Make the folder anew; what a killed job left in it must not be taken for this one."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.path.mkdir(mode=0o700)

    @property
    def mps(self) -> Path:
        """The private MPS daemon's pipe and log directory."""
        return self.path / "mps"

    def log(self, rank: int) -> Path:
        """Standard output and error of *rank*."""
        return self.path / f"log-{rank}.txt"

    def log_tail(self, rank: int, lines: int = 12) -> list[str]:
        """What *rank* printed last."""
        return tail(self.log(rank), lines)

    def write_job(self, job: Job) -> None:
        self._write("job.json", job.to_json())

    def result(self, index: int) -> Measurement | None:
        """What case *index* showed, once it has."""
        data = self._read(f"result-{index}.json")
        return None if data is None else Measurement.from_json(data)

    def environment(self) -> dict[str, Any]:
        """What rank 0 says of the machine; empty before it started."""
        return self._read("environment.json") or {}

    def reports(self) -> list[Report]:
        """What failing ranks wrote, the earliest first."""
        found = []
        for path in self.path.glob("error-*.json"):
            data = {**json.loads(path.read_text()), "at": path.stat().st_mtime_ns}
            known = {key: data[key] for key in Report.__dataclass_fields__ if key in data}
            found.append(Report(**{**known, "report": tuple(data.get("report") or ())}))
        return sorted(found, key=lambda report: (report.at, report.rank))

    def ready(self) -> int:
        """How many ranks have finished their start."""
        return len(list(self.path.glob("ready-*")))

    def left(self) -> int:
        """How many ranks need the folder no longer."""
        return len(list(self.path.glob("left-*")))

    def leave(self, rank: int) -> None:
        """Say that *rank* needs the folder no longer."""
        (self.path / f"left-{rank}").touch()

    def add_pid(self, pid: int) -> None:
        """Remember a PE's process, for the files that carry its number."""
        with (self.path / "pids").open("a") as file:
            file.write(f"{pid}\n")

    def pids(self) -> list[int]:
        path = self.path / "pids"
        return [int(line) for line in path.read_text().split()] if path.exists() else []

    def _write(self, name: str, value: object) -> None:
        write_whole(self.path / name, json.dumps(value).encode())

    def _read(self, name: str) -> dict[str, Any] | None:
        path = self.path / name
        if not path.exists():
            return None
        data: dict[str, Any] = json.loads(path.read_text())
        return data


def tail(path: Path, lines: int = 12) -> list[str]:
    """The last *lines* lines of a log that say something; none if there is no log."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 16_384))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    return [line.rstrip() for line in text.splitlines() if line.strip()][-lines:]
