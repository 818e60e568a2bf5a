"""Records of one stream -> Arrow columns.

    kind           JSON value that fits                                            Arrow type
    TEXT           any string; the JSON text of anything else                      string
    INT64          whole number within 64 bits, also as `1.0`, `1e3` or "12"       int64
    FLOAT64        number, nearest double; "1.5", "NaN", "Infinity", "-Infinity"   double
    BOOL           true, false; 1, 0; "true", "false" in any case                  bool
    TIMESTAMP_TZ   "2024-05-06T07:08:09.5+02:00"; without an offset UTC            int64, microseconds UTC
    TIMESTAMP      the same, an offset dropped                                     int64, microseconds
    DATE           "2024-05-06"; the date of a timestamp                           int32, days
    TIME_TZ        "07:08:09.5+02:00"; without an offset UTC                       int64, microseconds UTC
    TIME           the same, an offset dropped                                     int64, microseconds
    JSON           anything; its text as the source wrote it                       json (text)

A missing property and a JSON null are nulls. Anything else that does not fit is a null, too, and an entry
of the row's `_airbyte_meta.changes` (NULLED, DESTINATION_SERIALIZATION_ERROR): whole numbers beyond 64 bits,
numbers beyond the largest double, strings with half a surrogate pair, impossible dates. Fractions of a second
are cut to microseconds. Years are astronomical (1 BC is 0, also written "0001-02-03 BC"), as far as 32 bits
of days or 64 bits of microseconds reach; a second 60 is the first moment of the next minute.

Source: Airbyte protocol, supported data types and meta columns.
"""

import enum
import json
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from destination_deeplake.naming import META_COLUMNS
from destination_deeplake.native.records import Block, TableBuilder, repeated

_RAW_ID, _EXTRACTED_AT, _META, _GENERATION_ID = META_COLUMNS


class Kind(enum.IntEnum):
    """What the values of a column mean; the compiled part uses the same numbers."""

    TEXT = 0
    INT64 = 1
    FLOAT64 = 2
    BOOL = 3
    TIMESTAMP_TZ = 4
    TIMESTAMP = 5
    DATE = 6
    TIME_TZ = 7
    TIME = 8
    JSON = 9


_INTEGERS = (Kind.INT64, Kind.TIMESTAMP_TZ, Kind.TIMESTAMP, Kind.TIME_TZ, Kind.TIME)
_ARROW_TYPES = {
    Kind.TEXT: pa.string(),
    Kind.FLOAT64: pa.float64(),
    Kind.BOOL: pa.bool_(),
    Kind.DATE: pa.int32(),
    Kind.JSON: pa.json_(),
} | dict.fromkeys(_INTEGERS, pa.int64())


@dataclass(frozen=True, slots=True)
class Column:
    """A property of a stream's records.

    Attributes
    ----------
    field : str
        Name of the property, exactly as in the records.
    kind : Kind
        What its values mean.
    """

    field: str
    kind: Kind


class RecordTable:
    """Rows of one stream that wait to be published; `Wire` fills it.

    Parameters
    ----------
    columns : sequence of Column
        Properties to keep. One that is named like a meta column is left out: the meta column has that name.
    sync_id : int or None
        Goes into every row's `_airbyte_meta`.
    generation_id : int or None
        Goes into every row's `_airbyte_generation_id`.

    Raises
    ------
    ValueError
        If two columns have the same name.

    Attributes
    ----------
    builder : TableBuilder
        The compiled part.
    """

    def __init__(self, columns: Sequence[Column], *, sync_id: int | None, generation_id: int | None) -> None:
        self._columns = [column for column in columns if column.field not in META_COLUMNS]
        if len({column.field for column in self._columns}) != len(self._columns):
            raise ValueError("two columns have the same name")
        self._generation_id = generation_id
        meta = json.dumps({"sync_id": sync_id, "changes": []}, separators=(",", ":"))
        self.builder = TableBuilder(map(_description, self._columns), meta.encode())

    @property
    def rows(self) -> int:
        """Rows buffered now."""
        return self.builder.rows

    @property
    def nbytes(self) -> int:
        """Bytes buffered now."""
        return self.builder.nbytes

    @property
    def total_rows(self) -> int:
        """Rows accepted since the table was made."""
        return self.builder.total_rows

    @property
    def unknown_fields(self) -> int:
        """Values of fields outside the schema, which were ignored."""
        return self.builder.unknown_fields

    @property
    def nulled(self) -> int:
        """Values that did not fit their column: null in the row, named in its meta."""
        return self.builder.nulled

    def take(self) -> dict[str, pa.Array]:
        """Move the rows out and leave the table empty.

        The arrays are the table's own memory. It serves later rows once the last array over it is gone.

        Returns
        -------
        dict of str to pyarrow.Array
            Every column by its field, then the four meta columns, all of the same length.
        """
        rows = self.builder.rows
        kinds = [*(column.kind for column in self._columns), Kind.INT64, Kind.JSON, Kind.TEXT]
        taken = self.builder.take()
        if taken is None:
            arrays = [pa.nulls(0, _ARROW_TYPES[kind]) for kind in kinds]
        else:
            arrays = [_array(kind, rows, column) for kind, column in zip(kinds, taken, strict=True)]
        *fields, extracted, meta, ids = arrays
        if self._generation_id is None:
            generation = pa.nulls(rows, pa.int64())
        else:
            generation = _array(Kind.INT64, rows, (0, None, None, repeated(self._generation_id, rows)))
        return dict(zip((column.field for column in self._columns), fields, strict=True)) | {
            _RAW_ID: ids,
            _EXTRACTED_AT: extracted,
            _META: meta,
            _GENERATION_ID: generation,
        }


def _description(column: Column) -> tuple[bytes, bytes, int, bytes]:
    """Return what the compiled part needs to know of a column."""
    key = json.dumps(column.field, ensure_ascii=False)
    if any("\ud800" <= letter <= "\udfff" for letter in key):
        key = json.dumps(column.field)  # half a surrogate pair has a form in JSON, but none in UTF-8
    change = f'{{"field":{key},"change":"NULLED","reason":"DESTINATION_SERIALIZATION_ERROR"}}'
    return column.field.encode("utf-8", "surrogatepass"), key.encode(), int(column.kind), change.encode()


def _array(kind: Kind, rows: int, taken: tuple[int, Block | None, Block | None, Block]) -> pa.Array:
    """Return the array over the memory of a taken column."""
    nulls, *blocks = taken
    buffers = [None if block is None else pa.py_buffer(block) for block in blocks]
    if kind in (Kind.TEXT, Kind.JSON):
        texts = pa.Array.from_buffers(pa.string(), rows, buffers, nulls)
        return texts if kind is Kind.TEXT else pa.ExtensionArray.from_storage(pa.json_(), texts)
    validity, _, values = buffers
    return pa.Array.from_buffers(_ARROW_TYPES[kind], rows, [validity, values], nulls)
