"""Identity, order and deletion of the rows of a stream, read from its tensors."""

import json
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakebed.dataset.dataset import Dataset
from lakebed.upserts.json_order import sortable
from lakebed.upserts.keys import Hashes, hash_keys, plain
from lakebed.upserts.ndarrays import present
from lakebed.upserts.numerals import floors, ordered, spelled
from lakebed.upserts.windows import Columns, taken

Rows = NDArray[np.int64]

_NO_CHANGES = '"changes":[]}'


@dataclass(frozen=True, slots=True)
class Keying:
    """Identity, order and deletion of the rows of a stream.

    Attributes
    ----------
    key : tuple of str
        Tensors that identify a row.
    order : tuple of str
        Tensors whose greater values mark newer rows, the most significant first.
    deleted : str or None
        Tensor that is not null in rows that delete their key; None if rows cannot delete.
    documents : tuple of str
        Tensors in `order` that hold JSON.
    fields : tuple of str
        Names that `changes` uses for the values of the key.
    numbers : mapping of str to str
        Tensor of numbers in `key` or `order` -> tensor of texts, which holds the numbers that the tensor of numbers
        would round (`numerals`). A dataset without such numbers lacks the tensor of texts.
    called : mapping of str to str
        Tensor in `numbers` -> name that `changes` uses for its values.
    digits : tuple of str
        Tensors in `key` or `order` with numbers as texts, in the spelling of the source.
    identity, changes : str
        Tensor with the id of each row, and tensor of JSON whose ``changes`` name the values of the row that could not
        be stored. A row that lost a value of its key counts as a key of its own. This is checked only for rows with a
        null in the key, and only if `fields` is not empty.
    """

    key: tuple[str, ...]
    order: tuple[str, ...]
    deleted: str | None = None
    documents: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    numbers: Mapping[str, str] = field(default_factory=dict)
    called: Mapping[str, str] = field(default_factory=dict)
    digits: tuple[str, ...] = ()
    identity: str = "_airbyte_raw_id"
    changes: str = "_airbyte_meta"

    def tensors_in(self, dataset: Dataset) -> list[str]:
        """Return the tensors of key, order and deletion that a dataset has, each once."""
        return self._with_numbers(
            dataset, [*self.key, *self.order, *([self.deleted] if self.deleted else [])]
        )

    def key_in(self, dataset: Dataset) -> list[str]:
        """Return the tensors of the key that a dataset has."""
        return self._with_numbers(dataset, self.key)

    def order_in(self, dataset: Dataset) -> list[str]:
        """Return the tensors of the order that a dataset has."""
        return self._with_numbers(dataset, self.order)

    def _with_numbers(self, dataset: Dataset, names: Sequence[str]) -> list[str]:
        beside = [self.numbers[name] for name in names if name in self.numbers]
        return list(dict.fromkeys([*names, *(name for name in beside if name in dataset)]))

    def to_info(self) -> dict[str, Any]:
        """Return the keying as JSON."""
        return {
            name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()
        }

    @classmethod
    def from_info(cls, found: Mapping[str, Any]) -> Self:
        """Parse the keying from JSON."""
        settings: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in found.items()
        }
        return cls(**settings)

    def is_deleted(self, columns: Mapping[str, pa.Array], rows: int) -> NDArray[np.bool_]:
        """Return for each row whether it deletes its key."""
        if self.deleted is None:
            return np.zeros(rows, dtype=np.bool_)
        return present(columns[self.deleted])

    def is_blank(self, columns: Mapping[str, pa.Array]) -> NDArray[np.bool_]:
        """Return for each row whether all values of its key are missing."""
        found: NDArray[np.bool_] = np.logical_and.reduce(self._missing(columns))
        return found

    def _missing(self, columns: Mapping[str, pa.Array]) -> list[NDArray[np.bool_]]:
        """Return for each column of the key a mask of the rows without a value."""
        texts = [self._numbers_beside(name, columns) for name in self.key]
        return [
            is_null(columns[name]) if beside is None else is_null(columns[name]) & is_null(beside)
            for name, beside in zip(self.key, texts, strict=True)
        ]

    def incomplete(self, batch: Mapping[str, pa.Array]) -> Rows:
        """Return the rows of a batch with a null in the key; two such rows may have one key, because nulls are equal.

        A value that the source sent but that could not be stored does not count as null.
        """
        if not any(batch[name].null_count for name in self.key):
            return np.zeros(0, np.int64)
        rows = np.flatnonzero(
            np.logical_or.reduce(self._missing(batch)) & ~self.is_deleted(batch, len(batch[self.key[0]]))
        )
        if not len(rows) or not self.fields:
            return rows
        numbers = [self._numbers_beside(name, batch) for name in self.key]
        return rows[
            ~self._are_lost(taken({self.changes: batch[self.changes]}, rows)[self.changes], numbers, rows)
        ]

    def ordered(self, columns: Mapping[str, pa.Array]) -> list[pa.Array]:
        """Return columns whose greater values mark newer rows, the most significant column first."""
        return [column for name in self.order for column in self._ordered(name, columns)]

    def _ordered(self, name: str, columns: Mapping[str, pa.Array]) -> list[pa.Array]:
        column = columns[name]
        if name in self.documents:
            return [sortable(column)]
        if name in self.digits:
            return [ordered(column)]
        if name not in self.numbers:
            return [column]
        texts = self._numbers_beside(name, columns)
        if texts is None:
            # Return the same two columns as with texts, because other windows of the tensor may have texts.
            return [plain(column), pa.nulls(len(column), pa.string())]
        return [floors(column, texts), ordered(texts)]

    def _numbers_beside(self, name: str, columns: Mapping[str, pa.Array]) -> pa.Array | None:
        """Return the exact texts of the numbers that a tensor would round; None if it rounds none."""
        found = columns.get(self.numbers.get(name, ""))
        return None if found is None or found.null_count == len(found) else found

    def hashes_of_batch(self, batch: Mapping[str, pa.Array]) -> Hashes:
        """Return the hash of the key of every row of a batch."""
        return self._hashes(batch, lambda rows, names: taken({name: batch[name] for name in names}, rows))

    def hashes_of_window(self, dataset: Dataset, first: int, columns: Columns) -> Hashes:
        """Return the hash of the key of every row of a window that begins at row `first` of the dataset."""
        return self._hashes(columns, lambda rows, names: dataset.take_rows(rows + first, names))

    def _hashes(
        self, columns: Mapping[str, pa.Array], more: Callable[[Rows, list[str]], Mapping[str, pa.Array]]
    ) -> Hashes:
        keys = [spelled(columns[name]) if name in self.digits else columns[name] for name in self.key]
        numbers = [self._numbers_beside(name, columns) for name in self.key]
        hashes = hash_keys(keys, numbers)
        if not self.fields or not any(column.null_count for column in keys):
            return hashes
        rows = np.flatnonzero(np.logical_or.reduce(self._missing(columns)))
        if not len(rows):
            return hashes
        lost = self._are_lost(more(rows, [self.changes])[self.changes], numbers, rows)
        if lost.any():
            rows = rows[lost]
            hashes[rows] = hash_keys([more(rows, [self.identity])[self.identity]])
        return hashes

    def _are_lost(self, metas: pa.Array, numbers: Sequence[pa.Array | None], rows: Rows) -> NDArray[np.bool_]:
        """Return for each row whether a value of its key was lost: stored neither in its tensor nor as exact text."""
        # A number whose exact digits are stored is not lost, even if its cell is null.
        kept: list[set[str]] = [set() for _ in rows]
        for name, texts in zip(self.key, numbers, strict=True):
            for place in () if texts is None else np.flatnonzero(~is_null(texts)[rows]):
                kept[place].add(self.called[name])
        pairs = zip(metas.to_pylist(), kept, strict=True)
        return np.array([self._is_lost(meta, fields) for meta, fields in pairs])

    def _is_lost(self, meta: str | None, kept: AbstractSet[str]) -> bool:
        if meta is None or meta.endswith(_NO_CHANGES):
            return False
        # The source may have sent changes of its own, which may be malformed: skip those that are not objects.
        changes = [change for change in json.loads(meta).get("changes") or () if isinstance(change, dict)]
        lost = [change.get("field") for change in changes if change.get("change") == "NULLED"]
        return any(name in self.fields and name not in kept for name in lost)


def is_null(column: pa.Array) -> NDArray[np.bool_]:
    """Return for each row whether it is null."""
    return ~present(column)
