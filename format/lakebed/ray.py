"""Datasets of Ray Data whose blocks are read from a dataset, or written into one.

No data passes through the driver: tasks on the nodes read chunks and write parts (chunk files in no version yet); the
driver adopts the parts in order and publishes once. ``pip install 'lakebed[ray]'``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads

from lakebed.dataset.dataset import Dataset
from lakebed.engines.arrow_dataset import Keep, filtering
from lakebed.errors import ModuleNotInstalledException
from lakebed.session.columns import Batches, arrow_stream
from lakebed.session.parts import Part, PartTarget, adopt, writing_parts, written
from lakebed.session.table import Table
from lakebed.session.windows import WINDOW_BYTES, bytes_of_row, even, has_arrays, windows
from lakebed.transforms.cluster import connect

try:
    import ray.data
    from ray.data.block import BlockAccessor, BlockMetadata
    from ray.data.datasource import Datasink, Datasource, ReadTask
    from ray.data.extensions import ArrowTensorArray, ArrowVariableShapedTensorArray
except ImportError as missing:
    raise ModuleNotInstalledException(
        f"Ray Data is needed for this: pip install 'lakebed[ray]' ({missing})"
    ) from missing

__all__ = ["read", "write"]


def read(
    ds: Dataset,
    tensors: Sequence[str] | None = None,
    *,
    filter: pads.Expression | None = None,  # noqa: A002 - as in Dataset.scanner
    blocks: int | None = None,
    concurrency: int | None = None,
    ray_remote_args: Mapping[str, Any] | None = None,
) -> Any:
    """Return the rows of a dataset, or of a view of one, as a ``ray.data.Dataset``.

    Tasks on the nodes read the version that is open at the time of this call, in runs of rows that end at chunk ends.

    Parameters
    ----------
    ds
        A dataset or a view. On a disk, all nodes must have it under the same path.
    tensors
        Names of the tensors to read; None reads all.
    filter
        Expression on any columns, as for ``Dataset.scanner``, such as ``pyarrow.dataset.field("age") > 3``. Tasks apply
        the filter while they read: of the tensors, only the rows that pass are read, and chunks whose statistics show
        that no row can pass are not read at all.
    blocks
        Number of tasks; if None, Ray decides.
    concurrency, ray_remote_args
        As for ``ray.data.read_datasource``.

    Returns
    -------
    A ``ray.data.Dataset``: numbers, text, and json as text; arrays and images as tensors of Ray, or, with nulls, as
    nested lists.

    Raises
    ------
    TensorDoesNotExistError
        If the dataset lacks a tensor.
    InvalidInputError
        If a tensor has fewer rows than another, or the filter does not fit the columns.
    """
    table = even(ds._table(tensors))  # noqa: SLF001
    keep = filtering(ds._table(), filter)  # noqa: SLF001
    connect()
    source = _Rows(table, keep)
    given = {} if blocks is None else {"override_num_blocks": blocks}
    return ray.data.read_datasource(
        source, concurrency=concurrency, ray_remote_args=dict(ray_remote_args or {}), **given
    )


def write(
    dataset: Any,
    ds: Dataset,
    *,
    skip_ok: bool = False,
    concurrency: int | None = None,
    ray_remote_args: Mapping[str, Any] | None = None,
) -> None:
    """Append the rows of a ``ray.data.Dataset`` to a dataset, in the order of its blocks: all of them, or none.

    Parameters
    ----------
    ds
        A dataset whose tensors have the names of the columns. On a disk, all nodes must have it under the same path.
    skip_ok
        Tensors without a column stay as they are.
    concurrency, ray_remote_args
        As for ``ray.data.Dataset.write_datasink``.

    Raises
    ------
    ray.exceptions.RayTaskError
        If a task fails because a column has no tensor, a tensor has no column, or a value does not fit; nothing is
        added then.
    InvalidOperationError
        If blocks contradict one another, in their dtypes for example.
    """
    connect()
    table = ds._table()  # noqa: SLF001
    order = dataset.context.execution_options
    before, order.preserve_order = order.preserve_order, True
    try:
        with writing_parts(table) as target:
            sink = _Parts(target, skip_ok=skip_ok)
            dataset.write_datasink(sink, concurrency=concurrency, ray_remote_args=dict(ray_remote_args or {}))
            adopt(table.session, sink.parts)
    finally:
        order.preserve_order = before
    table.session.epoch += 1


class _Rows(Datasource):  # type: ignore[misc]
    """Reader of the rows of a table that a filter keeps."""

    def __init__(self, table: Table, keep: Keep) -> None:
        super().__init__()
        self._table, self._keep = table, keep
        self._bytes = bytes_of_row(table)

    def get_name(self) -> str:
        return "Lakebed"

    def estimate_inmemory_data_size(self) -> int:
        return int(len(self._table) * self._bytes)

    def get_read_tasks(self, parallelism: int, *limit: Any, **others: Any) -> list[ReadTask]:
        rows = others.get("per_task_row_limit", limit[0] if limit else None)
        more = {} if rows is None else {"per_task_row_limit": rows}
        known = {field.name for field in dataclasses.fields(BlockMetadata)}
        url = self._table.session.storage.url
        tasks = []
        for start, stop in windows(self._table, parallelism):
            facts = {
                "num_rows": stop - start if self._keep is None else None,
                "size_bytes": int((stop - start) * self._bytes),
                "input_files": [url],
                **dict.fromkeys(known - {"num_rows", "size_bytes", "input_files"}),
            }
            step = max(1, int(WINDOW_BYTES / max(1.0, self._bytes)))
            work = partial(_blocks, self._table[start:stop], step, self._keep)
            tasks.append(ReadTask(work, BlockMetadata(**facts), **more))
        return tasks


def _blocks(table: Table, step: int, keep: Keep) -> Iterator[pa.Table]:
    rows = table if keep is None else keep(table)
    for first in range(0, len(rows), step):
        yield _block(rows[first : first + step])


def _block(table: Table) -> pa.Table:
    tensors = [name for name in table.names if has_arrays(table, name)]
    plain = [name for name in table.names if name not in tensors]
    columns = {}
    if plain:
        found = arrow_stream(table.only(plain)).read_all()
        columns = {name: found[name] for name in plain}
    if tensors:
        batch = next(iter(Batches(table.only(tensors), max(1, len(table)))))
        columns |= {name: _tensors(batch[name]) for name in tensors}
    return pa.table({name: columns[name] for name in table.names})


def _tensors(values: Any) -> pa.Array:
    if isinstance(values, np.ndarray):
        return ArrowTensorArray.from_numpy(np.ascontiguousarray(values))
    found = np.empty(len(values), object)
    found[:] = list(values)
    return ArrowVariableShapedTensorArray.from_numpy(found)


class _Parts(Datasink):  # type: ignore[misc]
    """Writer that writes blocks as parts and sends the parts' metadata to the driver."""

    def __init__(self, target: PartTarget, *, skip_ok: bool) -> None:
        self._target = target
        self._skip_ok = skip_ok
        self.parts: list[Part] = []

    def get_name(self) -> str:
        return "Lakebed"

    def write(self, blocks: Iterable[Any], ctx: Any) -> tuple[int, Part | None]:
        return ctx.task_idx, written(self._target, map(_columns, blocks), skip_ok=self._skip_ok)

    def on_write_complete(self, write_result: Any) -> None:
        returns = sorted(write_result.write_returns, key=lambda found: int(found[0]))
        self.parts = [part for _, part in returns if part is not None]


def _columns(block: Any) -> dict[str, Any]:
    """Return the columns of a block as values of a dataset."""
    table = BlockAccessor.for_block(block).to_arrow()
    return {name: _values(table[name]) for name in table.column_names} if table.num_rows else {}


def _values(column: pa.ChunkedArray) -> Any:
    if not isinstance(column.type, pa.BaseExtensionType):
        return column
    if not hasattr(column.type, "shape") and not hasattr(column.type, "ndim"):
        return column.to_pylist()  # a column of Python objects
    found: list[Any] = []
    for chunk in column.chunks:
        found.extend(chunk.to_numpy(zero_copy_only=False))
    return np.stack(found) if len({value.shape for value in found}) == 1 else found
