"""The ``ingest_*`` functions of Deep Lake 3.x, with its arguments, tensors and results, on the importers.

Rows that cannot be made, such as a missing picture, are left out with a warning; the info of the dataset lists them.
"""

# Paths are strings here, as in storage.
# ruff: noqa: PTH100, PTH111

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from lakebed import random
from lakebed.api.datasets import empty
from lakebed.dataset.dataset import Dataset
from lakebed.errors import IngestionError, InvalidInputError
from lakebed.importers.core.importing import import_plan
from lakebed.importers.core.plan import Plan, Problem
from lakebed.importers.core.registry import importer_of
from lakebed.importers.core.source import Source
from lakebed.importers.folders.pictures import kind_of_images

Path = str | os.PathLike[str]
T = TypeVar("T")


def ingest_coco(
    images_directory: Path,
    annotation_files: Path | Sequence[Path],
    dest: Path | Dataset,
    key_to_tensor_mapping: Mapping[str, str] | None = None,
    file_to_group_mapping: Mapping[str, str] | None = None,
    ignore_one_group: bool = True,
    ignore_keys: Sequence[str] | None = None,
    image_params: Mapping[str, Any] | None = None,
    image_creds_key: str | None = None,
    src_creds: Any = None,
    dest_creds: Any = None,
    inspect_limit: int = 1_000_000,
    progressbar: bool = True,
    shuffle: bool = False,
    num_workers: int = 0,
    token: str | None = None,
    connect_kwargs: Mapping[str, Any] | None = None,
    **dataset_kwargs: Any,
) -> Dataset:
    """Import COCO pictures with their annotations, as Deep Lake 3.x does; ``import_from("coco", ...)`` keeps more.

    Parameters
    ----------
    images_directory
        Folder of the pictures.
    annotation_files
        One annotation file, or several.
    dest
        Address of the new dataset, or an open dataset, to which rows are appended.
    key_to_tensor_mapping
        Key of annotations -> name of its tensor.
    file_to_group_mapping
        Annotation file -> name of its group.
    ignore_one_group
        Make no group for a single annotation file.
    ignore_keys
        Keys of annotations that are left out.
    image_params
        ``name``, ``htype`` and ``sample_compression`` of the pictures' tensor; htype ``link[image]`` stores links.
    image_creds_key
        Name of the credentials that links need.
    src_creds, dest_creds
        Credentials of the source and of the dataset.
    inspect_limit
        Number of annotations per file whose keys are inspected.
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
        If a file holds no annotations of COCO.
    """
    del token, connect_kwargs
    files = [annotation_files] if isinstance(annotation_files, str | os.PathLike) else annotation_files
    names = [os.fspath(file) for file in files]
    if not names:
        raise IngestionError("ingest_coco needs an annotation file")
    given = {
        os.fspath(name).rpartition("/")[2]: group for name, group in (file_to_group_mapping or {}).items()
    }
    groups = {}
    for name in names:
        last = name.rpartition("/")[2]
        stem = last.rpartition(".")[0]
        groups[_absolute(name)] = given.get(last) or given.get(stem, stem)
    params = dict(image_params or {})
    source = Source.of(images_directory, src_creds)
    plan = importer_of("coco").plan(
        source,
        annotations=[_absolute(name) for name in names],
        groups=groups,
        names=dict(key_to_tensor_mapping or {}),
        ignore=list(ignore_keys or ()),
        compression=params.get("sample_compression"),
        link=is_link(params),
        creds_key=image_creds_key,
        inspect=inspect_limit,
        plain=False,
        image_tensor=str(params.get("name", "images")),
        always_group=not (ignore_one_group and len(names) == 1),
    )
    return ingested("coco", source, plan, dest, dest_creds, progressbar, shuffle, num_workers, dataset_kwargs)


def _absolute(name: str) -> str:
    return name if "://" in name else os.path.abspath(os.path.expanduser(name))


def ingested(
    name: str,
    source: Source,
    plan: Plan,
    dest: Path | Dataset,
    creds: Any,
    progressbar: bool,
    shuffle: bool,
    num_workers: int,
    dataset_kwargs: Mapping[str, Any],
) -> Dataset:
    """Import by a plan, into a dataset that ``lakebed.empty`` makes, without a commit, as 3.x does."""
    if shuffle:
        plan = replace(plan, items=shuffled(plan.items), splits={})
    if not isinstance(dest, Dataset):
        dest = empty(dest, creds=creds, **dataset_kwargs)
    elif dataset_kwargs:
        raise InvalidInputError(
            f"{', '.join(dataset_kwargs)} are arguments of a new dataset, and dest is open already"
        )
    report = import_plan(name, source, plan, dest, workers=num_workers, progressbar=progressbar)
    if report.skipped:
        first = report.left_out[0]
        warnings.warn(
            f"{report.skipped:,} of {report.read:,} rows were left out, the first is {first['where']}: "
            f"{first['reason']} (ds.info['imports'] lists them)",
            stacklevel=3,
        )
    return report.dataset


def shuffled(items: Sequence[T]) -> list[T]:
    """Return items in an order that the seed of the library decides."""
    order = np.random.default_rng(random.get_seed()).permutation(len(items))
    return [items[int(at)] for at in order]


def images_as(
    given: Mapping[str, Any] | None, source: Source, names: Sequence[str], problems: list[Problem]
) -> dict[str, Any]:
    """Return name, htype and other arguments of the tensor of images, with the kind that it stores.

    Parameters
    ----------
    given
        Arguments of the user.
    names
        Files of the images.
    problems
        List to which the report of converted files is added.
    """
    found = {"name": "images", "htype": "image", **(given or {})}
    if not found.get("chunk_compression"):
        told = None if is_link(found) else problems
        found["sample_compression"] = kind_of_images(source, names, found.get("sample_compression"), told)
    return found


def is_link(arguments: Mapping[str, Any]) -> bool:
    """Return whether the arguments describe a tensor of links."""
    return str(arguments.get("htype", "")).startswith("link[")
