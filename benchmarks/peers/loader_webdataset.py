"""WebDataset: tar files, read by PyTorch's worker processes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import webdataset

from benchmarks.loading import Images, Task, main
from benchmarks.peers import torch_workers

PER_SHARD = 500


class Tars:
    """Tar files of 28 MB."""

    def write(self, task: Task) -> None:
        """Write a photo and its row per key."""
        with webdataset.ShardWriter(
            f"{task.store}/%04d.tar", maxcount=PER_SHARD, encoder=False, verbose=0
        ) as out:
            for data, row in task.photos():
                out.write({"__key__": f"{row:06d}", "jpg": data, "cls": b"%d" % row})

    def batches(self, task: Task) -> Iterable[tuple[Images, Any]]:
        """Shuffle the shards, and samples in a buffer."""
        shards = -(-task.count // PER_SHARD)
        urls = [f"{task.store}/{shard:04d}.tar" for shard in range(shards)]
        if task.endpoint:
            place = task.url.removeprefix("s3://")
            urls = [f"pipe:curl -s {task.endpoint}/{place}/{shard:04d}.tar" for shard in range(shards)]
        dataset = webdataset.WebDataset(
            urls, shardshuffle=shards, empty_check=False, workersplitter=webdataset.split_by_worker
        )
        return torch_workers.batches(task, dataset.shuffle(1000).to_tuple("jpg", "cls"))


if __name__ == "__main__":
    main(Tars())
