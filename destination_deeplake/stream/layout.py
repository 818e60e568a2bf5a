"""Tensors for the columns of a stream, all of the same length.

A column that the schema no longer has gets nulls for new rows, a new column gets nulls for old rows; a column whose
type changes is rewritten or gets another tensor (`evolution`). A tensor of files is created with the first file, which
decides its compression.

The record of the stream in the dataset has:

    columns     column -> tensor
    kinds       column -> kind of its tensor
    types       column -> type of its tensor, if it is not the default type of the kind
    former      tensor -> column, kind and type, of tensors that a column has left
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

import lakebed
from destination_deeplake import airbyte_types
from destination_deeplake.airbyte_types import StreamColumn
from destination_deeplake.catalog import StreamPlan, WriteMode
from destination_deeplake.columns import Column, Kind
from destination_deeplake.failures import ConfigError
from destination_deeplake.naming import DELETED_AT, META_COLUMNS, tensor_names
from destination_deeplake.stream import transfers
from destination_deeplake.stream.evolution import Step, decide, is_plain, suffix
from destination_deeplake.stream.record import INFO_KEY
from destination_deeplake.stream.stored import EXACT_FIELD, StoredColumn, StoredColumns
from destination_deeplake.stream.widening import widen
from destination_deeplake.tensors import TENSOR_TYPES, TensorType


def prepare(
    dataset: lakebed.Dataset, plan: StreamPlan, known: Mapping[str, str], notes: list[str]
) -> StoredColumns:
    """Create or change the tensors of all columns; they are published with the first rows.

    Parameters
    ----------
    dataset : lakebed.Dataset
        Dataset of the rows, open for writing.
    plan : StreamPlan
        Plan of the stream.
    known : mapping of str to str
        Tensors of the columns on the main branch, which they keep if the rows are replaced.
    notes : list of str
        Receives notes for the user.

    Raises
    ------
    ConfigError
        If the choices for a column contradict each other, or a column of the key cannot identify rows.
    """
    before = dataset.info.get(INFO_KEY) or {}
    layout = _Layout(dataset, before)
    for column in _wanted(plan, notes):
        layout.place(column)
    layout.allot({field: tensor for field, tensor in known.items() if field in layout.wanted})
    columns = layout.columns()
    notes += layout.notes
    for stored in columns:
        if stored.before is not None:
            widen(dataset, stored)
            _refit(dataset, stored, columns)
            notes.append(
                f"column {stored.field!r} was {_named(stored.before)} and is {_named(stored)} from now on"
            )
    record = {"namespace": plan.namespace, "stream": plan.name, "generation_id": plan.generation_id}
    prepared = StoredColumns(dataset, columns, layout.former, record, plan)
    # Record the stream and its columns before the first tensor is created.
    prepared.remember()
    prepared.make_tensors()
    return prepared


def _refit(dataset: lakebed.Dataset, stored: StoredColumn, columns: Sequence[StoredColumn]) -> None:
    """Move exact numbers into a tensor whose new type can hold them; other numbers stay."""
    beside = [column.tensor for column in columns if column.field == EXACT_FIELD + stored.tensor]
    if beside and beside[0] in dataset:
        # Imported here, because syncs without keys do not need it.
        from destination_deeplake.stream.exact import refit

        before = stored.column if stored.before is None else stored.before.column
        refit(dataset, stored.tensor, stored.type, before.kind, stored.column.kind, beside[0])


def kept(dataset: lakebed.Dataset) -> dict[str, StoredColumn]:
    """Return the columns of earlier syncs in a dataset, by tensor."""
    layout = _Layout(dataset, dataset.info.get(INFO_KEY) or {})
    return {stored.tensor: stored for stored in layout.columns()}


def expected(dataset: lakebed.Dataset, plan: StreamPlan) -> dict[str, StoredColumn]:
    """Return the columns that a dataset would have after `prepare`, by tensor, without changing it."""
    layout = _Layout(dataset, dataset.info.get(INFO_KEY) or {})
    for column in _wanted(plan, []):
        layout.place(column)
    layout.allot({})
    return {stored.tensor: stored for stored in layout.columns()}


def _wanted(plan: StreamPlan, notes: list[str]) -> list[StreamColumn]:
    """Return the columns by schema and choices; add notes on choices that cannot be followed."""
    notes += [
        f"the configuration names column {name!r}, which the source does not have"
        for name in airbyte_types.unheard(plan.json_schema, plan.choices)
    ]
    keys: list[tuple[str, ...]] = []
    cursor: tuple[str, ...] = ()
    if plan.mode is WriteMode.DEDUP:
        properties = plan.json_schema.get("properties")
        keys, cursor = list(plan.primary_key), plan.cursor
        if isinstance(properties, Mapping) and DELETED_AT[0] in properties:
            keys.append(DELETED_AT)
    columns = airbyte_types.columns(plan.json_schema, plan.choices, keys, cursor)
    for column in columns:
        # These prefixes name tensors that the connector itself adds, so no column may use them.
        if column.field.startswith((transfers.FIELD, EXACT_FIELD)):
            raise ConfigError(
                f"Column {column.field!r} of the stream {str(plan)!r} has a name that the connector uses for its "
                "own tensors; leave it out in the configuration (exclude)."
            )
    if plan.mode is WriteMode.DEDUP:
        _check_key(plan, columns)
    if plan.include_files:
        for name, kind in (("name", Kind.TEXT), ("size", Kind.INT64), ("type", Kind.TEXT)):
            fact = Column(transfers.FIELD + name, kind)
            columns.append(StreamColumn(fact, TENSOR_TYPES[kind], (transfers.GROUP, name)))
    return columns


def _check_key(plan: StreamPlan, columns: Sequence[StreamColumn]) -> None:
    """Refuse keys and cursors whose values cannot be compared."""
    types = {column.column.path: column.type for column in columns}
    roles = {plan.cursor: "cursor"} if plan.cursor else {}
    for path, role in (roles | dict.fromkeys(plan.primary_key, "primary key")).items():
        field = ".".join(path)
        if path not in types:
            raise ConfigError(
                f"The stream {str(plan)!r} cannot have {field!r} as its {role}, because another column has that name; "
                f"choose another {role} in the connection, or the sync mode append."
            )
        if not (is_plain(types[path]) or types[path].htype == "class_label"):
            raise ConfigError(
                f"Column {field!r} of the stream {str(plan)!r} cannot be the {role}, because it is stored as "
                f"{_contents(types[path])}, which cannot be compared; choose another {role} in the connection, or have "
                "the column stored as text, json or a number in the configuration."
            )


def _contents(of_type: TensorType) -> str:
    """Describe the values of a tensor that is not plain, for messages."""
    if of_type.htype != "generic":
        return of_type.htype
    return "bytes" if pa.types.is_binary(of_type.arrow) else f"arrays of {of_type.dtype}"


class _Layout:
    """Assignment of tensors to columns.

    Attributes
    ----------
    former : dict of str to StoredColumn
        Former tensors of columns, by name.
    wanted : dict of str to StreamColumn
        Columns of this sync, by field.
    notes : list of str
        Notes for the user.
    """

    def __init__(self, dataset: lakebed.Dataset, before: Mapping[str, Any]) -> None:
        self.former: dict[str, StoredColumn] = {}
        self.wanted: dict[str, StreamColumn] = {}
        self.notes: list[str] = []
        self._stored: dict[str, StoredColumn] = {}
        for field, tensor in before.get("columns", {}).items():
            of_type = before.get("types", {}).get(field)
            self._stored[field] = StoredColumn.recorded(field, tensor, before["kinds"][field], of_type)
        for tensor, entry in before.get("former", {}).items():
            self.former[tensor] = StoredColumn.recorded(
                entry["column"], tensor, entry["kind"], entry.get("type")
            )
        own = {*(stored.tensor for stored in self._stored.values()), *self.former, *META_COLUMNS}
        self._others = [tensor for tensor in dataset.tensors if tensor not in own]
        self._placed: dict[str, StoredColumn] = {}
        self._wishes: dict[str, tuple[str, ...]] = {}

    def place(self, new: StreamColumn) -> None:
        """Add a column of this sync."""
        field = new.field
        self.wanted[field] = new
        stored = self._stored.get(field)
        if stored is None:
            self._wishes[field] = new.place
            return
        if new.renamed and _first_choice(new) != stored.tensor:
            self._leave(stored, new, new.place)
            self.notes.append(f"column {field!r} goes to another tensor from now on, as configured")
            return
        decision = decide(stored.column, stored.type, new.column, new.type)
        if decision.step is Step.MOVE:
            *groups, name = stored.tensor.split("/")
            self._leave(stored, new, (*groups, f"{name}__{suffix(new.type)}"))
            self.notes.append(
                f"column {field!r} was {_named(stored)} and is now {_named(new)}, which do not fit one tensor: "
                "new rows go to another tensor"
            )
            return
        self._placed[field] = StoredColumn(decision.column, stored.tensor, decision.type)
        if decision.step is Step.WIDEN:
            self._placed[field].before = stored
        elif decision.column.kind is not new.column.kind:
            self.notes.append(
                f"column {field!r} is now {new.column.kind.name} but stays {decision.column.kind.name} "
                "as in the dataset"
            )

    def _leave(self, stored: StoredColumn, new: StreamColumn, wish: tuple[str, ...]) -> None:
        """Give a column another tensor: a former tensor that fits, else a new tensor."""
        for former in self.former.values():
            if former.field != new.field or (new.renamed and former.tensor != _first_choice(new)):
                continue
            decision = decide(former.column, former.type, new.column, new.type)
            if decision.step is Step.KEEP:
                self._placed[new.field] = StoredColumn(decision.column, former.tensor, decision.type)
                del self.former[former.tensor]
                break
        else:
            self._wishes[new.field] = wish
        del self._stored[new.field]
        self.former[stored.tensor] = stored

    def allot(self, known: Mapping[str, str]) -> None:
        """Name the tensors of new columns, by their `known` names if these are free."""
        taken = {stored.field: stored.tensor for stored in (*self._stored.values(), *self._placed.values())}
        others = {*self.former, *self._others}
        used = {tensor.casefold() for tensor in (*taken.values(), *others)}
        for field, tensor in known.items():
            is_free = field in self._wishes and tensor.casefold() not in used
            if is_free and not self.wanted[field].renamed:
                taken[field] = tensor
                used.add(tensor.casefold())
        names = tensor_names(self._wishes, taken, others)
        for field in self._wishes:
            new = self.wanted[field]
            if new.renamed and names[field] != _first_choice(new):
                self.notes.append(
                    f"column {field!r} is stored as {names[field]!r}, because {_first_choice(new)!r} is taken in the "
                    "dataset"
                )
            self._placed[field] = StoredColumn(new.column, names[field], new.type)

    def columns(self) -> list[StoredColumn]:
        """Return the columns of this sync, the columns that only the dataset has, and former tensors."""
        lost = [stored for field, stored in self._stored.items() if field not in self._placed]
        return [*(self._placed[field] for field in self.wanted), *lost, *self.former.values()]


def _first_choice(new: StreamColumn) -> str:
    """Return the name that a tensor chosen by the user gets if it is free."""
    return tensor_names({new.field: new.place}, {})[new.field]


def _named(column: StoredColumn | StreamColumn) -> str:
    """Describe the type of a column, for messages."""
    of_type, kind = column.type, column.column.kind
    if of_type == TENSOR_TYPES[kind]:
        return kind.name
    shape = "" if of_type.shape is None else f" of shape {list(of_type.shape)}"
    return (of_type.htype if of_type.htype != "generic" else of_type.dtype) + shape


__all__ = ["StoredColumns", "expected", "kept", "prepare"]
