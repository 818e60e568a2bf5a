"""Many independent calls at once: decoding on all cores, fetching over slow links.

Threads are started when first needed, stay alive while idle, and belong to one process: a forked child starts its own.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from lakebed.runtime.failures import OnFailure

# Maximum number of threads that decode; each keeps a core busy.
MOST_DECODERS = 32


class _Pools:
    """Thread pools of this process, by number of threads."""

    def __init__(self) -> None:
        self._made: dict[int, ThreadPoolExecutor] = {}
        self._pid = os.getpid()

    def submit(self, threads: int, run: Callable[[], None], submitted: list[Future[None]]) -> None:
        """Submit a call for each thread of a pool, and append the futures to a list."""
        pool = self._get(threads)
        with OnFailure(self._drop, threads):
            submitted.extend(pool.submit(run) for _ in range(threads))

    def _drop(self, threads: int) -> None:
        # An interrupt may have come after the start of a thread, but before the interpreter registered it; the
        # interpreter would then wait for it for ever at exit. Shutting down the pool ends its threads.
        self._made.pop(threads).shutdown(wait=False)

    def _get(self, threads: int) -> ThreadPoolExecutor:
        if self._pid != os.getpid():
            # Threads do not survive a fork; the parent's pool objects are useless here.
            self._made, self._pid = {}, os.getpid()
        pool = self._made.get(threads)
        if pool is None:
            pool = ThreadPoolExecutor(threads, thread_name_prefix="lakebed-reading")
            self._made[threads] = pool
        return pool


_pools = _Pools()


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def for_each(count: int, work: Callable[[int], object], *, threads: int | None = None) -> None:
    """Call ``work(0)`` to ``work(count - 1)``, each once, on several threads; the caller works too.

    After the first error no further call begins; the error is raised once the threads are idle.

    Parameters
    ----------
    threads
        Maximum number of threads, including the caller's; None is one per core.
    """
    wanted = min(count, min(cores(), MOST_DECODERS) if threads is None else threads)
    numbers = itertools.count()  # next(numbers) is atomic, so no lock is needed
    stop = False

    def run() -> None:
        nonlocal stop
        try:
            while not stop and (number := next(numbers)) < count:
                work(number)
        finally:
            stop = True  # stops the other threads after an error; otherwise all calls have begun anyway

    others: list[Future[None]] = []
    try:
        if wanted > 1:
            _pools.submit(wanted - 1, run, others)
        run()
    finally:
        stop = True
        for other in others:
            other.cancel()
        errors = [other.exception() for other in others if not other.cancelled()]
    for error in errors:
        if error is not None:
            raise error
