"""Happens-before analysis of a run: which accesses nothing orders, whatever the timing was.

Listens to a functional run (see :class:`tdsim.sim.hooks.OrderListener`) with vector clocks.
What orders what, and by which rule of the language, is told in docs/design/memory-model.md.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tdsim.check.clocks import Actor, Clock, Numbers, Put, Stamp, join
from tdsim.check.shadow import Access, Conflict, Shadow
from tdsim.check.story import Event, Story
from tdsim.check.words import Landing, Wait, Word
from tdsim.sim.hooks import OrderListener


class Sent(NamedTuple):
    """A signal on its way: what its receiver learns, the sending, and who knows of its landing.

    A signal to a word of the own PE is in program order for the *owners*: CTA and stream.
    """

    clock: Clock
    event: Event
    owners: tuple[Actor, ...] = ()


class HappensBefore(OrderListener):
    """Collects *conflicts* and *lost* signals of one run, each pair of places once."""

    def __init__(self) -> None:
        self.conflicts: dict[tuple[Any, ...], tuple[Conflict, tuple[Event, ...]]] = {}
        self.lost: dict[tuple[Any, ...], tuple[str, Wait, Landing, tuple[Event, ...]]] = {}
        self.story = Story()
        self.count = 0
        self._numbers = Numbers()
        self._actors: dict[Any, Actor] = {}
        self._streams: dict[int, list[Actor]] = {}
        self._launches: dict[Any, Actor] = {}
        self._events: dict[Any, Clock] = {}
        nothing = Event(0, 0, "", "", "")  # number 0 of the shadows: no access yet
        self._accesses: list[Access] = [Access("", "", 0, "", 0, (), nothing)]
        self._interned: dict[tuple[Any, ...], int] = {}
        self._shadows: dict[tuple[int, int], Shadow] = {}
        self._words: dict[tuple[Any, int, int], Word] = {}
        self._places: dict[Any, str] = {}
        self._arrivals: dict[str, dict[int, Clock]] = {}

    # streams and kernels ------------------------------------------------------------------

    def stream_begins(self, stream: Any, rank: int, place: str) -> None:
        self._places[stream] = place
        if stream not in self._actors:
            actor = Actor(f"PE {rank} stream {stream.name}", rank, self._numbers.take(3), {})
            self._actors[stream] = actor
            self._streams.setdefault(rank, []).append(actor)

    def stream_ends(self, stream: Any) -> None:
        actor = self._actors[stream]
        actor.tick()
        self._numbers.prune(actor.clock)

    def launch_begins(self, launch: Any, stream: Any) -> None:
        self._launches[launch] = self._actors[stream]

    def cta_begins(self, cta: Any) -> None:
        stream = self._launches[cta.launch]
        # Its CTAs know the stream's time of now while it runs: the next time is its end.
        ended = tuple((number, stream.time + 1) for number in stream.numbers)
        number = self._numbers.take(3, ended)
        self._actors[cta] = Actor(cta.name, cta.rank, number, dict(stream.clock), ended)

    def cta_ends(self, cta: Any) -> None:
        actor = self._actors.pop(cta)
        if actor.learned:
            join(self._launches[cta.launch].clock, actor.clock)

    def record(self, event: Any, stream: Any) -> None:
        actor = self._actors[stream]
        self._events[event] = dict(actor.clock)
        actor.tick()

    def wait_event(self, event: Any, stream: Any) -> None:
        self._actors[stream].learn(self._events[event])

    # memory -------------------------------------------------------------------------------

    def access(
        self, actor: Any, kind: str, view: Any, offsets: Any = None, shape: Any = None
    ) -> None:
        who = self._actors[actor]
        self._touch(kind, view, offsets, shape, who, who.clock, who.number, who.stamps(), actor)

    def put(
        self, cta: Any, target: Any, src: Any, blocking: bool, signals: bool, ordered: bool
    ) -> Sent | None:
        actor = self._actors[cta]
        number, stamps = actor.number, actor.stamps()
        sends = dict(actor.clock)
        actor.tell_before(target.pe, sends)
        if not (ordered and blocking):
            put = self._send(actor, target.pe, blocking, ordered)
            number, stamps = put.number, put.past
        event = self.story.tell(
            actor.rank, actor.name, f"puts {src} into {target}", self._place(cta)
        )
        reads = (actor.number, actor.stamps()) if blocking else (number, stamps)
        self._touch("read", src, None, None, actor, actor.clock, *reads, cta, event)
        self._touch("write", target, None, None, actor, sends, number, stamps, cta, event)
        if not signals:
            return None
        sends[number] = actor.time if number == actor.number else 1
        actor.tick()
        return self._sent(actor, sends, self._place(cta), target.pe)

    def _send(self, actor: Actor, pe: int, blocking: bool, ordered: bool) -> Put:
        """Count a put that lands, or reads its source, out of program order."""
        kind = 0 if blocking else 1
        actor.sent[kind] += 1
        ended = actor.covered[0 if ordered else 1 + kind]
        number = self._numbers.take(1, (ended,))
        past = ((number, 1), (actor.numbers[1 + kind], actor.sent[kind]), ended)
        put = Put(number, pe, ordered, past)
        actor.outstanding.append(put)
        return put

    def fence(self, cta: Any) -> None:
        actor = self._actors[cta]
        for put in actor.outstanding:
            put.fenced = True
        self.story.tell(actor.rank, actor.name, "fence", self._place(cta))

    def quiet(self, cta: Any) -> None:
        actor = self._actors[cta]
        for number, sent in zip(actor.numbers[1:], actor.sent, strict=True):
            if sent:
                actor.clock[number] = sent
        actor.outstanding = []
        self.story.tell(actor.rank, actor.name, "quiet", self._place(cta))

    def _touch(
        self, kind: str, view: Any, offsets: Any, shape: Any, actor: Actor, clock: Clock,
        number: int, past: tuple[Stamp, ...], source: Any, event: Event | None = None,
    ) -> None:  # fmt: skip
        window = _window(view, offsets, shape)
        if window is None:
            return
        self.count += 1
        place = self._place(source)
        key = (number, past[0][1], kind, place, id(view.buffer), view.pe)
        index = self._interned.get(key)
        if index is None:
            index = self._interned[key] = len(self._accesses)
            what = kind if event is None else f"put ({kind})"
            if event is None:
                event = self.story.tell(actor.rank, actor.name, f"{kind}s {view}", place)
            self._accesses.append(
                Access(what, actor.name, actor.rank, place, number, past, event)
            )
        shadow = self._shadow(view)
        if kind == "read":
            found = shadow.read(window, index, clock)
        else:
            found = shadow.write(window, index, clock, kind == "atomic")
        for conflict in found:
            self._meet(conflict, kind)
        if kind == "atomic":
            self._update(view, window, actor)

    def _meet(self, conflict: Conflict, kind: str) -> None:
        """Keep *conflict* if it is the first between its places, with what led to it."""
        earlier, later = conflict.earlier, conflict.later
        pair = (earlier.place, later.place, earlier.kind, kind, conflict.buffer.name)
        if pair not in self.conflicts:
            told = self.story.about((earlier.who, later.who), earlier.event)
            self.conflicts[pair] = (conflict, told)

    def _shadow(self, view: Any) -> Shadow:
        key = (id(view.buffer), view.pe)
        found = self._shadows.get(key)
        if found is None:
            found = self._shadows[key] = Shadow(view.buffer, view.pe, self._accesses)
        return found

    def _update(self, view: Any, window: Any, actor: Actor) -> None:
        """An atomic update of an element acquires what the updates before released."""
        element = (id(view.buffer), view.pe, *(part.start for part in window))
        before = self._events.get(element)
        if before is not None:
            actor.learn(before)
        self._events[element] = dict(actor.clock)
        actor.tick()

    # signals and barriers -----------------------------------------------------------------

    def release(self, actor: Any, pe: int, scope: str = "sys") -> Sent:
        who = self._actors[actor]
        if scope == "gpu" and pe != who.rank:
            return self._sent(who, {}, self._place(actor), pe)
        self._numbers.prune(who.clock)
        sends = dict(who.clock)
        if who.covered:
            if who.sent[0]:
                sends[who.numbers[1]] = who.sent[0]
            who.tell_before(pe, sends)
        else:
            self._complete(who.rank, sends, 1)
        who.tick()
        sent = self._sent(who, sends, self._place(actor), pe)
        if pe != who.rank:
            return sent
        stream = (self._launches[actor.launch],) if who.covered else ()
        return sent._replace(owners=(who, *stream))

    def _sent(self, actor: Actor, clock: Clock, place: str, pe: int) -> Sent:
        event = self.story.tell(actor.rank, actor.name, f"signals PE {pe}", place)
        return Sent(clock, event)

    def landed(self, released: Any, sig: Any, pe: int, i: int, op: str) -> None:
        word, value, sent = self._word(sig, pe, i), sig.words[pe][i], released.event
        what = f"its signal makes {sig.label(i)} on PE {pe} {sig.relative(pe, value)}"
        event = self.story.tell(sent.rank, sent.who, what, "", sent.number)
        lost, answered = word.land(value, released.clock, op, event, sent.place)
        for owner in released.owners:
            owner.clock[word.number] = word.count
        if answered:
            self.lost = {k: found for k, found in self.lost.items() if found[1] not in answered}
        for wait, landing in lost:
            key = (word, wait.place, sent.place)
            told = self.story.about((wait.who, sent.who))
            self.lost.setdefault(key, (sig.label(i), wait, landing, told))

    def acquire(self, actor: Any, sig: Any, pe: int, i: int, cmp: str, word: int) -> None:
        who, found = self._actors[actor], self._word(sig, pe, i)
        landing = found.satisfied_by(who.clock, cmp, word)
        if landing is not None:
            who.learn(landing.clock)
            self._numbers.prune(who.clock)
        asked = f"its wait for {sig.label(i)} {cmp} {sig.relative(pe, word)} is over"
        cause = landing.event.number if landing is not None else None
        self.story.tell(who.rank, who.name, asked, self._place(actor), cause)
        wait = Wait(who.name, who.rank, self._place(actor), cmp, word, who.stamps())
        found.waited(who.number, wait)

    def _word(self, sig: Any, pe: int, i: int) -> Word:
        found = self._words.get((sig, pe, i))
        if found is None:
            found = self._words[sig, pe, i] = Word(self._numbers.take(1))
        return found

    def arrive(self, barrier: str, actor: Any, rank: int) -> Clock:
        who = self._actors[actor]
        gathered = self._arrivals.setdefault(barrier, {})
        if rank in gathered:
            gathered = self._arrivals[barrier] = {}
        shared: Clock = next(iter(gathered.values()), {})
        gathered[rank] = shared
        if not who.covered:
            self._complete(rank, who.clock, 1, 2)
        join(shared, who.clock)
        who.tick()
        self.story.tell(rank, who.name, f"enters the {barrier} barrier", self._place(actor))
        return shared

    def leave(self, arrived: Any, actor: Any) -> None:
        who = self._actors[actor]
        who.learn(arrived)
        self._numbers.prune(who.clock)
        self.story.tell(who.rank, who.name, "leaves the barrier", self._place(actor))

    def _place(self, actor: Any) -> str:
        """``file:line`` that a CTA executes, or that queued a stream's operation."""
        return self._places.get(actor) or actor.here()

    def _complete(self, rank: int, clock: Clock, *kinds: int) -> None:
        """Puts of kernels of *rank* that *clock* knows to have ended are complete as well."""
        for stream in self._streams.get(rank, ()):
            ended = clock.get(stream.number)
            if ended:
                for kind in kinds:
                    clock[stream.numbers[kind]] = ended


def _window(view: Any, offsets: Any, shape: Any) -> tuple[slice, ...] | None:
    """The elements of the buffer under a tile, or None if there are none."""
    limits = view.shape
    if offsets is None:
        offsets, shape = (0,) * len(limits), limits
    window = []
    base = view.row0
    for offset, size, limit in zip(offsets, shape, limits, strict=True):
        low, high = max(offset, 0), min(offset + size, limit)
        if low >= high:
            return None
        window.append(slice(base + low, base + high))
        base = 0
    return tuple(window)
