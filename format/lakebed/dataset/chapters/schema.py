"""Methods that create, rename and remove tensors and groups of a dataset."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Self

from lakebed.dataset.base import DatasetBase
from lakebed.dataset.tensor import Tensor, selected
from lakebed.errors import InvalidInputError, InvalidTensorNameError, TensorDoesNotExistError
from lakebed.htypes.registry import UNSPECIFIED
from lakebed.writing.names import ATTRIBUTES, normalize, parents

if TYPE_CHECKING:
    from lakebed.dataset.public_meta import PublicMeta


class SchemaMethods(DatasetBase):
    """Methods for the tensors and groups of a dataset, a group or a selection of columns."""

    # -- names -------------------------------------------------------------------------------------------------

    @property
    def meta(self) -> PublicMeta:
        """Stored metadata: tensors, groups, hidden tensors, version."""
        from lakebed.dataset.public_meta import PublicMeta

        return PublicMeta(self._session.structure().meta)

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Visible tensors by name (relative to the group), nested names joined by ``/``."""
        return {name: self._tensor(self._full(name)) for name in self._names()}

    def _tensor(self, full_name: str, key: str | None = None) -> Tensor:
        if not self._index.chain:  # skips a call, because loops access a tensor for every row
            return Tensor(self._handle, full_name, self._index, pad=self._pad, key=key)
        return selected(self._handle, full_name, self._index, pad=self._pad, key=key, of_row=True)

    @property
    def groups(self) -> dict[str, Self]:
        """Direct sub-groups by name."""
        prefix = f"{self._group}/" if self._group else ""
        inside = [g[len(prefix) :] for g in self._session.structure().meta.groups if g.startswith(prefix)]
        return {g: self._sub(self._full(g)) for g in sorted({g.split("/")[0] for g in inside})}

    def _sub(self, group: str) -> Self:
        return type(self)(self._handle, group, self._index, pad=self._pad)

    @property
    def root(self) -> Self:
        """The dataset without its group."""
        return self._sub("")

    @property
    def parent(self) -> Self | None:
        """The enclosing group; None at the root."""
        return self._sub(self._group.rpartition("/")[0]) if self._group else None

    @property
    def group_index(self) -> str:
        """Full name of the group; empty at the root."""
        return self._group

    def _named(self, name: str, *, as_column: bool = False) -> Tensor | Self:
        """Return the tensor or group of a name; ``as_column`` also finds a column's tensor with another stored name."""
        if isinstance(self._columns, dict):
            return self._tensor(self._full(name))
        full = normalize(name, self._group)
        schema = self._session.structure()
        key = schema.key_of(full)
        if key is not None:
            return self._tensor(full, key)
        if full in schema.meta.groups:
            return self._sub(full)
        if as_column and (stored := schema.stored_name(full)) != full:
            return self._tensor(stored, str(schema.key_of(stored)))
        raise TensorDoesNotExistError.among(name, self._names())

    def _has(self, name: str) -> bool:
        """Return whether a tensor or a group has this name."""
        full, meta = normalize(name, self._group), self._session.structure()
        return meta.key_of(full) is not None or full in meta.meta.groups

    def _has_column(self, name: str) -> bool:
        return self._has(name) or name in self  # type: ignore[operator]

    def _renamed(self, columns: dict[str, str]) -> Self:
        """Return a view that shows columns by other names: {new name: name}."""
        full = {name: self._full(shown) for name, shown in columns.items()}
        inside = len(self._group) + 1 if self._group else 0
        columns = {name: stored[inside:] for name, stored in full.items()}
        return type(self)(self._handle, self._group, self._index, columns, pad=self._pad)

    @property
    def allow_delete(self) -> bool:
        """True if the dataset may be deleted or overwritten; the value is stored with the dataset."""
        return self._session.structure().meta.allow_delete

    @allow_delete.setter
    def allow_delete(self, value: bool) -> None:
        with self._session.mutex, self._session.writing() as draft:
            draft.schema.set_allow_delete(bool(value))

    # -- creating ----------------------------------------------------------------------------------------------

    def create_tensor(
        self,
        name: str,
        htype: str | None = UNSPECIFIED,
        dtype: Any = UNSPECIFIED,
        sample_compression: str | None = UNSPECIFIED,
        chunk_compression: str | None = UNSPECIFIED,
        hidden: bool = False,
        create_sample_info_tensor: bool = True,
        create_shape_tensor: bool = True,
        create_id_tensor: bool = True,
        verify: bool = True,
        exist_ok: bool = False,
        verbose: bool = True,
        downsampling: tuple[int, int] | None = None,
        tiling_threshold: int | None = None,
        **kwargs: Any,
    ) -> Tensor:
        """Create a tensor without samples.

        Parameters
        ----------
        name
            Name of the tensor, with ``/`` after the names of groups.
        htype
            Meaning of the samples: ``image``, ``text``, ``class_label``, ``sequence[bbox]``, ``link[video]``, ...; if
            left out, the first sample decides.
        dtype
            NumPy dtype of the samples; if left out, the default of the htype or the first sample decides.
        sample_compression, chunk_compression
            Compression of each sample, or of all samples of a chunk together; give at most one of the two.
        hidden
            Leave the tensor out of ``ds.tensors``.
        create_sample_info_tensor, create_shape_tensor, create_id_tensor
            Create hidden companions that record facts about files, the shape, and a permanent id of each sample (merge
            needs ids).
        verify
            Open linked files when links are appended.
        exist_ok
            Return an existing tensor of this name.
        verbose
            Accepted for compatibility.
        downsampling
            (factor, layers) of the smaller copies that are stored beside images and masks.
        tiling_threshold
            Size in bytes above which a sample is cut into tiles; -1 never cuts.
        kwargs
            Settings of the htype (``class_names``, ``coords``, ...) and ``max_chunk_size``.

        Returns
        -------
        The tensor.

        Raises
        ------
        TensorAlreadyExistsError, TensorGroupAlreadyExistsError, InvalidTensorNameError
            If the name is already used or not allowed.
        MetaError, UnsupportedCompressionError
            If the settings contradict each other.
        ValueError
            If the tensor exists, ``exist_ok`` is true, and its htype, dtype or compression is different.
        """
        from lakebed.session import schema as structure
        from lakebed.writing.schema import plan_tensor

        self._check_changeable("create_tensor")
        full = self._new_name(name)
        if tiling_threshold is not None:
            kwargs["tiling_threshold"] = tiling_threshold
        plan = plan_tensor(
            full,
            htype,
            dtype,
            sample_compression,
            chunk_compression,
            hidden=hidden,
            with_info=create_sample_info_tensor,
            with_shape=create_shape_tensor,
            with_id=create_id_tensor,
            verify=verify,
            downsampling=downsampling,
            settings=kwargs,
        )
        structure.add_planned(self._session, full, plan, exist_ok=exist_ok)
        base = full.rpartition("/")[2]
        if base in ATTRIBUTES:
            warnings.warn(f"the tensor is ds[{full!r}]: .{base} stays an attribute of datasets", stacklevel=2)
        return Tensor(self._handle, full)

    def create_tensor_like(self, name: str, source: Tensor, unlink: bool = False) -> Tensor:
        """Create a tensor without samples, with the settings of a tensor of this or another dataset.

        Parameters
        ----------
        name
            Name of the tensor.
        source
            Tensor whose settings and info are copied.
        unlink
            If ``source`` is a tensor of links, create a tensor for the data to which they refer.

        Returns
        -------
        The tensor.

        Raises
        ------
        TensorAlreadyExistsError, TensorGroupAlreadyExistsError, InvalidTensorNameError
            If the name is already used or not allowed.
        """
        from lakebed.session import schema as structure

        self._check_changeable("create_tensor_like")
        if not isinstance(source, Tensor):
            raise InvalidInputError(f"source must be a tensor, not {type(source).__name__}")
        full = self._new_name(name)
        structure.add_planned(self._session, full, source.blank(full, unlink=unlink))
        return Tensor(self._handle, full)

    def _new_name(self, name: str) -> str:
        if not isinstance(name, str):
            raise InvalidTensorNameError(f"the name of a tensor is text, not {name!r}")
        return normalize(name, self._group) if name.strip("/") else ""

    def create_group(self, name: str, exist_ok: bool = False) -> Self:
        """Create a group; nested names are allowed.

        Parameters
        ----------
        name
            Name of the group, with ``/`` between the names of nested groups.
        exist_ok
            Return the group if it exists.

        Returns
        -------
        The group.

        Raises
        ------
        TensorGroupAlreadyExistsError, TensorAlreadyExistsError, InvalidTensorGroupNameError
            If the name is already used or not allowed.
        """
        from lakebed.writing.schema import check_new_group

        self._check_changeable("create_group")
        full = self._new_name(name)
        with self._session.mutex, self._session.writing() as draft:
            schema = self._session.schema()
            if not (exist_ok and full in schema.meta.groups):
                check_new_group(schema, full)
                draft.schema.add_groups([full, *parents(full)])
        return self._sub(full)

    # -- renaming and removing ---------------------------------------------------------------------------------

    def rename_tensor(self, name: str, new_name: str) -> Tensor:
        """Give a tensor another name in the same group.

        Parameters
        ----------
        name
            Name of the tensor.
        new_name
            New name of the tensor.

        Returns
        -------
        The tensor under its new name.

        Raises
        ------
        TensorDoesNotExistError
            If the tensor does not exist.
        RenameError
            If the new name is in another group.
        TensorAlreadyExistsError, TensorGroupAlreadyExistsError, InvalidTensorNameError
            If the new name is already used or not allowed.
        """
        from lakebed.session import schema as structure

        self._check_changeable("rename_tensor")
        new = self._new_name(new_name)
        structure.rename_tensor(self._session, normalize(name, self._group), new)
        return Tensor(self._handle, new)

    def rename_group(self, name: str, new_name: str) -> None:
        """Give a group another name in the same place.

        Parameters
        ----------
        name
            Name of the group.
        new_name
            New name of the group.

        Raises
        ------
        TensorGroupDoesNotExistError
            If the group does not exist.
        RenameError
            If the new name is in another group.
        TensorAlreadyExistsError, TensorGroupAlreadyExistsError, InvalidTensorGroupNameError
            If the new name is already used or not allowed.
        """
        from lakebed.session import schema as structure

        self._check_changeable("rename_group")
        structure.rename_group(self._session, normalize(name, self._group), self._new_name(new_name))

    def delete_tensor(self, name: str, large_ok: bool = False) -> None:
        """Remove a tensor with its hidden companions; earlier commits keep it.

        Parameters
        ----------
        name
            Name of the tensor.
        large_ok
            Also remove a tensor of more than 1 GB.

        Raises
        ------
        TensorDoesNotExistError
            If the tensor does not exist.
        TensorTooLargeToDelete
            If the tensor is above 1 GB and ``large_ok`` is false.
        """
        from lakebed.session import schema as structure

        self._check_changeable("delete_tensor")
        structure.delete_tensor(self._session, normalize(name, self._group), large_ok=large_ok)

    def delete_group(self, name: str, large_ok: bool = False) -> None:
        """Remove a group with its tensors; earlier commits keep them.

        Parameters
        ----------
        name
            Name of the group.
        large_ok
            Also remove a group of more than 1 GB.

        Raises
        ------
        TensorGroupDoesNotExistError
            If the group does not exist.
        TensorTooLargeToDelete
            If the group is above 1 GB and ``large_ok`` is false.
        """
        from lakebed.session import schema as structure

        self._check_changeable("delete_group")
        structure.delete_group(self._session, normalize(name, self._group), large_ok=large_ok)

    def size_approx(self) -> int:
        """Return the number of bytes of the chunks of all tensors (or the selected ones), hidden companions included.

        Only metadata is read.

        Returns
        -------
        Number of bytes.
        """
        from lakebed.session import schema as structure

        schema = self._session.schema()
        if self._columns is None and not self._group:
            return sum(map(structure.approximate_size, schema.tensors.values()))
        return sum(map(structure.approximate_size, self._table().states().values()))
