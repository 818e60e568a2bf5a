"""``ingest_yolo`` of Deep Lake 3.x, with its arguments, tensors and results, on the importer ``yolo``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lakebed.dataset.dataset import Dataset
from lakebed.errors import IngestionError
from lakebed.importers.core.plan import Media, Plan, Problem, TensorPlan
from lakebed.importers.core.source import Source
from lakebed.importers.detection.yolo import COORDS, Context, Labelled, reader_of
from lakebed.importers.detection.yolo_layout import LabelFiles, lines_of_classes
from lakebed.importers.folders.pictures import images_of
from lakebed.importers.ingest.ingest import Path, images_as, ingested, is_link


def ingest_yolo(
    data_directory: Path,
    dest: Path | Dataset,
    class_names_file: Path | None = None,
    annotations_directory: Path | None = None,
    allow_no_annotation: bool = False,
    image_params: Mapping[str, Any] | None = None,
    label_params: Mapping[str, Any] | None = None,
    coordinates_params: Mapping[str, Any] | None = None,
    src_creds: Any = None,
    dest_creds: Any = None,
    image_creds_key: str | None = None,
    inspect_limit: int = 1000,
    progressbar: bool = True,
    shuffle: bool = False,
    num_workers: int = 0,
    token: str | None = None,
    connect_kwargs: Mapping[str, Any] | None = None,
    **dataset_kwargs: Any,
) -> Dataset:
    """Import boxes or polygons of YOLO as Deep Lake 3.x does; ``import_from("yolo", ...)`` keeps more.

    Parameters
    ----------
    data_directory
        Folder of the images, and of their label files.
    dest
        Address of the new dataset, or an open dataset, to which rows are appended.
    class_names_file
        File with a class on each line.
    annotations_directory
        Another folder of the label files.
    allow_no_annotation
        Take images without a label file as images without objects.
    image_params, label_params, coordinates_params
        ``name``, ``htype`` and other arguments of the tensors of images, labels, and boxes or polygons.
    src_creds, dest_creds
        Credentials of the source and of the dataset.
    image_creds_key
        Name of the credentials that links need.
    inspect_limit
        Number of label files that are read to distinguish boxes from polygons.
    progressbar
        Show a progress bar.
    shuffle
        Store the rows in random order.
    num_workers
        Number of workers.
    token, connect_kwargs
        Ignored.
    dataset_kwargs
        Arguments of ``lakebed.empty``, such as ``overwrite=True``.

    Returns
    -------
    The dataset.

    Raises
    ------
    IngestionError
        If the folder has no images, or, without ``allow_no_annotation``, an image has no label file.
    """
    del token, connect_kwargs
    source = Source.of(data_directory, src_creds)
    beside = source if annotations_directory is None else source.at(annotations_directory)
    items = _items(source, LabelFiles(beside, apart=annotations_directory is not None), allow_no_annotation)
    label = {"name": "labels", "htype": "class_label", **(label_params or {})}
    if class_names_file is not None:
        label["class_names"] = lines_of_classes(source.at(class_names_file))
    given = dict(coordinates_params or {})
    asked = {"bbox": "detect", "polygon": "segment"}.get(str(given.get("htype")), "auto")
    reader = reader_of(beside, items, asked, None, None, inspect_limit, tasks=("detect", "segment"))
    part = "polygons" if reader.task == "segment" else "boxes"
    places = {"name": part, "htype": "polygon", "dtype": "float32", **given}
    if part == "boxes":
        places.update(htype="bbox", coords=COORDS)
    problems: list[Problem] = []
    image = images_as(image_params, source, [item.image for item in items], problems)
    context = Context(
        Media(source, is_link(image), image_creds_key),
        replace(reader, confidence=False),  # 3.x has no tensor for it
        {"images": image["name"], "labels": label["name"], part: places["name"]},
        str(places["dtype"]),
        empty=True,
    )
    plan = Plan(
        f"{len(items):,} images with label files",
        [_tensor(label), replace(_tensor(places), info={"task": reader.task}), _tensor(image)],
        items,
        context,
        rows=len(items),
        nbytes=sum(source.files[item.image] for item in items),
        problems=problems,
    )
    return ingested("yolo", source, plan, dest, dest_creds, progressbar, shuffle, num_workers, dataset_kwargs)


def _items(source: Source, files: LabelFiles, allow_no_annotation: bool) -> list[Labelled]:
    items = [Labelled(name, files.of(name)) for name in images_of(source)]
    if not items:
        raise IngestionError(f"{source.shown} has no images")
    without = [item.image for item in items if item.labels is None]
    if without and not allow_no_annotation:
        raise IngestionError(
            f"{len(without):,} of {len(items):,} images have no label file, such as {without[0]}; "
            "allow_no_annotation=True takes them as images without objects"
        )
    return items


def _tensor(arguments: Mapping[str, Any]) -> TensorPlan:
    given = {key: value for key, value in arguments.items() if key != "name" and value is not None}
    return TensorPlan(str(arguments["name"]), given)
