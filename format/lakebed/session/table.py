"""Tables: columns and rows of one open dataset, as loaders, queries, views, exporters and workers receive them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from lakebed.errors import InvalidInputError
from lakebed.reading.samples import SampleReader
from lakebed.reading.subscripts import Index, Rows
from lakebed.session.session import Session
from lakebed.versions.state import TensorState
from lakebed.writing.names import companion, companion_key

if TYPE_CHECKING:
    from lakebed.reading.columns.scan import ColumnScan
    from lakebed.session.process.pickling import Address


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Columns and rows of one open dataset.

    A table holds no data: it reads everything from the session on use, unpublished rows included. A pickled table is an
    address, a version, tensors and rows; the process that unpickles it opens exactly that version for reading.

    Parameters
    ----------
    session
        The open dataset.
    names
        Columns in order: name of the column -> full name of the tensor.
    index
        Selected rows, and the selected part of each sample.
    pad
        Let :meth:`rows_of` name selected rows beyond the end of a shorter tensor, which has no samples there.

    Examples
    --------
    >>> import lakebed
    >>> ds = lakebed.empty("mem://table-example")
    >>> _ = ds.create_tensor("x", dtype="int64")
    >>> ds.extend({"x": [1, 2, 3]})
    >>> table = Table(ds._session, {"x": "x"})
    >>> len(table), len(table[1:]), list(table[1:].rows())
    (3, 2, [1, 2])
    """

    session: Session
    names: Mapping[str, str]
    index: Index = field(default_factory=Index)
    pad: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", MappingProxyType(dict(self.names)))

    @property
    def version(self) -> str:
        """Id of the version that the session reads, without its unpublished changes."""
        return self.session.snapshot.version_id

    # -- which columns -----------------------------------------------------------------------------------------

    def only(self, names: Iterable[str]) -> Table:
        """Return the table of some of the columns, in this order.

        Raises
        ------
        KeyError
            If the column does not exist.
        """
        return replace(self, names={name: self.names[name] for name in names})

    def state(self, name: str) -> TensorState:
        """Return settings, length and chunks of a column's tensor.

        Raises
        ------
        KeyError
            If the column does not exist.
        TensorDoesNotExistError
            If the tensor was removed.
        """
        return self.session.schema().tensor(self.names[name])

    def states(self) -> dict[str, TensorState]:
        """Return settings, length and chunks of the tensors by column, all from the same moment."""
        with self.session.mutex:
            schema = self.session.schema()
            return {name: schema.tensor(full) for name, full in self.names.items()}

    # -- which rows --------------------------------------------------------------------------------------------

    def __getitem__(self, item: Any) -> Table:
        """Return the table of some of the rows: an int, a slice, a list of numbers or of booleans."""
        return replace(self, index=self.index[item])

    @property
    def whole(self) -> Table:
        """The table of all rows."""
        return Table(self.session, self.names)

    @property
    def length(self) -> int:
        """Number of rows of the shortest tensor, whichever rows are selected; 0 if the table has no tensors."""
        return min((state.length for state in self.states().values()), default=0)

    @property
    def longest(self) -> int:
        """Number of rows of the longest tensor, whichever rows are selected; 0 if the table has no tensors."""
        return max((state.length for state in self.states().values()), default=0)

    def rows(self) -> Rows:
        """Return the numbers of those selected rows that every tensor has.

        Raises
        ------
        IndexError
            If a selected row does not exist.
        """
        return self.index.rows(self.length)

    def shared_rows(self, names: Iterable[str] | None = None) -> Rows:
        """Return the numbers of the selected rows that all named columns have.

        Parameters
        ----------
        names
            Names of the columns; None, or an empty list, is all.

        Raises
        ------
        InvalidInputError
            If one of the columns has no rows, so that it would hide the rows of another one; the message names both.
        IndexError
            If a selected row does not exist.
        """
        states = self.states()
        lengths = {name: states[name].length for name in names or states}
        if not lengths:
            return self.rows()
        short, long = min(lengths, key=lengths.__getitem__), max(lengths, key=lengths.__getitem__)
        if lengths[short] or not lengths[long] or not len(self.index.rows(lengths[long])):
            return self.index.rows(lengths[short])
        raise InvalidInputError(
            f"tensor {short!r} has 0 rows and {long!r} has {lengths[long]:,}: name only tensors that have rows, "
            f"as ds[[{long!r}]] and SELECT {long} do, or fill {short!r} up with None"
        )

    def rows_of(self, name: str) -> Rows:
        """Return the numbers of the selected rows of one column."""
        length = self.state(name).length
        return self.index.padded_rows(length) if self.pad else self.index.rows(length)

    def __len__(self) -> int:
        return len(self.rows())

    def __bool__(self) -> bool:
        return True

    # -- what reads them ---------------------------------------------------------------------------------------

    def reader(self, name: str) -> SampleReader:
        """Return the reader of single samples of a column."""
        full = self.names[name]
        return self.session.reader(self.session.schema().tensor(full).key, full)

    def companion(self, name: str, kind: str) -> SampleReader | None:
        """Return the reader of a companion (``id``, ``shape``, ``info``, ``null``) of a column; None if it has none."""
        full = self.names[name]
        key = companion_key(self.session.schema().meta, full, kind)
        return None if key is None else self.session.reader(key, companion(full, kind))

    def scan(self, name: str, *, keep: bool = False) -> ColumnScan:
        """Return the reader of many rows of a column, nulls included.

        Parameters
        ----------
        keep
            Put the chunks that are read into the cache.
        """
        from lakebed.reading.columns.scan import ColumnScan

        return ColumnScan(self.reader(name), self.companion(name, "null"), keep=keep)

    def scans(self, *, keep: bool = False) -> dict[str, ColumnScan]:
        """Return the readers of many rows by column, all from the same moment."""
        with self.session.mutex:
            return {name: self.scan(name, keep=keep) for name in self.names}

    # -- on the way to other processes -------------------------------------------------------------------------

    def __reduce__(self) -> tuple[Any, ...]:
        from lakebed.session.process.pickling import Address

        return _reopened, (Address.of(self.session), dict(self.names), self.index, self.pad)


def _reopened(address: Address, names: Mapping[str, str], index: Index, pad: bool) -> Table:
    return Table(address.open_version(), names, index, pad)


@runtime_checkable
class HasTable(Protocol):
    """Facade of a dataset or view, reduced to the method that packages below `lakebed.dataset` use."""

    def _table(self, tensors: Sequence[str] | None = None) -> Table: ...
