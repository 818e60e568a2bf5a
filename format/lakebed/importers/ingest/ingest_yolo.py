"""``ingest_yolo`` of Deep Lake 3.x, with its arguments, tensors and results, on the importer ``yolo``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import lakebed
from lakebed.errors import IngestionError
from lakebed.importers.core.plan import Media, Plan, TensorPlan
from lakebed.importers.core.source import Source, suffix_of
from lakebed.importers.detection.yolo import COORDS, Context, Labelled, reader_of
from lakebed.importers.detection.yolo_layout import LabelFiles, lines_of_classes
from lakebed.importers.folders.pictures import IMAGE_KINDS, kind_of_images
from lakebed.importers.ingest.ingest import Path, ingested


def ingest_yolo(
    data_directory: Path,
    dest: Path | lakebed.Dataset,
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
) -> lakebed.Dataset:
    """Import boxes or polygons of YOLO as Deep Lake 3.x does; ``import_from("yolo", ...)`` keeps more.

    Parameters
    ----------
    data_directory
        Folder of the images, and of their label files.
    dest
        Where the dataset is made; an open one is appended to.
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
        Label files that are looked at to tell boxes from polygons.
    progressbar
        Show how far it is.
    shuffle
        Rows in random order.
    num_workers
        How many work at a time.
    token, connect_kwargs
        Without a meaning here.
    dataset_kwargs
        Arguments of ``lakebed.empty``, such as ``overwrite=True``.

    Returns
    -------
    The dataset.

    Raises
    ------
    IngestionError
        If there are no images, or, without ``allow_no_annotation``, an image has no label file.
    """
    del token, connect_kwargs
    source = Source.of(data_directory, src_creds)
    beside = source if annotations_directory is None else source.at(annotations_directory)
    items = _items(source, LabelFiles(beside, apart=annotations_directory is not None), allow_no_annotation)
    image = {"name": "images", "htype": "image", **(image_params or {})}
    label = {"name": "labels", "htype": "class_label", **(label_params or {})}
    if class_names_file is not None:
        label["class_names"] = lines_of_classes(source.at(class_names_file))
    places = dict(coordinates_params or {})
    asked = {"bbox": "detect", "polygon": "segment"}.get(str(places.get("htype")), "auto")
    reader = reader_of(beside, items, asked, None, None, inspect_limit, tasks=("detect", "segment"))
    reader = replace(reader, confidence=False)  # for which 3.x has no tensor: such lines are counted
    polygons = reader.task == "segment"
    places = {"name": "polygons" if polygons else "boxes", "htype": "polygon", "dtype": "float32", **places}
    if not polygons:
        places.update(htype="bbox", coords=COORDS)
    plan = _planned(source, items, image, image_creds_key)
    plan.context = Context(
        plan.context,
        reader,
        {
            "images": image["name"],
            "labels": label["name"],
            ("polygons" if polygons else "boxes"): places["name"],
        },
        str(places["dtype"]),
        True,
    )
    found = replace(_tensor(places), info={"task": reader.task})
    plan.tensors = [_tensor(label), found, *plan.tensors]
    return ingested("yolo", source, plan, dest, dest_creds, progressbar, shuffle, num_workers, dataset_kwargs)


def _items(source: Source, files: LabelFiles, allow_no_annotation: bool) -> list[Labelled]:
    items = [Labelled(name, files.of(name)) for name in source.files if suffix_of(name) in IMAGE_KINDS]
    if not items:
        raise IngestionError(f"{source.shown} has no images")
    without = [item.image for item in items if item.labels is None]
    if without and not allow_no_annotation:
        raise IngestionError(
            f"{len(without):,} of {len(items):,} images have no label file, the first is {without[0]}; "
            "allow_no_annotation=True takes them as images without objects"
        )
    return items


def _planned(source: Source, items: list[Labelled], image: dict[str, Any], creds_key: str | None) -> Plan:
    """Return the plan with the tensor of the images alone."""
    problems: Any = []
    link = str(image["htype"]).startswith("link[")
    if not image.get("chunk_compression"):
        names = [item.image for item in items]
        image["sample_compression"] = kind_of_images(
            source, names, image.get("sample_compression"), None if link else problems
        )
    held: Any = Media(source, link, creds_key)
    nbytes = sum(source.files[item.image] for item in items)
    found = f"{len(items):,} images with label files"
    return Plan(found, [_tensor(image)], items, held, rows=len(items), nbytes=nbytes, problems=problems)


def _tensor(arguments: Mapping[str, Any]) -> TensorPlan:
    given = {key: value for key, value in arguments.items() if key != "name" and value is not None}
    return TensorPlan(str(arguments["name"]), given)
