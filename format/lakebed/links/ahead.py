"""Many links at once: threads wait for disks and servers, results come in the order of the links.

Results that are fetched ahead are bounded in number and in bytes. Threads live as long as the call that needs them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import TypeVar

from lakebed import config
from lakebed.storage.address import scheme_of

T = TypeVar("T")
R = TypeVar("R")

# Limit of the bytes of results that wait until earlier results are taken.
WAITING_BYTES = 256 << 20
# Number of threads for local disks; a disk is no faster with more threads.
_LOCAL_THREADS = 8


def threads_for(urls: Iterable[str | None]) -> int:
    """Return how many links to follow at the same time; more if they lead to servers."""
    wanted = max(1, config.LINK_THREADS)
    is_remote = any(url is not None and scheme_of(url) != "file" for url in urls)
    return wanted if is_remote else min(wanted, _LOCAL_THREADS)


def in_order(
    items: Iterable[T], work: Callable[[T], R], threads: int, size: Callable[[R], int] = lambda _: 0
) -> Iterator[R]:
    """Yield ``work(item)`` for each item in order, with several items under way at the same time.

    An error is raised in its turn, after all work under way has ended.

    Parameters
    ----------
    size
        Returns the size of a result in bytes; while results of more than `WAITING_BYTES` wait, no new work begins.
    """
    if threads <= 1:
        yield from map(work, items)
        return
    waiting: deque[Future[R]] = deque()
    source = iter(items)
    held = 0
    lock = Lock()

    def done(future: Future[R]) -> None:
        if not future.cancelled() and future.exception() is None:
            count(size(future.result()))

    def count(change: int) -> None:
        nonlocal held
        with lock:
            held += change

    with ThreadPoolExecutor(threads, thread_name_prefix="lakebed-links") as pool:
        try:
            more = True
            while more or waiting:
                while more and len(waiting) < 2 * threads and (held < WAITING_BYTES or not waiting):
                    try:
                        item = next(source)
                    except StopIteration:
                        more = False
                        break
                    future = pool.submit(work, item)
                    waiting.append(future)
                    future.add_done_callback(done)
                if waiting:
                    result = waiting.popleft().result()
                    count(-size(result))
                    yield result
        finally:
            for future in waiting:
                future.cancel()
