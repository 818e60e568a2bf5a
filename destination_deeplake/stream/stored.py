"""Columns of a dataset, and conversion of a table's rows for its tensors."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

import lakebed
from destination_deeplake.catalog import StreamPlan, WriteMode
from destination_deeplake.choices import Compression
from destination_deeplake.columns import FILE_COLUMNS, Column, Kind, Refused
from destination_deeplake.failures import ConfigError
from destination_deeplake.naming import META_COLUMNS, tensor_names
from destination_deeplake.stream import transfers
from destination_deeplake.stream.files import fit_files
from destination_deeplake.stream.misfits import (
    MOST_LEADING,
    NO_REFUSED,
    Misfit,
    Tally,
    refused_before,
    says_a_type,
)
from destination_deeplake.stream.moments import MOMENTS
from destination_deeplake.stream.record import INFO_KEY
from destination_deeplake.stream.samples import (
    TOO_LARGE,
    Fitted,
    Labels,
    Rows,
    arrays,
    change,
    documents,
    links,
    refused_values,
    scalars,
    with_changes,
)
from destination_deeplake.tensors import META_KINDS, TENSOR_TYPES, UNSPECIFIED, TensorType

EXACT_FIELD = "_airbyte_exact/"
"""Prefix of the fields of exact-number tensors in the record of a stream; the name of the rounded tensor follows."""
EXACT_GROUP = "_airbyte_exact"

_PADDING_BYTES = 8_000_000
_META = META_COLUMNS[2]


@dataclass(slots=True)
class StoredColumn:
    """A column of a dataset.

    Attributes
    ----------
    column : Column
        Parsing of its values.
    tensor : str
        Name of the tensor.
    type : TensorType
        Storage of its values.
    current : bool
        Whether rows of this sync have values for the column.
    before : StoredColumn or None
        The column with its old type, if its tensor must be rewritten.
    """

    column: Column
    tensor: str
    type: TensorType
    current: bool = True
    before: "StoredColumn | None" = None

    @property
    def field(self) -> str:
        """Name of the column in the record."""
        return self.column.field

    @property
    def is_of_file(self) -> bool:
        """True if its values describe the file that came with a record, not the record itself."""
        return self.field.startswith(transfers.FIELD)

    @property
    def holds_numbers(self) -> bool:
        """True if its values are single numbers, which may be rounded."""
        is_single = self.type.htype == "generic" and self.type.shape is None
        return is_single and self.column.kind in (Kind.INT64, Kind.FLOAT64) and self.type.dtype != "bool"

    @property
    def holds_moments(self) -> bool:
        """True if its values are dates or times, which may be truncated."""
        return self.type.htype == "generic" and self.column.kind in MOMENTS

    def kept(self) -> dict[str, Any]:
        """Return kind and type as JSON, the type only if it is not the default of the kind."""
        entry: dict[str, Any] = {"kind": self.column.kind.name}
        if self.type != TENSOR_TYPES[self.column.kind]:
            entry["type"] = self.type.record()
        return entry

    @classmethod
    def recorded(
        cls, field: str, tensor: str, kind: str, of_type: Mapping[str, Any] | None
    ) -> "StoredColumn":
        """Return a column from a dataset's record."""
        known = Kind[kind]
        found = TENSOR_TYPES[known] if of_type is None else TensorType.recorded(of_type, known)
        return cls(Column((field,), known, shape=found.shape), tensor, found, current=False)


class StoredColumns:
    """The columns of a stream in its dataset, from `layout.prepare`.

    Attributes
    ----------
    keeps_refused : bool
        Whether values that did not fit are kept for `take_refused`; set before the first batch.
    """

    def __init__(
        self,
        dataset: lakebed.Dataset,
        columns: Sequence[StoredColumn],
        former: Mapping[str, StoredColumn],
        record: Mapping[str, Any],
        plan: StreamPlan,
    ) -> None:
        self.keeps_refused = False
        self._refused: list[pa.Table] = []
        self._tallies: dict[str, Tally] = {}
        self._too_large: Misfit | None = None
        self._before = 0
        self._plan = plan
        self._dataset = dataset
        self._columns = list(columns)
        self._former = dict(former)
        self._record = dict(record)
        self._labels: dict[str, Labels] = {}
        self._exact = {
            stored.tensor: self._beside(stored.tensor)
            for stored in self._compared
            if stored.holds_numbers or stored.holds_moments
        }

    @property
    def fields(self) -> list[Column]:
        """The columns that are read from records."""
        return [stored.column for stored in self._columns if stored.current and not stored.is_of_file]

    @property
    def exact(self) -> list[str]:
        """Fields of primary key and cursor whose numbers, dates and times are kept exactly."""
        return [stored.field for stored in self._columns if stored.current and stored.tensor in self._exact]

    @property
    def every(self) -> list[StoredColumn]:
        """All columns of the dataset, former tensors included."""
        return list(self._columns)

    @property
    def compared_exactly(self) -> Collection[str]:
        """Tensors of numbers, dates and times of primary key and cursor."""
        return self._exact.keys()

    @property
    def comparison(self) -> dict[str, Any]:
        """Arguments of `upserts.keying.Keying` about the numbers of key and cursor: `numbers`, `called`, `digits`."""
        return {
            "numbers": self._exact,
            "called": {s.tensor: s.field for s in self._compared if s.tensor in self._exact},
            "digits": [
                s.tensor for s in self._compared if s.column.kind is Kind.EXACT or s.type.htype == "json"
            ],
        }

    @property
    def _compared(self) -> list[StoredColumn]:
        """The columns of primary key and cursor."""
        plan = self._plan
        paths = {*plan.primary_key, plan.cursor} if plan.mode is WriteMode.DEDUP else set()
        return [stored for stored in self._columns if stored.current and stored.column.path in paths]

    def tensor(self, path: tuple[str, ...]) -> str:
        """Return the tensor of a column of this sync.

        Raises
        ------
        KeyError
            If this sync has no such column.
        """
        for stored in self._columns:
            if stored.current and stored.column.path == path:
                return stored.tensor
        raise KeyError(".".join(path))

    # -- what the dataset has ------------------------------------------------------------------------------------------

    def remember(self) -> None:
        """Record the tensors in the dataset; the next flush publishes it."""
        entries = {
            stored.field: (stored, stored.kept())
            for stored in self._columns
            if stored.tensor not in self._former
        }
        record = {**self._record, **(self._dataset.info.get(INFO_KEY) or {})} | {
            "columns": {field: stored.tensor for field, (stored, _) in entries.items()},
            "kinds": {field: entry["kind"] for field, (_, entry) in entries.items()},
            "types": {field: entry["type"] for field, (_, entry) in entries.items() if "type" in entry},
            "former": {
                tensor: {"column": stored.field} | stored.kept() for tensor, stored in self._former.items()
            },
        }
        for name in ("types", "former"):
            if not record[name]:
                del record[name]
        if record != self._dataset.info.get(INFO_KEY):
            self._dataset.info[INFO_KEY] = record

    def make_tensors(self) -> None:
        """Create missing tensors, filled with nulls for the existing rows."""
        rows = self._dataset.max_len if self._dataset.tensors else 0
        for stored in self._columns:
            if not stored.type.is_open:
                self._make(stored.tensor, stored.type, rows)
        for tensor, kind in META_KINDS.items():
            self._make(tensor, TENSOR_TYPES[kind], rows)

    def _make(self, name: str, of_type: TensorType, rows: int) -> None:
        dataset = self._dataset
        if of_type.creds_key is not None and of_type.creds_key not in dataset.get_creds_keys():
            dataset.add_creds_key(of_type.creds_key)
        if name not in dataset:
            tensor = dataset.create_tensor(name, **self._settings(name, of_type))
            if of_type.logical_type is not None:
                tensor.info["logical_type"] = of_type.logical_type
        missing = rows - len(dataset[name])
        width = 8 if of_type.shape is None or not of_type.nulls_as_nan else 8 * int(np.prod(of_type.shape))
        step = max(1, _PADDING_BYTES // width)
        for start in range(0, missing, step):
            dataset[name].extend(of_type.nulls(min(step, missing - start)))

    def adopt(self, source: StoredColumn) -> StoredColumn:
        """Add a column of another dataset of the stream, without values in this sync, and return it.

        If the field has a column already, the new column becomes a former tensor of the field.
        """
        others = [*self._dataset.tensors, *(stored.tensor for stored in self._columns)]
        name = tensor_names({source.field: source.tensor.split("/")}, {}, others)[source.field]
        adopted = replace(source, tensor=name, current=False)
        if any(stored.field == source.field for stored in self._columns):
            self._former[name] = adopted
        self._columns.append(adopted)
        self.remember()
        self._make(name, adopted.type, self._dataset.max_len)
        return adopted

    def _settings(self, name: str, of_type: TensorType) -> dict[str, Any]:
        """Return the arguments of `create_tensor`."""
        # Create no hidden companions: they would cost at least 16 bytes per row, and the connector does not need
        # them.
        settings: dict[str, Any] = {
            "htype": of_type.htype,
            "create_id_tensor": False,
            "create_shape_tensor": False,
            "create_sample_info_tensor": False,
        }
        if of_type.dtype != UNSPECIFIED:
            settings["dtype"] = of_type.dtype
        if of_type.sample_compression is not None:
            settings["sample_compression"] = of_type.sample_compression
        wanted = self._plan.choices.compression
        if name in META_KINDS and wanted is Compression.AUTO:
            # The meta values of a batch are nearly equal, so they compress well.
            wanted = Compression.LZ4
        compression = of_type.compression_of_chunks(wanted)
        if compression is not None:
            settings["chunk_compression"] = compression
        if of_type.htype == "class_label":
            settings["class_names"] = list(of_type.class_names)
        if of_type.is_link:
            settings["verify"] = False
        if self._plan.choices.chunk_bytes is not None:
            settings["max_chunk_size"] = self._plan.choices.chunk_bytes
        return settings

    # -- numbers beside their tensor -----------------------------------------------------------------------------------

    def _beside(self, tensor: str) -> str:
        """Return the name of the tensor of exact numbers, whether or not it exists."""
        field = EXACT_FIELD + tensor
        known = {stored.field: stored.tensor for stored in self._columns}
        wish = {field: (EXACT_GROUP, *tensor.split("/"))}
        return tensor_names(wish, known, self._dataset.tensors)[field]

    def make_exact(self, tensor: str) -> str:
        """Create the tensor of exact numbers if it is missing, and return its name."""
        name, field = self._exact.get(tensor) or self._beside(tensor), EXACT_FIELD + tensor
        if all(stored.field != field for stored in self._columns):
            of_type = TENSOR_TYPES[Kind.EXACT]
            self._columns.append(StoredColumn(Column(field, Kind.EXACT), name, of_type, current=False))
            self.remember()
            self._make(name, of_type, self._dataset.max_len)
        return name

    def _with_exact(
        self, batch: dict[str, pa.Array], taken: Mapping[str, pa.Array], numbers: pa.Table | None
    ) -> None:
        """Add the exact numbers of key and cursor to a batch."""
        # Imported here, because syncs without keys do not need it.
        from destination_deeplake.stream.exact import beside, numbers_of_field

        for stored in self._compared:
            if stored.tensor not in self._exact:
                continue
            cells, given = batch[stored.tensor], taken[stored.column.key]
            if numbers is None and cells.type == given.type:
                continue
            found = beside(cells, given, *numbers_of_field(numbers, stored.field), stored.column.kind)
            if found is not None:
                self.make_exact(stored.tensor)
                batch[self._exact[stored.tensor]] = found

    # -- rows ----------------------------------------------------------------------------------------------------------

    @property
    def misfits(self) -> list[Misfit]:
        """Values that did not fit, by column."""
        found = [
            self._tallies[stored.column.key].misfit(stored.column, stored.type)
            for stored in self._columns
            if stored.current and stored.column.key in self._tallies
        ]
        return [misfit for misfit in (*found, self._too_large) if misfit is not None]

    def batches(
        self,
        taken: Mapping[str, pa.Array],
        refused: Mapping[str, Refused] = MappingProxyType({}),
        numbers: pa.Table | None = None,
    ) -> Iterator[dict[str, pa.Array]]:
        """Yield the rows of a table as values for all tensors of the stream.

        Write each batch before taking the next: class names and tensors of files that it needs are created when it is
        yielded.

        Parameters
        ----------
        taken : mapping of str to pyarrow.Array
            Columns from `RecordTable.take`.
        refused : mapping of str to Refused
            Refused values from `RecordTable.refused` at that time.
        numbers : pyarrow.Table or None
            Exact numbers, from `Batch.numbers`.

        Yields
        ------
        dict of str to pyarrow.Array
            Tensor -> values, all of the same length.

        Raises
        ------
        ConfigError
            If the user chose a type for a column and no value has fitted it so far; raised before anything is yielded.
        """
        rows = len(taken[_META])
        batch: dict[str, pa.Array] = {}
        changes: list[tuple[Rows, bytes]] = []
        for stored in self._columns:
            if stored.current and not stored.is_of_file:
                values = taken[stored.column.key]
                fitted = self._fit(stored, values)
                self._count(stored, values, fitted.refused, refused, taken[_META])
                if len(fitted.refused):
                    changes.append((fitted.refused, change(stored.field, fitted.reason)))
                    if self.keeps_refused:
                        self._refused.append(refused_values(values, fitted.refused, stored.field))
                if not stored.type.is_open:
                    batch[stored.tensor] = fitted.array
            elif not stored.type.is_open:
                batch[stored.tensor] = stored.type.nulls(rows)
        batch |= {name: taken[name] for name in META_COLUMNS}
        self._with_exact(batch, taken, numbers)
        files = self._plan.include_files
        sizes = transfers.sizes_of(taken, str(self._plan)) if files else np.empty(0, np.int64)
        if len(left_out := transfers.too_large(sizes)):
            changes.append((left_out, change(transfers.GROUP, TOO_LARGE)))
            self._note_too_large(left_out)
        self._before += rows
        batch[_META] = with_changes(taken[_META], changes)
        if not files:
            yield batch
            return
        url, path, _ = FILE_COLUMNS
        facts = {"name": taken[path], "size": pa.array(sizes, mask=sizes < 0)}
        for part in transfers.parts(taken[url], sizes, str(self._plan)):
            yield self._with_files(batch, part, facts)

    def _count(
        self,
        stored: StoredColumn,
        values: pa.Array,
        unfit: Rows,
        refused: Mapping[str, Refused],
        meta: pa.Array,
    ) -> None:
        """Count the values of a column; errors are those of `batches`."""
        key = stored.column.key
        tally = self._tallies.setdefault(key, Tally())
        tally.add(
            values, unfit, self._before, refused.get(key, NO_REFUSED), refused_before(meta, stored.field)
        )
        if tally.leading < MOST_LEADING or self.keeps_refused:
            return
        if says_a_type(self._plan.choices.columns.get(stored.field)):
            raise ConfigError(
                f"No value fits the type that was chosen for a column of stream {str(self._plan)!r}, "
                f"{tally.misfit(stored.column, stored.type)}. None of these records is stored; earlier records "
                "are unchanged. Choose another type for the column in the configuration."
            )

    def _note_too_large(self, rows: Rows) -> None:
        known = self._too_large
        first = self._before + int(rows[0]) + 1 if known is None else known.first
        count = len(rows) + (0 if known is None else known.count)
        reason = f"of files larger than {transfers.MOST_BYTES:,} bytes"
        self._too_large = Misfit(transfers.GROUP, count, None, first, reason)

    def take_refused(self, before: pa.Table) -> pa.Table:
        """Remove and return the values of the last batches that did not fit; values refused by the table come first."""
        refused, self._refused = self._refused, []
        return pa.concat_tables([before, *refused]).unify_dictionaries().combine_chunks()

    def _with_files(
        self, batch: Mapping[str, pa.Array], part: transfers.Part, facts: Mapping[str, pa.Array]
    ) -> dict[str, pa.Array]:
        """Return the rows of a part with their files."""
        found = {self._tensor_of_files(kind): files for kind, files in part.files.items()}
        count = part.stop - part.start
        rows = {tensor: array.slice(part.start, count) for tensor, array in batch.items()}
        for stored in self._columns:
            if stored.is_of_file:
                name = stored.field.removeprefix(transfers.FIELD)
                if name == "type":
                    rows[stored.tensor] = part.types
                elif name in facts:
                    rows[stored.tensor] = facts[name].slice(part.start, count)
                else:
                    rows[stored.tensor] = found.get(stored.tensor, stored.type.nulls(count))
        return rows

    def _tensor_of_files(self, kind: transfers.FileKind) -> str:
        """Return the tensor of files of a kind, created with the first one."""
        htype, compression = kind or ("generic", None)
        slots = [stored for stored in self._columns if stored.is_of_file and stored.column.kind is Kind.BYTES]
        for stored in slots:
            if (stored.type.htype, stored.type.sample_compression) == (htype, compression):
                return stored.tensor
        is_first = all(stored.type.htype != htype for stored in slots)
        name = "bytes" if kind is None else htype if is_first else f"{htype}_{compression}"
        field = transfers.FIELD + name
        taken = {stored.field: stored.tensor for stored in self._columns}
        tensor = tensor_names({field: (transfers.GROUP, name)}, taken, self._dataset.tensors)[field]
        of_type = TENSOR_TYPES[Kind.BYTES]
        if kind is not None:
            of_type = replace(of_type, htype=htype, dtype=UNSPECIFIED, sample_compression=compression)
        self._columns.append(StoredColumn(Column(field, Kind.BYTES), tensor, of_type))
        self.remember()
        self._make(tensor, of_type, self._dataset.max_len)
        return tensor

    def _fit(self, stored: StoredColumn, array: pa.Array) -> Fitted:
        of_type = stored.type
        if of_type.htype == "class_label":
            return self._fit_labels(stored, array)
        if of_type.is_link:
            return links(array, of_type)
        if of_type.takes_files:
            fitted, compression = fit_files(array, of_type)
            if of_type.is_open and compression is not None:
                stored.type = replace(of_type, sample_compression=compression)
                self.remember()
                self._make(stored.tensor, stored.type, self._dataset.max_len)
            return fitted
        if stored.column.kind is Kind.FLOATS:
            return arrays(array, of_type)
        if of_type.htype == "json":
            return documents(array)
        fits = of_type.htype != "generic" or stored.column.kind is Kind.BYTES
        return Fitted(array) if fits else scalars(array, of_type)

    def _fit_labels(self, stored: StoredColumn, array: pa.Array) -> Fitted:
        info = self._dataset[stored.tensor].info
        labels = self._labels.get(stored.tensor)
        if labels is None:
            labels = self._labels[stored.tensor] = Labels(info.get("class_names") or [])
        known = len(labels.names)
        fitted = labels.fit(array, stored.type)
        if len(labels.names) > known:
            info["class_names"] = labels.names
            if self._plan.mode is WriteMode.DEDUP:
                # Publish class names first: rows on a side branch must never be durable without them.
                self._dataset.flush()
        return fitted
