"""What the tensors of a stream say about its rows: which row one is, which is newer, which is gone."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import lakebed
from destination_deeplake.upserts.json_order import sortable
from destination_deeplake.upserts.keys import Hashes, hash_keys
from destination_deeplake.upserts.windows import Columns, taken

Rows = NDArray[np.int64]

_NO_CHANGES = '"changes":[]}'


@dataclass(frozen=True, slots=True)
class Keying:
    """What the tensors of a stream say about its rows.

    Attributes
    ----------
    key : tuple of str
        Tensors that together name a row.
    order : tuple of str
        Tensors by which newer rows are told from older ones, the most significant first.
    deleted : str or None
        Tensor that is not null in rows that say that their key is gone; None: there are no such rows.
    documents : tuple of str
        Those of `order` that hold JSON.
    fields : tuple of str
        What `changes` calls the values of the key.
    identity, changes : str
        Tensor that names each row alone, and tensor of JSON that tells under ``changes`` which values of a row could
        not be stored. A row that has lost a value of its key so is like no other; they are looked at for nulls in keys
        only, and only if there are `fields`.
    """

    key: tuple[str, ...]
    order: tuple[str, ...]
    deleted: str | None = None
    documents: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    identity: str = "_airbyte_raw_id"
    changes: str = "_airbyte_meta"

    @property
    def tensors(self) -> list[str]:
        """Those that tell of key, order and deletion, each once."""
        return list(dict.fromkeys([*self.key, *self.order, *([self.deleted] if self.deleted else [])]))

    def to_info(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()
        }

    @classmethod
    def from_info(cls, found: Mapping[str, Any]) -> Self:
        """Read it from JSON."""
        settings: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in found.items()
        }
        return cls(**settings)

    def is_deleted(self, columns: Mapping[str, pa.Array], rows: int) -> NDArray[np.bool_]:
        """Tell for each row whether it says that its key is gone."""
        if self.deleted is None:
            return np.zeros(rows, dtype=np.bool_)
        found: NDArray[np.bool_] = columns[self.deleted].is_valid().to_numpy(zero_copy_only=False)
        return found

    def ordered(self, columns: Mapping[str, pa.Array]) -> list[pa.Array]:
        """Return the columns of the order, such that greater values are newer."""
        return [sortable(columns[name]) if name in self.documents else columns[name] for name in self.order]

    def hashes_of_batch(self, batch: Mapping[str, pa.Array]) -> Hashes:
        """Return the hash of the key of every row of a batch."""
        return self._hashes(batch, lambda rows, names: taken({name: batch[name] for name in names}, rows))

    def hashes_of_window(self, dataset: lakebed.Dataset, first: int, columns: Columns) -> Hashes:
        """Return the hash of the key of every row of a window, which begins at a row of the dataset."""
        return self._hashes(columns, lambda rows, names: dataset.take_rows(rows + first, names))

    def _hashes(
        self, columns: Mapping[str, pa.Array], more: Callable[[Rows, list[str]], Mapping[str, pa.Array]]
    ) -> Hashes:
        keys = [columns[name] for name in self.key]
        hashes = hash_keys(keys)
        if not self.fields or not any(column.null_count for column in keys):
            return hashes
        rows = np.flatnonzero(np.logical_or.reduce([is_null(column) for column in keys]))
        lost = np.array(
            [self._is_lost(text) for text in more(rows, [self.changes])[self.changes].to_pylist()]
        )
        if lost.any():
            rows = rows[lost]
            hashes[rows] = hash_keys([more(rows, [self.identity])[self.identity]])
        return hashes

    def _is_lost(self, meta: str | None) -> bool:
        """Tell whether a value of the key could not be stored."""
        if meta is None or meta.endswith(_NO_CHANGES):
            return False
        # What the source says of its changes stands there as it came, whatever it is.
        changes = [change for change in json.loads(meta).get("changes") or () if isinstance(change, dict)]
        return any(
            change.get("change") == "NULLED" and change.get("field") in self.fields for change in changes
        )


def is_null(column: pa.Array) -> NDArray[np.bool_]:
    """Tell for each row whether it is null."""
    found: NDArray[np.bool_] = column.is_null().to_numpy(zero_copy_only=False)
    return found
