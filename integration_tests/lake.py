"""Reading a lake back, by the names that the source knows, through Arrow and through batches.

Both ways give the same plain values as `oracle`: text as `str`, integers and times as `int`, numbers as
`float`, all else as parsed JSON.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import lakebed
from integration_tests.messages import Json, StreamName, parse

META = ("_airbyte_raw_id", "_airbyte_extracted_at", "_airbyte_meta", "_airbyte_generation_id")
MARKER = "version_control_info.json"


_folders: dict[tuple[Path, StreamName], Path] = {}
"""Where streams of lakes were found: each test has a lake of its own."""


def datasets(lake: Path) -> dict[StreamName, Path]:
    """Dataset folder of every stream, by the names kept inside the datasets."""
    found: dict[StreamName, Path] = {}
    for folder in (Path(place) for place, _, files in os.walk(lake) if MARKER in files):
        name = _name_in(lakebed.load(folder, read_only=True))
        assert name not in found, f"{name} has two datasets"
        found[name] = folder
    _folders.update(((lake, name), folder) for name, folder in found.items())
    return found


def _name_in(dataset: lakebed.Dataset) -> StreamName:
    about = dataset.info["airbyte"]
    return about["namespace"] or "", about["stream"]


def open_stream(lake: Path, name: StreamName) -> lakebed.Dataset:
    """Dataset of one stream."""
    folder = _folders.get((lake, name)) or datasets(lake)[name]
    dataset = lakebed.load(folder, read_only=True)
    assert _name_in(dataset) == name
    return dataset


def columns(dataset: lakebed.Dataset) -> dict[str, str]:
    """Property or meta column -> tensor."""
    return {**dataset.info["airbyte"]["columns"], **{name: name for name in META}}


def table(lake: Path, name: StreamName) -> pa.Table:
    """Rows of a stream as an Arrow table whose columns have the names of the source."""
    return _table(open_stream(lake, name))


def _table(dataset: lakebed.Dataset) -> pa.Table:
    whole = pa.table(dataset)
    assert set(whole.column_names) == set(dataset.tensors)
    return pa.table({field: whole[tensor] for field, tensor in columns(dataset).items()})


def integers(values: pa.Array) -> NDArray[np.int64]:
    """Numbers that stand behind integers, dates and times; no nulls."""
    if pa.types.is_date32(values.type):
        values = values.view(pa.int32())
    elif pa.types.is_temporal(values.type):
        assert values.type.unit == "us", values.type
        values = values.view(pa.int64())
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.int64)


def rows(lake: Path, name: StreamName) -> list[dict[str, Json]]:
    """Rows of a stream, read through Arrow."""
    dataset = open_stream(lake, name)
    found, about = _table(dataset), dataset.info["airbyte"]["kinds"]
    plain = {
        field: _plain(found[field], is_json=field == "_airbyte_meta" or about.get(field) == "JSON")
        for field in found.column_names
    }
    return [dict(zip(plain, values, strict=True)) for values in zip(*plain.values(), strict=True)]


def _plain(column: pa.ChunkedArray, *, is_json: bool) -> list[Json]:
    values = column.combine_chunks()
    if pa.types.is_date32(values.type):
        values = values.view(pa.int32())
    elif pa.types.is_temporal(values.type):
        values = values.view(pa.int64())
    found: list[Json] = values.to_pylist()
    return [None if text is None else parse(text) for text in found] if is_json else found


def rows_by_batches(lake: Path, name: StreamName) -> list[dict[str, Json]]:
    """Rows of a stream, read through `Dataset.batches`."""
    dataset = open_stream(lake, name)
    fields = columns(dataset)
    found = []
    for batch in dataset.batches(max(7, len(dataset) // 30)):
        assert set(batch) == set(fields.values())
        plain = {field: list(_items(batch[tensor])) for field, tensor in fields.items()}
        found += [dict(zip(plain, values, strict=True)) for values in zip(*plain.values(), strict=True)]
    return found


def _items(values: Any) -> Iterator[Json]:
    if isinstance(values, np.ndarray):
        yield from values.reshape(len(values)).tolist()
    else:
        yield from values


def rounded(value: Json) -> Json:
    """JSON with fractions as floats: what Python's own parser gives, and `batches` too."""
    return (
        json.loads(json.dumps(value, default=_float)) if isinstance(value, list | dict | Decimal) else value
    )


def _float(value: Decimal) -> float:
    return float(value)
