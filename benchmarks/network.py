"""Flows per second that the network carries: alone, eight on one link, on 256 ranks.

Run it as ``python benchmarks/network.py``; the time includes one SimPy process for each sender.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator
from itertools import pairwise

import simpy

from tdsim.engine.network import Network
from tdsim.topology import LinkId
from tdsim.units import us

NVLINK, NIC = 450 * 10**9, 50 * 10**9  # bytes per second, assumed
RANKS, GPUS_PER_NODE = 256, 8


def uncontended(flows: int = 20_000) -> int:
    """One flow after another over two links."""
    env = simpy.Environment()
    links = (("gpu0", "switch"), ("switch", "gpu1"))
    network = Network(env, dict.fromkeys(links, NVLINK))

    def send() -> Generator[simpy.Event, None, None]:
        for _ in range(flows):
            yield network.start(1 << 20, links, us(1))

    env.run(env.process(send()))
    return flows


def shared_by_eight(flows: int = 20_000) -> int:
    """Eight senders, each with sizes of its own, into one GPU: every end changes all rates."""
    env = simpy.Environment()
    routes = [((f"gpu{i}", "switch"), ("switch", "gpu8")) for i in range(8)]
    network = Network(env, {link: NVLINK for route in routes for link in route})

    def send(i: int) -> Generator[simpy.Event, None, None]:
        for step in range(flows // 8):
            yield network.start(1_000_000 + 1009 * i + step, routes[i], us(1))

    for i in range(8):
        env.process(send(i))
    env.run()
    return flows


def route(src: int, dst: int) -> tuple[LinkId, ...]:
    """Over the node's NVSwitch, or over the NICs and the leaf switch of the rail."""
    if src // GPUS_PER_NODE == dst // GPUS_PER_NODE:
        hops = [f"gpu{src}", f"nvswitch{src // GPUS_PER_NODE}", f"gpu{dst}"]
    else:
        leaf = f"leaf{src % GPUS_PER_NODE}"
        hops = [
            f"gpu{src}",
            f"pcie{src}",
            f"nic{src}",
            leaf,
            f"nic{dst}",
            f"pcie{dst}",
            f"gpu{dst}",
        ]
    return tuple(pairwise(hops))


def cluster(peers_of: Callable[[int], list[int]], rounds: int, uneven: bool = False) -> int:
    """Every rank, skewed, sends to its peers and goes on when all its sends have arrived."""
    env = simpy.Environment()
    routes = {(me, peer): route(me, peer) for me in range(RANKS) for peer in peers_of(me)}
    links = [link for links in routes.values() for link in links]
    network = Network(env, {link: NVLINK if "nvswitch" in str(link) else NIC for link in links})

    def rank(me: int) -> Generator[simpy.Event, None, None]:
        rng = random.Random(me)
        yield env.timeout(rng.randrange(us(5)))
        for _ in range(rounds):
            yield env.all_of([send(me, peer, rng) for peer in peers_of(me)])

    def send(me: int, peer: int, rng: random.Random) -> simpy.Event:
        nbytes = rng.randrange(1 << 21) if uneven else 1 << 20
        return network.start(nbytes, routes[me, peer], us(1))

    for me in range(RANKS):
        env.process(rank(me))
    env.run()
    return rounds * len(routes)


def node_peers(me: int) -> list[int]:
    """The seven other GPUs of the node."""
    first = me - me % GPUS_PER_NODE
    return [peer for peer in range(first, first + GPUS_PER_NODE) if peer != me]


def next_on_rail(me: int) -> list[int]:
    """The GPU of the same rail in the next node."""
    return [(me + GPUS_PER_NODE) % RANKS]


def rail_peers(me: int) -> list[int]:
    """All the other GPUs of the rail."""
    return [peer for peer in range(me % GPUS_PER_NODE, RANKS, GPUS_PER_NODE) if peer != me]


CASES: dict[str, Callable[[], int]] = {
    "uncontended": uncontended,
    "shared by 8": shared_by_eight,
    "256 ranks, a ring on each rail": lambda: cluster(next_on_rail, rounds=40),
    "256 ranks, a mesh in each node": lambda: cluster(node_peers, rounds=4),
    "256 ranks, an uneven mesh in each node": lambda: cluster(
        node_peers, rounds=2, uneven=True
    ),
    "256 ranks, a mesh on each rail": lambda: cluster(rail_peers, rounds=1),
}


def main() -> None:
    """Print one line for each case."""
    for name, case in CASES.items():
        begin = time.perf_counter()
        flows = case()
        seconds = time.perf_counter() - begin
        each = f"{flows / seconds:9.0f} flows/s  {seconds / flows * 1e6:7.1f} us/flow"
        print(f"{name:40}{flows:6} flows  {each}")


if __name__ == "__main__":
    main()
