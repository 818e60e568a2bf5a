"""What every contestant of `benchmarks.query` is: a program that answers one question many times.

It imports nothing but the standard library and NumPy, as it runs in the environment of each contestant. Opening and one
answer before are not measured.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

LABEL = 7
WORD = "kestrel"
ABOVE = 100


@dataclass(frozen=True)
class Question:
    """What to answer.

    Parameters
    ----------
    work
        Which question.
    data
        Folder of the values: ``labels``, ``sorted``, ``boxes``, ``counts``, ``keys``, ``values`` and ``weights`` as
        ``.npy``, ``titles`` as an Arrow file.
    store
        Folder of this contestant's datasets; empty at first.
    endpoint
        Of a store that speaks S3, whose bucket ``bucket`` is the folder of that name below `store`.
    repeats
        How often it is answered.
    """

    work: str
    data: Path
    store: Path
    endpoint: str
    repeats: int


Answer = Callable[[], object]


def main(answers: Mapping[str, Callable[[Question], Answer]], write: Callable[[Question], None]) -> None:
    """Do what the first argument says, and print as JSON what it took: least CPU and wall seconds, peak bytes."""
    given = json.loads(sys.argv[1])
    question = Question(
        given["work"], Path(given["data"]), Path(given["store"]), given["endpoint"], given["repeats"]
    )
    if question.work == "write":
        write(question)
        print(json.dumps({}))
        return
    answer = answers[question.work](question)
    found = answer()  # imports, and reads what later answers have in memory
    cpu, wall = [], []
    for _ in range(question.repeats):
        used, began = time.process_time(), time.perf_counter()
        found = answer()
        wall.append(time.perf_counter() - began)
        cpu.append(time.process_time() - used)
    print(json.dumps({"cpu": min(cpu), "wall": min(wall), "peak": _peak(), "check": found}))


def _peak() -> int:
    """Return the most memory that this process had: what the system counts as usage has its parent's in it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
