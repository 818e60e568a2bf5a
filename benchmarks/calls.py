"""How many of its own functions the library calls for what people do: a row, a flush, a commit, a merge.

    PYTHONPATH=format:. python -m benchmarks.calls [STEP]

Prints the number of calls, and of modules that they are in; for one named step also where they go. Each step is done
once before it is counted, so that imports and caches are warm.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import numpy as np

import lakebed

Calls = Counter[tuple[str, str]]
"""Calls by module and function."""

PIXELS = np.full((30, 40, 3), 7, np.uint8)


def counted(call: Callable[[], object]) -> Calls:
    """Count the library's functions that a call calls."""
    found: Calls = Counter()

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and "/lakebed/" in code.co_filename:
            found[code.co_filename.rpartition("/lakebed/")[2], code.co_qualname] += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    return found


def steps(folder: Path) -> dict[str, Calls]:
    """Do each step once in a new dataset of two tensors, and count its calls."""
    row = {"image": PIXELS, "x": 1}
    ds = lakebed.empty(folder)
    with ds:
        ds.create_tensor("image", htype="image", sample_compression="png")
        ds.create_tensor("x", dtype="int64")
        for _ in range(20):
            ds.append(row)
    ds.commit("first")
    ds.close()
    ds = lakebed.load(folder)
    found = {"first append": counted(lambda: ds.append(row)), "next append": counted(lambda: ds.append(row))}
    found["flush of the first rows"] = counted(ds.flush)
    ds.append(row)
    found["flush"] = counted(ds.flush)
    found["commit"] = counted(lambda: ds.commit("second"))
    ds.checkout("other", create=True)
    ds.x[3] = 99
    ds.commit("third")
    ds.checkout("main")
    found["merge"] = counted(lambda: ds.merge("other"))
    ds.close()
    return found


def main() -> None:
    """Print the table, or one step."""
    with tempfile.TemporaryDirectory() as folder:
        steps(Path(folder, "warm"))
        found = steps(Path(folder, "counted"))
    for name, calls in found.items():
        print(f"{name:>24}  {calls.total():6,} calls in {len({module for module, _ in calls}):3} modules")
    for name in sys.argv[1:]:
        for (module, function), count in found[name].most_common():
            print(f"{count:6}  {module}  {function}")


if __name__ == "__main__":
    main()
