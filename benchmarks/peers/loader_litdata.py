"""LitData: chunks of 64 MB, read by PyTorch's worker processes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import partial
from typing import Any

import litdata
from litdata.streaming import downloader

from benchmarks.contest import content
from benchmarks.loading import Images, Task, main
from benchmarks.peers import torch_workers

# It has no setting for servers without encryption, such as that of this benchmark.
downloader._OBSTORE_CLIENT_OPTIONS["allow_http"] = True  # noqa: SLF001


def _photo(given: tuple[int, str]) -> dict[str, Any]:
    return {"photo": content(given[1]), "label": given[0]}


def _samples(task: Task, samples: list[dict[str, Any]]) -> Any:
    return torch_workers.collate(task, [(sample["photo"], sample["label"]) for sample in samples])


class LitData:
    """A folder of chunks."""

    def write(self, task: Task) -> None:
        """Write bytes and rows."""
        os.environ["DATA_OPTIMIZER_CACHE_FOLDER"] = f"{task.scratch}/cache"
        litdata.optimize(
            _photo, list(enumerate(task.paths())), f"{task.store}/photos", chunk_bytes="64MB", num_workers=1
        )

    def batches(self, task: Task) -> Iterable[tuple[Images, Any]]:
        """Shuffle as it does."""
        options: dict[str, Any] = {"input_dir": f"{task.store}/photos"}
        if task.endpoint:
            options = {
                "input_dir": f"{task.url}/photos",
                "cache_dir": task.scratch,
                "storage_options": {
                    "endpoint_url": task.endpoint,
                    "aws_access_key_id": "any",
                    "aws_secret_access_key": "any",
                    "region_name": "us-east-1",
                },
            }
        dataset = litdata.StreamingDataset(**options, shuffle=True)
        loader = litdata.StreamingDataLoader(
            dataset,
            batch_size=task.batch,
            num_workers=task.workers,
            shuffle=True,
            collate_fn=partial(_samples, task),
        )
        return torch_workers.unpacked(loader)


if __name__ == "__main__":
    main(LitData())
