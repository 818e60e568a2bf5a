"""Zarr 3: an array of byte strings, an array of uint8; uncompressed, as the photos are compressed already."""

from __future__ import annotations

import warnings

import numpy as np
import simplejpeg
import zarr

from benchmarks.contest import Task, content, force, images, main

ROWS_PER_CHUNK = 128


def jpeg_ingest(task: Task) -> None:
    """Write byte strings of variable length, and the labels."""
    photos = task.photos()
    warnings.simplefilter("ignore")  # the type has no specification yet
    with task.measured():
        group = zarr.open_group(task.out / "photos", mode="w")
        shape = (len(photos.paths),)
        stored = group.create_array(
            "photos", shape=shape, chunks=(ROWS_PER_CHUNK,), dtype="variable_length_bytes", compressors=None
        )
        group.create_array("labels", data=photos.labels, compressors=None)
        for start in range(0, len(photos.paths), ROWS_PER_CHUNK):
            part = photos.paths[start : start + ROWS_PER_CHUNK]
            values = np.empty(len(part), object)
            for row, path in enumerate(part):
                values[row] = content(path)
            stored[start : start + len(part)] = values
    task.did(len(photos.paths))


def jpeg_decode(task: Task) -> None:
    """Read chunk by chunk and decode."""
    warnings.simplefilter("ignore")
    with task.measured():
        stored = zarr.open_group(task.store / "photos", mode="r")["photos"]
        found = images(
            simplejpeg.decode_jpeg(value)
            for start in range(0, stored.shape[0], ROWS_PER_CHUNK)
            for value in stored[start : start + ROWS_PER_CHUNK]
        )
    task.did(*found)


def raw_ingest(task: Task) -> None:
    """Assign all arrays at once, in chunks of ten."""
    arrays = task.raw()
    with task.measured():
        stored = zarr.create_array(
            task.out / "raw",
            shape=arrays.shape,
            chunks=(10, 512, 512, 3),
            dtype=arrays.dtype,
            compressors=None,
        )
        stored[:] = arrays
        if task.durable:
            force(task.out / "raw")
    task.did(len(arrays))


if __name__ == "__main__":
    main(globals())
