"""Dataset: a whole dataset, one of its groups, or a selection of rows and columns; a facade over the session."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from lakebed.dataset.base import Columns
from lakebed.dataset.chapters.columns import ColumnMethods, RowValueMethods
from lakebed.dataset.chapters.compat import CompatMethods
from lakebed.dataset.chapters.copy import CopyMethods
from lakebed.dataset.chapters.creds import CredsMethods
from lakebed.dataset.chapters.loaders import LoaderMethods
from lakebed.dataset.chapters.rows import RowMethods
from lakebed.dataset.chapters.schema import SchemaMethods
from lakebed.dataset.chapters.selection import QueryMethods, SelectionMethods
from lakebed.dataset.chapters.show import ShowMethods
from lakebed.dataset.chapters.splits import SplitMethods
from lakebed.dataset.chapters.tables import TableMethods
from lakebed.dataset.chapters.transforms import TransformMethods
from lakebed.dataset.chapters.versions import MergeMethods, VersionMethods
from lakebed.dataset.chapters.views import ViewMethods
from lakebed.dataset.tensor import Tensor
from lakebed.errors import GroupInfoNotSupportedError, TensorDoesNotExistError
from lakebed.errors.root import instead
from lakebed.runtime.printable import printable
from lakebed.session.handle import Handle
from lakebed.verbs.condition import Condition
from lakebed.verbs.one import Key, of_row
from lakebed.writing.names import normalize

if TYPE_CHECKING:
    from lakebed.dataset.info import Edit, Info
    from lakebed.reading.subscripts import Index
    from lakebed.session.process.pickling import Address
    from lakebed.storage.base import Storage
    from lakebed.verbs.dataset import DatasetVerbs
else:

    class DatasetVerbs:
        """Methods as in pandas, loaded on first use.

        A tensor of the same name hides a method, because datasets of Deep Lake 3.x have such tensors.
        """


_YIELDING = {
    "data": "_data_of",
    "explain": "_explain",
    "indexes": "_indexes",
    "map": "_map",
    "plot": "_plot",
    "prepare": "_prepare",
    "rows": "_rows_of",
    "view_of": "_view_of",
}
"""Methods that 3.x does not have, by name; a tensor of the same name takes precedence."""


class Dataset(
    SchemaMethods,
    SelectionMethods,
    QueryMethods,
    RowMethods,
    RowValueMethods,
    ColumnMethods,
    TableMethods,
    VersionMethods,
    MergeMethods,
    CopyMethods,
    CredsMethods,
    LoaderMethods,
    SplitMethods,
    ViewMethods,
    TransformMethods,
    CompatMethods,
    ShowMethods,
    DatasetVerbs,
):
    """Tensors whose rows belong together, with versions; made by ``lakebed.empty``, ``load`` and ``dataset``.

    Examples
    --------
    >>> import lakebed
    >>> ds = lakebed.empty("mem://example")
    >>> _ = ds.create_tensor("x", dtype="int64")
    >>> ds.extend({"x": [1, 2, 3]})
    >>> ds.x.numpy().ravel().tolist()
    [1, 2, 3]
    """

    # -- storage and info --------------------------------------------------------------------------------------

    @property
    def path(self) -> str:
        """Address of the dataset, as the user wrote it."""
        return self._handle.path

    @property
    def storage(self) -> Storage:
        """Storage of the files."""
        return self._session.storage

    @property
    def info(self) -> Info:
        """Dictionary stored with the dataset and versioned with it.

        Raises
        ------
        GroupInfoNotSupportedError
            If this is a group.
        """
        from lakebed.dataset.info import Info
        from lakebed.session.held_infos import DATASET, Live

        if self._group:
            raise GroupInfoNotSupportedError("Groups have no info. Use the dataset's or a tensor's.")
        live = self._session.held_infos.setdefault(DATASET, Live())
        return Info(lambda: self._session.schema().info, self._change_info, live, self.summary)

    @info.setter
    def info(self, value: Mapping[str, Any]) -> None:
        self.info.replace_with(value)

    def _change_info(self, edit: Edit) -> None:
        self._session.check_info_changeable()
        with self._session.mutex, self._session.writing() as draft:
            draft.schema.set_info(edit(self._session.schema().info))

    # -- selecting ---------------------------------------------------------------------------------------------

    def __getitem__(self, item: Any) -> Any:
        """Select rows (int, slice, list), a tensor or group (name), or columns (list of names).

        Raises
        ------
        TensorDoesNotExistError
            If no tensor or group has the name.
        InvalidKeyTypeError
            If the item has a type that selects nothing.
        """
        if isinstance(item, str):
            if type(item) is Key:
                return next(self._rows_of([str(item)]))[item]
            return self._named(item, as_column=True)
        if isinstance(item, Condition) or type(item) is Tensor:
            return self.filter(item)
        _ = self._session  # moves an outdated view of a commit to that commit, or raises
        if isinstance(item, list | tuple) and item and (names := _names_of(item)) is not None:
            shown = self._columns
            columns: Columns = (
                {name: shown[name] for name in self._table_of(names).names}
                if isinstance(shown, dict)
                else tuple(self._expanded(names))
            )
            return type(self)(self._handle, self._group, self._index, columns, pad=self._pad)
        if isinstance(item, float | bytes | dict | set) or item is None:
            from lakebed.reading.subscripts import not_a_key

            raise not_a_key(item)
        if isinstance(item, int) and not isinstance(item, bool):
            self._check_row(item)
        elif isinstance(item, list):
            self._index[item].rows(self._whole().max_len)
        elif hasattr(item, "to_frame"):  # a column of pandas or polars has this method
            item = item.to_numpy()
        return type(self)(self._handle, self._group, self._index[item], self._columns, pad=self._pad)

    def _expanded(self, names: Sequence[str]) -> Iterator[str]:
        """Yield the names of tensors; for groups, of all tensors inside."""
        for name in names:
            found, plain = self._named(name, as_column=True), normalize(name)
            if isinstance(found, Tensor):
                full = self._session.structure().stored_name(normalize(name, self._group))
                yield full.removeprefix(f"{self._group}/" if self._group else "")
            else:
                yield from (f"{plain}/{inner}" for inner in found.tensors)

    def _check_row(self, row: int) -> None:
        if self._index.is_trivial and self._columns is None and not self._pad and self._has_row(row):
            return
        length = self.max_len if not self._index.is_single else 1
        if not -length <= row < length:
            raise IndexError(f"Index ({row},) is out of range for tensors with length {length}")

    def __getattr__(self, name: str) -> Any:
        if (name.startswith("__") and name.endswith("__")) or name == "_handle":
            raise AttributeError(name)
        try:
            return self._named(name)
        except TensorDoesNotExistError as error:
            if name == "tags":  # not a property, because a tensor may have this name, as in 3.x
                return self.get_tags()
            if name in _YIELDING:
                return getattr(self, _YIELDING[name])
            if not name.startswith("_"):
                from lakebed.verbs.dataset import DatasetVerbs
                from lakebed.verbs.rows import verb

                if self._index.is_single and (of_dict := of_row(self, name)) is not None:
                    return of_dict
                if (found := verb(self, DatasetVerbs, name)) is not None:
                    return found
            from lakebed.runtime.absent import explained

            if (told := explained("Dataset", name)) is not None:
                raise AttributeError(told) from error
            # Programs often look up missing attributes that begin with _, so do not spend time on a hint for such
            # names.
            hint = "" if name.startswith("_") else instead(name, self._names())
            raise AttributeError(
                printable(f"'Dataset' object has no attribute {name!r}, and no tensor of that name{hint}"),
                name=name,  # for the suggestion of Python
                obj=self,
            ) from error

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        if isinstance(self._columns, dict):
            return name in self._columns
        schema = self._session.schema()
        return schema.stored_name(normalize(name, self._group)) in schema.names()

    def __iter__(self) -> Iterator[Any]:
        """Iterate over rows; for a single row, over its names and values, so that ``dict(ds[i])`` is a dictionary."""
        if self._index.is_single:
            yield from self.to_dict().items()
            return
        if not self._pad:
            self._table().shared_rows()  # raises if one tensor is empty and another is not
        for i in range(self.max_len if self._pad else self.min_len):
            index = self._index[i]
            # Rows may be added during the iteration, so the yielded row must stay valid when rows are added.
            yield type(self)(self._handle, self._group, index, self._columns, pad=self._pad, lasting=True)

    # -- writing -----------------------------------------------------------------------------------------------

    def __setitem__(self, item: Any, value: Any) -> None:
        """Replace the samples of a tensor, or create it; or replace rows.

        Parameters
        ----------
        item
            Name of a tensor; or a row, some rows, or a condition on them.
        value
            Samples, one sample for all rows, or a function of each row; see ``Tensor.__setitem__`` and ``add_column``.
            For rows {tensor: value}.

        Raises
        ------
        TensorDoesNotExistError
            If some rows are selected, and no tensor has the name.
        TypeError
            If a group has the name, or rows are not a dictionary.
        """
        from lakebed.verbs.dataset import DatasetVerbs

        if not isinstance(item, str):
            self[item].update(value)
            return
        # A column is created for all rows; in a selection of rows an unknown name is an error, as in 3.x.
        if callable(value) or (self._index.is_whole and not self._has_column(item)):
            DatasetVerbs.add_column(self, item, value)
            return
        tensor = self._named(item, as_column=True)
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"Tensor groups do not support item assignment: {item!r} is a group, assign to its tensors"
            )
        tensor.assign(value)

    def __delitem__(self, item: Any) -> None:
        """Remove a tensor or group, by its name; or rows."""
        if not isinstance(item, str):
            self.pop(self[[item] if isinstance(item, int) else item])
        elif isinstance(self._named(item, as_column=True), Tensor):
            self.root.delete_tensor(self._table_of([item]).names[item])
        else:
            self.delete_group(item)

    def __setattr__(self, name: str, value: Any) -> None:
        """Replace the selected samples of the tensor of that name; if no tensor has the name, set an attribute.

        Raises
        ------
        TypeError
            If a group has the name.
        """
        public = name.startswith("__") or not name.startswith("_")  # tensors of 3.x may be called __temp_x
        if public and not hasattr(type(self), name) and self._has(name):
            self[name] = value
        else:
            super().__setattr__(name, value)

    def __enter__(self) -> Self:
        self._session.hold()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._session.release()

    def __add__(self, other: Any) -> Any:
        """Append the rows of another dataset or result; see ``lakebed.concat``."""
        from lakebed.verbs.together import concat

        return concat([self, other]) if hasattr(other, "tensors") else NotImplemented

    # -- showing -----------------------------------------------------------------------------------------------

    def summary(self, force: bool = False) -> None:
        """Print a table of the tensors: htype, shape, dtype, compression.

        Parameters
        ----------
        force
            Accepted for compatibility.

        Raises
        ------
        ValueError
            If more than 10,000 rows are selected and ``force`` is false: their shapes must be read.
        """
        from lakebed.dataset.display import printing

        if not force and self.is_view and self.max_len >= 10_000:
            raise ValueError(
                "a summary of a selection reads its shapes; pass force=True for more than 10000 rows"
            )
        print(self)
        tensors = self.tensors
        print(printing.summary_table({name: tensors[name] for name in self._shown(self._session.schema())}))

    def __str__(self) -> str:
        """Return the same text as 3.x; ``repr`` is more detailed."""
        session = self._handle.session  # use the handle's session, which also works for an outdated view
        read_only = ", read_only=True" if session.read_only else ""
        group = f", group_index={self._group!r}" if self._group else ""
        index = "" if self._index.is_trivial else f", index={self._index!r}"
        names = self._shown(session.schema())
        return f"Dataset(path={self.path!r}{read_only}{index}{group}, tensors={names!r})"

    def __copy__(self) -> Self:
        """Return another object for the same rows of the same open dataset."""
        return type(self)(self._handle, self._group, self._index, self._columns, pad=self._pad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Refuse, because a second handle on the same data would be no copy.

        Raises
        ------
        TypeError
            Always; the message names the methods that copy.
        """
        raise TypeError(
            f"copy.deepcopy does not copy the dataset at {self.path!r}: its data lies in a storage, so the result "
            "would be a second handle on the same data. Use ds.copy(dest) for a copy of its rows, or "
            "lakebed.load(path) for a second handle"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        from lakebed.session.process.pickling import Address

        handle = self._handle
        place = Address.of(handle.session), handle.path
        return _reopened, (type(self), place, self._group, self._index, self._columns, self._pad)


def _names_of(item: Sequence[Any]) -> list[str] | None:
    """Return names of tensors and groups; a tuple of parts becomes one name; None if the item selects rows."""
    if all(isinstance(name, str) for name in item):
        return list(item)
    if isinstance(item, tuple) or not isinstance(item[0], str | tuple | list):
        return None
    parts = [(name,) if isinstance(name, str) else name for name in item]
    if not all(isinstance(p, list | tuple) and p and all(isinstance(s, str) for s in p) for p in parts):
        return None
    return ["/".join(part) for part in parts]


def _reopened(
    cls: type[Dataset], place: tuple[Address, str], group: str, index: Index, columns: Columns, pad: bool
) -> Dataset:
    address, path = place
    return cls(Handle(address.open(), path), group, index, columns, pad=pad)
