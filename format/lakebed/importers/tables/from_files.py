"""``lakebed.read_csv``, ``read_parquet``, ``read_json`` and ``load_dataset``: ``import_from`` under familiar names."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from lakebed.api.datasets import exists, load
from lakebed.dataset.dataset import Dataset
from lakebed.errors import IngestionError
from lakebed.importers.core.importing import import_from
from lakebed.importers.tables.from_tables import Path, in_memory
from lakebed.storage.address import scheme_of

_BUILDERS = {"arrow": "dataframe", "json": "jsonl"}
_BUILDERS |= dict.fromkeys(("audiofolder", "imagefolder", "videofolder"), "folder")
"""Builder of Hugging Face -> format of another name."""


def read_csv(path: Path, dest: Path | Dataset | None = None, **options: Any) -> Dataset:
    """Import a CSV file into memory, or into a dataset at ``dest``, with a warning for rows that are left out.

    Parameters
    ----------
    path
        Path or address of the file.
    dest
        Address of the new dataset, or an open dataset, to which rows are appended.
    options
        Options of ``lakebed.import_from("csv", ...)``, such as ``delimiter=";"``.

    Returns
    -------
    The dataset, published and not committed.

    Raises
    ------
    IngestionError
        If the file is not a table.
    DatasetExistsError
        If a dataset exists at ``dest``, without ``append`` or ``overwrite``.
    """
    return _imported("csv", path, dest, options)


def read_parquet(path: Path, dest: Path | Dataset | None = None, **options: Any) -> Dataset:
    """Import a Parquet file, or a folder of Parquet files.

    Parameters
    ----------
    path, dest, options
        As for :func:`read_csv`.

    Returns
    -------
    The dataset, published and not committed.
    """
    return _imported("parquet", path, dest, options)


def read_json(path: Path, dest: Path | Dataset | None = None, **options: Any) -> Dataset:
    """Import a file of JSON lines.

    Parameters
    ----------
    path, dest, options
        As for :func:`read_csv`.

    Returns
    -------
    The dataset, published and not committed.
    """
    return _imported("jsonl", path, dest, options)


def load_dataset(
    path: Path,
    *,
    data_files: Path | Sequence[Path] | Mapping[str, Path | Sequence[Path]] | None = None,
    data_dir: Path | None = None,
    split: str | None = None,
    dest: Path | Dataset | None = None,
    **options: Any,
) -> Dataset:
    """Open a dataset, or import files into memory or ``dest``, with the arguments of ``datasets.load_dataset``.

    Parameters
    ----------
    path
        A dataset, which is opened; files, whose format is detected; or, with ``data_files`` or ``data_dir``, the
        name of a format: ``"csv"``, ``"json"``, ``"parquet"``, ``"arrow"``, ``"imagefolder"``, ``"audiofolder"``,
        ``"webdataset"``, or any that ``lakebed.import_from`` takes.
    data_files
        A file, several files in order, or the files of each split by name.
    data_dir
        A folder.
    split
        Split that is imported; None imports all. Files for which no split is given belong to ``"train"``.
    dest
        Destination of the import, or an open dataset, to which rows are appended.
    options
        Options of ``lakebed.import_from``.

    Returns
    -------
    The dataset.

    Raises
    ------
    IngestionError
        If nothing is at the path, such as for names of Hugging Face's hub, or the split does not exist.
    """
    name = os.fspath(path)
    found = data_dir if data_files is None else data_files
    if found is not None:
        how = _BUILDERS.get(name, name)
        if isinstance(found, Mapping):
            if split is None or split not in found:
                raise IngestionError(
                    f"split={split!r} is not a split of data_files; splits: {', '.join(found)}"
                )
            found, split = found[split], None
        elif data_files is not None and split == "train":
            split = None
        first, *rest = [found] if isinstance(found, str | os.PathLike) else list(found)
        ds = _imported(how, first, dest, {**options, "split": split})
        for file in rest:
            _imported(how, file, ds, {**options, "split": split, "append": True})
        return ds
    if dest is None and split is None and not options and exists(path):
        return load(path)
    if scheme_of(name) == "file" and not os.path.exists(os.path.expanduser(name.removeprefix("file://"))):  # noqa: PTH110, PTH111
        raise IngestionError(
            f"there is no file, folder or dataset {name!r}. To load from Hugging Face's hub: "
            f"lakebed.ingest_huggingface(datasets.load_dataset({name!r}), dest); to load files of a format: "
            "load_dataset('csv', data_files=...)"
        )
    return _imported("auto", path, dest, {**options, "split": split})


def _imported(how: str, path: Path, dest: Any, options: Mapping[str, Any]) -> Dataset:
    given = {"commit": False, "progressbar": False, **options}
    report = import_from(how, path, in_memory() if dest is None else dest, **given)
    if report.skipped or report.problems:
        warnings.warn(str(report), stacklevel=3)
    return report.dataset
