"""A bucket is streamed by two processes, stopped in mid-epoch, and resumed.

python examples/stream_on_two_ranks.py s3://my-bucket/photos

Each process gets half of every global batch; together they see every row
once, also over the interruption. In PyTorch, `ds.pytorch(...)` does the same
under torchrun. Without an argument the "bucket" is a folder.
"""

import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np

import lakebed

PLACE = sys.argv[1] if len(sys.argv) > 1 else "lake/streamed"


def train(rank, state=None, steps=None):
    """Run an epoch, or a few steps; return the rows seen and the state."""
    loader = lakebed.Loader(
        lakebed.load(PLACE, read_only=True),
        batch_size=8,
        shuffle=True,
        seed=1,
        rank=rank,
        world=2,
    )
    if state is not None:
        loader.load_state_dict(state)
    rows = []
    for step, batch in enumerate(loader, 1):
        rows += batch.rows.tolist()
        if step == steps:
            break
    return rows, loader.state_dict()


if __name__ == "__main__":
    ds = lakebed.empty(PLACE, overwrite=True)
    ds.create_tensor("photo", htype="image", sample_compression="jpeg")
    ds.photo.extend(np.zeros((96, 32, 32, 3), np.uint8))
    ds.commit("96 photos")
    with ProcessPoolExecutor(2, get_context("spawn")) as ranks:
        cut = list(ranks.map(train, range(2), [None] * 2, [2] * 2))
        states = [state for _, state in cut]
        rest = list(ranks.map(train, range(2), states))
    seen = [row for rows, _ in cut + rest for row in rows]
    print(f"{len(seen)} rows seen, {len(set(seen))} of them once")
