"""Chance for pauses and for choices of no consequence.

The numbers of the module `random` belong to the program that uses us: a seeded run must stay the same when a lease is
waited for. And processes that were forked must not all draw the same.
"""

from __future__ import annotations

from random import SystemRandom

JITTER = SystemRandom()
