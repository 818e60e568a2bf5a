"""Settings and info of a tensor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from lakebed.dataset.base import TensorBase
from lakebed.htypes.registry import full_name, htype_named
from lakebed.reading.decode import stored_dtype
from lakebed.reading.subscripts import Index

if TYPE_CHECKING:
    from lakebed.dataset.info import Edit, Info
    from lakebed.dataset.public_meta import PublicMeta
    from lakebed.writing.schema import NewTensor


class InfoMethods(TensorBase):
    """Settings of a column of samples."""

    @property
    def key(self) -> str:
        """Name of the folder with the samples: the full name with which the tensor was created."""
        return self._key or self._name

    @property
    def meta(self) -> PublicMeta:
        """Stored metadata: length, htype, dtype, shapes, compressions, links."""
        from lakebed.dataset.public_meta import PublicMeta

        return PublicMeta(self._state.meta)

    @property
    def info(self) -> Info:
        """Dictionary that is stored with the tensor and versioned with it."""
        from lakebed.dataset.info import Info
        from lakebed.session.held_infos import Live

        live = self._session.held_infos.setdefault(self._state.key, Live())
        return Info(lambda: self._state.info, self._change_info, live, self.summary)  # type: ignore[attr-defined]

    @info.setter
    def info(self, value: Mapping[str, Any]) -> None:
        self.info.replace_with(value)

    def _change_info(self, edit: Edit) -> None:
        self._handle.session.check_info_changeable()
        with self._handle.session.mutex, self._handle.session.writing() as draft:
            draft.schema.set_tensor_info(self._state.key, edit(self._state.info))

    @property
    def htype(self) -> str | None:
        """Htype with its wrappers, e.g. ``sequence[image]``; None until the first sample.

        Assigning another htype changes only the meaning of existing samples, not their bytes.

        Raises
        ------
        IncompatibleHtypeError
            On assignment, if the new htype does not allow the shape or dtype of the samples.
        NotImplementedError
            On assignment, if the present htype cannot be changed to the new htype.
        """
        meta = self._state.meta
        return full_name(meta.htype, is_sequence=meta.is_sequence, is_link=meta.is_link)

    @htype.setter
    def htype(self, value: str) -> None:
        from lakebed.htypes.change_htype import converted

        self._check_whole("htype")
        with self._session.mutex, self._session.writing() as draft:
            state = self._state
            meta, info = converted(state.meta, state.info, value)
            draft.schema.set_meta(state.key, meta)
            if info != state.info:
                draft.schema.set_tensor_info(state.key, info)

    @property
    def base_htype(self) -> str | None:
        """Htype without wrappers."""
        return self._state.meta.htype

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """Dtype of the samples; None before the first sample, a text dtype for text, json and list."""
        if htype_named(self._state.meta.htype).is_text_like:
            return np.dtype("<U")
        return stored_dtype(self._state.meta.dtype)

    @property
    def is_sequence(self) -> bool:
        """True if each sample is a sequence of items."""
        return self._state.meta.is_sequence

    @property
    def is_link(self) -> bool:
        """True if samples are links to files elsewhere."""
        return self._state.meta.is_link

    @property
    def is_tiled(self) -> bool:
        """True if some samples of the tensor are cut into tiles, because they are too large for a chunk."""
        return bool(self._reader.has_tiles)

    @property
    def hidden(self) -> bool:
        """True if this is a companion of another tensor."""
        return self._state.meta.hidden

    @property
    def verify(self) -> bool:
        """True if linked files are opened when links are appended."""
        meta = self._state.meta
        return meta.verify and meta.is_link

    @property
    def pad_tensor(self) -> bool:
        """True if rows beyond the last one read as empty samples, as in ``ds.max_view``."""
        return self._pad

    @property
    def index(self) -> Index:
        """The selection."""
        return self._index

    def blank(self, name: str, *, unlink: bool = False) -> NewTensor:
        """Plan a tensor without samples, with the settings of this one.

        Parameters
        ----------
        name
            Full name of the planned tensor.
        unlink
            Plan a tensor for linked data instead of links.

        Returns
        -------
        The plan of ``create_tensor_like``.
        """
        from lakebed.session.schema import blank

        return blank(self._session.schema(), self._name, name, unlink=unlink)
