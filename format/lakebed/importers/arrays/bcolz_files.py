"""bcolz: arrays (carray) and tables of arrays (ctable) in folders, read chunk by chunk by the package bcolz-zipline.

    array/meta/storage, meta/sizes       JSON: dtype, length of chunks, shape
    array/data/__0.blp                   chunks, packed by Blosc
    table/__rootdirs__                   JSON: names of the columns, a folder each

Columns of objects are pickles, which are never loaded: dtypes that are not plain are refused before the package opens
anything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from lakebed.errors import IngestionError
from lakebed.importers.arrays.array_reader import blocks, new_reader
from lakebed.importers.arrays.arrays import Block, Context, Found, attribute, planned
from lakebed.importers.core.plan import Plan
from lakebed.importers.core.source import Source

BATCHED = True

_ALONE = "array"
_TABLE, _STORAGE = "__rootdirs__", "meta/storage"
_PLAIN = re.compile(r"[<>|=]?[a-zA-Z]+[0-9]*(\[[a-zA-Z]+\])?")
_MOST_BYTES = 1 << 20


def recognise(source: Source) -> str | None:
    """Say that it is a table or an array; None if it is none."""
    if not source.is_folder or source.is_object:
        return None
    if _TABLE in source.files:
        return "a bcolz table"
    return "a bcolz array" if {_STORAGE, "meta/sizes"} <= source.files.keys() else None


def plan(source: Source, *, arrays: Sequence[str] = (), rows: str | None = None) -> Plan:
    """Plan a tensor for each column.

    Parameters
    ----------
    source
        The folder.
    arrays
        Names of the columns that are taken; left out, all.
    rows
        Name of the column whose length is that of the rows; left out, the length that most have.
    """
    found = recognise(source)
    if found is None:
        raise IngestionError(f"{source.shown} is no folder of bcolz")
    _check(source)
    return planned(source, new_reader(source, __name__).found(), found, arrays, rows)


def rows(item: Block, context: Context) -> Iterator[Any]:
    """Yield some rows of all columns."""
    return blocks(item, context, __name__)


def describe(plan: Plan) -> dict[str, Any]:
    """Say the attributes, and which arrays are no columns of rows."""
    return plan.about


def _check(source: Source) -> None:
    """Refuse what the package would evaluate or unpickle, and folders elsewhere.

    Raises
    ------
    IngestionError
        If a dtype is not plain, a name of a column leads elsewhere, or the package is missing.
    """
    if find_spec("bcolz") is None:
        raise IngestionError("folders of bcolz need its fork: pip install bcolz-zipline")
    if not source.is_local:
        raise IngestionError(
            f"{source.shown}: folders of bcolz are imported from this machine: copy it here first"
        )
    if source.left_out:
        name, reason = next(iter(source.left_out.items()))
        raise IngestionError(f"{source.shown}: {name}: {reason}")
    folders = [""]
    if _TABLE in source.files:
        names = _json(source, _TABLE).get("names")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise IngestionError(f"{_TABLE} of {source.shown} names no columns")
        folders = [f"{name}/" for name in names]
    for folder in folders:
        # A name that leads out of the folder is not found.
        name = source.find(f"{folder}{_STORAGE}")
        dtype = _json(source, name).get("dtype")
        if (
            not isinstance(dtype, str)
            or not _PLAIN.fullmatch(dtype)
            or dtype.strip("|<>=") in ("object", "O", "O8")
        ):
            raise IngestionError(
                f"{name} of {source.shown}: arrays of {dtype!r} are not taken: objects are pickles, which would run "
                "code"
            )


def _json(source: Source, name: str) -> dict[str, Any]:
    try:
        if source.files[name] > _MOST_BYTES:
            raise IngestionError(f"{name} of {source.shown} is too large")
        found = json.loads(source.read(name))
    except (ValueError, RecursionError) as error:
        raise IngestionError(f"{name} of {source.shown} is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise IngestionError(f"{name} of {source.shown} is no JSON object")
    return found


# -- in the process of array_reader ------------------------------------------------------------------------------


def opened(path: str) -> Any:
    """Open a table or an array."""
    import bcolz

    bcolz.set_nthreads(1)
    return bcolz.open(path, mode="r")


def found_in(found: Any) -> Found:
    """Return the columns of a table, or the one array."""
    arrays = (
        {name: _Array(found[name]) for name in found.names}
        if hasattr(found, "names")
        else {_ALONE: _Array(found)}
    )
    attributes = {
        name: {str(key): attribute(value) for key, value in one.data.attrs} for name, one in arrays.items()
    }
    attributes[""] = (
        {str(key): attribute(value) for key, value in found.attrs} if hasattr(found, "names") else {}
    )
    return Found(arrays, {}, attributes, {name: int(one.data.chunklen) for name, one in arrays.items()})


@dataclass(frozen=True)
class _Array:
    """An array of an open folder."""

    data: Any

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.data.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        found: np.dtype[Any] = self.data.dtype
        return found

    def read(self, start: int, stop: int) -> Any:
        return np.asarray(self.data[start:stop])
