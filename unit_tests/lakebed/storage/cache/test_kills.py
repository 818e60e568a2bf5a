"""Four processes share a cache and are killed at random: it stays within its bound and never gives a wrong byte."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from lakebed.storage.files.disk import lock_file
from unit_tests.effort import EFFORT, seed
from unit_tests.proofs.kill import Nursery

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BOUND = 6_000_000


def _taken(folder: Path) -> int | None:
    """Bytes on disk, folders included, while nobody writes; None if somebody does.

    A folder that changes can not be measured: what is removed while one looks elsewhere was counted already.
    """
    file = lock_file(str(folder / "room"))
    if file is None:
        return None
    try:
        return sum(path.lstat().st_blocks * 512 for path in [folder, *folder.rglob("*")])
    finally:
        file.unlock()


def _run(folder: Path, seconds: float, seed: int, record: Callable[[str, object], None]) -> None:
    folder.mkdir()
    until = time.monotonic() + seconds
    sizes: list[int] = []
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.005):
            size = _taken(folder)
            if size is not None:
                sizes.append(size)

    def left() -> float:
        """Seconds to go; a busy machine gets another minute to fill the cache."""
        now = time.monotonic()
        is_filled = max(sizes, default=0) > BOUND * 0.7
        return until - now if is_filled or now < until else min(1.0, until + 60 - now)

    def keep_reading(process: int) -> tuple[int, int]:
        """Start one worker after the other; how many were killed, and how often they read."""
        chance = random.Random(seed + process)
        kills = reads = 0
        with Nursery("unit_tests.lakebed.storage.cache.workers:read") as nursery:
            while (seconds := left()) > 0:
                ended = nursery.run(
                    [str(folder), BOUND, seconds, chance.random()], kill_after=chance.expovariate(4)
                )
                assert not [line for line in ended.lines if line != "read"]
                assert ended.was_killed or ended.status == 0
                kills += ended.was_killed
                reads += len(ended.lines)
        return kills, reads

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        with ThreadPoolExecutor(4) as pool:
            results = list(pool.map(keep_reading, range(4)))
    finally:
        done.set()
        watcher.join()
    kills, reads = (sum(column) for column in zip(*results, strict=True))
    record(
        "proof",
        f"cache of {BOUND:,} bytes, seed {seed}: {kills} kills, {reads} reads, measured {len(sizes)} times, at most "
        f"{max(sizes) / BOUND:.3f} of the bound",
    )
    assert 2 * kills >= seconds
    assert reads > 5 * seconds
    assert len(sizes) > 5 * seconds
    assert max(sizes) > BOUND * 0.7
    assert max(sizes) <= BOUND * 1.1


def test_killed_readers_leave_the_cache_within_its_bound(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Some sixteen kills in four seconds."""
    _run(tmp_path / "cache", EFFORT.cache_seconds, seed(), record_property)
