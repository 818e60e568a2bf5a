"""A sync within little memory."""

import ctypes
import functools
from collections.abc import Callable

import pyarrow as pa

import lakebed

_KEPT_BYTES = 32 * 1024 * 1024
"""Bytes of chunks that each open dataset may keep, and may read ahead of what is needed, in a bucket."""


def keep_little() -> None:
    """Let open datasets keep less in memory than a reader would like: a sync has hundreds of them open.

    The system's cache is left to others, too: a sync writes everything once, and reads little of it again.
    """
    lakebed.config.OS_CACHE = False
    lakebed.config.CACHE_BYTES = min(lakebed.config.CACHE_BYTES, _KEPT_BYTES)
    lakebed.config.AHEAD_BYTES = min(lakebed.config.AHEAD_BYTES, _KEPT_BYTES)


def give_back() -> None:
    """Return memory that is free to the system; Arrow and the C library keep it for what may come.

    Large columns that come and go leave holes behind, which add up to half of what a merge needs.
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
