"""Links that share their bandwidth max-min fairly, as fluids in exact integers.

A flow is a number of bytes on their way over a fixed route. While it runs it has a rate, which
changes only when a flow that shares a link with it, directly or through others, starts or ends:

- rates are whole bytes per second, found by progressive filling and rounded down;
- progress is counted in 10**-12 bytes, so rate times picoseconds needs no rounding;
- a flow ends at the first picosecond by which all of it has moved, and arrives a latency later.

Flows that take one route with one cap always have one rate. They form a bundle, which is settled
as a whole: its cost depends on the routes in use and not on the flows that use them. All starts
and ends of one instant are settled together, after everything else that happens at that instant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from heapq import heappop, heappush
from itertools import count
from operator import attrgetter, index

import simpy
from simpy.events import NORMAL, EventPriority

from tdsim.topology import LinkId
from tdsim.units import PS_PER_S, Bandwidth

AFTER_NORMAL = EventPriority(NORMAL + 1)
"""Priority of settling: every start and end of the instant comes before it."""

RateHook = Callable[[LinkId, int, int], None]
"""Called with a link, the time in picoseconds and the link's new total rate in bytes per second."""


class Network:
    """The links of a machine and the flows on them.

    *capacity* gives each link's bandwidth in bytes per second. The clock of *env* must be whole
    picoseconds. *on_rates* is called when the total rate of a link changes, at most once per link
    and instant, after the instant is settled; it may be set at any time.

    A run of the environment may end a little after the last arrival, on an alarm that a later
    start has made obsolete: take times from arrivals, not from the end of the run.
    """

    def __init__(
        self,
        env: simpy.Environment,
        capacity: Mapping[LinkId, int],
        on_rates: RateHook | None = None,
    ) -> None:
        for link, rate in capacity.items():
            if rate <= 0:
                raise ValueError(f"link {link} must carry at least 1 B/s, got {rate}")
        self.env = env
        self.on_rates = on_rates
        self._links = {link: _Link(link, rate) for link, rate in capacity.items()}
        self._bundles: dict[tuple[tuple[LinkId, ...], int | None], _Bundle] = {}
        self._numbers = count()
        self._round = 0
        self._settling = False
        self._touched: list[_Bundle] = []
        self._unreported: dict[_Link, None] = {}

    def start(
        self,
        nbytes: int,
        links: tuple[LinkId, ...],
        latency_ps: int,
        cap: int | None = None,
    ) -> simpy.Event:
        """Send *nbytes* over all of *links* at once; the event succeeds when the last byte arrives.

        The flow has at most *cap* bytes per second for itself. Without links only *cap* slows it;
        without bytes, or with neither links nor cap, it takes the latency alone. Flows that arrive
        at the same picosecond with the same latency arrive in the order in which they ended and,
        where they share links, in the order in which they started.
        """
        if nbytes < 0:
            raise ValueError(f"a flow carries 0 bytes or more, got {nbytes}")
        if latency_ps < 0:
            raise ValueError(f"a latency is 0 ps or more, got {latency_ps}")
        bundle = self._bundles.get((links, cap)) or self._new_bundle(links, cap)
        if not nbytes or not links:
            private = Bandwidth(cap).transfer_ps(nbytes) if cap else 0
            return self.env.timeout(private + latency_ps)
        flow = _Flow(self.env, index(nbytes), latency_ps, next(self._numbers))
        bundle.add(flow, int(self.env.now))
        self._touch(bundle)
        return flow

    @property
    def link_bytes(self) -> dict[LinkId, int]:
        """Whole bytes that each link has carried until now, those of unfinished flows included."""
        now = int(self.env.now)
        carried = dict.fromkeys(self._links, 0)
        for bundle in self._bundles.values():
            moved = bundle.moved_bytes(now)
            for link in bundle.links:
                carried[link.name] += moved
        return carried

    def in_flight(self, link: LinkId) -> int:
        """Bytes per second that *link* carries; flows that start now count once now is settled."""
        return self._known(link).rate()

    def _known(self, link: LinkId) -> _Link:
        try:
            return self._links[link]
        except KeyError:
            raise ValueError(
                f"unknown link {link}; expected one of the {len(self._links)} links of this network"
            ) from None

    def _new_bundle(self, links: tuple[LinkId, ...], cap: int | None) -> _Bundle:
        """The bundle of a route and a cap that are seen for the first time, and checked here."""
        if cap is not None and cap <= 0:
            raise ValueError(f"a cap is at least 1 B/s, got {cap}")
        route = tuple([self._known(link) for link in links])
        if len(set(route)) < len(route):
            raise ValueError(f"a route takes each link once, got {links}")
        bundle = self._bundles[links, cap] = _Bundle(route, cap)
        return bundle

    # Settling: the rates of everything that this instant has touched.

    def _touch(self, bundle: _Bundle) -> None:
        self._touched.append(bundle)
        if not self._settling:
            self._settling = True
            _Alarm(self.env, self._settle, 0, AFTER_NORMAL)

    def _settle(self, _: simpy.Event) -> None:
        now = int(self.env.now)
        self._settling = False
        self._round += 1
        touched, self._touched = self._touched, []
        for bundle in touched:
            if bundle.flows and bundle.round != self._round:
                self._share(bundle, now)
        if self._unreported:
            self._report(now)

    def _share(self, seed: _Bundle, now: int) -> None:
        """Give the bundles connected with *seed* their rates and set the alarm of the next end."""
        bundles, shared = self._component(seed)
        for bundle in bundles:
            bundle.advance(now)
        if shared:
            _fill(bundles, shared)
        else:
            seed.fix(seed.limit())
        ends = [bundle.end() for bundle in bundles]
        first = min(ends)
        alarm = _EndAlarm(self.env, self._end_flows, first - now)
        alarm.bundles = [bundle for bundle, end in zip(bundles, ends, strict=True) if end == first]
        for bundle in bundles:
            bundle.alarm = alarm
        if self.on_rates is not None:
            self._note(bundles)

    def _component(self, seed: _Bundle) -> tuple[list[_Bundle], list[_Link]]:
        """The bundles connected with *seed*, itself first, and the links that two or more share."""
        current = seed.round = self._round
        bundles, shared = [seed], []
        for bundle in bundles:  # grows as it is walked
            for link in bundle.links:
                if len(link.bundles) == 1 or link.round == current:
                    continue
                link.round = current
                shared.append(link)
                for other in link.bundles:
                    if other.round != current:
                        other.round = current
                        bundles.append(other)
        return bundles, shared

    def _end_flows(self, alarm: _EndAlarm) -> None:
        """End the flows that *alarm* was set for, unless their component was settled since then."""
        bundles, alarm.bundles = alarm.bundles, []
        if bundles[0].alarm is not alarm:
            return
        now = int(self.env.now)
        ended: list[_Flow] = []
        for bundle in bundles:
            bundle.advance(now)
            bundle.drop_ended(ended)
        if self.on_rates is not None:
            self._note(bundles)
        for bundle in bundles:
            self._touch_rest(bundle)
        ended.sort(key=attrgetter("number"))
        for flow in ended:
            flow.arrive()

    def _touch_rest(self, bundle: _Bundle) -> None:
        """Touch what gains from an end in *bundle*: its other flows, else its links' other bundles."""
        if bundle.flows:
            self._touch(bundle)
        else:
            for link in bundle.links:
                for other in link.bundles:
                    self._touch(other)
                    break  # the others are connected with it

    # Reporting: only while a hook listens.

    def _note(self, bundles: Iterable[_Bundle]) -> None:
        for bundle in bundles:
            self._unreported.update(dict.fromkeys(bundle.links))
        if not self._settling:
            self._settling = True
            _Alarm(self.env, self._settle, 0, AFTER_NORMAL)

    def _report(self, now: int) -> None:
        links, self._unreported = self._unreported, {}
        for link in links:
            rate = link.rate()
            if rate != link.reported:
                link.reported = rate
                if self.on_rates is not None:
                    self.on_rates(link.name, now, rate)
