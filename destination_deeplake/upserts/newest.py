"""Which of several rows of one key is the newest one.

The greater cursor is newer; then the later extraction; then what arrived later. A null cursor, and one that is NaN, is
lower than all others; texts go by code point.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from destination_deeplake.native import keys as native
from destination_deeplake.native.keys import KeyTable
from destination_deeplake.upserts.keys import Hashes, values


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
    """

    key: tuple[str, ...]
    order: tuple[str, ...]
    deleted: str | None = None

    @property
    def tensors(self) -> list[str]:
        """All of these, each once."""
        return list(dict.fromkeys([*self.key, *self.order, *([self.deleted] if self.deleted else [])]))

    def to_info(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {"key": list(self.key), "order": list(self.order), "deleted": self.deleted}

    @classmethod
    def from_info(cls, found: Mapping[str, Any]) -> Self:
        """Read it from JSON."""
        return cls(tuple(found["key"]), tuple(found["order"]), found["deleted"])

    def is_deleted(self, columns: Mapping[str, pa.Array], rows: int) -> NDArray[np.bool_]:
        """Tell for each row whether it says that its key is gone."""
        if self.deleted is None:
            return np.zeros(rows, dtype=np.bool_)
        found: NDArray[np.bool_] = columns[self.deleted].is_valid().to_numpy(zero_copy_only=False)
        return found


def newest_rows(hashes: Hashes, order: Sequence[pa.Array]) -> NDArray[np.int64]:
    """Return the rows, ascending, that are the newest of their key.

    Parameters
    ----------
    hashes : uint64, shape (rows, 2)
        Keys, in the order of arrival.
    order : sequence of pyarrow.Array
        As in `Keying`.
    """
    table = KeyTable(len(hashes))
    slots = table.insert(hashes)
    if len(table) == len(hashes):
        return np.arange(len(hashes))
    return np.sort(native.newest(slots, len(table), [values(column) for column in order]))
