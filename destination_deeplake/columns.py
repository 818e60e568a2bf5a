"""Arrow columns from the records of one stream.

    kind           JSON value that fits                                            Arrow type
    TEXT           any string; arrays and objects as compact JSON, else its text   string
    INT64          whole number within 64 bits, also as `1.0`, `1e3` or "12"       int64
    FLOAT64        number, nearest double; "1.5", "NaN", "Infinity", "-Infinity"   double
    BOOL           true, false; 1, 0; "true", "false" in any case                  bool
    TIMESTAMP_TZ   "2024-05-06T07:08:09.5+02:00"; without an offset UTC            int64, microseconds UTC
    TIMESTAMP      the same, an offset dropped                                     int64, microseconds
    DATE           "2024-05-06", "2024/5/6", "2024 May 6"; date of a timestamp     int32, days
    TIME_TZ        "07:08:09.5+02:00"; without an offset UTC                       int64, microseconds UTC
    TIME           the same, an offset dropped                                     int64, microseconds
    JSON           anything; its text as the source wrote it                       json (text)
    EXACT          number, or a string that is one; its digits as they are written  string
    BYTES          string of base64, also URL-safe or in a `data:` URL             binary
    FLOATS         array of numbers, or a string that holds one as JSON            list of float or double, flat

A missing property and a JSON null are nulls. Anything else that does not fit is a null, too, and an entry
of the row's `_airbyte_meta.changes` (NULLED, DESTINATION_SERIALIZATION_ERROR): whole numbers beyond 64 bits,
numbers beyond the largest double, strings with half a surrogate pair, impossible dates, dates that do not begin
with the year. The parts of a date may be separated by `-`, `/`, `.`, a blank or nothing. Fractions of a second
are cut to microseconds. Years are astronomical (1 BC is 0, also written "0001-02-03 BC"), as far as 32 bits
of days or 64 bits of microseconds reach; a second 60 is the first moment of the next minute. Base64 may
lack its padding and contain white space. An array of numbers must have the shape of its column and contain no null.

A column may be inside of objects. If a record has any other value instead of such an object, the columns inside are
null, and an entry of `changes` names the object, unless the object is itself a column, which keeps the value.

Source: Airbyte protocol, supported data types and meta columns.
"""

import enum
import json
import threading
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from destination_deeplake.groups import layout
from destination_deeplake.naming import META_COLUMNS
from destination_deeplake.native.records import Block, TableBuilder, repeated

_RAW_ID, _EXTRACTED_AT, _META, _GENERATION_ID = META_COLUMNS


class Kind(enum.IntEnum):
    """The meaning of a column's values; the compiled code uses the same numbers."""

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
    EXACT = 10
    BYTES = 11
    FLOATS = 12


MAX_PATH = 16
"""Maximum number of properties in the path of a column."""
MAX_DIMENSIONS = 16
"""Maximum number of dimensions of an array of numbers."""

_INTEGERS = (Kind.INT64, Kind.TIMESTAMP_TZ, Kind.TIMESTAMP, Kind.TIME_TZ, Kind.TIME)
_ARROW_TYPES = {
    Kind.TEXT: pa.string(),
    Kind.FLOAT64: pa.float64(),
    Kind.BOOL: pa.bool_(),
    Kind.DATE: pa.int32(),
    Kind.JSON: pa.json_(),
    Kind.EXACT: pa.string(),
    Kind.BYTES: pa.binary(),
} | dict.fromkeys(_INTEGERS, pa.int64())
_ITEMS = {"float32": pa.float32(), "float64": pa.float64()}


@dataclass(frozen=True, slots=True, init=False)
class Column:
    """A value of a stream's records.

    Parameters
    ----------
    path : str or tuple of str
        A property, or the properties that lead to one inside of objects; exactly as in the records.
    kind : Kind
        Meaning of its values.
    shape : tuple of int or None
        For FLOATS, the shape of every value; 0 as the first of several sizes stands for any size, as for boxes. None
        allows arrays of numbers of any length, but no nested arrays.
    dtype : str
        For FLOATS, "float32" or "float64".

    Raises
    ------
    ValueError
        If the path is empty or too long, the shape is not positive or the dtype is neither "float32" nor "float64".
    """

    path: tuple[str, ...]
    kind: Kind
    shape: tuple[int, ...] | None
    dtype: str

    def __init__(
        self,
        path: str | tuple[str, ...],
        kind: Kind,
        *,
        shape: tuple[int, ...] | None = None,
        dtype: str = "float32",
    ) -> None:
        parts = (path,) if isinstance(path, str) else tuple(path)
        if not 0 < len(parts) <= MAX_PATH:
            raise ValueError(f"a column has 1 to {MAX_PATH} properties in its path, not {len(parts)}")
        if dtype not in _ITEMS:
            raise ValueError(f"arrays of numbers are float32 or float64, not {dtype}")
        if shape is not None and not _is_shape(shape):
            raise ValueError(f"a shape has 1 to {MAX_DIMENSIONS} positive sizes, not {shape}")
        for name, value in (("path", parts), ("kind", kind), ("shape", shape), ("dtype", dtype)):
            object.__setattr__(self, name, value)

    @property
    def field(self) -> str:
        """Name of the column: its path, joined by dots."""
        return ".".join(self.path)

    @property
    def key(self) -> str:
        """Key of its values in the result of `RecordTable.take`: the field, changed if `OWN_COLUMNS` has that name."""
        field = self.field
        return f"{field}_" if field.rstrip("_") in OWN_COLUMNS else field

    @property
    def item_bytes(self) -> int:
        """Bytes of the unit of the column's offsets: a number for FLOATS, else a byte."""
        return _ITEMS[self.dtype].bit_width // 8 if self.kind is Kind.FLOATS else 1

    @property
    def arrow_type(self) -> pa.DataType:
        """Type of the column's arrays."""
        return pa.list_(_ITEMS[self.dtype]) if self.kind is Kind.FLOATS else _ARROW_TYPES[self.kind]


def _is_shape(shape: tuple[int, ...]) -> bool:
    sized = shape[1:] if len(shape) > 1 and shape[0] == 0 else shape
    return 0 < len(shape) <= MAX_DIMENSIONS and all(size > 0 for size in sized)


def shape_text(shape: tuple[int, ...]) -> str:
    """Return a shape as users read it: 3x3, or Nx4 for any number of rows of four."""
    return "x".join("N" if size == 0 else str(size) for size in shape)


FILE_COLUMNS = ("_airbyte_file_url", "_airbyte_file_path", "_airbyte_file_bytes")
"""Columns of a record's file: its present path, its path at the source, its size."""

OWN_COLUMNS = frozenset((*META_COLUMNS, *FILE_COLUMNS))
"""Columns that are not properties of the records; a property may have the same name."""

_FILES = tuple(map(Column, FILE_COLUMNS, (Kind.TEXT, Kind.TEXT, Kind.INT64)))
_REST = (Column(_EXTRACTED_AT, Kind.INT64), Column(_META, Kind.JSON), Column(_RAW_ID, Kind.TEXT))


@dataclass(frozen=True, slots=True)
class Refused:
    """The values of a column that did not fit.

    Attributes
    ----------
    count : int
        Number of values that did not fit.
    first : int
        Number of the first record with such a value, from 1.
    """

    count: int
    first: int


@dataclass(frozen=True, slots=True)
class Batch:
    """The rows that were taken out of a table.

    Attributes
    ----------
    rows : int
        Number of rows.
    columns : dict of str to pyarrow.Array
        Every column by its key, then the columns of the file, then the four meta columns, all of the same length.
    misfits : dict of str to Refused
        Values that did not fit since the sync began, these rows included, by key of their column.
    refused : pyarrow.Table or None
        The values of these rows that did not fit: `row` of the value in the batch and `line_number` in the input
        (int64), the `field` that the row's meta names (dictionary of string), the JSON `text` of the value up to 64 KiB
        (string) and its `bytes` in all. None if they are not kept.
    numbers : pyarrow.Table or None
        Numbers, dates and times that their column may have rounded or refused, in the same form but with whole texts;
        None if there are none. The table includes all values that columns in `exact` do not hold exactly, and some that
        they hold exactly; strings that spell numbers have their quotes.
    partitions : dict of str to int
        Number of rows of each partition, if they are counted.
    """

    rows: int
    columns: dict[str, pa.Array]
    misfits: dict[str, Refused]
    refused: pa.Table | None = None
    numbers: pa.Table | None = None
    partitions: dict[str, int] = field(default_factory=dict)


class PartitionIds(enum.Enum):
    """Encoding of partition ids in records."""

    JSON = enum.auto()
    PROTOBUF = enum.auto()


@dataclass(frozen=True, slots=True)
class Lanes:
    """The lanes of a sync: its inputs of records, which are several sockets or standard input; each has its own thread.

    Attributes
    ----------
    locks : tuple of threading.Lock
        One lock for each lane, held while the lane's part of a table is filled or emptied; empty for a single lane.
    partitions : PartitionIds or None
        Encoding of the partitions by which records are counted; None for no counts.
    """

    locks: tuple[threading.Lock, ...] = ()
    partitions: PartitionIds | None = None


ONE_LANE = Lanes()
"""Standard input."""


class Lane:
    """The rows of a table that arrive by one input: a socket, or standard input.

    Attributes
    ----------
    builder : TableBuilder
        The compiled part.
    lock : threading.Lock
        Held while the part is filled or emptied.
    """

    def __init__(self, builder: TableBuilder, lock: threading.Lock) -> None:
        self.builder = builder
        self.lock = lock
        self.taken_misfits: list[tuple[int, int, int]] = []


class RecordTable:
    """The rows of one stream that wait to be published; `Wire` adds them.

    Parameters
    ----------
    columns : sequence of Column
        Values to keep.
    sync_id : int or None
        Value for every row's `_airbyte_meta`.
    generation_id : int or None
        Value for every row's `_airbyte_generation_id`.
    files : bool
        Whether records have files; adds `FILE_COLUMNS`.
    keep_refused : bool
        Whether values that did not fit are kept for `Batch.refused`.
    exact : collection of str
        Fields of numbers (INT64, FLOAT64), dates and times whose rounded values are kept for `Batch.numbers`.
    fields : sequence of str
        Properties of the stream in the order in which records without names have their values.
    lanes : Lanes
        The inputs of the sync.

    Raises
    ------
    ValueError
        If two columns have the same name.

    Attributes
    ----------
    lanes : list of Lane
        The parts of the table.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        *,
        sync_id: int | None,
        generation_id: int | None,
        files: bool = False,
        keep_refused: bool = False,
        exact: Collection[str] = (),
        fields: Sequence[str] = (),
        lanes: Lanes = ONE_LANE,
    ) -> None:
        added = _FILES if files else ()
        if len({column.field for column in columns}) != len(columns):
            raise ValueError("two columns have the same name")
        self._columns = [*columns, *added]
        self._keys = [*(column.key for column in columns), *(column.field for column in added)]
        self._generation_id = generation_id
        self._keeps_refused = keep_refused
        self._partitions = lanes.partitions
        found = layout(columns, added, fields)
        # In the compiled code, extraction time and meta are numbered after the columns and before the groups.
        self._names = [*(column.field for column in self._columns), _EXTRACTED_AT, _META, *found.names]
        meta = json.dumps({"sync_id": sync_id, "changes": []}, separators=(",", ":")).encode()
        numbers = [place for place, column in enumerate(columns) if column.field in exact]
        self.lanes = [
            Lane(
                TableBuilder(
                    found.columns,
                    found.groups,
                    meta,
                    found.files,
                    keep_refused,
                    numbers,
                    found.fields,
                    lanes.partitions is not None,
                ),
                lock,
            )
            for lock in lanes.locks or [threading.Lock()]
        ]

    @property
    def rows(self) -> int:
        """Rows buffered now."""
        return sum(lane.builder.rows for lane in self.lanes)

    @property
    def width(self) -> int:
        """Number of columns that a publish writes."""
        return len(self._names)

    @property
    def source_columns(self) -> int:
        """Number of columns that the source fills, including the columns of its files."""
        return len(self._columns)

    @property
    def nbytes(self) -> int:
        """Bytes buffered now."""
        total = 0
        for lane in self.lanes:
            with lane.lock:
                total += lane.builder.nbytes
        return total

    @property
    def total_rows(self) -> int:
        """Rows accepted since the table was made."""
        return sum(lane.builder.total_rows for lane in self.lanes)

    @property
    def unknown_fields(self) -> int:
        """Number of values that were ignored, because the schema does not have their field."""
        return sum(lane.builder.unknown_fields for lane in self.lanes)

    @property
    def nulled(self) -> int:
        """Number of values that did not fit their column: null in the row, named in its meta."""
        return sum(lane.builder.nulled for lane in self.lanes)

    def _misfits(self, found: Iterable[Iterable[tuple[int, int, int]]]) -> dict[str, Refused]:
        """Return the values that did not fit, by key of their column; leave out columns without such values."""
        return {
            self._keys[number]: refused
            for number, refused in _summed(found).items()
            if number < len(self._columns)
        }

    def broken_objects(self) -> dict[str, Refused]:
        """Return the values that are not objects although the schema has columns inside, by the name of the object."""
        found = _summed(lane.builder.misfits() for lane in self.lanes)
        return {
            self._names[number]: refused for number, refused in found.items() if number >= len(self._columns)
        }

    @property
    def rejected(self) -> int:
        """Number of lines of the stream that were not messages, since the table was made."""
        return sum(lane.builder.rejected for lane in self.lanes)

    def take(self) -> list[Batch]:
        """Move the rows out and leave the table empty.

        The arrays share the table's memory, which is reused for later rows once the last array is released.

        Returns
        -------
        list of Batch
            One batch for each lane that has rows.
        """
        return [batch for lane in self.lanes if (batch := self._take(lane)) is not None]

    def _take(self, lane: Lane) -> Batch | None:
        builder = lane.builder
        with lane.lock:
            rows = builder.rows
            if not rows:
                return None
            refused, numbers = builder.take_refused(), builder.take_numbers()
            lane.taken_misfits = builder.misfits()
            partitions = builder.take_partitions() if self._partitions else {}
            taken = builder.take()
        return Batch(
            rows,
            self._arrays(rows, taken or []),
            self._misfits(lane.taken_misfits for lane in self.lanes),
            (self._kept(refused) or REFUSED.empty_table()) if self._keeps_refused else None,
            self._kept(numbers),
            {self._partition(name): count for name, count in partitions.items()},
        )

    def _arrays(
        self, rows: int, taken: Sequence[tuple[int, Block | None, Block | None, Block]]
    ) -> dict[str, pa.Array]:
        columns = [*self._columns, *_REST]
        arrays = [_array(column.arrow_type, rows, part) for column, part in zip(columns, taken, strict=True)]
        *fields, extracted, meta, ids = arrays
        if self._generation_id is None:
            generation = pa.nulls(rows, pa.int64())
        else:
            generation = _array(pa.int64(), rows, (0, None, None, repeated(self._generation_id, rows)))
        return dict(zip(self._keys, fields, strict=True)) | {
            _RAW_ID: ids,
            _EXTRACTED_AT: extracted,
            _META: meta,
            _GENERATION_ID: generation,
        }

    def _kept(self, taken: tuple[int, Block, Block, Block, Block, Block, Block] | None) -> pa.Table | None:
        if taken is None:
            return None
        count, *blocks = taken
        rows, lines, indices, sizes, offsets, texts = map(pa.py_buffer, blocks)
        numbers = (
            pa.Array.from_buffers(pa.int64(), count, [None, buffer]) for buffer in (rows, lines, sizes)
        )
        row, line, size = numbers
        index = pa.Array.from_buffers(pa.int32(), count, [None, indices])
        named = pa.DictionaryArray.from_arrays(index, pa.array(self._names, pa.string()))
        text = pa.Array.from_buffers(pa.string(), count, [None, offsets, texts])
        return pa.Table.from_arrays([row, line, named, text, size], schema=REFUSED)

    def _partition(self, name: bytes) -> str:
        if self._partitions is PartitionIds.JSON and b"\\" in name:
            return str(json.loads(b'"%b"' % name))
        return name.decode("utf-8", "surrogateescape")


def _summed(found: Iterable[Iterable[tuple[int, int, int]]]) -> dict[int, Refused]:
    """Return the number of values that did not fit, by number of their column, over all lanes."""
    total: dict[int, Refused] = {}
    for number, count, first in (misfit for lane in found for misfit in lane):
        known = total.get(number, Refused(0, first))
        total[number] = Refused(known.count + count, min(known.first, first))
    return total


REFUSED = pa.schema(
    {
        "row": pa.int64(),
        "line_number": pa.int64(),
        "field": pa.dictionary(pa.int32(), pa.string()),
        "text": pa.string(),
        "bytes": pa.int64(),
    }
)
"""Columns of `Batch.refused`."""


def _array(kind: pa.DataType, rows: int, taken: tuple[int, Block | None, Block | None, Block]) -> pa.Array:
    """Return an array over the memory of a taken column."""
    nulls, *between, last = taken
    validity, offsets = (None if block is None else pa.py_buffer(block) for block in between)
    values = pa.py_buffer(last)
    if isinstance(kind, pa.BaseExtensionType):
        texts = pa.Array.from_buffers(kind.storage_type, rows, [validity, offsets, values], nulls)
        return pa.ExtensionArray.from_storage(kind, texts)
    if pa.types.is_list(kind):
        width = kind.value_type.bit_width // 8
        items = pa.Array.from_buffers(kind.value_type, values.size // width, [None, values])
        return pa.Array.from_buffers(kind, rows, [validity, offsets], nulls, children=[items])
    if offsets is not None:
        return pa.Array.from_buffers(kind, rows, [validity, offsets, values], nulls)
    return pa.Array.from_buffers(kind, rows, [validity, values], nulls)
