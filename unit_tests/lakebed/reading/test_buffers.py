"""Buffers of a scan are used again as soon as nobody holds a view of them, and never before."""

from __future__ import annotations

import numpy as np

from lakebed.reading.buffers import BufferPool


def test_a_buffer_is_used_again_once_its_views_are_gone() -> None:
    pool = BufferPool()
    first = pool.take(100_000)
    address = first.ctypes.data
    view = first[10:20].view(np.uint8)
    del first
    second = pool.take(100_000)
    assert second.ctypes.data != address, "a view was still alive"
    del view
    third = pool.take(90_000)
    assert third.ctypes.data == address
    del second, third
    taken = {pool.take(100_000).ctypes.data for _ in range(10)}
    assert len(taken) == 1


def test_a_memoryview_keeps_its_buffer() -> None:
    pool = BufferPool()
    held = pool.take(1000).data
    held[:3] = b"abc"
    for _ in range(5):
        pool.take(1000)[:] = 0
    assert bytes(held[:3]) == b"abc"


def test_a_much_larger_buffer_is_not_spent_on_a_small_request() -> None:
    pool = BufferPool()
    large = pool.take(10_000_000).ctypes.data
    assert pool.take(1000).ctypes.data != large


def test_what_is_kept_is_bounded() -> None:
    """Buffers beyond the bound, in number or in bytes, are not held on to."""
    pool = BufferPool(keep=2, keep_bytes=1 << 20)
    large = pool.take(1 << 21)
    assert large.base is None, "memory of its own"
    held = [pool.take(400_000) for _ in range(4)]
    assert len({view.ctypes.data for view in held}) == 4
    assert pool.held <= 1 << 20
