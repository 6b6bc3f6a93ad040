"""Every schedule of a small program, by partial-order reduction.

A program is run again and again under a chooser, each time with another order of steps that
touch the same thing; orders of steps that have nothing to do with each other are not told
apart. Dynamic partial-order reduction finds where two steps of a run could have come the other
way round, sleep sets keep a schedule from being run twice.

Two updates of a signal word never count as independent, not even two adds: a wait may pass
between them. That makes it enough to look for waits that could have passed earlier; whether
one could have passed with the updates in another order shows in those orders themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from tdsim.check.clocks import join
from tdsim.sim.choices import Schedule, Sharing, Step, Touch

Clock = dict[str, int]
"""By actor, how many steps of the run are known to come before."""


class CutError(Exception):
    """This run would repeat a schedule, or must begin again because more turned out shared."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A step of a schedule, as it is told to people."""

    actor: str
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(slots=True)
class _State:
    """A state on the current path and what is still to be tried there."""

    born: dict[str, int]
    """By actor, when its pending step became so."""
    sleep: dict[str, Sequence[Touch]]
    actor: str
    enabled: list[str]
    backtrack: list[str] = field(default_factory=list)
    done: dict[str, Sequence[Touch]] = field(default_factory=dict)

    def add(self, actors: Sequence[str]) -> None:
        self.backtrack += [actor for actor in actors if actor not in self.backtrack]


class Search:
    """The chooser of all runs of one exploration: a path of states, longest first.

    Repeat a run with it until :meth:`advance` says that nothing is left.
    """

    def __init__(self) -> None:
        self.sharing = Sharing()
        self._path: list[_State] = []
        self._begin()

    def _begin(self) -> None:
        self.taken: list[Step] = []
        self.stuck: Sequence[Step] = ()
        self._known = len(self._path)
        self._before: list[Clock] = []
        self._clocks: dict[Any, Clock] = {}
        self._passed: dict[str, int] = {}

    # The chooser's side ----------------------------------------------------------------

    def watch(self, schedule: Schedule) -> None:
        self._learnt = schedule.learnt

    def choose(self, pending: Sequence[Step]) -> Step:
        self._look(pending)
        depth = len(self.taken)
        if depth == len(self._path):
            self._path.append(self._new_state(pending))
        state = self._path[depth]
        if depth >= self._known - 1:  # the same steps, as this run knows them
            state.born = {step.actor: step.born for step in pending}
        step = next(step for step in pending if step.actor == state.actor)
        self._take(step)
        return step

    def ended(self, pending: Sequence[Step]) -> None:
        self._look(pending)
        self.stuck = pending

    def _look(self, pending: Sequence[Step]) -> None:
        """Note what led to the pending steps, and which of them could have come earlier."""
        if self.sharing.grew:
            raise CutError
        last = self._before[-1] if self._before else {}
        for who, of in self._learnt:
            join(self._clocks.setdefault(who, {}), self._clocks.get(of, {}))
        for step in pending:
            clock = self._clocks.setdefault(step.actor, {})
            passed = sum(gate.triggered for gate in step.gates)
            caused = step.born == len(self.taken) and not step.late
            if caused or passed > self._passed.get(step.actor, 0):
                join(clock, last)
            self._passed[step.actor] = passed
        if len(self.taken) >= self._known:
            for step in pending:
                self._race(step)

    def _race(self, step: Step) -> None:
        """Find the last step that *step* could have come before, and see that it will."""
        clock = self._clocks[step.actor]
        for i in range(len(self.taken) - 1, -1, -1):
            other = self.taken[i]
            if clock.get(other.actor, 0) > i or not _meet(other.touches, step.touches):
                continue
            state = self._path[i]
            if step.actor in state.enabled:
                state.add([step.actor])
                return
            if step.wait and state.born.get(step.actor) == step.born:
                continue  # it waits there too
            before = [
                later.actor
                for j, later in enumerate(self.taken[i + 1 :], i + 1)
                if clock.get(later.actor, 0) > j and later.actor in state.enabled
            ]
            if not before:
                state.add(state.enabled)
            elif not set(before) & {*state.backtrack, *state.done}:
                state.add(before[:1])
            return

    def _new_state(self, pending: Sequence[Step]) -> _State:
        sleep: dict[str, Sequence[Touch]] = {}
        if self._path:
            above, last = self._path[-1], self.taken[-1]
            sleep = {
                actor: touches
                for actor, touches in {**above.sleep, **above.done}.items()
                if actor != last.actor and not _meet(touches, last.touches)
            }
        enabled = [step.actor for step in pending if step.enabled]
        awake = [actor for actor in enabled if actor not in sleep]
        if not awake:
            raise CutError
        # Going on with the same actor makes schedules that read well.
        same = self.taken[-1].actor if self.taken else ""
        actor = same if same in awake else awake[0]
        return _State({}, sleep, actor, enabled, [actor])

    def _take(self, step: Step) -> None:
        clock = dict(self._clocks[step.actor])
        for other, known in zip(self.taken, self._before, strict=True):
            if _meet(other.touches, step.touches):
                join(clock, known)
        self.taken.append(step)
        clock[step.actor] = len(self.taken)
        self._before.append(clock)
        self._clocks[step.actor] = dict(clock)

    # The explorer's side ---------------------------------------------------------------

    def advance(self) -> bool:
        """Prepare the next run; False if every schedule has been covered."""
        if self.sharing.grew:
            self.sharing.grew = False
            self._path = []
            self._begin()
            return True
        for state, step in zip(self._path, self.taken, strict=False):
            state.done[state.actor] = tuple(step.touches)
        while self._path:
            state = self._path[-1]
            left = [a for a in state.backtrack if a not in state.done and a not in state.sleep]
            if left:
                state.actor = left[0]
                self._begin()
                return True
            self._path.pop()
        return False

    @property
    def schedule(self) -> tuple[Taken, ...]:
        """The run as a list of who did what."""
        return tuple(Taken(step.actor, str(step)) for step in self.taken)


@dataclass(slots=True)
class Exploration:
    """What all schedules showed: how many there were, and the shortest one of each outcome."""

    schedules: int = 0
    covered: bool = False
    shortest: dict[str, tuple[str, tuple[Taken, ...]]] = field(default_factory=dict)
    """By outcome: the explanation and the schedule."""
    left: set[str] = field(default_factory=set)
    """What was left to chance in spite of the chooser."""

    def note(self, outcome: str, message: str, schedule: tuple[Taken, ...]) -> None:
        self.schedules += 1
        known = self.shortest.get(outcome)
        if known is None or _length(schedule) < _length(known[1]):
            self.shortest[outcome] = (message, schedule)


def explore(
    run: Callable[[Any], tuple[str, str]],
    limit: int,
    advance: Callable[[str], Any] = lambda _: None,
) -> Exploration:
    """Call *run* with a chooser until all schedules are covered, or *limit* runs are made.

    *run* returns an outcome and its explanation; *advance* is called after each.
    """
    search, result = Search(), Exploration()
    for _ in range(limit):
        try:
            outcome, message = run(search)
        except CutError:
            pass
        else:
            if not search.sharing.grew:
                result.note(outcome, message, search.schedule)
        if search.sharing.grew:
            result = Exploration()
        advance(f"schedule {result.schedules}")
        if not search.advance():
            result.covered = True
            break
    result.left = search.sharing.left
    return result


def _length(schedule: tuple[Taken, ...]) -> tuple[int, int]:
    """How hard a schedule is to read: first by changes of actor, then by steps."""
    changes = sum(a.actor != b.actor for a, b in pairwise(schedule))
    return changes, len(schedule)


def _meet(some: Sequence[Touch], others: Sequence[Touch]) -> bool:
    return any(a.meets(b) for a in some for b in others)
