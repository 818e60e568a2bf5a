"""What every contestant of `benchmarks.versions` is: a program that takes a dataset through its history, step by step.

It imports nothing but the standard library and NumPy, as it runs in the environment of each contestant.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

ROWS_PER_CHUNK = 2_000
"""Rows of 8 bytes in one chunk."""

MERGED = 100_000
"""Rows that a merge brings in."""


@dataclass
class Story:
    """One contestant's run.

    Parameters
    ----------
    out
        Fresh folder.
    tensors, chunks
        Width of the dataset, and chunks of all its tensors together.
    commits
        Numbers of commits after which opening is measured.
    repeats
        How often a short step is repeated.
    """

    out: Path
    tensors: int
    chunks: int
    commits: list[int]
    repeats: int
    found: dict[str, dict[str, float]] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Rows of the dataset."""
        return ROWS_PER_CHUNK * -(-self.chunks // self.tensors)

    @property
    def names(self) -> list[str]:
        """Names of the tensors."""
        return [f"t{i:02d}" for i in range(self.tensors)]

    def step(
        self,
        name: str,
        act: Callable[[int], object],
        before: Callable[[int], object] | None = None,
        times: int | None = None,
    ) -> None:
        """Measure a step several times: least CPU and wall milliseconds, files and bytes written by the last one."""
        cpu, wall = [], []
        count = self.repeats if times is None else times
        for number in range(count):
            if before is not None:
                before(number)
            gc.collect()
            seen = _files(self.out) if number == count - 1 else {}
            used, began = time.process_time(), time.perf_counter()
            act(number)
            wall.append(time.perf_counter() - began)
            cpu.append(time.process_time() - used)
        new = {path: size for path, size in _files(self.out).items() if seen.get(path) != size}
        self.found[name] = {
            "cpu": min(cpu) * 1e3,
            "wall": min(wall) * 1e3,
            "files": len(new),
            "kB": sum(size for size, _ in new.values()) / 1e3,
        }


def _files(folder: Path) -> dict[Path, tuple[int, int]]:
    """Path -> (size, time) of every file."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_file():
            stat = path.stat()
            found[path] = (stat.st_size, stat.st_mtime_ns)
    return found


def main(tell: Callable[[Story], None]) -> None:
    """Run a contestant's program as the first argument says, and print what it found as JSON."""
    given = json.loads(sys.argv[1])
    story = Story(Path(given["out"]), given["tensors"], given["chunks"], given["commits"], given["repeats"])
    tell(story)
    print(json.dumps(story.found))
