"""The side branch where new rows of known keys wait, durable, until they are merged.

It starts empty, has the tensors of the dataset, and says in its info by which columns its rows go (`Keying`), so that
whoever finds it later can merge it. Readers of the dataset do not see it.
"""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

import lakebed
from destination_deeplake.upserts.keying import Keying

_INFO_KEY = "upserts"


class Delta:
    """The delta of a dataset.

    Parameters
    ----------
    base : lakebed.Dataset
        The dataset; it is only changed where branches begin and end.
    branch : str
        Name of the side branch.

    Attributes
    ----------
    rows : int
        Rows that wait.
    widest : int
        Bytes of the largest column that waits, as far as they came through this object.
    """

    def __init__(self, base: lakebed.Dataset, branch: str) -> None:
        self._base = base
        self._branch = branch
        self._dataset: lakebed.Dataset | None = None
        self._bytes: dict[str, int] = {}
        if branch in base.branches:
            self._dataset = base.start_overwrite(branch, resume=True)

    @property
    def rows(self) -> int:
        return 0 if self._dataset is None or not self._dataset.tensors else self._dataset.max_len

    @property
    def widest(self) -> int:
        return max(self._bytes.values(), default=0)

    @property
    def exists(self) -> bool:
        """True if a side branch exists, even an empty one."""
        return self._dataset is not None

    @property
    def keying(self) -> Keying | None:
        """The columns by which its rows go; None when there are none."""
        found: Mapping[str, Any] | None = None if self._dataset is None else self._dataset.info.get(_INFO_KEY)
        return None if found is None else Keying.from_info(found)

    @property
    def dataset(self) -> lakebed.Dataset:
        """The rows that wait.

        Raises
        ------
        LookupError
            If there is no side branch.
        """
        if self._dataset is None:
            raise LookupError(f"there is no branch {self._branch!r}")
        return self._dataset

    def append(self, columns: Mapping[str, pa.Array], keying: Keying) -> None:
        """Add rows; they are durable when this returns.

        Parameters
        ----------
        columns : mapping of str to pyarrow.Array
            Tensors of the dataset and what they hold.
        keying : Keying
            By what the rows go; the same for all rows that wait.
        """
        # Columns that are new must not be durable here before the dataset has them.
        self._base.flush()
        if self._dataset is None:
            # The rows may exist after all, and their STATE may have been acknowledged: they stay.
            self._dataset = self._base.start_overwrite(self._branch, resume=True)
        dataset, rows = self._dataset, self.rows
        if self.keying is None:
            dataset.info[_INFO_KEY] = keying.to_info()
        for name, column in columns.items():
            if name not in dataset:
                tensor = dataset.create_tensor_like(name, self._base[name])
                if rows:
                    tensor.extend(pa.nulls(rows, column.type))
            self._bytes[name] = self._bytes.get(name, 0) + column.nbytes
        dataset.extend(columns, append_empty=True)
        dataset.flush()

    def forget(self) -> None:
        """Forget what is not published."""
        if self._dataset is not None:
            self._dataset.discard()
            self._dataset.close()

    def drop(self) -> None:
        """Throw all rows away, and the branch."""
        if self._dataset is not None:
            self._dataset.close()
            self._dataset = None
            self._bytes.clear()
            self._base.delete_branch(self._branch, force=True)
