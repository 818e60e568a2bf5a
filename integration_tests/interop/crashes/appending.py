"""Append rows to a new dataset with Deep Lake 3.9.52 until killed, a commit now and then; print how many there are."""

from __future__ import annotations

import sys

import deeplake
import numpy as np

ds = deeplake.empty(sys.argv[1], verbose=False)
with ds:
    ds.create_tensor("number", dtype="int64")
    ds.create_tensor("words", htype="text")
    ds.create_tensor("image", htype="image", sample_compression="png")
row = 0
while True:
    ds.append({"number": np.int64(row), "words": f"row {row}", "image": np.full((3, 3, 3), row % 250, "u1")})
    row += 1
    sys.stdout.write(f"{row}\n")
    sys.stdout.flush()
    if row % 40 == 0:
        ds.commit(f"{row} rows")
