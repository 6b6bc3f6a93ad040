"""Backend 1: programs on simulated machines, with data or with shapes only."""

from tdsim.sim.hooks import Listener
from tdsim.sim.simulate import Job, Run, simulate

__all__ = ["Job", "Listener", "Run", "simulate"]
