"""What rows hold while they wait to be written."""

from __future__ import annotations

import io
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import lakebed


def test_files_that_are_held_in_memory_count_as_much_as_they_are(tmp_path: Path) -> None:
    """As images of a bucket are: 300 of 200 kB, where 1 MB may wait."""
    out = io.BytesIO()
    Image.fromarray(np.random.default_rng(1).integers(0, 256, (256, 256, 3), np.uint8)).save(out, "PNG")

    @lakebed.compute
    def image(item: int, sample_out: Any) -> None:
        sample_out.append({"images": lakebed.read(bytes(bytearray(out.getvalue())))})

    ds = lakebed.empty(tmp_path / "lake")
    ds.create_tensor("images", htype="image", sample_compression="png", max_chunk_size=1 << 20)
    tracemalloc.start()
    try:
        image().eval(list(range(300)), ds, num_workers=0, cache_size=1, progressbar=False)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(ds) == 300
    assert peak < 8 << 20
