"""A simulated inference engine with known timings, as a server of its own: for the demo, for tests, and to hold a client's numbers against."""

from loadstone.simulator.process import Simulated, running

__all__ = ["Simulated", "running"]
