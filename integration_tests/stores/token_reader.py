"""Read a dataset again and again, with a role whose tokens end meanwhile, in this process and in a forked child.

Run as ``token_reader.py URL SECONDS``; the dictionary of credentials comes on standard input. Prints a line of JSON per
process: how often it read, how often that failed, and the first errors.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
from typing import Any

import numpy as np

import lakebed
from lakebed.errors import LakebedError

_THREADS = 4


class Reader:
    """Reads rows at random until some time."""

    def __init__(self, url: str, creds: dict[str, Any], until: float) -> None:
        self._ds = lakebed.load(url, read_only=True, creds=creds, memory_cache_size=0)
        self._url, self._creds, self._until = url, creds, until
        self.reads, self.failures = 0, 0
        self.errors: list[str] = []
        self._mutex = threading.Lock()

    def run(self) -> None:
        threads = [threading.Thread(target=self._read, args=(seed,)) for seed in range(_THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        line = {"reads": self.reads, "failures": self.failures, "errors": self.errors[:3]}
        os.write(1, json.dumps(line).encode() + b"\n")

    def _read(self, seed: int) -> None:
        chosen = random.Random(seed)
        rows = len(self._ds)
        while time.time() < self._until:
            row = chosen.randrange(rows)
            ds = self._ds
            try:
                if chosen.randrange(500) == 0:
                    ds = lakebed.load(self._url, read_only=True, creds=self._creds, memory_cache_size=0)
                value = ds["x"][row].numpy()
                problem = "" if np.array_equal(value, np.full(2000, row, np.int32)) else f"row {row} differs"
            except LakebedError as error:
                problem = f"{type(error).__name__}: {error}"
            with self._mutex:
                self.reads += 1
                if problem:
                    self.failures += 1
                    self.errors.append(problem)
            time.sleep(0.01)


def main() -> None:
    url, seconds = sys.argv[1], float(sys.argv[2])
    creds = json.loads(sys.stdin.read())
    reader = Reader(url, creds, time.time() + seconds)
    child = os.fork()
    reader.run()
    if child:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
