"""Base classes of datasets and tensors, which the mixins of their API extend."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from lakebed.errors import InvalidOperationError, InvalidViewException, TensorDoesNotExistError
from lakebed.reading.samples import SampleReader
from lakebed.reading.selection import Selection
from lakebed.reading.subscripts import Index, Rows
from lakebed.writing.names import companion, companion_key, normalize

if TYPE_CHECKING:
    from lakebed.session.handle import Handle
    from lakebed.session.session import Session
    from lakebed.session.table import Table
    from lakebed.versions.state import Snapshot, TensorState

Columns = tuple[str, ...] | dict[str, str] | None


class DatasetBase:
    """A dataset, one of its groups, or a selection of its rows and columns.

    Parameters
    ----------
    group
        Full name of the group; empty at the root.
    index
        Selected rows; None is all.
    columns
        Names of the tensors within the group; None is all. A dictionary shows tensors by other names: {name: tensor}.
    pad
        Read rows beyond the last one of a tensor as empty samples.
    lasting
        Keep the selection valid when rows are added.

    Attributes
    ----------
    _query_text, _filter_text
        Text of the query, and text of the expression or function, that selected the rows; stored with saved views.
    """

    _handle: Handle
    _group: str
    _index: Index
    _columns: Columns
    _pad: bool
    _epoch: int | None
    _query_text: str | None = None
    _filter_text: str | None = None

    def __init__(
        self,
        handle: Handle,
        group: str = "",
        index: Index | None = None,
        columns: Columns = None,
        *,
        pad: bool = False,
        lasting: bool = False,
    ) -> None:
        # Bypass `__setattr__`, which checks each name, because loops create an object for every row.
        self.__dict__.update(
            _handle=handle,
            _group=group,
            _index=index or Index(),
            _columns=columns,
            _pad=pad,
            _epoch=None if lasting else handle.session.epoch,
        )

    @property
    def _session(self) -> Session:
        session = self._handle.session
        if self._epoch in (None, session.epoch) or (self._index.is_trivial and self._columns is None):
            return session
        then = self._handle.left_at(self._epoch)
        if then is not None:
            # After a checkout, a selection of rows of a commit stays valid; a selection of rows of a head does not,
            # because the head changes.
            self._handle, self._epoch = then, then.session.epoch
            return then.session
        if not self._index.is_trivial or self._handle.was_left_in(self._epoch):
            raise InvalidViewException(
                "This dataset view was invalidated: rows were added or replaced, or another version was checked out, "
                "since it was made. Select the rows again."
            )
        return session

    def _check_changeable(self, method: str) -> None:
        if not self._index.is_whole:
            raise InvalidOperationError(
                f"{method} method cannot be called on a Dataset view; use the whole dataset"
            )

    # -- names -----------------------------------------------------------------------------------------------

    def _names(self) -> list[str]:
        return self._names_in(self._session.structure())

    def _names_in(self, schema: Snapshot) -> list[str]:
        prefix = f"{self._group}/" if self._group else ""
        if self._columns is None:
            return [n[len(prefix) :] for n in schema.names() if n.startswith(prefix)]
        return [n for n in self._columns if schema.key_of(self._full(n)) is not None]

    def _shown(self, schema: Snapshot) -> list[str]:
        """Return the names of the visible tensors in the order of the metadata, as 3.9.52 does."""
        order = {name: i for i, name in enumerate(schema.meta.tensor_names)}
        return sorted(self._names_in(schema), key=lambda name: order.get(self._full(name), 0))

    def _full(self, name: str) -> str:
        """Return the full name of a tensor from the name that is shown.

        Raises
        ------
        TensorDoesNotExistError
            If the dataset shows tensors by other names, and no tensor by this name.
        """
        if isinstance(self._columns, dict):
            if name not in self._columns:
                raise TensorDoesNotExistError.among(name, list(self._columns))
            name = self._columns[name]
        return f"{self._group}/{name}" if self._group else name

    def _table(self, tensors: Iterable[str] | None = None) -> Table:
        """Return the table of the selected rows of some tensors; None takes all."""
        from lakebed.session.table import Table

        if tensors is None:
            names = {name: self._full(name) for name in self._names()}
            return Table(self._session, names, self._index)
        return self._table_of([normalize(name) for name in tensors])

    def _table_of(self, tensors: Iterable[str]) -> Table:
        """Return the selected rows of tensors under the given names.

        Raises
        ------
        TensorDoesNotExistError
            If the tensor does not exist, or the name is that of a group.
        """
        from lakebed.session.table import Table

        schema, names = self._session.structure(), {}
        for name in tensors:
            renamed = isinstance(self._columns, dict)
            full = self._full(name) if renamed else schema.stored_name(normalize(name, self._group))
            if schema.key_of(full) is None:
                if full in schema.meta.groups:
                    raise TensorDoesNotExistError(f"{normalize(name)!r} is a group, not a tensor.")
                raise TensorDoesNotExistError.among(normalize(name), self._names())
            names[name] = full
        return Table(self._session, names, self._index)


class TensorBase:
    """A column of samples, or a part of one.

    Parameters
    ----------
    name
        Full name, groups included.
    index
        Selected samples, and parts of samples; None selects the whole tensor.
    pad
        Read rows beyond the last one as empty samples.
    key
        Name of the folder that holds the samples, if the caller knows it.
    """

    def __init__(
        self,
        handle: Handle,
        name: str,
        index: Index | None = None,
        *,
        pad: bool = False,
        key: str | None = None,
    ) -> None:
        self._handle = handle
        self._name = name
        self._index = index or Index()
        self._pad = pad
        self._key = key or handle.session.structure().key_of(name)

    @property
    def _session(self) -> Session:
        return self._handle.session

    @property
    def _state(self) -> TensorState:
        schema = self._handle.session.schema()
        found = schema.find(self._name)
        if found is None:  # the tensor may have been renamed
            if self._key not in schema.tensors:
                raise InvalidOperationError(
                    f"tensor {self._name!r} does not exist in the version that is checked out"
                )
            found = schema.tensors[str(self._key)]
        return found

    @property
    def _reader(self) -> SampleReader:
        return self._handle.session.reader(self._state.key, self._name)

    @property
    def _selection(self) -> Selection:
        return Selection(self._reader, self._index, self._companion, pad=self._pad)

    def _companion(self, kind: str) -> SampleReader | None:
        """Return a reader of a hidden companion; None if the tensor has none of this kind."""
        session = self._handle.session
        key = companion_key(session.schema().meta, self._name, kind)
        return None if key is None else session.reader(key, companion(self._name, kind))

    def _rows(self) -> Rows:
        length = self._state.length
        return self._index.padded_rows(length) if self._pad else self._index.rows(length)

    def _check_whole(self, method: str) -> None:
        if not self._index.is_whole:
            raise InvalidOperationError(
                f"{method} method cannot be called on a Tensor view; call it on the whole tensor {self._name!r}"
            )
