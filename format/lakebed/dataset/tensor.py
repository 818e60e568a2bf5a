"""Tensor: one named column of a dataset, or a selection of its samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lakebed.dataset.info import Edit, Info
from lakebed.dataset.printing import summary_table
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.errors import InvalidOperationError
from lakebed.htypes.base import Storing
from lakebed.htypes.class_label import to_names
from lakebed.htypes.registry import htype_named
from lakebed.reading.samples import SampleReader
from lakebed.reading.select import Index, Rows
from lakebed.writing.coerce import encode_column, encode_one
from lakebed.writing.encoded import Column
from lakebed.writing.names import companion, companion_key

if TYPE_CHECKING:
    from lakebed.dataset.session import Handle
    from lakebed.versions.state import TensorState


class Tensor:
    """A column of samples; indexing gives lazily selected parts, ``numpy()`` and its kin read them."""

    def __init__(self, handle: Handle, name: str, index: Index | None = None) -> None:
        self._handle = handle
        self._name = name
        self._index = index or Index()

    # -- what it is --------------------------------------------------------------------------------------------

    @property
    def _state(self) -> TensorState:
        schema = self._handle.session.schema()
        key = schema.key_of(self._name)
        if key is None:
            raise InvalidOperationError(
                f"tensor {self._name!r} is not in the version that is checked out now"
            )
        return schema.tensors[key]

    @property
    def _reader(self) -> SampleReader:
        return self._handle.session.reader(self._state.key, self._name)

    @property
    def key(self) -> str:
        """Full name, groups included."""
        return self._name

    @property
    def meta(self) -> TensorMeta:
        """Stored metadata: length, htype, dtype, shapes, compressions, links."""
        return self._state.meta

    @property
    def info(self) -> Info:
        """Dictionary stored with the tensor and versioned with it."""
        return Info(lambda: self._state.info, self._change_info)

    @info.setter
    def info(self, value: Mapping[str, Any]) -> None:
        Info(lambda: self._state.info, self._change_info).replace_with(value)

    def _change_info(self, edit: Edit) -> None:
        with self._handle.session.writing() as draft:
            draft.set_tensor_info(self._state.key, edit(self._state.info))

    @property
    def htype(self) -> str | None:
        """Htype with its wrappers, e.g. ``sequence[image]``; None until the first sample."""
        meta = self.meta
        name = meta.htype
        if meta.is_link:
            name = f"link[{name}]"
        return f"sequence[{name}]" if meta.is_sequence else name

    @property
    def base_htype(self) -> str | None:
        """Htype without wrappers."""
        return self.meta.htype

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """Dtype of the samples; None while it is open, a text dtype for text, json and list."""
        if htype_named(self.meta.htype).is_text_like:
            return np.dtype("<U")
        return None if self.meta.dtype is None else np.dtype(self.meta.dtype)

    @property
    def is_sequence(self) -> bool:
        return self.meta.is_sequence

    @property
    def is_link(self) -> bool:
        return self.meta.is_link

    @property
    def hidden(self) -> bool:
        """Whether this is a companion of another tensor."""
        return self.meta.hidden

    @property
    def is_dynamic(self) -> bool:
        """Whether samples differ in shape."""
        return tuple(self.meta.min_shape) != tuple(self.meta.max_shape)

    @property
    def is_empty_tensor(self) -> bool:
        """Whether there are no samples, or only empty ones."""
        return len(self.meta.max_shape) == 0

    @property
    def num_samples(self) -> int:
        """Number of samples selected; 1 for a single one."""
        return len(self._rows())

    def __len__(self) -> int:
        return len(self._rows())

    def _length(self) -> int:
        return self._state.length

    def _rows(self) -> Rows:
        return self._index.rows(self._length())

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Number of samples, then the extent of each axis, None where samples differ."""
        if self.is_single and not self._index.inside:
            return self._sample_shape(self._single())
        low, high = self.extents()
        axes = tuple(a if a == b else None for a, b in zip(low, high, strict=True))
        return axes if self.is_single else (len(self), *axes)

    def extents(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the smallest and the largest extent of the selected samples per axis; () before any has a shape."""
        low, high = tuple(self.meta.min_shape), tuple(self.meta.max_shape)
        if self._index.is_trivial or (low == high and not self._index.inside):
            return low, high
        rows = (int(row) for row in self._rows())
        if self._index.inside:
            shapes = {np.shape(self._index.part(self._reader.value(row))) for row in rows}
        else:
            shapes = {self._sample_shape(row) for row in rows}
        axes = list(zip(*shapes, strict=False))
        return tuple(map(min, axes)), tuple(map(max, axes))

    def _sample_shape(self, row: int) -> tuple[int, ...]:
        if htype_named(self.meta.htype).storing in (Storing.TEXT, Storing.JSON):
            return (1,)
        shape = self._reader.raw(row, decompress=False)[1]
        return (0,) * len(self.meta.max_shape) if shape is None else shape

    @property
    def ndim(self) -> int:
        """Number of axes, the sample axis included unless one sample is selected."""
        return len(self.shape)

    @property
    def sample_indices(self) -> Rows:
        """Row numbers that this selection keeps."""
        return self._rows()

    # -- selecting ---------------------------------------------------------------------------------------------

    def __getitem__(self, item: Any) -> Tensor:
        if isinstance(item, int) and not self._index.is_single:
            self._index[item].rows(self._length())
        return Tensor(self._handle, self._name, self._index[item])

    def __iter__(self) -> Iterator[Tensor]:
        if self._index.is_single:
            yield from (self[i] for i in range(int(self.shape[0] or 0)))
            return
        for i in range(len(self)):
            yield self[i]

    # -- writing -----------------------------------------------------------------------------------------------

    def append(self, sample: Any) -> None:
        """Add one sample: an array, number, text, JSON value, or None for an empty one.

        Raises
        ------
        SampleAppendError
            If the sample does not fit; the cause says why.
        """
        self._check_whole("append to")
        with self._handle.session.writing() as draft:
            state = self._state
            draft.extend({state.key: encode_sample(sample, state)})

    def extend(self, samples: Any, progressbar: bool = False) -> None:
        """Add many samples: an array (first axis = samples), a list, a Tensor, or an Arrow array.

        Raises
        ------
        SampleAppendError
            If a sample does not fit; nothing is added then.
        """
        self._check_whole("extend")
        with self._handle.session.writing() as draft:
            state = self._state
            draft.extend({state.key: encode_samples(samples, state)})

    def _check_whole(self, what: str) -> None:
        if not self._index.is_trivial:
            raise InvalidOperationError(
                f"can not {what} a selection of tensor {self._name!r}; use the whole tensor"
            )

    # -- reading -----------------------------------------------------------------------------------------------

    @property
    def is_single(self) -> bool:
        """Whether one sample is selected, without the sample axis."""
        return self._index.is_single

    def null_mask(self) -> NDArray[np.bool_] | None:
        """Return True for selected samples whose null is on record: bool, shape (samples,); None when none is."""
        return self._null_rows(self._rows())

    def _single(self) -> int:
        return int(self._rows()[0])

    def _null_rows(self, rows: Rows) -> NDArray[np.bool_] | None:
        """Return True for rows whose null is on record, or None when none is."""
        session = self._handle.session
        key = companion_key(session.schema().meta, self._name, "null")
        if key is None:
            return None
        reader = session.reader(key, companion(self._name, "null"))
        wanted = np.asarray(rows, dtype=np.int64)
        known = wanted < reader.state.length
        mask = np.zeros(len(wanted), dtype=np.bool_)
        mask[known] = reader.stacked(wanted[known]).reshape(-1)
        return mask if mask.any() else None

    def values(self) -> Iterator[Any]:
        """Yield the selected samples; None where a null is on record."""
        rows = self._rows()
        mask = self._null_rows(rows)
        for i, value in enumerate(self._reader.values(rows)):
            yield None if mask is not None and mask[i] else self._index.part(value)

    def numpy(self, aslist: bool = False, fetch_chunks: bool = False) -> Any:
        """Read as an array: shape (samples, ...), or that of the sample for a single one.

        Parameters
        ----------
        aslist
            Return a list of arrays, one per sample.
        fetch_chunks
            Accepted for compatibility; whole chunks are read whenever that is cheaper.

        Raises
        ------
        DynamicTensorNumpyError
            If the selected samples differ in shape and ``aslist`` is false.
        """
        reader = self._reader
        text_like = reader.storing is not Storing.ARRAY
        if self._index.is_single:
            value = next(self.values())
            return _object_array(value, reader.storing) if text_like else value
        if text_like:
            arrays = [_object_array(v, reader.storing) for v in self.values()]
            return arrays if aslist else _stack_objects(arrays)
        if aslist:
            return [np.asarray(v) if v is not None else self._empty() for v in self.values()]
        if self.meta.length == 0:
            return np.empty((0, *self.meta.max_shape), dtype=self.dtype or np.float64)
        if self._index.inside and not (reader.is_fixed and self._index.is_basic):
            return reader.stack([np.asarray(v) for v in self.values()])
        whole = reader.stacked(self._rows())
        for subscript in self._index.inside:
            whole = whole[(slice(None), *subscript)]
        return whole

    def _empty(self) -> NDArray[Any]:
        return np.empty((0,) * len(self.meta.max_shape), dtype=self.dtype or np.float64)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        array: NDArray[Any] = np.asarray(self.numpy())
        return array if dtype is None else array.astype(dtype)

    def text(self, fetch_chunks: bool = False) -> Any:
        """Read text: a str for a single sample, else a list of str; None for a null.

        Raises
        ------
        InvalidOperationError
            If the tensor is no text.
        """
        return self._typed(Storing.TEXT, "text")

    def dict(self, fetch_chunks: bool = False) -> Any:
        """Read JSON values: one for a single sample, else a list; None for a null.

        Raises
        ------
        InvalidOperationError
            If the tensor is no json.
        """
        return self._typed(Storing.JSON, "json")

    def list(self, fetch_chunks: bool = False) -> Any:
        """Read lists: one for a single sample, else a list of lists; None for a null.

        Raises
        ------
        InvalidOperationError
            If the tensor is neither list nor tag.
        """
        if self._reader.storing is Storing.ARRAY:
            values = [None if v is None else v.tolist() for v in self.values()]
            return values[0] if self._index.is_single else values
        return self._typed(Storing.LIST, "list or tag")

    def _typed(self, storing: Storing, what: str) -> Any:
        if self._reader.storing is not storing:
            raise InvalidOperationError(f"tensor {self._name!r} has htype {self.htype}, not {what}")
        return next(self.values()) if self._index.is_single else [*self.values()]

    def data(self, aslist: bool = False, fetch_chunks: bool = False) -> Mapping[str, Any]:
        """Read in the form that suits the htype, under the key ``value``.

        Text, json and list give Python values; numbers with a logical type give dates, times and datetimes; class
        labels also give their names under ``text``. A null is None.
        """
        reader = self._reader
        if reader.storing is not Storing.ARRAY:
            values = [*self.values()]
            return {"value": values[0] if self._index.is_single else values}
        if reader.state.info.get("logical_type") and not self._index.inside:
            moments = self._moments()
            if moments is not None:
                return {"value": moments[0] if self._index.is_single else moments}
        value = self.numpy(aslist=aslist)
        if reader.htype.name != "class_label":
            return {"value": value}
        names = list(reader.state.info.get("class_names", []))
        text = [to_names(v, names) for v in value] if isinstance(value, list) else to_names(value, names)
        return {"value": value, "text": text}

    def _moments(self) -> Sequence[Any] | None:
        """Read numbers with a logical type as Python dates and times; None if the type is no such.

        What Python's types can not hold, such as the year 10,000, stays a number.
        """
        import pyarrow as pa

        from lakebed.reading.arrow import arrow_type

        kind = arrow_type(self._reader)
        if not pa.types.is_temporal(kind):
            return None
        numbers = [None if v is None or v.size == 0 else int(v.reshape(-1)[0]) for v in self.values()]
        moments = pa.array(numbers, type=pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)
        return [_python_value(moment, number) for moment, number in zip(moments, numbers, strict=True)]

    def tobytes(self) -> bytes:
        """Return the stored bytes of one sample; with a sample compression these are the compressed ones.

        Raises
        ------
        InvalidOperationError
            If more than one sample is selected.
        """
        if not self._index.is_single:
            raise InvalidOperationError("tobytes() needs a single sample: index the tensor with an int first")
        return bytes(self._reader.raw(self._single(), decompress=False)[0])

    # -- showing -----------------------------------------------------------------------------------------------

    def summary(self) -> None:
        """Print htype, shape, dtype and compression."""
        print(self)
        print(summary_table({self._name: self}, named=False))

    def __repr__(self) -> str:
        index = "" if self._index.is_trivial else f", index={self._index!r}"
        return f"Tensor(key={self._name!r}{index})"


def _python_value(moment: Any, number: int | None) -> Any:
    try:
        return moment.as_py()
    except (OverflowError, ValueError):
        return number


def encode_sample(sample: Any, state: TensorState) -> Column:
    """Encode one sample, given in any way or as a tensor, for the tensor of that state; see ``Tensor.append``."""
    name = state.meta.name or state.key
    if isinstance(sample, Tensor):
        if sample.is_single:
            return encode_samples(sample, state)
        sample = sample.numpy()
    return encode_one(sample, state.meta, state.info, name)


def encode_samples(samples: Any, state: TensorState) -> Column:
    """Encode a column, given in any way or as a tensor, whose nulls stay nulls; see ``Tensor.extend``."""
    name = state.meta.name or state.key
    if not isinstance(samples, Tensor):
        return encode_column(samples, state.meta, state.info, name)
    column = encode_column(list(samples.values()), state.meta, state.info, name)
    (part,) = column.parts
    return replace(column, parts=[replace(part, nulls=samples.null_mask())])


def _object_array(value: Any, storing: Storing) -> NDArray[Any]:
    """Return one text or JSON value as an array of one item; a list as an array of its items."""
    if isinstance(value, str) and storing is Storing.TEXT:
        return np.array([value])
    if storing is Storing.LIST and value is not None:
        array = np.empty(len(value), dtype=object)
        array[:] = value
        return array
    array = np.empty(1, dtype=object)
    array[0] = value
    return array


def _stack_objects(arrays: list[NDArray[Any]]) -> NDArray[Any]:
    if not arrays:
        return np.empty((0, 1), dtype=object)
    if len({a.shape for a in arrays}) > 1:
        from lakebed.errors import DynamicTensorNumpyError

        raise DynamicTensorNumpyError(
            "the lists differ in length and can not become one array; pass aslist=True"
        )
    return np.stack(arrays)
