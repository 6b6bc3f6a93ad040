"""What is asked of hardware and what came back: the one data model of runs and dated records.

A :class:`Job` is a list of :class:`Case` on a :class:`Placement` of PEs; a backend answers each
case with a :class:`Measurement`; a :class:`Record` is a file of them with date, environment
and command. All are plain values that round-trip through JSON, so that a launcher, its PEs
and later readers need nothing else of each other.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tdsim.errors import UsageError
from tdsim.files import write_whole
from tdsim.samples import Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One program with shape, tunables and dtype, and what to find out about it.

    *runs* data runs (0: none), each of *calls* calls with fresh inputs and no host
    synchronisation between them, in poisoned memory, one rank late at random; then *repeats*
    timed calls (0: none) after *warmup* more.
    """

    program: str
    shape: Mapping[str, int]
    tunables: Mapping[str, Any] = field(default_factory=dict)
    dtype: str = "bf16"
    seed: int = 0
    runs: int = 0
    calls: int = 3
    warmup: int = 3
    repeats: int = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where PEs run: *n_pes* in logical nodes of *pes_per_node*; on one GPU if *share_gpu*."""

    n_pes: int
    pes_per_node: int
    share_gpu: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Cases to run one after another in one set of processes.

    *timeout_s* ends a case that does not come to an end. *debug* gives every wait of a kernel
    a limit and reports the one that passed it. *heap_bytes* bounds the symmetric heap of each
    PE (None: the library's default). *trace*: one more call of each case, built to keep when
    everything happens, after all that is timed.
    """

    cases: tuple[Case, ...]
    placement: Placement
    timeout_s: float = 60.0
    debug: bool = False
    heap_bytes: int | None = None
    trace: bool = False

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Job:
        return cls(
            **{
                **data,
                "cases": tuple(Case(**case) for case in data["cases"]),
                "placement": Placement(**data["placement"]),
            }
        )


class Span(NamedTuple):
    """A stretch of time on hardware, in nanoseconds; kinds and lanes are the simulator's."""

    kind: str
    rank: int
    lane: str
    begin: int
    end: int
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """One call on hardware, from the instant at which the first rank left the aligning barrier.

    All times are nanoseconds of rank 0's GPU timer, which advances in steps of *step_ns*.
    *offsets_ns* has been taken from each rank's timer, give or take *uncertainty_ns* (0 where
    all ranks read one timer). Spans of streams come from events, which *stream_uncertainty_ns*
    bounds against the timer. *dropped* events found no room; *unpaired* had no other end.
    """

    spans: tuple[Span, ...]
    step_ns: int = 0
    offsets_ns: tuple[int, ...] = ()
    uncertainty_ns: int = 0
    stream_uncertainty_ns: int = 0
    dropped: int = 0
    unpaired: int = 0

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Timeline:
        spans = tuple(Span(*span) for span in data["spans"])
        return cls(**{**data, "spans": spans, "offsets_ns": tuple(data["offsets_ns"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """What one case showed on hardware.

    *time_us*: per rank, the time of each timed call from an aligned start to the end of the
    rank's main stream, microseconds. *skew_us*: how far apart ranks left the aligning barrier,
    median. *wrong_runs* and *max_error* (relative norm of the difference from the program's
    reference, worst of all outputs): None without data runs. *heap_bytes*: symmetric memory in
    use per PE. *kernels*: name to registers, shared and stack bytes. *error*: why there is no
    result. *timeline*: of the traced call, if the job asked for one. *samples*: of all outputs
    of the first data run, whose inputs follow from the case alone.
    """

    case: Case
    time_us: tuple[tuple[float, ...], ...] = ()
    skew_us: float | None = None
    wrong_runs: int | None = None
    max_error: float | None = None
    heap_bytes: int = 0
    kernels: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    error: str | None = None
    timeline: Timeline | None = None
    samples: tuple[Sample, ...] = ()

    @property
    def median_us(self) -> float | None:
        """The slowest rank's median time; None if the case was not timed."""
        medians = [statistics.median(times) for times in self.time_us if times]
        return max(medians, default=None)

    @property
    def noise(self) -> float | None:
        """Half the distance between the quartiles of the slowest rank, over its median.

        None for fewer than 4 times, or for a median of 0: it is a share of nothing.
        """
        timed = [times for times in self.time_us if times]
        slowest: tuple[float, ...] = max(timed, key=statistics.median, default=())
        if len(slowest) < 4:
            return None
        low, middle, high = statistics.quantiles(slowest, n=4)
        return (high - low) / 2 / middle if middle else None

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Measurement:
        times = tuple(tuple(row) for row in data.get("time_us", ()))
        traced = data.get("timeline")
        timeline = None if traced is None else Timeline.from_json(traced)
        read = {
            "case": Case(**data["case"]),
            "time_us": times,
            "timeline": timeline,
            "samples": tuple(Sample(**item) for item in data.get("samples", ())),
        }
        return cls(**{**data, **read})


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Measurements of one job with the day, the command and the machine they come from.

    *environment*: device, driver, versions, SMs of each PE, by name.
    """

    date: str
    command: str
    environment: Mapping[str, Any]
    placement: Placement
    measurements: tuple[Measurement, ...]

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Record:
        found = tuple(Measurement.from_json(item) for item in data["measurements"])
        placement = Placement(**data["placement"])
        return cls(**{**data, "placement": placement, "measurements": found})

    def write(self, path: str | Path) -> None:
        """Write the record, whole or not at all."""
        text = json.dumps(self.to_json(), indent=1)
        write_whole(str(path), f"{text}\n".encode(), "record")

    @classmethod
    def read(cls, path: str | Path) -> Record:
        """Read a record; a file that is none gets one clear line."""
        try:
            return cls.from_json(json.loads(Path(path).read_text()))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UsageError(
                f"not a record ({type(error).__name__}: {error})",
                str(path),
                "a JSON file that tdsim validate --record wrote",
                "name such a file",
            ) from None
