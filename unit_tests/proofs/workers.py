"""Workers for the tests of the nursery."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any


def count(arguments: Sequence[Any], say: Callable[[str], None]) -> None:
    """Count slowly."""
    for number in range(arguments[0]):
        say(f"number {number}")
        time.sleep(arguments[1])


def fail(arguments: Sequence[Any], say: Callable[[str], None]) -> None:
    """Say something, then fail."""
    say("so far")
    raise SystemExit(3)


def mutter(arguments: Sequence[Any], say: Callable[[str], None]) -> None:
    """Print half a line and wait to be killed."""
    say("ready")
    os.write(1, b"half a li")
    time.sleep(60)
