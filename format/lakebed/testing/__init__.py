"""Tools for tests of other packages: a conformance suite for storages, a storage that fails on schedule, a clock.

Only tests import from here.
"""

from lakebed.testing.clock import VirtualClock
from lakebed.testing.faulty import FaultyStorage
from lakebed.testing.schedule import Crash, Fault, Planned, Sometimes

__all__ = ["Crash", "Fault", "FaultyStorage", "Planned", "Sometimes", "VirtualClock"]
