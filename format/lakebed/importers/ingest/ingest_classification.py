"""``ingest_classification`` and ``ingest_kaggle`` of Deep Lake 3.x, with their arguments, tensors and results."""

# Paths are strings here, as in storage.
# ruff: noqa: PTH100, PTH110, PTH111, PTH112, PTH208
from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from lakebed.api.datasets import empty
from lakebed.dataset.dataset import Dataset
from lakebed.errors import (
    ExternalCommandError,
    IngestionError,
    InvalidFileExtension,
    InvalidPathException,
    KaggleDatasetAlreadyDownloadedError,
    KaggleMissingCredentialsError,
)
from lakebed.importers.core.importing import check_two_places
from lakebed.importers.core.plan import Media, Problem
from lakebed.importers.core.registry import importer_of
from lakebed.importers.core.source import Source, suffix_of
from lakebed.importers.folders.pictures import IMAGE_KINDS, images_of
from lakebed.importers.ingest.ingest import Path, images_as, ingested, is_link, shuffled
from lakebed.transforms.function import compute

_SHOWN = 3


class _Image(NamedTuple):
    """An image, its class, and the group of tensors for its set, such as ``train/``."""

    file: str
    label: str
    group: str

    def __str__(self) -> str:
        return self.file


def ingest_classification(
    src: Path,
    dest: Path | Dataset,
    image_params: Mapping[str, Any] | None = None,
    label_params: Mapping[str, Any] | None = None,
    dest_creds: Any = None,
    progressbar: bool = True,
    summary: bool = True,
    num_workers: int = 0,
    shuffle: bool = True,
    token: str | None = None,
    connect_kwargs: Mapping[str, Any] | None = None,
    indra: bool = False,
    **dataset_kwargs: Any,
) -> Dataset:
    """Import a folder with a folder of images for each class, as Deep Lake 3.x does; or a CSV file, a tensor a column.

    ``import_from("folder", ...)`` keeps more. Where each class folder lies in a folder of a set, such as ``train`` and
    ``test``, the tensors are ``train/images``, ``train/labels`` and so on.

    Parameters
    ----------
    src
        The folder, or the CSV file.
    dest
        Address of the new dataset, or an open dataset, to which rows are appended.
    image_params, label_params
        ``name``, ``htype`` and other arguments of the tensors of images and labels.
    dest_creds
        Credentials of the dataset.
    progressbar
        Show a progress bar.
    summary
        Print the tensors at the end.
    num_workers
        Number of workers.
    shuffle
        Store the rows in random order.
    token, connect_kwargs, indra
        Ignored.
    dataset_kwargs
        Arguments of ``lakebed.empty``, such as ``overwrite=True``.

    Returns
    -------
    The dataset.

    Raises
    ------
    InvalidPathException
        If ``src`` does not exist.
    InvalidFileExtension
        If ``src`` is a file other than a CSV file.
    SamePathException
        If ``src`` and ``dest`` are one place.
    IngestionError
        If the source has no images in folders.
    """
    del token, connect_kwargs, indra
    source = Source.of(src)
    if not isinstance(dest, Dataset):
        check_two_places(source, os.fspath(dest))
    if source.is_file:
        if source.suffix not in (".csv", ".tsv"):
            raise InvalidFileExtension(f"{source.shown} is neither a CSV file nor a folder")
        plan = importer_of("csv").plan(source)
        ds = ingested(
            "csv", source, plan, dest, dest_creds, progressbar, shuffle, num_workers, dataset_kwargs
        )
    else:
        items = _images(source)
        problems: list[Problem] = []
        image = images_as(image_params, source, [item.file for item in items], problems)
        classes = sorted({item.label for item in items})
        label = {"name": "labels", "htype": "class_label", "class_names": classes, **(label_params or {})}
        for problem in problems:
            warnings.warn(f"{problem.where}: {problem.reason}", stacklevel=2)
        ds = dest if isinstance(dest, Dataset) else empty(dest, creds=dest_creds, **dataset_kwargs)
        with ds:
            for group in dict.fromkeys(item.group for item in items):
                for given in (image, label):
                    arguments = {key: value for key, value in given.items() if key != "name"}
                    if (name := f"{group}{given['name']}") not in ds.tensors:
                        ds.create_tensor(name, **arguments)
        held = Media(source, is_link(image))
        function = _sample(held=held, image=str(image["name"]), label=str(label["name"]))
        _fill(ds, shuffled(items) if shuffle else items, function, num_workers, progressbar)
    if summary:
        ds.summary()
    return ds


def _images(source: Source) -> list[_Image]:
    """Return all images with their classes, in the order of their names."""
    names = images_of(source)
    apart = [name for name in names if "/" not in name]
    if not names or len(apart) == len(names):
        raise IngestionError(
            f"{source.shown} has no images in folders, which name their classes"
            + (f"; {len(apart):,} images lie beside each other" if apart else "")
        )
    if apart:
        warnings.warn(
            f"{len(apart):,} images of {source.shown} are in no folder, have no class, and are left out: "
            f"{', '.join(apart[:_SHOWN])}",
            stacklevel=3,
        )
    others = [name for name in source.files if suffix_of(name) not in IMAGE_KINDS]
    if others:
        warnings.warn(
            f"{len(others):,} files of {source.shown} are no images of a known kind, and are left out: "
            f"{', '.join(others[:_SHOWN])}{', ...' if len(others) > _SHOWN else ''}",
            stacklevel=3,
        )
    inside = [name for name in names if "/" in name]
    has_sets = all(name.count("/") > 1 for name in inside)
    items = []
    for name in inside:
        folder = name.rpartition("/")[0]
        group, _, label = folder.partition("/") if has_sets else ("", "", folder)
        items.append(_Image(name, label, f"{group}/" if group else ""))
    return items


@compute
def _sample(item: _Image, out: Any, held: Media, image: str, label: str) -> None:
    out[item.group + image].append(held.value(item.file))
    out[item.group + label].append(item.label)


def _fill(ds: Dataset, items: Sequence[_Image], function: Any, workers: int, progressbar: bool) -> None:
    report = function.eval(
        items,
        ds,
        num_workers=workers,
        progressbar=progressbar,
        skip_ok=True,
        check_lengths=False,
        ignore_errors=True,
        verbose=False,
    )
    if report.skipped:
        first = report.errors[0]
        warnings.warn(
            f"{report.skipped:,} of {len(items):,} images were left out, the first is {first.item}: {first.cause}",
            stacklevel=3,
        )


def ingest_kaggle(
    tag: str,
    src: Path,
    dest: Path | Dataset,
    exist_ok: bool = False,
    images_compression: str = "auto",
    dest_creds: Any = None,
    kaggle_credentials: Mapping[str, str] | None = None,
    progressbar: bool = True,
    summary: bool = True,
    shuffle: bool = True,
    indra: bool = False,
    **dataset_kwargs: Any,
) -> Dataset:
    """Download a data set of Kaggle by its command line, ``kaggle``, and import it as :func:`ingest_classification`.

    Parameters
    ----------
    tag
        Name of the data set: ``owner/name``.
    src
        Folder to download to.
    dest
        Address of the new dataset, or an open dataset, to which rows are appended.
    exist_ok
        Import the files that the folder holds already, without a download.
    images_compression
        Kind of image that is stored; ``"auto"`` is the kind of the files with the most bytes.
    dest_creds
        Credentials of the dataset.
    kaggle_credentials
        ``username`` and ``key``; left out, those of the environment or of ``~/.kaggle/kaggle.json``.
    progressbar, summary, shuffle
        As for :func:`ingest_classification`.
    indra
        Ignored.
    dataset_kwargs
        Arguments of ``lakebed.empty``, such as ``overwrite=True``.

    Returns
    -------
    The dataset.

    Raises
    ------
    KaggleMissingCredentialsError
        If a user name or key is missing.
    KaggleDatasetAlreadyDownloadedError
        If the folder holds files, and ``exist_ok`` is false.
    ExternalCommandError
        If the command is missing or fails.
    SamePathException
        If ``src`` and ``dest`` are one place.
    """
    del indra
    folder = os.path.abspath(os.path.expanduser(os.fspath(src)))
    if not isinstance(dest, Dataset):
        check_two_places(Source(folder), os.fspath(dest))
    is_there = os.path.isdir(folder) and bool(os.listdir(folder))
    if is_there and not exist_ok:
        raise KaggleDatasetAlreadyDownloadedError(
            f"{folder} holds files already: import them with exist_ok=True, or choose another folder"
        )
    if not is_there:
        _download(tag, folder, _credentials(kaggle_credentials))
    return ingest_classification(
        folder,
        dest,
        image_params={"sample_compression": images_compression},
        dest_creds=dest_creds,
        progressbar=progressbar,
        summary=summary,
        shuffle=shuffle,
        **dataset_kwargs,
    )


def _credentials(given: Mapping[str, str] | None) -> dict[str, str]:
    """Return the environment of the command.

    Raises
    ------
    KaggleMissingCredentialsError
        If the user name or the key is missing.
    """
    names = {"KAGGLE_USERNAME": "username", "KAGGLE_KEY": "key"}
    if given is not None:
        missing = [name for name in names.values() if not given.get(name)]
        if missing:
            raise KaggleMissingCredentialsError(
                f"kaggle_credentials lack {' and '.join(missing)}: give username and key"
            )
        return {**os.environ, **{name: str(given[key]) for name, key in names.items()}}
    has_file = os.path.exists(
        os.path.join(os.environ.get("KAGGLE_CONFIG_DIR", os.path.expanduser("~/.kaggle")), "kaggle.json")  # noqa: PTH118
    )
    missing = [name for name in names if not os.environ.get(name)]
    if missing and not has_file:
        raise KaggleMissingCredentialsError(
            f"the environment lacks {' and '.join(missing)}, and there is no ~/.kaggle/kaggle.json: pass "
            'kaggle_credentials={"username": ..., "key": ...}'
        )
    return dict(os.environ)


def _download(tag: str, folder: str, environment: Mapping[str, str]) -> None:
    if not tag or tag.startswith("-"):
        raise InvalidPathException(f"{tag!r} is not the name of a data set, such as owner/name")
    command = ["kaggle", "datasets", "download", "-d", tag, "-p", folder, "--unzip"]
    os.makedirs(folder, exist_ok=True)  # noqa: PTH103
    try:
        done = subprocess.run(  # noqa: S603 - a list of words, no shell
            command, env=dict(environment), stdout=sys.stderr, stderr=subprocess.PIPE, text=True, check=False
        )
    except OSError as error:
        raise ExternalCommandError(
            f"the command `kaggle` cannot be run ({error}): pip install kaggle"
        ) from error
    if done.returncode:
        raise ExternalCommandError(
            f"`{' '.join(command)}` ended with status {done.returncode}: {done.stderr.strip()[-500:]}"
        )
