"""What a tensor is: its settings, its info, and the extents of what is selected of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lakebed.dataset.info import Edit, Info
from lakebed.dataset.public_meta import PublicMeta
from lakebed.dataset.shape_interval import ShapeInterval
from lakebed.errors import InvalidOperationError
from lakebed.htypes.registry import full_name, htype_named
from lakebed.reading.decode import stored_dtype
from lakebed.reading.index import Index, Rows
from lakebed.reading.samples import SampleReader
from lakebed.reading.selection import Selection
from lakebed.session.branches import check_info_changeable
from lakebed.session.handle import Live
from lakebed.session.schema import blank
from lakebed.writing.names import companion, companion_key

if TYPE_CHECKING:
    from lakebed.session.handle import Handle
    from lakebed.session.session import Session
    from lakebed.versions.state import TensorState
    from lakebed.writing.schema import NewTensor


class Described:
    """The identity of a column of samples, or of a part of one.

    Parameters
    ----------
    name
        Full name, groups included.
    index
        What is selected; None is everything.
    pad
        Let rows behind the last one read as empty samples.
    key
        Name of the folder that holds the samples, where the caller knows it.
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
        key = (
            schema.key_of(self._name) or self._key
        )  # another tensor may have taken the name, or this one a new name
        if key not in schema.tensors:
            raise InvalidOperationError(
                f"tensor {self._name!r} is not in the version that is checked out now"
            )
        return schema.tensors[str(key)]

    @property
    def _reader(self) -> SampleReader:
        return self._handle.session.reader(self._state.key, self._name)

    @property
    def _selection(self) -> Selection:
        return Selection(self._reader, self._index, self._companion, pad=self._pad)

    def _companion(self, kind: str) -> SampleReader | None:
        """Return a reader of a hidden companion, or None if there is none."""
        session = self._handle.session
        key = companion_key(session.schema().meta, self._name, kind)
        return None if key is None else session.reader(key, companion(self._name, kind))

    # -- settings ----------------------------------------------------------------------------------------------

    @property
    def key(self) -> str:
        """Name of the folder that holds the samples: the full name that the tensor was created with."""
        return self._key or self._name

    @property
    def meta(self) -> PublicMeta:
        """Stored metadata: length, htype, dtype, shapes, compressions, links."""
        return PublicMeta(self._state.meta)

    @property
    def info(self) -> Info:
        """Dictionary stored with the tensor and versioned with it."""
        live = self._handle.infos.setdefault(self.key, Live())
        return Info(lambda: self._state.info, self._change_info, live)

    @info.setter
    def info(self, value: Mapping[str, Any]) -> None:
        if not isinstance(value, Mapping):
            raise TypeError(f"info must be a dictionary, not {type(value).__name__}")
        self.info.replace_with(value)

    def _change_info(self, edit: Edit) -> None:
        check_info_changeable(self._handle.session)
        with self._handle.session.mutex, self._handle.session.writing() as draft:
            draft.set_tensor_info(self._state.key, edit(self._state.info))

    @property
    def htype(self) -> str | None:
        """Htype with its wrappers, e.g. ``sequence[image]``; None until the first sample."""
        meta = self._state.meta
        return full_name(meta.htype, is_sequence=meta.is_sequence, is_link=meta.is_link)

    @property
    def base_htype(self) -> str | None:
        """Htype without wrappers."""
        return self._state.meta.htype

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """Dtype of the samples; None while it is open, a text dtype for text, json and list."""
        if htype_named(self._state.meta.htype).is_text_like:
            return np.dtype("<U")
        return stored_dtype(self._state.meta.dtype)

    @property
    def is_sequence(self) -> bool:
        """Whether each sample is a sequence of items."""
        return self._state.meta.is_sequence

    @property
    def is_link(self) -> bool:
        """Whether samples are links to files elsewhere."""
        return self._state.meta.is_link

    @property
    def hidden(self) -> bool:
        """Whether this is a companion of another tensor."""
        return self._state.meta.hidden

    @property
    def verify(self) -> bool:
        """Whether links are followed once when they are appended."""
        meta = self._state.meta
        return meta.verify and meta.is_link

    @property
    def pad_tensor(self) -> bool:
        """Whether rows behind the last one read as empty samples, as in ``ds.max_view``."""
        return self._pad

    @property
    def index(self) -> Index:
        """What is selected."""
        return self._index

    def blank(self, name: str, *, unlink: bool = False) -> NewTensor:
        """Plan a tensor of that full name with the settings of this one and no samples."""
        return blank(self._session.schema(), self._name, name, unlink=unlink)

    # -- extents -----------------------------------------------------------------------------------------------

    @property
    def num_samples(self) -> int:
        """Number of samples of the whole tensor, whatever is selected."""
        return self._state.length

    def __len__(self) -> int:
        return len(self._rows())

    def _rows(self) -> Rows:
        length = self._state.length
        return self._index.padded_rows(length) if self._pad else self._index.rows(length)

    @property
    def is_single(self) -> bool:
        """Whether one sample is selected, without the sample axis."""
        return self._index.is_single

    @property
    def sample_indices(self) -> Sequence[int]:
        """Row numbers that this selection keeps."""
        rows = self._rows()
        return rows if isinstance(rows, range) else [int(row) for row in rows]

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Number of samples, then the extent of each axis, None where samples differ; a single sample's own shape."""
        return self._selection.shape()

    @property
    def shape_interval(self) -> ShapeInterval:
        """Smallest and largest extent of the selected samples per axis, their number first."""
        return ShapeInterval(*self._selection.interval())

    def shapes(self) -> NDArray[Any] | list[NDArray[Any]]:
        """Return the shape of every selected sample: int32, shape (samples, axes); of sequences item by item."""
        shapes: NDArray[Any] | list[NDArray[Any]] = self._selection.shapes()
        return shapes

    @property
    def ndim(self) -> int:
        """Number of axes, the sample axis included unless one sample is selected."""
        return len(self.shape)

    @property
    def size(self) -> int | None:
        """Number of elements; None if samples differ in shape."""
        shape = self.shape
        return None if None in shape else prod(axis for axis in shape if axis is not None)

    @property
    def is_dynamic(self) -> bool:
        """Whether the selected samples differ in shape."""
        if self._index.is_trivial and not self._state.meta.is_sequence:
            return tuple(self._state.meta.min_shape) != tuple(self._state.meta.max_shape)
        return self.shape_interval.is_dynamic

    @property
    def is_empty_tensor(self) -> bool:
        """Whether there are no samples, or only empty ones."""
        return len(self._state.meta.max_shape) == 0

    @property
    def sample_info(self) -> Any:
        """What is recorded of the files behind the samples (format, exif, fps, ...); None where nothing is kept."""
        return self._selection.infos()

    def __repr__(self) -> str:
        index = "" if self._index.is_trivial else f", index={self._index!r}"
        return f"Tensor(key={self._name!r}{index})"
