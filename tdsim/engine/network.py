"""Links that share their bandwidth max-min fairly among fluid flows, in exact integers.

A flow is a number of bytes on their way over a fixed route. Its rate changes only when a flow
that shares a link with it, directly or through others, starts or ends:

- rates are whole bytes per second, found by progressive filling and rounded down;
- progress is counted in 10**-12 bytes, so that rate times picoseconds needs no rounding;
- a flow ends at the first picosecond by which all of it has moved, and arrives a latency later.

A *soft* link carries less than its bandwidth before it is full, as a memory whose latency grows
with its load does: from flows that ask for *d* bytes per second together, out of a bandwidth
*b*, it carries d * b / sqrt(d * d + b * b).

Flows that take one route with one cap always have one rate. They form a bundle, settled as a
whole, so the cost depends on the routes in use and not on how many flows use them. The starts
and ends of an instant are settled together, after all else that happens at that instant.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from heapq import heappop, heappush
from itertools import count
from math import isqrt
from operator import index

from simpy import Environment, Event
from simpy.events import NORMAL, EventPriority

from tdsim.topology import LinkId
from tdsim.units import PS_PER_S, Bandwidth

RateHook = Callable[[LinkId, int, int], None]  # (link, time in ps, new total rate in bytes/s)


class Network:
    """The links of a machine and the flows on them.

    *capacity* is each link's bandwidth in bytes per second, *soft* names the soft ones; the
    clock of *env* must be whole picoseconds. *on_rates* hears of each link whose total rate has
    changed, once an instant is settled; it may be set at any time. A run may end after the last
    arrival, on an alarm that a later start made obsolete: take times from arrivals.
    """

    def __init__(
        self,
        env: Environment,
        capacity: Mapping[LinkId, int],
        on_rates: RateHook | None = None,
        soft: Collection[LinkId] = (),
    ) -> None:
        for link, rate in capacity.items():
            if rate <= 0:
                raise ValueError(f"link {link} must carry 1 B/s or more, got {rate}")
        self.env = env
        self.on_rates = on_rates
        self._links = {link: _Link(link, rate, link in soft) for link, rate in capacity.items()}
        self._bundles: dict[tuple[tuple[LinkId, ...], int | None], _Bundle] = {}
        self._numbers = count()
        self._round = 0  # of settling: marks what it has visited
        self._touched: list[_Bundle] = []

    def start(
        self, nbytes: int, links: tuple[LinkId, ...], latency_ps: int, cap: int | None = None
    ) -> Event:
        """Send *nbytes* over all of *links*; the event succeeds when the last byte arrives.

        The flow never gets more than *cap* bytes per second, and without links exactly that.
        Without bytes, or with neither links nor cap, it takes the latency alone. Flows that end
        together on shared links and have one latency arrive in the order of their starts.
        """
        if nbytes < 0:
            raise ValueError(f"a flow carries 0 bytes or more, got {nbytes}")
        if latency_ps < 0:
            raise ValueError(f"a latency is 0 ps or more, got {latency_ps}")
        bundle = self._bundles.get((links, cap)) or self._new_bundle(links, cap)
        if not nbytes or not links:
            private_ps = Bandwidth(cap).transfer_ps(index(nbytes)) if cap else 0
            return self.env.timeout(private_ps + latency_ps)
        flow = _Flow(self.env, index(nbytes), latency_ps)
        bundle.add(flow, next(self._numbers), int(self.env.now))
        self._touch(bundle)
        return flow

    @property
    def link_bytes(self) -> dict[LinkId, int]:
        """Whole bytes that each link has carried until now, unfinished flows included."""
        now = int(self.env.now)
        carried = dict.fromkeys(self._links, 0)
        for bundle in self._bundles.values():
            moved = bundle.moved_bytes(now)
            for link in bundle.links:
                carried[link.name] += moved
        return carried

    def in_flight(self, link: LinkId) -> int:
        """Bytes per second on *link*; a flow that starts counts once its instant is settled."""
        return self._known(link).rate()

    def _known(self, link: LinkId) -> _Link:
        if link not in self._links:
            raise ValueError(f"unknown link {link}: not among the {len(self._links)} known")
        return self._links[link]

    def _new_bundle(self, links: tuple[LinkId, ...], cap: int | None) -> _Bundle:
        """The bundle of a route and cap that are seen for the first time, and checked here."""
        if cap is not None and cap <= 0:
            raise ValueError(f"a cap is 1 B/s or more, got {cap}")
        if len(set(links)) < len(links):
            raise ValueError(f"a route takes each link once, got {links}")
        route = tuple(map(self._known, links))
        return self._bundles.setdefault((links, cap), _Bundle(route, cap))

    def _touch(self, bundle: _Bundle) -> None:
        """Settle *bundle* and all that share its links when this instant is over."""
        if not self._touched:
            settling = _Later(self.env)
            settling.callbacks.append(self._settle)
            settling.succeed_in(0, EventPriority(NORMAL + 1))
        self._touched.append(bundle)

    def _settle(self, _: Event) -> None:
        now = int(self.env.now)
        self._round += 1
        changed, self._touched = self._touched, []
        for bundle in tuple(changed):
            # One bundle of each link stands for all that it connects.
            for seed in [next(iter(link.bundles)) for link in bundle.links if link.bundles]:
                if seed.round != self._round:
                    changed += self._share(seed, now)
        if self.on_rates is not None:
            for link in dict.fromkeys([link for bundle in changed for link in bundle.links]):
                link.report(now, self.on_rates)

    def _share(self, seed: _Bundle, now: int) -> list[_Bundle]:
        """Give the bundles connected with *seed* rates and one alarm, for the next end."""
        bundles, shared = self._component(seed)
        for bundle in bundles:
            bundle.advance(now)
        if shared:
            _fill(bundles, shared)
        else:
            seed.set_rate(seed.limit())
        ends = [bundle.next_end() for bundle in bundles]
        first = min(ends)
        due = [bundle for bundle, end in zip(bundles, ends, strict=True) if end == first]
        alarm = self.env.timeout(first - now)
        alarm.callbacks.append(partial(self._end_flows, due))
        for bundle in bundles:
            bundle.alarm = alarm
        return bundles

    def _component(self, seed: _Bundle) -> tuple[list[_Bundle], list[_Link]]:
        """The bundles connected with *seed*, itself first, and the links on which they meet."""
        current = seed.round = self._round
        bundles, shared = [seed], []
        for bundle in bundles:  # grows as it is walked
            for link in bundle.links:
                if len(link.bundles) > 1 and link.round != current:
                    link.round = current
                    shared.append(link)
                    for other in link.bundles:
                        if other.round != current:
                            other.round = current
                            bundles.append(other)
        return bundles, shared

    def _end_flows(self, due: list[_Bundle], alarm: Event) -> None:
        """End the flows that are *due*, unless their component was settled after the alarm."""
        if due[0].alarm is not alarm:
            return
        ended: list[tuple[int, _Flow]] = []
        for bundle in due:
            bundle.advance(int(self.env.now))
            ended += bundle.pop_ended()
            self._touch(bundle)
        for _, flow in sorted(ended):
            flow.succeed_in(flow.latency_ps)


class _Later(Event):
    """An event that succeeds by itself."""

    def succeed_in(self, delay_ps: int, priority: EventPriority = NORMAL) -> None:
        self._ok, self._value = True, None
        self.env.schedule(self, priority, delay_ps)


class _Flow(_Later):
    """Bytes on their way; succeeds when the last one arrives."""

    def __init__(self, env: Environment, nbytes: int, latency_ps: int) -> None:
        super().__init__(env)
        self.nbytes, self.latency_ps = nbytes, latency_ps


class _Link:
    """A link and the bundles that use it now, in the order in which they became active."""

    def __init__(self, name: LinkId, capacity: int, soft: bool) -> None:
        self.name, self.capacity, self.soft = name, capacity, soft
        self.bundles: dict[_Bundle, None] = {}
        self.spare = self.waiting = 0  # while filling: bytes/s left, flows without a rate
        self.round = self.reported = 0

    def carries(self, demand: int) -> int:
        """Bytes per second that it can carry for flows that ask for *demand* together."""
        if not self.soft:
            return self.capacity
        return demand * self.capacity // isqrt(demand * demand + self.capacity * self.capacity)

    def rate(self) -> int:
        """Bytes per second of all flows, as the last settling left them."""
        return sum([bundle.total for bundle in self.bundles])

    def report(self, now: int, on_rates: RateHook) -> None:
        """Tell *on_rates* if the rate has changed since it was last told."""
        rate = self.rate()
        if rate != self.reported:
            self.reported = rate
            on_rates(self.name, now, rate)


class _Bundle:
    """The unfinished flows that take one route with one cap, and so have one rate.

    `given` is what each would have received, in 10**-12 bytes, had it been there all along. A
    flow of *n* bytes that starts at `given` ends at `given` + *n* * 10**12, however the rate
    changes on the way; `flows` is a heap of (end, number, flow).
    """

    def __init__(self, links: tuple[_Link, ...], cap: int | None) -> None:
        self.links = links
        self.soft = [link for link in links if link.soft]
        self.narrowest = min([link.capacity for link in links], default=0)
        self.cap = self.narrowest if cap is None else cap
        self.flows: list[tuple[int, int, _Flow]] = []
        self.given = self.since = 0  # `given` is that at time `since`
        self.rate = self.total = 0  # bytes/s of each flow, and of all together
        self.ended_bytes = self.round = 0
        self.alarm: Event | None = None

    def limit(self) -> int:
        """The rate of each flow if no other bundle used the links."""
        count = len(self.flows)
        rates = [link.carries(self.cap * count) // count for link in self.soft]
        return max(1, min(self.cap, self.narrowest // count, *rates))

    def set_rate(self, rate: int) -> None:
        """Give each flow *rate*, and take it from what is left of the links."""
        self.rate, self.total = rate, rate * len(self.flows)
        for link in self.links:
            link.spare -= self.total
            link.waiting -= len(self.flows)

    def advance(self, now: int) -> None:
        self.given += self.rate * (now - self.since)
        self.since = now

    def add(self, flow: _Flow, number: int, now: int) -> None:
        if not self.flows:
            for link in self.links:
                link.bundles[self] = None
        self.advance(now)
        heappush(self.flows, (self.given + flow.nbytes * PS_PER_S, number, flow))

    def next_end(self) -> int:
        """The first picosecond by which a flow has moved, if the rate stays as it is."""
        return self.since - (self.given - self.flows[0][0]) // self.rate

    def pop_ended(self) -> list[tuple[int, _Flow]]:
        """Take out the moved flows, with their numbers; when none is left, leave the links."""
        ended = []
        while self.flows and self.flows[0][0] <= self.given:
            _, number, flow = heappop(self.flows)
            self.ended_bytes += flow.nbytes
            ended.append((number, flow))
        if not self.flows:
            self.rate = self.total = 0
            for link in self.links:
                del link.bundles[self]
        return ended

    def moved_bytes(self, now: int) -> int:
        """Whole bytes that have moved until *now*, of ended and unfinished flows."""
        self.advance(now)
        moved = [f.nbytes + min(0, self.given - end) // PS_PER_S for end, _, f in self.flows]
        return self.ended_bytes + sum(moved)


def _fill(bundles: list[_Bundle], links: list[_Link]) -> None:
    """Set max-min fair rates by progressive filling over *links*, on which the bundles meet.

    Each round gives the smallest fair share of any link to the flows that cannot have more.
    Links that tie fill in one round, so that symmetric flows get equal rates in spite of the
    rounding. No share is less than 1 B/s, so every flow ends.
    """
    for link in links:
        link.waiting = sum([len(bundle.flows) for bundle in link.bundles])
        demand = sum([b.cap * len(b.flows) for b in link.bundles]) if link.soft else 0
        link.spare = link.carries(demand)
    for bundle in bundles:
        bundle.rate = 0
    limited = [(bundle.limit(), bundle) for bundle in bundles]
    while links:
        shares = [link.spare // link.waiting for link in links]
        share = max(1, min(shares))
        full = [link for link, level in zip(links, shares, strict=True) if level <= share]
        # Flows that stop at their own limit leave more to the others, so they go first.
        stopped = [entry for entry in limited if entry[0] <= share] or [
            (share, bundle) for link in full for bundle in link.bundles
        ]
        for rate, bundle in stopped:
            if not bundle.rate:
                bundle.set_rate(rate)
        limited = [entry for entry in limited if not entry[1].rate]
        links = [link for link in links if link.waiting]
