"""Shipped with the library: what proves that data survives.

A conformance suite for storages, a storage that fails on purpose, a clock that stands still, the reference model of a
versioned dataset, and a runner that cuts off real work at every call.

Nothing outside tests imports from here.
"""

from lakebed.testing.clock import VirtualClock
from lakebed.testing.faulty import FaultyStorage
from lakebed.testing.schedule import Crash, Fault, Planned, Sometimes

__all__ = ["Crash", "Fault", "FaultyStorage", "Planned", "Sometimes", "VirtualClock"]
