r"""Dead letters: invalid lines, and values that do not fit, in a dataset beside the datasets of the streams.

    sync_id        of the sync that rejected it
    line_number    in the input of that sync, from 1
    namespace      of the stream's dataset; null without one
    stream         its name; null for a line whose stream is unknown
    field          of a value: the column, its parts joined by dots; null for a line
    reason         defect of the line or value
    text           the line, or the value as JSON, as the source wrote it; bytes that are not UTF-8 as `\xff`
    bytes          size of the whole; `text` holds the first 1 MiB of a line, 64 KiB of a value
    raw_id         of a value: `_airbyte_raw_id` of its row
    emitted_at     of a value: when the source emitted the record; microseconds UTC
    rejected_at    when it was published here; microseconds UTC

The dataset is created with the first letter. It is open only during a publish, so that syncs of several connections
into one place can take turns. Nothing of a letter's content is ever logged.
"""

import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import lakebed
from destination_deeplake.catalog import StreamKey
from destination_deeplake.lake import hold
from destination_deeplake.naming import LETTERS_FOLDER, META_COLUMNS
from destination_deeplake.wire import Rejected
from lakebed.errors import LakebedError

_RAW_ID, _EXTRACTED_AT, _, _ = META_COLUMNS
_UNFIT = "does not fit its column"
_LOCK_SECONDS = 30.0
_ATTEMPTS = 5
_ROW_BYTES = 200
"""Approximate bytes of a letter without its text."""

SCHEMA = pa.schema(
    {
        "sync_id": pa.int64(),
        "line_number": pa.int64(),
        "namespace": pa.string(),
        "stream": pa.string(),
        "field": pa.string(),
        "reason": pa.string(),
        "text": pa.string(),
        "bytes": pa.int64(),
        "raw_id": pa.string(),
        "emitted_at": pa.int64(),
        "rejected_at": pa.int64(),
    }
)
_TIMES = ("emitted_at", "rejected_at")


class DeadLetters:
    """The dead letters of one sync.

    Parameters
    ----------
    root : str
        Address of the folder or bucket prefix with the datasets of the streams.
    creds : lakebed.Credentials or None
        Credentials of the bucket.
    sync_id : int or None
        Id of the sync.
    names : mapping of (namespace, name) to (namespace, name)
        Names of the streams' datasets; letters of other streams keep the names of the source.

    Attributes
    ----------
    taken, durable : int
        Number of letters that arrived, and number of letters that are published; letters are published in order.
    nbytes : int
        Approximate number of bytes that wait to be published.
    """

    def __init__(
        self,
        root: str,
        creds: lakebed.Credentials | None,
        sync_id: int | None,
        names: Mapping[StreamKey, StreamKey] = MappingProxyType({}),
    ) -> None:
        self.taken = 0
        self.durable = 0
        self.nbytes = 0
        self._url = f"{root.rstrip('/')}/{LETTERS_FOLDER}"
        self._creds = creds
        self._sync_id = sync_id
        self._names = names
        self._lines: list[dict[str, Any]] = []
        self._values: list[pa.Table] = []

    def line(self, rejected: Rejected) -> None:
        """Add a line that is not a message."""
        key = rejected.key
        namespace, stream = (None, None) if key is None else self._names.get(key, key)
        text = rejected.raw.decode("utf-8", "backslashreplace")
        self._lines.append(
            {
                "line_number": rejected.line_number,
                "namespace": _storable(namespace),
                "stream": _storable(stream),
                "reason": rejected.reason + _cut(len(rejected.raw), rejected.size),
                "text": text,
                "bytes": rejected.size,
            }
        )
        self.taken += 1
        self.nbytes += len(text) + _ROW_BYTES

    def values(self, key: StreamKey, refused: pa.Table, rows: Mapping[str, pa.Array]) -> None:
        """Add the values of a stream that did not fit.

        Parameters
        ----------
        key : (namespace, name)
            The stream.
        refused : pyarrow.Table
            The values, as from `Batch.refused`.
        rows : mapping of str to pyarrow.Array
            The columns of their batch.
        """
        if not refused.num_rows:
            return
        namespace, stream = self._names.get(key, key)
        row, text, size = refused["row"], refused["text"], refused["bytes"]
        columns = {
            "line_number": refused["line_number"],
            "namespace": pa.repeat(pa.scalar(_storable(namespace), pa.string()), len(row)),
            "stream": pa.repeat(pa.scalar(_storable(stream), pa.string()), len(row)),
            "field": refused["field"].cast(pa.string()),
            "reason": _reasons(text, size),
            "text": text,
            "bytes": size,
            "raw_id": rows[_RAW_ID].take(row),
            "emitted_at": rows[_EXTRACTED_AT].take(row),
        }
        self._values.append(pa.table(columns))
        self.taken += len(row)
        self.nbytes += self._values[-1].nbytes + _ROW_BYTES * len(row)

    def publish(self) -> None:
        """Publish the letters that arrived since the last call.

        Raises
        ------
        lakebed.errors.LakebedError, OSError
            If the dataset cannot be opened, created or written; the letters then stay in memory.
        """
        if self.taken == self.durable:
            return
        batch = self._batch()
        with hold(self._open()) as dataset:
            _make_tensors(dataset)
            dataset.extend({name: batch[name].combine_chunks() for name in SCHEMA.names})
            dataset.flush()
        self._lines.clear()
        self._values.clear()
        self.nbytes = 0
        self.durable += batch.num_rows

    def finish(self, message: str) -> None:
        """Publish the waiting letters, and commit the letters of this sync, if it has any."""
        self.publish()
        if self.durable:
            with hold(self._open()) as dataset:
                dataset.commit(message, allow_empty=True)

    def _batch(self) -> pa.Table:
        """Return the waiting letters as columns of the dataset."""
        parts = [*self._values, pa.Table.from_pylist(self._lines, SCHEMA)]
        table = pa.concat_tables(parts, promote_options="default")
        now = time.time_ns() // 1000
        for name, value in (("sync_id", self._sync_id), ("rejected_at", now)):
            column = pa.repeat(pa.scalar(value, pa.int64()), table.num_rows)
            place = table.schema.get_field_index(name)
            table = table.set_column(place, name, column)
        return table

    def _open(self) -> lakebed.Dataset:
        """Open the dataset for writing, or create it."""
        for attempt in range(_ATTEMPTS):
            if lakebed.exists(self._url, creds=self._creds):
                break
            try:
                lakebed.empty(self._url, creds=self._creds)
            except LakebedError:
                # Another sync may be creating the dataset at this moment, so try again.
                if attempt == _ATTEMPTS - 1:
                    raise
                time.sleep(0.1 * 2**attempt)
        return lakebed.load(self._url, read_only=False, lock_timeout=_LOCK_SECONDS, creds=self._creds)


def _make_tensors(dataset: lakebed.Dataset) -> None:
    """Create missing tensors; in a new dataset, all of them."""
    for name, kind in zip(SCHEMA.names, SCHEMA.types, strict=True):
        if name in dataset:
            continue
        tensor = dataset.create_tensor(
            name,
            htype="generic" if kind == pa.int64() else "text",
            dtype="int64" if kind == pa.int64() else "unspecified",
            create_id_tensor=False,
            create_shape_tensor=False,
            create_sample_info_tensor=False,
        )
        if name in _TIMES:
            tensor.info["logical_type"] = "timestamp[us, tz=UTC]"


def _reasons(text: pa.ChunkedArray, size: pa.ChunkedArray) -> pa.Array:
    """Return the reason of each value."""
    reasons = [_UNFIT] * len(text)
    kept = pc.binary_length(text)
    for row in pc.indices_nonzero(pc.less(kept, size)).to_pylist():
        reasons[row] += _cut(kept[row].as_py(), size[row].as_py())
    return pa.array(reasons, pa.string())


def _cut(kept: int, size: int) -> str:
    return f"; the first {kept:,} of {size:,} bytes are kept" if kept < size else ""


def _storable(name: str | None) -> str | None:
    """Return a name as valid UTF-8, because JSON can hold half a surrogate pair."""
    return None if name is None else name.encode("utf-8", "backslashreplace").decode()
