"""WebDataset: tar files."""

from __future__ import annotations

import webdataset

from benchmarks.contest import Task, content, force, main


def jpeg_ingest(task: Task) -> None:
    """Write a photo and its label per key."""
    photos = task.photos()
    with task.measured():
        with webdataset.TarWriter(str(task.out / "photos.tar"), encoder=False) as out:
            for row, (path, label) in enumerate(zip(photos.paths, photos.labels.tolist(), strict=True)):
                out.write({"__key__": f"{row:06d}", "jpg": content(path), "cls": b"%d" % label})
        if task.durable:
            force(task.out)
    task.did(len(photos.paths))


def raw_ingest(task: Task) -> None:
    """Write the bytes of each array."""
    arrays = task.raw()
    with task.measured():
        with webdataset.TarWriter(str(task.out / "raw.tar"), encoder=False) as out:
            for row, array in enumerate(arrays):
                out.write({"__key__": f"{row:06d}", "bin": array.tobytes()})
        if task.durable:
            force(task.out)
    task.did(len(arrays))


if __name__ == "__main__":
    main(globals())
