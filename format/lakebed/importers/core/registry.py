"""Which formats there are: those of this room, and those of other packages by the entry point ``lakebed.importers``.

An entry point names a module with the four functions; its name is the format's. Nothing of a format is imported before
the format is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint
from typing import Any

from lakebed.errors import IngestionError
from lakebed.importers.core.plan import Copied, Plan
from lakebed.importers.core.source import Source
from lakebed.runtime.installed import entry_points
from lakebed.runtime.options import Option, options_of

ENTRY_POINTS = "lakebed.importers"


@dataclass(frozen=True)
class Importer:
    """A format.

    Parameters
    ----------
    name
        What users call it.
    module
        Name of its module.
    summary
        What it takes, in a line.
    entry
        The entry point of another package.
    """

    name: str
    module: str
    summary: str
    entry: EntryPoint | None = None

    @property
    def functions(self) -> Any:
        """The module with the four functions."""
        return _loaded(self)

    @property
    def recognise(self) -> Callable[[Source], str | None]:
        """What the source is, in words; None if it is no such format."""
        found: Callable[[Source], str | None] = self.functions.recognise
        return found

    @property
    def plan(self) -> Callable[..., Plan]:
        """What importing the source will do."""
        found: Callable[..., Plan] = self.functions.plan
        return found

    def plan_for(self, source: Source, only: Sequence[str], options: Mapping[str, Any]) -> Plan:
        """Return what importing some splits of the source will do; none for all.

        A format with a function ``plan_splits`` reads nothing of others for it.
        """
        of_splits: Callable[..., Plan] | None = getattr(self.functions, "plan_splits", None)
        return self.plan(source, **options) if of_splits is None else of_splits(source, only, **options)

    @property
    def rows(self) -> Callable[[Any, Any], Iterable[Any]]:
        """What an item of the plan becomes."""
        found: Callable[[Any, Any], Iterable[Any]] = self.functions.rows
        return found

    @property
    def describe(self) -> Callable[[Plan], dict[str, Any]]:
        """What the info of the dataset says of the source."""
        found: Callable[[Plan], dict[str, Any]] = self.functions.describe
        return found

    @property
    def copied(self) -> Callable[..., Copied | None] | None:
        """What copies sources that are datasets already, with their history; None for most formats."""
        found: Callable[..., Copied | None] | None = getattr(self.functions, "copied", None)
        return found

    @property
    def is_batched(self) -> bool:
        """Whether rows come as columns."""
        return bool(getattr(self.functions, "BATCHED", False))

    @property
    def batch(self) -> int:
        """How many items ``many`` makes rows of at a time, at most; 0 of formats that have no such function."""
        return int(getattr(self.functions, "BATCH", 0))

    @property
    def many(self) -> Callable[[Sequence[Any], Any], Iterable[Any]]:
        """What several items become, a row each."""
        found: Callable[[Sequence[Any], Any], Iterable[Any]] = self.functions.many
        return found

    @property
    def scheduler(self) -> str:
        """What its workers had better be: threads where files are copied and decoded, processes where Python works."""
        return str(getattr(self.functions, "SCHEDULER", "threaded"))

    def options(self) -> list[Option]:
        """Return its options."""
        return options_of(self.plan)


@cache
def _loaded(importer: Importer) -> Any:
    return import_module(importer.module) if importer.entry is None else importer.entry.load()


# In the order in which they are tried for a source whose format is not told: the most particular ones first.
_BUILT_IN = (
    Importer(
        "deeplake",
        "lakebed.importers.deeplake.deeplake_datasets",
        "Deep Lake datasets: 2 and 3 with their versions, and 4",
    ),
    Importer(
        "coco",
        "lakebed.importers.detection.coco",
        "COCO instances, key points, captions and panoptic segments",
    ),
    Importer(
        "cvat",
        "lakebed.importers.detection.cvat",
        "CVAT XML of images and videos: all its shapes, tracks and tags",
    ),
    Importer(
        "labelme",
        "lakebed.importers.detection.labelme",
        "LabelMe polygons, rectangles, circles, lines and points",
    ),
    Importer("voc", "lakebed.importers.detection.voc", "Pascal VOC boxes, parts and masks"),
    Importer(
        "open_images", "lakebed.importers.detection.open_images", "Open Images boxes and labels of images"
    ),
    Importer("yolo", "lakebed.importers.detection.yolo", "YOLO boxes, polygons, poses and oriented boxes"),
    Importer(
        "huggingface",
        "lakebed.importers.tables.huggingface",
        "Hugging Face datasets, open or saved by save_to_disk",
    ),
    Importer(
        "tsv", "lakebed.importers.shards.tsv", "TSV files of images in base64 with an index of their lines"
    ),
    Importer("webdataset", "lakebed.importers.shards.webdataset", "WebDataset shards: tar files of samples"),
    Importer("mds", "lakebed.importers.shards.mds", "MosaicML MDS shards"),
    Importer("litdata", "lakebed.importers.shards.litdata", "LitData chunks"),
    Importer("tfrecord", "lakebed.importers.tfrecord.tfrecord", "TFRecord files of tf.train.Example"),
    Importer(
        "dataframe",
        "lakebed.importers.tables.dataframe",
        "tables of pandas, polars and Arrow, and Arrow files",
    ),
    Importer("parquet", "lakebed.importers.tables.parquet", "Parquet files"),
    Importer("hdf5", "lakebed.importers.arrays.hdf5", "HDF5 files: arrays with their attributes"),
    Importer("zarr", "lakebed.importers.arrays.zarr_files", "Zarr 2 and 3: arrays with their attributes"),
    Importer(
        "lmdb", "lakebed.importers.key_values.lmdb_files", "LMDB: files and Caffe's Datum by their keys"
    ),
    Importer(
        "leveldb",
        "lakebed.importers.key_values.leveldb_files",
        "LevelDB: files and Caffe's Datum by their keys",
    ),
    Importer("bcolz", "lakebed.importers.arrays.bcolz_files", "bcolz tables and arrays in folders"),
    Importer("dask", "lakebed.importers.arrays.dask_arrays", "arrays of Dask, one or several by name"),
    Importer("numpy", "lakebed.importers.arrays.numpy_files", "NumPy files: .npy and .npz"),
    Importer("csv", "lakebed.importers.tables.delimited", "CSV and TSV files"),
    Importer(
        "jsonl", "lakebed.importers.tables.json_lines", "JSON lines, and tables of JSON (also called json)"
    ),
    Importer("xlsx", "lakebed.importers.tables.xlsx", "Excel workbooks (also called excel)"),
    Importer(
        "folder",
        "lakebed.importers.folders.folder",
        "folders of images, audio, video, text or arrays, a class each",
    ),
)


# Names that users try for formats which are called otherwise.
_ALSO = {"json": "jsonl", "excel": "xlsx"}


def importers() -> Iterator[Importer]:
    """Yield all formats; those of other packages come first, so that ``auto`` asks them before ours."""
    for entry in sorted(entry_points(ENTRY_POINTS), key=lambda entry: entry.name):
        yield Importer(entry.name, entry.value, f"of {entry.value.partition('.')[0]}", entry)
    yield from _BUILT_IN


def importer_of(name: str) -> Importer:
    """Return the format of a name.

    Raises
    ------
    IngestionError
        If there is none.
    """
    known = {importer.name: importer for importer in importers()}
    name = name if name in known else _ALSO.get(name, name)
    if name not in known:
        near = get_close_matches(name, known, 1)
        hint = f"; did you mean {near[0]!r}?" if near else "; auto finds out the format."
        if set("./") & set(name):  # the name of a file
            hint = "; the format comes before the source, and auto finds it out."
        raise IngestionError(f"no importer for {name!r}{hint} There are: {', '.join(sorted(known))}")
    return known[name]


def recognised(source: Source) -> tuple[Importer, str]:
    """Return the format of a source, and what it is in words.

    Raises
    ------
    IngestionError
        If no format knows it.
    """
    for importer in importers():
        found = importer.recognise(source)
        if found is not None:
            return importer, found
    raise IngestionError(
        f"{source.shown} is of no format that is recognised; name it, one of: "
        f"{', '.join(sorted(importer.name for importer in importers()))}"
    )
