"""Shipped with the library, for tests of others: storages that keep promises, programs that survive faults.

A conformance suite for storages, a storage that fails on schedule, and a clock that stands still.

Nothing outside tests imports from here.
"""

from lakebed.testing.clock import VirtualClock
from lakebed.testing.faulty import FaultyStorage
from lakebed.testing.schedule import Crash, Fault, Planned, Sometimes

__all__ = ["Crash", "Fault", "FaultyStorage", "Planned", "Sometimes", "VirtualClock"]
