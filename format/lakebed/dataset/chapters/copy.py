"""Copies of a dataset, packing, replacement of links by their data, and deletion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from lakebed.dataset.base import DatasetBase
from lakebed.errors import InvalidOperationError, ReadOnlyModeError, SampleAppendError
from lakebed.session.places import Path, discard_at
from lakebed.storage.credentials import Creds, kept
from lakebed.storage.url import parse

if TYPE_CHECKING:
    from lakebed.copying.resolve_links import BrokenLink
    from lakebed.session.table import Table


class CopyMethods(DatasetBase):
    """Datasets made from this one, and its deletion."""

    def like(self, dest: Path, tensors: Sequence[str] | None = None, overwrite: bool = False) -> Self:
        """Create a dataset with the settings of this one and no samples; see ``lakebed.like``."""
        from lakebed.copying.copy import copy_table, empty_in_place, is_same_place

        session, table = self._session, self._copied_table(tensors)
        is_whole = self._index.is_trivial and not self._group and self._columns is None
        if overwrite and is_whole and session.is_head and is_same_place(session, dest):
            empty_in_place(table)
            session.epoch += 1
            return type(self)(self._handle)
        return type(self)(copy_table(table, dest, overwrite=overwrite, samples=False))

    def copy(
        self,
        dest: Path,
        runtime: None = None,
        tensors: Sequence[str] | None = None,
        overwrite: bool = False,
        creds: Creds | None = None,
        token: None = None,
        num_workers: int = 0,
        scheduler: str = "threaded",
        progressbar: bool = True,
        public: bool = False,
        unlink: bool = False,
    ) -> Self:
        """Copy the selected rows and tensors, without history; see ``lakebed.copy``.

        If a view shows a part of each sample, the parts are copied and encoded again.

        Parameters
        ----------
        creds
            Credentials of the destination's object store; None uses the credentials of the environment.
        token, num_workers, scheduler, public
            Accepted for compatibility.
        """
        from lakebed.copying.copy import copy_table
        from lakebed.copying.materialize import copy_resolved

        dest = parse(dest, creds=kept(creds))
        table = self._copied_table(tensors)
        if self._index.inside:
            return self._copied_parts(table, dest, overwrite=overwrite)
        if unlink:
            handle, _ = copy_resolved(table, dest, overwrite=overwrite, progressbar=progressbar)
            return type(self)(handle)
        return type(self)(copy_table(table, dest, overwrite=overwrite, progressbar=progressbar))

    def _copied_parts(self, table: Table, dest: Path, *, overwrite: bool) -> Self:
        """Copy the parts of samples that a view shows; the parts are encoded again, links are replaced by their data.

        Raises
        ------
        DatasetHandlerError
            If a dataset exists at ``dest``, and ``overwrite`` is false.
        InvalidOperationError
            If the number of axes of the parts differs from that of the samples.
        SampleAppendError
            If a link cannot be followed; rows that were copied before are kept.
        """
        from lakebed.copying.copy import refuse_same_place
        from lakebed.session.places import make

        items = [item for subscript in self._index.inside for item in subscript]
        kept = [item for item in items if not isinstance(item, slice) and item is not ...]
        if len(kept) > 1 or not all(
            isinstance(item, list | np.ndarray) and np.ndim(item) == 1 for item in kept
        ):
            raise InvalidOperationError(
                "the parts have other axes than the samples, and a tensor keeps its axes: take slices, "
                "ds[rows, 0:1]; or a column of a query: ds.query('SELECT image[0] AS line').materialize(...)"
            )
        refuse_same_place(self._session, dest)
        whole: Any = type(self)(self._handle, self._group)
        columns = self._columns if isinstance(self._columns, dict) else tuple(table.names)
        shown: Any = type(self)(self._handle, self._group, self._index, columns)
        made: Any = type(self)(make(dest, overwrite=overwrite))
        try:
            with made:
                made.info.replace_with(dict(self._session.schema().info))
                for name in table.names:
                    made.create_tensor_like(name, whole[name], unlink=True)
                if self._index.is_single:
                    made.append(shown)
                else:
                    made.extend(shown)
        except SampleAppendError as error:
            error.add_note(f"the rows copied before stay at {made.path}: start over with overwrite=True")
            raise
        copied: Self = made
        return copied

    def _copied_table(self, tensors: Sequence[str] | None) -> Table:
        """Return the table of the selected rows of these tensors and groups; None takes all."""
        from lakebed.copying.copy import chosen
        from lakebed.session.table import Table

        self._session.store_held_infos()
        if isinstance(self._columns, dict):
            return self._table(tensors)
        wanted = tensors if tensors is not None else self._columns
        names = chosen(self._session.schema(), self._group, wanted)
        return Table(self._session, names, self._index, self._pad)

    def materialize(
        self,
        dest: Path | None = None,
        tensors: Sequence[str] | None = None,
        overwrite: bool = False,
        ignore_errors: bool = False,
        progressbar: bool = True,
        creds: Creds | None = None,
    ) -> list[BrokenLink]:
        """Replace links by the data to which they refer, in a copy or in place; see ``lakebed.materialize``.

        Parameters
        ----------
        creds
            Credentials of the object store of ``dest``; None uses the credentials of the environment.
        """
        from lakebed.copying.materialize import copy_resolved, resolve_in_place

        if dest is None and creds is not None:
            raise InvalidOperationError("creds are for the destination: name a destination, too")
        how = {"ignore_errors": ignore_errors, "progressbar": progressbar}
        if dest is None:
            table = self._copied_table(tensors)
            self._check_changeable("materialize")
            if not self._index.is_trivial:
                raise InvalidOperationError(
                    "a view cannot be changed in place: name a destination, or call this on the dataset"
                )
            links = [table.names[name] for name, state in table.states().items() if state.meta.is_link]
            return resolve_in_place(self._session, links, **how)
        dest = parse(dest, creds=kept(creds))
        table = self._copied_table(tensors)
        if not self._index.inside:
            handle, broken = copy_resolved(table, dest, overwrite=overwrite, **how)
            handle.session.close()
            return broken
        if ignore_errors:
            raise InvalidOperationError(
                "ignore_errors needs whole samples: materialize the rows, and select their parts in the copy"
            )
        self._copied_parts(table, dest, overwrite=overwrite)._session.close()  # noqa: SLF001 - of this class
        return []

    def deepcopy(
        self,
        dest: Path,
        tensors: Sequence[str] | None = None,
        overwrite: bool = False,
        progressbar: bool = True,
        *,
        deeplake3: bool = False,
    ) -> Self:
        """Copy the whole dataset with its history; see ``lakebed.deepcopy``."""
        from lakebed.copying.copy import copy_everything

        if not self._index.is_trivial or isinstance(self._columns, dict):
            raise TypeError(
                "Deepcopy is not supported for views, which have no history; use copy, or the dataset"
            )
        self._session.flush()
        handle = copy_everything(
            self._session,
            dest,
            tensors,
            overwrite=overwrite,
            deeplake3=deeplake3,
            progressbar=progressbar,
        )
        return type(self)(handle)

    def pack(
        self,
        dest: Path,
        tensors: Sequence[str] | None = None,
        overwrite: bool = False,
        progressbar: bool = True,
    ) -> Self:
        """Write the whole dataset with its history to one file; see ``lakebed.pack``."""
        from lakebed.copying.pack import pack_everything

        if not self._index.is_trivial or isinstance(self._columns, dict):
            raise TypeError("a view cannot be packed: make a dataset of it with copy, and pack that dataset")
        self._session.flush()
        handle = pack_everything(self._session, dest, tensors, overwrite=overwrite, progressbar=progressbar)
        return type(self)(handle)

    def delete(self, large_ok: bool = False) -> None:
        """Remove this dataset with all its versions.

        Parameters
        ----------
        large_ok
            Also remove a dataset of more than 1 GB.

        Raises
        ------
        ReadOnlyModeError
            If the dataset was opened read-only.
        DatasetHandlerError
            If the dataset forbids its deletion (``ds.allow_delete``).
        DatasetTooLargeToDelete
            If the dataset has more than 1 GB and ``large_ok`` is false.
        """
        self._check_changeable("delete")
        if self._session.read_only:
            raise ReadOnlyModeError(
                f"{self._handle.path} was opened read-only; lakebed.delete removes it by its path"
            )
        self._session.close()
        discard_at(self._session.storage, self._handle.path, force=False, large_ok=large_ok)
