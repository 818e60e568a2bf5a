"""One stream -> one dataset.

**Append** writes to the main branch; every publish is visible at once. **Overwrite** writes to the side
branch `airbyte-overwrite` and swaps it in when the sync has succeeded, so readers see the old rows until
then. The side branch of an attempt that failed stays: the next attempt of the same generation goes on with
it, any other one throws it away.

What the connector has to remember is in `ds.info["airbyte"]`:

    namespace, stream     real names; another stream that comes to the same folder is refused
    columns               column -> tensor, kept for ever, so that a tensor never changes its meaning
    kinds                 column -> kind of its tensor; later syncs coerce their values to it
    generation_id         generation of the oldest rows, null where the runner has none

A column that the schema no longer has is filled with nulls, a new one gets nulls for the rows before it, so
all tensors are equally long whatever happens.
"""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lakebed
from destination_deeplake import schema
from destination_deeplake.catalog import StreamPlan, WriteMode
from destination_deeplake.columns import Column, Kind, RecordTable
from destination_deeplake.failures import ConfigError
from destination_deeplake.naming import META_COLUMNS, dataset_folder, tensor_names

INFO_KEY = "airbyte"
STAGING_BRANCH = "airbyte-overwrite"
_PADDING_ROWS = 1_000_000


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """A column as the dataset keeps it.

    Attributes
    ----------
    field : str
        Name in the records.
    tensor : str
        Name of the tensor.
    kind : Kind
        Kind of the tensor, which may differ from what the schema says by now.
    current : bool
        Whether the schema of this sync still has it.
    """

    field: str
    tensor: str
    kind: Kind
    current: bool


class StreamWriter:
    """Writes the rows of one stream in one sync; `open_stream` makes it.

    Attributes
    ----------
    plan : StreamPlan
        What is to be done.
    table : RecordTable
        Where the wire puts the records; `publish` empties it.
    notes : list of str
        What the user should know about how the stream was opened.
    """

    def __init__(
        self,
        plan: StreamPlan,
        target: lakebed.Dataset,
        staged: lakebed.Dataset | None,
    ) -> None:
        self.plan = plan
        self.notes: list[str] = []
        self._target = target
        self._staged = staged
        # The lock is held for the whole sync, so that a second one hears of it at its start.
        self._held = contextlib.ExitStack()
        self._held.enter_context(self._dataset)
        known = (target.info.get(INFO_KEY) or {}).get("columns", {})
        self._columns = _prepare(self._dataset, plan, known, self.notes)
        self.table = RecordTable(
            [Column(column.field, column.kind) for column in self._columns if column.current],
            sync_id=plan.sync_id,
            generation_id=plan.generation_id,
        )
        self._written = 0
        self._closed = False

    @property
    def _dataset(self) -> lakebed.Dataset:
        return self._staged if self._staged is not None else self._target

    @property
    def durable(self) -> int:
        """Number of records of this sync that a STATE may promise.

        Rows on a side branch that no later attempt could go on with are promised only once they are swapped
        in.
        """
        resumable = self._staged is None or bool(self.plan.generation_id)
        return self._written if resumable else 0

    @property
    def written(self) -> int:
        """Number of records of this sync that are published, on whichever branch."""
        return self._written

    def publish(self) -> None:
        """Make the rows of the table durable and visible to readers of the branch."""
        rows = self.table.rows
        if not rows or self._closed:
            return
        # If anything fails below, these rows are gone from the table: going on would leave a hole.
        self._closed = True
        # Tensors that somebody added to the dataset (labels, embeddings) grow along, empty.
        self._dataset.extend(self._batch(rows), append_empty=True)
        self._dataset.flush()
        self._written += rows
        self._closed = False

    def finish(self, message: str) -> None:
        """End a sync that was complete: swap in what was staged, and commit."""
        if self._closed:
            return
        self._closed = True
        with self._held:
            if self._staged is not None:
                self._held.close()
                self._target.finish_overwrite(STAGING_BRANCH)
                self._staged = None
                self._target.commit(message, allow_empty=True)
            else:
                self._commit_rows(message)

    def abandon(self, message: str) -> None:
        """End a sync that was not complete: commit what was appended, keep what was staged for the next."""
        if self._closed:
            return
        self._closed = True
        with self._held:
            if self._staged is None:
                self._commit_rows(message)

    def _commit_rows(self, message: str) -> None:
        if self._written:
            self._target.commit(message)

    def _batch(self, rows: int) -> dict[str, Any]:
        """Return the table's rows as tensor -> values, columns that the schema lost included."""
        taken = self.table.take()
        batch: dict[str, Any] = {
            column.tensor: taken[column.field]
            if column.current
            else schema.TENSOR_TYPES[column.kind].nulls(rows)
            for column in self._columns
        }
        return batch | {name: taken[name] for name in META_COLUMNS}


def open_stream(root: Path, plan: StreamPlan) -> StreamWriter:
    """Open or make the dataset of a stream, with a tensor for every column.

    Raises
    ------
    ConfigError
        If the folder holds the dataset of another stream, or one that this connector did not write.
    lakebed.errors.LakebedError, OSError
        If the dataset cannot be opened or written.
    """
    path = str(root / dataset_folder(plan.namespace, plan.name))
    target = lakebed.load(path, read_only=False) if lakebed.exists(path) else lakebed.empty(path)
    known = _recorded(target, plan, path)
    staged, resumed = None, False
    if plan.mode is WriteMode.OVERWRITE or (plan.truncates and _has_older_rows(known, plan)):
        _label(target, plan, known)
        staged, resumed = _staging(target, plan)
    writer = StreamWriter(plan, target, staged)
    if staged is not None and resumed:
        writer.notes.append(f"going on with {len(staged)} rows of an interrupted sync")
    return writer


def _recorded(dataset: lakebed.Dataset, plan: StreamPlan, path: str) -> Mapping[str, Any] | None:
    """Return what the dataset says about its stream; None for one that is still bare."""
    found = dataset.info.get(INFO_KEY)
    if not isinstance(found, Mapping):
        if dataset.tensors:
            raise ConfigError(
                f"The folder {path} of stream {str(plan)!r} holds a dataset that is not of this connector;"
                " move it away or choose another destination_path."
            )
        # Nothing in it: an earlier sync ended before it could write more.
        return None
    owner = (found.get("namespace"), found.get("stream"))
    if owner != plan.key:
        raise ConfigError(
            f"The folder {path} holds the stream {_named(owner)}, but the catalog wants it for "
            f"{_named(plan.key)}. Rename one of the streams or choose another destination_path."
        )
    return found


def _named(owner: tuple[Any, Any]) -> str:
    namespace, stream = owner
    return f"{stream!r}" + (f" of namespace {namespace!r}" if namespace else " without a namespace")


def _has_older_rows(known: Mapping[str, Any] | None, plan: StreamPlan) -> bool:
    """Tell whether the dataset may hold rows of a generation older than the plan allows."""
    if known is None:
        return False
    oldest = known.get("generation_id")
    return not isinstance(oldest, int) or oldest < (plan.minimum_generation_id or 0)


def _label(target: lakebed.Dataset, plan: StreamPlan, known: Mapping[str, Any] | None) -> None:
    """Name the stream in a dataset that has only been made, so that it can never be taken for another's."""
    if known is None:
        target.info[INFO_KEY] = {"namespace": plan.namespace, "stream": plan.name, "columns": {}, "kinds": {}}
        target.flush()


def _staging(target: lakebed.Dataset, plan: StreamPlan) -> tuple[lakebed.Dataset, bool]:
    """Return the side branch, and whether it holds rows of an earlier attempt of the same generation."""
    if STAGING_BRANCH in target.branches and plan.generation_id:
        staged = target.start_overwrite(STAGING_BRANCH, resume=True)
        found = staged.info.get(INFO_KEY) or {}
        if found.get("generation_id") == plan.generation_id:
            return staged, True
    return target.start_overwrite(STAGING_BRANCH), False


def _prepare(
    dataset: lakebed.Dataset, plan: StreamPlan, known: Mapping[str, str], notes: list[str]
) -> list[StoredColumn]:
    """Give the dataset a tensor for every column, all of one length; the first rows publish them.

    `known` are the tensors that columns have had on the main branch: a column keeps its own when the rows go.
    """
    before = dataset.info.get(INFO_KEY) or {}
    columns = _layout(plan, before, known, notes)
    record = {
        "namespace": plan.namespace,
        "stream": plan.name,
        "columns": {column.field: column.tensor for column in columns},
        "kinds": {column.field: column.kind.name for column in columns},
        "generation_id": before.get("generation_id", plan.generation_id),
    }
    if record != before:
        # First of all: whatever comes after it, the dataset says whose it is and what is to be in it.
        dataset.info[INFO_KEY] = record
    rows = dataset.max_len if dataset.tensors else 0
    kinds = {column.tensor: column.kind for column in columns} | dict(schema.META_KINDS)
    for tensor, kind in kinds.items():
        _ensure_tensor(dataset, tensor, kind, rows)
    return columns


def _layout(
    plan: StreamPlan, before: Mapping[str, Any], known: Mapping[str, str], notes: list[str]
) -> list[StoredColumn]:
    """Return the columns of the schema and those that only the dataset still has."""
    notes += [
        f"column {field!r} of the source is left out, because the meta column has its name"
        for field in schema.shadowed(plan.json_schema)
    ]
    declared = {column.field: column.kind for column in schema.columns(plan.json_schema)}
    kept = {field: tensor for field, tensor in known.items() if field in declared}
    tensors = tensor_names(declared, kept | before.get("columns", {}))
    stored: Mapping[str, str] = before.get("kinds", {})
    columns = []
    for field in dict.fromkeys([*declared, *tensors]):
        kind = Kind[stored[field]] if field in stored else declared[field]
        if field in declared and declared[field] is not kind:
            notes.append(
                f"column {field!r} is now {declared[field].name} but stays {kind.name} as in the dataset"
            )
        columns.append(StoredColumn(field, tensors[field], kind, current=field in declared))
    return columns


def _ensure_tensor(dataset: lakebed.Dataset, name: str, kind: Kind, rows: int) -> None:
    """Make the tensor if it is missing, and fill it with nulls up to `rows`."""
    stored = schema.TENSOR_TYPES[kind]
    if name not in dataset:
        # Hidden companions would cost 16 bytes and more per row; nothing of ours needs them.
        tensor = dataset.create_tensor(
            name,
            htype=stored.htype,
            dtype=stored.dtype,
            create_id_tensor=False,
            create_shape_tensor=False,
            create_sample_info_tensor=False,
        )
        if stored.logical_type is not None:
            tensor.info["logical_type"] = stored.logical_type
    missing = rows - len(dataset[name])
    for start in range(0, missing, _PADDING_ROWS):
        dataset[name].extend(stored.nulls(min(_PADDING_ROWS, missing - start)))
