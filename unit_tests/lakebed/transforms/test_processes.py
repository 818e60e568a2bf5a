"""Worker processes of programs that are no modules."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import lakebed

class Item:
    def __init__(self, number):
        self.number = number

def doubled(item, out):
    out.a.append(item.number * 2)

ds = lakebed.empty("ds")
ds.create_tensor("a")
items = [Item(i) for i in range(5)]
lakebed.compute(doubled)().eval(items, ds, num_workers=2, scheduler="processed", progressbar=False)
assert ds.a.numpy().ravel().tolist() == [0, 2, 4, 6, 8]
print("done")
"""


def test_functions_and_items_of_the_main_program(tmp_path: Path) -> None:
    """Without a guard around the main part: workers do not run it again."""
    done = subprocess.run(
        [sys.executable], input=PROGRAM, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "done\n"
