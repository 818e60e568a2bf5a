"""Which formats there are: those of this room, and those of other packages by the entry point ``lakebed.exporters``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import EntryPoint
from typing import Any

from lakebed.errors import ExportError
from lakebed.exporters.core.plan import ExportPlan, Piece, Written
from lakebed.exporters.core.target import Target
from lakebed.runtime.installed import entry_points

ENTRY_POINTS = "lakebed.exporters"


@dataclass(frozen=True)
class Exporter:
    """A format.

    Parameters
    ----------
    name
        What users call it.
    module
        Name of its module.
    summary
        What it writes, in a line.
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
        return import_module(self.module) if self.entry is None else self.entry.load()

    @property
    def plan(self) -> Callable[..., ExportPlan]:
        """What exporting the dataset will do."""
        found: Callable[..., ExportPlan] = self.functions.plan
        return found

    @property
    def write(self) -> Callable[[Any, Piece, Any, Target], Written]:
        """What writes the rows of a piece."""
        found: Callable[[Any, Piece, Any, Target], Written] = self.functions.write
        return found

    @property
    def finish(self) -> Callable[[Sequence[Any], Any, Target], None]:
        """What writes the rest, once all pieces are written."""
        found: Callable[[Sequence[Any], Any, Target], None] = self.functions.finish
        return found


_BUILT_IN = (
    Exporter(
        "coco",
        "lakebed.exporters.detection.coco",
        "COCO: pictures, and JSON of objects, key points, captions and segments",
    ),
    Exporter(
        "yolo", "lakebed.exporters.detection.yolo", "YOLO: images, text files of boxes or polygons, data.yaml"
    ),
    Exporter(
        "parquet",
        "lakebed.exporters.tables.parquet",
        "Parquet files, with images and classes as Hugging Face knows them",
    ),
    Exporter(
        "huggingface",
        "lakebed.exporters.tables.huggingface",
        "what load_from_disk of Hugging Face's datasets reads",
    ),
    Exporter("webdataset", "lakebed.exporters.shards.webdataset", "WebDataset: tar files of samples"),
    Exporter("mds", "lakebed.exporters.shards.mds", "MosaicML MDS: shards that StreamingDataset reads"),
    Exporter("csv", "lakebed.exporters.tables.delimited", "CSV or TSV files"),
    Exporter("jsonl", "lakebed.exporters.tables.json_lines", "JSON lines"),
    Exporter("hdf5", "lakebed.exporters.arrays.hdf5", "an HDF5 file: an array for each tensor"),
    Exporter("zarr", "lakebed.exporters.arrays.zarr_files", "a Zarr folder: an array for each tensor"),
    Exporter("folder", "lakebed.exporters.core.folder", "a folder of media files, a class each"),
)


def exporters() -> Iterator[Exporter]:
    """Yield all formats; those of other packages come first."""
    for entry in sorted(entry_points(ENTRY_POINTS), key=lambda entry: entry.name):
        yield Exporter(entry.name, entry.value, f"of {entry.value.partition('.')[0]}", entry)
    yield from _BUILT_IN


def exporter_of(name: str) -> Exporter:
    """Return the format of a name.

    Raises
    ------
    ExportError
        If there is none.
    """
    known: dict[str, Exporter] = {}
    for exporter in exporters():
        known.setdefault(exporter.name, exporter)
    if name not in known:
        near = get_close_matches(name, known, 1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        raise ExportError(f"no exporter for {name!r}{hint} There are: {', '.join(sorted(known))}")
    return known[name]
