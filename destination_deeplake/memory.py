"""Memory use of a sync."""

import ctypes
import functools
from collections.abc import Callable

import pyarrow as pa

import lakebed

_KEPT_BYTES = 32 * 1024 * 1024
"""Largest cache of chunks, and read-ahead in a bucket, of each open dataset in bytes."""


def keep_little() -> None:
    """Limit the caches of open datasets, of which a sync has hundreds.

    Also bypass the system's cache, because a sync writes everything once, and reads little of it again.
    """
    lakebed.config.OS_CACHE = False
    lakebed.config.CACHE_BYTES = min(lakebed.config.CACHE_BYTES, _KEPT_BYTES)
    lakebed.config.AHEAD_BYTES = min(lakebed.config.AHEAD_BYTES, _KEPT_BYTES)


def give_back() -> None:
    """Return free memory to the system; Arrow and the C library would keep it for later use.

    Released columns leave holes, which add up to half of the memory of a merge.
    """
    pa.default_memory_pool().release_unused()
    _trim()(0)


@functools.cache
def _trim() -> Callable[[int], object]:
    """Return glibc's `malloc_trim`; other C libraries have none."""
    try:
        found: Callable[[int], object] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return lambda _: None
    return found
