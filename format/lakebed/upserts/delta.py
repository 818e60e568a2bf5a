"""The side branch where new rows of known keys wait, durable, until they are merged.

The branch begins with the tensors of the dataset and no rows. Its info records the key and order of its rows
(`Keying`), so that a later process can merge them. Readers of the dataset do not see the branch.
"""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from lakebed.dataset.dataset import Dataset
from lakebed.upserts.keying import Keying

_INFO_KEY = "upserts"


class Delta:
    """The delta of a dataset.

    Parameters
    ----------
    base : Dataset
        The dataset; only its branches are changed.
    branch : str
        Name of the side branch.

    Attributes
    ----------
    rows : int
        Number of waiting rows.
    widest : int
        Bytes of the largest waiting column; only rows that were added through this object count.
    """

    def __init__(self, base: Dataset, branch: str) -> None:
        self._base = base
        self._branch = branch
        self._dataset: Dataset | None = None
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
        """Key and order of the waiting rows; None if there is no delta."""
        found: Mapping[str, Any] | None = None if self._dataset is None else self._dataset.info.get(_INFO_KEY)
        return None if found is None else Keying.from_info(found)

    @property
    def dataset(self) -> Dataset:
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
        """Add rows and wait until they are durable.

        Parameters
        ----------
        columns : mapping of str to pyarrow.Array
            Tensors of the dataset and their values.
        keying : Keying
            Key and order of the rows; the same for all waiting rows.
        """
        # Publish new columns in the dataset before they are used here.
        self._base.flush()
        if self._dataset is None:
            # Keep the rows of an existing branch: a STATE may have confirmed to the source that they are stored.
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
        """Discard unpublished changes."""
        if self._dataset is not None:
            self._dataset.discard()
            self._dataset.close()

    def drop(self) -> None:
        """Drop the branch with all rows."""
        if self._dataset is not None:
            self._dataset.close()
            self._dataset = None
            self._bytes.clear()
            self._base.delete_branch(self._branch, force=True)
