"""``export_yolo`` of Deep Lake 3.x, on the exporter ``yolo``."""

from __future__ import annotations

import os
from typing import Any

from lakebed.api.datasets import load
from lakebed.dataset.dataset import Dataset
from lakebed.exporters.core.exporting import export_to

Path = str | os.PathLike[str]


def export_yolo(
    src: Path | Dataset,
    dest: Path,
    src_creds: Any = None,
    token: str | None = None,
    progressbar: bool | None = True,
    image_tensor: str | None = None,
    label_tensor: str | None = None,
    box_tensor: str | None = None,
    limit: int | None = None,
) -> None:
    """Write images and boxes as Deep Lake 3.x does: ``images/0.jpeg``, ``annotations/0.txt``, ``classes.names``.

    ``export_to("yolo", ...)`` writes what Ultralytics reads: splits, data.yaml, polygons and poses.

    Parameters
    ----------
    src
        A dataset, a view, or an address.
    dest
        Folder to write; it must be empty or missing.
    src_creds
        Credentials of the dataset.
    token
        Ignored.
    progressbar
        Show a progress bar.
    image_tensor, label_tensor, box_tensor
        Tensors of the images, classes and boxes; left out, the only ones of their htypes.
    limit
        Maximum number of rows; None and 0 write all.

    Raises
    ------
    ExportError
        If the dataset lacks a tensor or the names of its classes, a row cannot be written, or the folder holds files.
    """
    del token
    ds = src if isinstance(src, Dataset) else load(src, read_only=True, creds=src_creds)
    if limit:
        ds = ds[:limit]
    export_to(
        "yolo",
        ds,
        dest,
        strict=True,
        progressbar=bool(progressbar),
        task="detect",
        layout="3.x",
        images=image_tensor,
        labels=label_tensor,
        boxes=box_tensor,
    )
