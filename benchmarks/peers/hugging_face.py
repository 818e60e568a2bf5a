"""Hugging Face datasets: Arrow files."""

from __future__ import annotations

import datasets
import simplejpeg

from benchmarks.contest import Task, content, images, main

FEATURES = datasets.Features({"photo": datasets.Value("large_binary"), "label": datasets.Value("uint32")})


def jpeg_ingest(task: Task) -> None:
    """Write an Arrow file of bytes and labels with the package's own writer, as `save_to_disk` lays it out."""
    photos = task.photos()
    datasets.disable_progress_bars()
    with task.measured():
        values = [content(path) for path in photos.paths]
        columns = {"photo": values, "label": photos.labels}
        datasets.Dataset.from_dict(columns, features=FEATURES).save_to_disk(task.out / "photos")
    task.did(len(photos.paths))


def jpeg_decode(task: Task) -> None:
    """Iterate over batches of Arrow and decode without a copy."""
    with task.measured():
        stored = datasets.load_from_disk(str(task.store / "photos")).with_format("arrow")
        found = images(
            simplejpeg.decode_jpeg(memoryview(value.as_buffer()).cast("B"))
            for batch in stored.iter(128)
            for value in batch["photo"]
        )
    task.did(*found)


if __name__ == "__main__":
    main(globals())
