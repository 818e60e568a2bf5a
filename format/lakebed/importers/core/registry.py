"""The formats from which data sets are imported; other packages add formats by the entry point ``lakebed.importers``.

:mod:`lakebed.importers.core.plan` lists the functions of the module of a format.
"""

from __future__ import annotations

from lakebed.errors import IngestionError
from lakebed.importers.core.source import Source
from lakebed.runtime.plugins import Format, choices, formats

ENTRY_POINTS = "lakebed.importers"

# Importers in the order in which ``auto`` tries them: the most specific formats first.
_MODULES = {
    "deeplake": ("deeplake.deeplake_datasets", "Deep Lake datasets: 2 and 3 with their versions, and 4"),
    "coco": ("detection.coco", "COCO instances, key points, captions and panoptic segments"),
    "cvat": ("detection.cvat", "CVAT XML of images and videos: all its shapes, tracks and tags"),
    "labelme": ("detection.labelme", "LabelMe polygons, rectangles, circles, lines and points"),
    "voc": ("detection.voc", "Pascal VOC boxes, parts and masks"),
    "open_images": ("detection.open_images", "Open Images boxes and labels of images"),
    "yolo": ("detection.yolo", "YOLO boxes, polygons, poses and oriented boxes"),
    "huggingface": ("tables.huggingface", "Hugging Face datasets, open or saved by save_to_disk"),
    "tsv": ("shards.tsv", "TSV files of images in base64 with an index of their lines"),
    "webdataset": ("shards.webdataset", "WebDataset shards: tar files of samples"),
    "mds": ("shards.mds", "MosaicML MDS shards"),
    "litdata": ("shards.litdata", "LitData chunks"),
    "tfrecord": ("tfrecord.tfrecord", "TFRecord files of tf.train.Example"),
    "delta": ("tables.delta", "Delta Lake tables, at any version"),
    "iceberg": ("tables.iceberg", "Iceberg tables of catalogs and folders, at any snapshot"),
    "dataframe": ("tables.dataframe", "tables of pandas, polars and Arrow, and Arrow files"),
    "parquet": ("tables.parquet", "Parquet files"),
    "hdf5": ("arrays.hdf5", "HDF5 files: arrays with their attributes"),
    "zarr": ("arrays.zarr_files", "Zarr 2 and 3: arrays with their attributes"),
    "lmdb": ("key_values.lmdb_files", "LMDB: files and Caffe's Datum by their keys"),
    "leveldb": ("key_values.leveldb_files", "LevelDB: files and Caffe's Datum by their keys"),
    "bcolz": ("arrays.bcolz_files", "bcolz tables and arrays in folders"),
    "dask": ("arrays.dask_arrays", "arrays of Dask, one or several by name"),
    "numpy": ("arrays.numpy_files", "NumPy files: .npy and .npz"),
    "csv": ("tables.delimited", "CSV and TSV files"),
    "jsonl": ("tables.json_lines", "JSON lines, and tables of JSON (also called json)"),
    "xlsx": ("tables.xlsx", "Excel workbooks (also called excel)"),
    "sql": ("tables.sql", "tables and queries of databases: PostgreSQL, SQLite, DuckDB and others, by ADBC"),
    "folder": ("folders.folder", "folders of images, audio, video, text or arrays, a class each"),
}

# Alternative names of formats.
_ALSO = {"json": "jsonl", "excel": "xlsx"}


def importers() -> dict[str, Format]:
    """Return all formats by name, in the order in which ``auto`` tries them."""
    built_in = (Format(name, f"lakebed.importers.{path}", told) for name, (path, told) in _MODULES.items())
    return formats(ENTRY_POINTS, built_in)


def importer_of(name: str) -> Format:
    """Return the format with a name.

    Raises
    ------
    IngestionError
        If no format has the name.
    """
    known = importers()
    name = name if name in known else _ALSO.get(name, name)
    if name not in known:
        is_file = set("./") & set(name)
        hint = "; the format comes before the source, and auto detects it." if is_file else ""
        raise IngestionError(f"no importer for {choices(name, known, hint, '; auto detects the format.')}")
    return known[name]


def recognised(source: Source) -> tuple[Format, str]:
    """Return the format of a source, and a description of the source.

    Raises
    ------
    IngestionError
        If no format recognises it.
    """
    known = importers()
    for importer in known.values():
        found = importer.functions.recognise(source)
        if found is not None:
            return importer, found
    raise IngestionError(
        f"the format of {source.shown} is not recognised; name it, one of: {', '.join(sorted(known))}"
    )
