"""bcolz: arrays (carray) and tables of arrays (ctable) in folders, read chunk by chunk by the package bcolz-zipline.

    array/meta/storage, meta/sizes       JSON: dtype, length of chunks, shape
    array/data/__0.blp                   chunks, packed by Blosc
    table/__rootdirs__                   JSON: names of the columns, a folder each

Columns of objects are pickles, which are never loaded: dtypes that may hold objects are refused before the package
opens any file.
"""

from __future__ import annotations

import re
from functools import partial
from importlib.util import find_spec
from typing import Any, Unpack

from lakebed.errors import IngestionError
from lakebed.importers.arrays.array_reader import blocks, new_reader
from lakebed.importers.arrays.arrays import (
    ALONE,
    ArrayOptions,
    Found,
    Sliced,
    attributes_of,
    planned,
)
from lakebed.importers.core.plan import Plan
from lakebed.importers.core.source import Source

BATCHED = True

_TABLE, _STORAGE = "__rootdirs__", "meta/storage"
_PLAIN = re.compile(r"[<>|=]?[a-zA-Z]+[0-9]*(\[[a-zA-Z]+\])?")
_MOST_BYTES = 1 << 20


def recognise(source: Source) -> str | None:
    """Describe a table or an array."""
    if not source.is_folder:
        return None
    if _TABLE in source.files:
        return "a bcolz table"
    return "a bcolz array" if {_STORAGE, "meta/sizes"} <= source.files.keys() else None


def plan(source: Source, **options: Unpack[ArrayOptions]) -> Plan:
    """Plan a tensor for each column of a folder."""
    found = recognise(source)
    if found is None:
        raise IngestionError(f"{source.shown} is not a folder of bcolz")
    _check(source)
    return planned(source, new_reader(source, __name__).found(), found, **options)


rows = partial(blocks, module=__name__)


def _check(source: Source) -> None:
    """Refuse values that the package would evaluate or unpickle, and columns in folders outside of the source.

    Raises
    ------
    IngestionError
        If a dtype is not allowed, the name of a column leads out of the folder, or the package is missing.
    """
    if find_spec("bcolz") is None:
        raise IngestionError("folders of bcolz need its fork: pip install bcolz-zipline")
    if not source.is_local:
        raise IngestionError(
            f"{source.shown}: a folder of bcolz can be imported only from this machine: copy it here first"
        )
    for name, reason in source.left_out.items():
        raise IngestionError(f"{source.shown}: {name}: {reason}")
    folders = [""]
    if _TABLE in source.files:
        names = source.json(_TABLE, _MOST_BYTES).get("names")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise IngestionError(f"{_TABLE} of {source.shown} names no columns")
        folders = [f"{name}/" for name in names]
    for folder in folders:
        name = source.find(f"{folder}{_STORAGE}")  # raises if the name leads out of the folder
        dtype = str(source.json(name, _MOST_BYTES).get("dtype"))
        if not _PLAIN.fullmatch(dtype) or dtype.strip("|<>=") in ("None", "object", "O", "O8"):
            raise IngestionError(
                f"{name} of {source.shown}: arrays of {dtype!r} are not imported, because objects are stored as "
                "pickles, and reading these can run code"
            )


# -- in the process of array_reader ------------------------------------------------------------------------------


def opened(path: str) -> Any:
    """Open a table or an array."""
    import bcolz

    bcolz.set_nthreads(1)
    return bcolz.open(path, mode="r")


def found_in(found: Any) -> Found:
    """Return the columns of a table, or the only array."""
    is_table = hasattr(found, "names")
    arrays = {name: Sliced(found[name]) for name in found.names} if is_table else {ALONE: Sliced(found)}
    attributes = {name: attributes_of(dict(iter(one.data.attrs))) for name, one in arrays.items()}
    attributes[""] = attributes_of(dict(iter(found.attrs))) if is_table else {}
    return Found(arrays, {}, attributes, {name: int(one.data.chunklen) for name, one in arrays.items()})
