"""The formats to which datasets are exported; other packages add formats by the entry point ``lakebed.exporters``."""

from __future__ import annotations

from lakebed.errors import ExportError
from lakebed.runtime.plugins import Format, choices, formats

ENTRY_POINTS = "lakebed.exporters"

_MODULES = {
    "coco": ("detection.coco", "COCO: images, and JSON of objects, key points, captions and segments"),
    "yolo": ("detection.yolo", "YOLO: images, text files of boxes or polygons, data.yaml"),
    "parquet": ("tables.parquet", "Parquet files, with images and classes as Hugging Face knows them"),
    "huggingface": ("tables.huggingface", "what load_from_disk of Hugging Face's datasets reads"),
    "webdataset": ("shards.webdataset", "WebDataset: tar files of samples"),
    "mds": ("shards.mds", "MosaicML MDS: shards that StreamingDataset reads"),
    "csv": ("tables.delimited", "CSV or TSV files"),
    "jsonl": ("tables.json_lines", "JSON lines"),
    "hdf5": ("arrays.hdf5", "an HDF5 file: an array for each tensor"),
    "zarr": ("arrays.zarr_files", "a Zarr folder: an array for each tensor"),
    "folder": ("core.folder", "a folder of media files, a class each"),
}


def exporters() -> dict[str, Format]:
    """Return all formats by name."""
    built_in = (Format(name, f"lakebed.exporters.{path}", told) for name, (path, told) in _MODULES.items())
    return formats(ENTRY_POINTS, built_in)


def exporter_of(name: str) -> Format:
    """Return the format with this name.

    Raises
    ------
    ExportError
        If no format has this name.
    """
    known = exporters()
    if name not in known:
        raise ExportError(f"no exporter for {choices(name, known)}")
    return known[name]
