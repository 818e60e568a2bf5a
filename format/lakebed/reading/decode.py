"""Stored bytes of one sample -> its value, as the tensor's metadata says (format.md 5.2, 5.3)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from lakebed import limits
from lakebed.codecs.registry import VIDEO_NAMES, byte_codec, file_codec, normalize, sniff
from lakebed.codecs.traits import TRAITS, UNCOMPRESSED
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.errors import EmptyTensorError, FormatError
from lakebed.htypes.base import Htype, Storing
from lakebed.htypes.registry import htype_named

if TYPE_CHECKING:
    from lakebed.codecs.base import Buffer, ByteCodec, FileCodec, Parted

Shape = tuple[int, ...]
Value = Any
D = TypeVar("D")


class Decoder:
    """Decodes samples of one tensor.

    Parameters
    ----------
    name
        The tensor's name, for messages.
    """

    def __init__(self, name: str, meta: TensorMeta) -> None:
        self.name = name
        self.meta = meta
        self.htype: Htype = htype_named(meta.htype)
        self.storing: Storing = self.htype.storing
        self.dtype = stored_dtype(meta.dtype) if self.storing in (Storing.ARRAY, Storing.POLYGON) else None
        self.compression = None if meta.is_link else normalize(meta.sample_compression)
        self.traits = UNCOMPRESSED if self.compression is None else TRAITS[self.compression]

    @cached_property
    def files(self) -> FileCodec | None:
        """Codec of the files that samples are stored as; None if they are bytes, compressed or not."""
        return file_codec(self.compression)

    @cached_property
    def direct(self) -> Callable[[Buffer, NDArray[Any]], bool] | None:
        """The codec's function for decoding straight into an array of the sample's shape; None if it has none."""
        if not self.traits.decodes_directly or self.dtype != np.uint8:
            return None
        found: Callable[[Buffer, NDArray[Any]], bool] = self.files.decode_as  # type: ignore[union-attr]
        return found

    @cached_property
    def _bytes(self) -> ByteCodec | None:
        return byte_codec(self.compression)

    @cached_property
    def _decode(self) -> Callable[..., Value]:
        """Decoder for the bytes of texts, polygons, JSON or lists."""
        if self.storing is Storing.TEXT:
            from lakebed.htypes.text import decode_text

            return decode_text
        if self.storing is Storing.POLYGON:
            from lakebed.htypes.polygon import decode_polygons

            return decode_polygons
        from lakebed.htypes.documents import decode_document

        return decode_document

    @property
    def is_plain(self) -> bool:
        """Return whether samples are arrays whose bytes are in the chunk uncompressed."""
        return self.storing is Storing.ARRAY and self.compression is None

    @property
    def is_as_recorded(self) -> bool:
        """Return whether arrays always have the recorded shape and dtype."""
        return self.traits.decodes_as_recorded and (self.dtype is None or self.dtype.kind != "O")

    def known_dtype(self) -> np.dtype[Any]:
        """Dtype of array samples.

        Raises
        ------
        EmptyTensorError
            If only empty samples were stored so far.
        """
        if self.dtype is None:
            raise self.empty_tensor()
        return self.dtype

    def empty_tensor(self) -> EmptyTensorError:
        """Return the error for reading a tensor of unknown dtype and rank."""
        return EmptyTensorError(
            f"tensor {self.name!r} has only empty samples so far, so that their shape is unknown; omit it "
            "until it has another, as in batches(..., tensors=[...])"
        )

    def shape_of(self, shape: Shape | None) -> Shape:
        """Return a sample's shape: that in its shape row, or zeros if it has no shape row.

        Raises
        ------
        EmptyTensorError
            If no sample of the tensor has a shape yet.
        """
        if shape is not None and (self.meta.max_shape or self.dtype is None):
            return shape
        if not self.meta.max_shape:
            raise self.empty_tensor()
        return (0,) * len(self.meta.max_shape)

    def told_shape(self, data: Buffer) -> Shape | None:
        """Read the shape of a sample from its bytes, in the form of a shape row; None if they do not contain it.

        Raises
        ------
        FormatError, LimitError
            If the data is not a file of the tensor's kind, or exceeds the limits of this process.
        """
        if self.storing in (Storing.TEXT, Storing.JSON):
            return (1,)
        codec, meta = self.files, self.meta
        if codec is None or not self.traits.shape_from_file or not len(data):
            return None
        shape = codec.facts(data).shape
        if len(shape) == 2 and len(meta.max_shape) == 3:
            # Grey images are stored without an axis for their one channel (format.md 5.3).
            shape = (*shape, 1)
        if len(shape) != len(meta.max_shape):
            return None
        for low, extent, high in zip(meta.min_shape, shape, meta.max_shape, strict=True):
            if not low <= extent <= high:
                return None
        return shape

    def decompressed(self, data: Buffer) -> Buffer:
        """Undo a compression of bytes; files are left as they are."""
        if self.compression is None or self.files is not None:
            return data
        return data if self._bytes is None else self._bytes.decode(data, limits.MAX_CHUNK_DATA)

    def value(self, data: Buffer, shape: Shape | None) -> Value:
        """Decode to an ndarray, text, JSON value, list, or list of polygons.

        Raises
        ------
        EmptyTensorError
            If only empty samples were stored so far, so that no rank or dtype is known.
        FormatError, LimitError
            If the data is damaged, or exceeds the limits of this process.
        """
        if self.storing is Storing.ARRAY:
            return self.array(data, shape)
        raw = self.decompressed(data)
        if self.storing is Storing.POLYGON:
            return self._decode(raw, shape or (0, 0, 0), self.known_dtype())
        if len(raw) == 0 and self.storing is not Storing.TEXT:
            return {} if self.storing is Storing.JSON else []
        return self._decode(memoryview(raw))

    def array(
        self,
        data: Buffer,
        shape: Shape | None,
        out: NDArray[Any] | None = None,
        *,
        checked: bool = False,
    ) -> NDArray[Any]:
        """Decode an array sample.

        Parameters
        ----------
        out
            Array of the sample's shape and dtype to decode into.
        checked
            Whether :meth:`check_facts` was already called without an error.

        Returns
        -------
        ndarray
            ``out``, in the tensor's dtype; a new array in another dtype if a file holds values that the tensor's dtype
            cannot hold.

        Raises
        ------
        EmptyTensorError, FormatError, LimitError
            As :meth:`value`.
        """
        dtype = self.known_dtype()
        shape = self.shape_of(shape)
        if self.files is None or len(data) == 0:
            return self._values(data, shape, dtype, out)
        if not checked:
            self.check_facts(data, shape)
        found = self._file(self.files, data, shape, dtype, out)
        if out is None or found is out:
            return found
        if found.shape != out.shape:
            raise FormatError(f"a file holds an array of shape {found.shape}, not {out.shape}")
        if found.dtype != out.dtype:
            return found
        out[...] = found
        return out

    def _values(
        self, data: Buffer, shape: Shape, dtype: np.dtype[Any], out: NDArray[Any] | None
    ) -> NDArray[Any]:
        """Return an array that is stored as bytes; a compressed one is decompressed straight into its memory."""
        codec = self._bytes if len(data) else None
        wanted = math.prod(shape) * dtype.itemsize
        is_direct = wanted and not dtype.hasobject and (out is None or out.flags.c_contiguous)
        if codec is None or not is_direct or codec.size(data, limits.MAX_CHUNK_DATA) != wanted:
            return _raw(self.decompressed(data), shape, dtype, out)
        room = np.empty(shape, dtype=dtype) if out is None else out
        codec.decode_into(data, room)
        return room

    def _file(
        self, codec: FileCodec, data: Buffer, shape: Shape, dtype: np.dtype[Any], out: NDArray[Any] | None
    ) -> NDArray[Any]:
        target = out if out is not None and out.flags.c_contiguous else None
        array = codec.decode(data, target)
        if array is target and target is not None:
            return target
        if not self.traits.decodes_as_recorded:
            points = array if self.traits.value_columns is None else array[:, : self.traits.value_columns]
            return unchanged(points, dtype) if dtype.kind != "O" else points
        if not self.traits.exact_length and array.shape != shape:
            array = _fitted(array, shape)
        if array.shape != shape:
            if array.size != math.prod(shape):
                raise FormatError(
                    f"a {codec.name} file holds an array of shape {array.shape}, its chunk says {shape}"
                )
            array = array.reshape(shape)
        return unchanged(array, dtype)

    def check_facts(self, data: Buffer, shape: Shape) -> None:
        """Compare the header of a file with its shape row, before anything is allocated.

        Raises
        ------
        FormatError, LimitError
            If the header and the shape row disagree, or exceed the limits of this process.
        """
        codec = self.files
        if codec is None:
            return
        facts = codec.facts(data)
        if not self.traits.limits_itself:
            limits.check_sample(facts.shape, np.dtype(facts.dtype).itemsize, f"{codec.name} file", len(data))
        if not (self.traits.decodes_as_recorded and self.traits.exact_length):
            return
        if math.prod(facts.shape) != math.prod(shape):
            raise FormatError(
                f"a {codec.name} file holds an array of shape {facts.shape}, its chunk says {shape}"
            )

    def zeros(self, shape: Shape) -> NDArray[Any]:
        """Return the value of a sample whose data was never written (format.md 5.5)."""
        dtype = self.known_dtype()
        limits.check_sample(shape, dtype.itemsize, "sample without data")
        return np.zeros(shape, dtype=dtype)


def stored_dtype(name: str | None) -> np.dtype[Any] | None:
    """Return the dtype of stored numbers, little-endian; None while it is not known.

    Raises
    ------
    FormatError
        If no dtype of numbers has this name.
    """
    if name is None:
        return None
    try:
        dtype = np.dtype(name)
    except (TypeError, ValueError, SyntaxError) as error:
        raise FormatError(f"the tensor's metadata names the dtype {name!r}, which does not exist") from error
    if dtype.kind not in "biufcOmM":
        raise FormatError(f"the tensor's metadata names the dtype {name!r}, which holds no numbers")
    return dtype.newbyteorder("<")


def unchanged(array: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Convert the content of a file to the tensor's dtype unless that would change a value.

    The first sample determines the dtype of a tensor, but later files are stored unchanged, so
    files with 16 bits per value may follow files with 8 bits.
    """
    if np.can_cast(array.dtype, dtype):
        return array.astype(dtype, copy=False)
    with np.errstate(all="ignore"):
        cast = array.astype(dtype)
    return cast if np.array_equal(cast, array, equal_nan=array.dtype.kind in "fc") else array


def _raw(data: Buffer, shape: Shape, dtype: np.dtype[Any], out: NDArray[Any] | None) -> NDArray[Any]:
    wanted = math.prod(shape) * dtype.itemsize
    if len(data) != wanted:
        raise FormatError(
            f"a sample has {len(data)} bytes, its shape {shape} and dtype {dtype} need {wanted}"
        )
    if not wanted:
        return np.empty(shape, dtype=dtype) if out is None else out
    if dtype.hasobject:
        raise FormatError(
            "the tensor's metadata declares Python objects for a sample that is stored as bytes"
        )
    array = np.frombuffer(data, dtype=dtype).reshape(shape)
    if out is None:
        return array.copy()
    out[...] = array
    return out


def _fitted(array: NDArray[Any], shape: Shape) -> NDArray[Any]:
    """Cut a sound, or add silence, to the recorded length."""
    if array.shape[1:] != shape[1:]:
        raise FormatError(f"a sound holds samples of shape {array.shape[1:]}, its chunk says {shape[1:]}")
    fitted = np.zeros(shape, dtype=array.dtype)
    both = min(len(array), len(fitted))
    fitted[:both] = array[:both]
    return fitted


def file_part(codec: Parted[D], data: D, subscript: Any) -> NDArray[Any]:
    """Return ``sample[subscript]`` of a file; decode as little along the first axis as the codec allows."""
    found = along_first(partial(codec.part, data), subscript)
    if found is None:
        found = codec.decode(data)[subscript]
    return found


def along_first(part: Callable[[int | slice], NDArray[Any] | None], subscript: Any) -> NDArray[Any] | None:
    """Return ``sample[subscript]`` by decoding a part of the first axis with ``part``; None if this is impossible."""
    items = subscript if isinstance(subscript, tuple) else (subscript,)
    first = items[0] if items else slice(None)
    if isinstance(first, bool | np.bool_) or not isinstance(first, int | np.integer | slice):
        return None
    found = part(first if isinstance(first, slice) else int(first))
    if found is None or len(items) == 1:
        return found
    rest: NDArray[Any] = found[items[1:] if not isinstance(first, slice) else (slice(None), *items[1:])]
    return rest


def timestamps(data: Buffer, codec: FileCodec | None) -> NDArray[np.float32]:
    """Return the time of each frame of a video in seconds; without ``codec`` the kind of video is detected.

    Raises
    ------
    FormatError
        If the file is not a video.
    """
    if len(data) == 0:
        return np.zeros(0, dtype=np.float32)
    name = sniff(data) if codec is None else codec.name
    if name not in VIDEO_NAMES:
        raise FormatError(f"the file is not a video but {name or 'of an unknown kind'}")
    from lakebed.codecs.video import Video

    return Video(name).timestamps(data)
