"""Files, and arrays encoded as files -> samples of a tensor with compression by sample (format.md 5.3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.codecs.base import Buffer, FileCodec
from lakebed.codecs.block import Block, empty_block
from lakebed.codecs.images import pil_array
from lakebed.codecs.registry import IMAGE_NAMES, picture_codec
from lakebed.codecs.sample import Sample, became
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.errors import InvalidInputError, SampleCompressionError
from lakebed.htypes.arrays import as_sample
from lakebed.htypes.dtypes import cast
from lakebed.htypes.images import CHANNELS, converted, converted_file, is_pil, padded, padded_shape
from lakebed.htypes.partial import PartialSample
from lakebed.native import headers as native
from lakebed.writing.encode.arrays import sample_info
from lakebed.writing.encode.encoded import Encoded, Samples
from lakebed.writing.encode.spec import TensorSpec, with_dtype
from lakebed.writing.encode.tiles import encode_partial, encode_tiled, tile_shape_of

Info = Mapping[str, Any]

RECAST: ContextVar[list[tuple[str, str]] | None] = ContextVar("RECAST", default=None)
"""List that collects files of another kind that were encoded again: path of the file, and its new kind."""

_HEADERS = {"jpeg": native.jpeg_headers, "png": native.png_headers}

# Maximum number of files in memory while a long column of files is encoded.
_FILES_AT_ONCE = 64


def in_turns(columns: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Cut columns of one length so that unread files are read, and dropped again, a few at a time."""
    count = len(next(iter(columns.values()), ()))
    unread = {name for name, values in columns.items() if _are_unread(values)}
    step = _FILES_AT_ONCE if unread else max(count, 1)
    for start in range(0, count, step):
        part = {name: values[start : start + step] for name, values in columns.items()} if unread else columns
        # Pass copies, which read the files and are dropped with this slice; the caller's objects stay unread.
        yield {name: [s.copy() for s in rows] if name in unread else rows for name, rows in part.items()}


def _are_unread(values: Any) -> bool:
    return (
        isinstance(values, list | tuple)
        and len(values) > _FILES_AT_ONCE
        and all(isinstance(value, Sample) and value.unread_path is not None for value in values)
    )


def encode_files(rows: Samples, meta: TensorMeta) -> list[Encoded]:
    """Encode samples for a tensor whose samples are image, sound, video, scan or mesh files.

    A file of the tensor's own kind is stored byte for byte; an image of another kind is decoded and encoded again.

    Raises
    ------
    TensorDtypeMismatchError, TensorInvalidSampleShapeError, SampleHtypeMismatchError, SampleCompressionError
        If a value fits neither the tensor's dtype, rank, htype nor its compression.
    FormatError, LimitError, SampleReadError
        If a file is damaged, too large or unreadable.
    """
    spec = TensorSpec(meta)
    run = _FileBatch(spec)
    for row in rows:
        run.add(row)
    return run.finish()


class _FileBatch:
    """Samples being encoded; samples that are not tiled wait to become one block."""

    def __init__(self, spec: TensorSpec) -> None:
        self.spec = spec
        self.codec = _codec(spec)
        self.feeds = spec.feeds
        self.done: list[Encoded] = []
        self.ndim = spec.ndim
        self.dtype = spec.dtype
        self._start()

    def _start(self) -> None:
        self.files: list[Buffer] = []
        # None for an empty sample, and for a file in the compression of the tensor until its header is read.
        self.shapes: list[tuple[int, ...] | None] = []
        self.samples: list[Sample | None] = []
        self.infos: list[Info] = []
        self.arrays: list[NDArray[Any] | None] = []

    def add(self, row: Any) -> None:
        spec = self.spec
        if row is None:
            self._keep(b"", None, {})
        elif isinstance(row, PartialSample):
            self._alone(encode_partial(row, spec))
        elif isinstance(row, Sample) and self._verbatim(row):
            return
        else:
            self._encode(row)

    def _keep(
        self,
        data: Buffer,
        shape: tuple[int, ...] | None,
        info: Info,
        array: NDArray[Any] | None = None,
        sample: Sample | None = None,
    ) -> None:
        self.files.append(data)
        self.shapes.append(shape)
        self.infos.append(info)
        self.arrays.append(array)
        self.samples.append(sample)

    def _alone(self, part: Encoded) -> None:
        self._flush()
        self.done.append(part)
        self.spec = self.spec if part.meta is self.spec.meta else TensorSpec(part.meta)
        self.dtype = self.spec.dtype
        self.ndim = len(part.block.shapes or ())

    # -- files ---------------------------------------------------------------------------------------------------------

    def _verbatim(self, sample: Sample) -> bool:
        """Take a file if it is of the tensor's own kind; return whether it was taken."""
        spec = self.spec
        name = spec.meta.sample_compression
        if sample.compression != name:
            return False
        if spec.converts and (_channels(sample.shape) != CHANNELS[spec.htype.name] or sample.has_palette):
            return False
        data = sample.buffer
        if self.codec.can_encode and 0 <= spec.threshold < len(data):
            return False
        self._keep(data, None, {}, sample=sample)
        return True

    # -- arrays and other files ----------------------------------------------------------------------------------------

    def _encode(self, row: Any) -> None:
        spec = self.spec
        value, info, codec = self._array(row)
        if value is None:
            self._keep(b"", None, {})
            return
        spec.check_rank(value.shape, self.ndim)
        tile = tile_shape_of(spec, value.shape, value.nbytes)
        self.dtype, self.ndim = self.dtype or value.dtype, value.ndim
        if tile is not None:
            self._alone(encode_tiled(value, tile, spec, dict(info), codec))
            return
        data = codec.encode(value) if value.size else b""
        self._keep(data, value.shape, info, array=value)

    def _shown(self, sample: Sample) -> tuple[NDArray[Any], FileCodec]:
        """Decode an image file of another kind, and choose the codec with the smallest loss."""
        spec, codec, noted = self.spec, picture_codec(self.codec.name), RECAST.get()
        if noted is not None and not sample.is_told and sample.compression != self.codec.name:
            noted.append((sample.path or "", f"{str(sample.compression).upper()} {became(self.codec.name)}"))
        if spec.converts:
            array = converted_file(sample, spec.htype.name)
        else:
            # In a mask, palette indices are the values.
            array = sample.shown if spec.htype.is_image else sample.array
        return (array, self.codec) if codec is None else sample.recast(array, codec)

    def _array(self, row: Any) -> tuple[NDArray[Any] | None, Info, FileCodec]:
        """Return the array of a sample (None for an empty one), its entry in ``_info``, and its codec."""
        spec, codec, info = self.spec, self.codec, {}
        if isinstance(row, Sample):
            kind = row.compression
            if kind is not None and not (kind in IMAGE_NAMES and codec.name in IMAGE_NAMES):
                raise InvalidInputError(
                    f"Recompression with different format is only supported for images: the file is {kind}, the "
                    f"tensor takes {codec.name}"
                )
            info = dict(sample_info(row, spec)) if kind is not None else {}
            if kind is None:
                array = converted_file(row, spec.htype.name) if spec.converts else np.atleast_1d(row.array)
            else:
                array, codec = self._shown(row)
        else:
            if is_pil(row):
                row = pil_array(row)
            elif isinstance(row, list | tuple) and len(row) == 0:
                return None, info, codec
            if spec.converts:
                array = as_sample(row, None, of_files=True)
                if self.dtype is not None and array.dtype != np.bool_:
                    array = cast(array, self.dtype, literal=not hasattr(row, "dtype"), by_value=False)
            else:
                array = as_sample(row, self.dtype, by_value=spec.by_value, of_files=True)
        if not codec.can_encode and array.size:
            raise SampleCompressionError(
                f"In order to store {spec.htype.name} data, you should use `lakebed.read(path_to_file)`: arrays can "
                f"not be encoded as {codec.name}"
            )
        if spec.converts:
            array = converted(array, spec.htype.name)
        return (padded(array) if spec.pads else array), info, codec

    # -- blocks --------------------------------------------------------------------------------------------------------

    def finish(self) -> list[Encoded]:
        self._flush()
        return self.done

    def _flush(self) -> None:
        if self.files:
            self._look_at_files()
            self.done.append(self._part())
            self._start()

    def _look_at_files(self) -> None:
        """Find shape, dtype and facts of the files that are stored unchanged."""
        waiting = [i for i, sample in enumerate(self.samples) if sample is not None]
        if not waiting:
            return
        headers = _HEADERS.get(self.spec.meta.sample_compression or "")
        plain: dict[int, tuple[int, ...]] = {}
        if headers is not None:
            shapes, flags = headers([self.files[i] for i in waiting])
            sure = (flags & native.PLAIN).astype(bool)
            exif = (flags & native.EXIF).astype(bool)
            for i, shape, known, tagged in zip(
                waiting, shapes.tolist(), sure.tolist(), exif.tolist(), strict=True
            ):
                if known:
                    plain[i] = tuple(shape)
                    if not tagged:
                        self.infos[i] = self._plain_info(i, tuple(shape))
        for i in waiting:
            sample = self.samples[i]
            if sample is None:
                continue
            shape = plain.get(i)
            if shape is None:
                shape = sample.shape
                self.dtype = self.dtype or _known(sample.dtype)
            else:
                self.dtype = self.dtype or np.dtype(np.uint8)
            shape = padded_shape(shape) if self.spec.pads else shape
            self.spec.check_rank(shape, self.ndim)
            self.ndim = len(shape)
            self.shapes[i] = shape
            if not self.infos[i]:
                self.infos[i] = sample_info(sample, self.spec)

    def _plain_info(self, i: int, shape: tuple[int, ...]) -> Info:
        """Return what ``sample_info`` returns for an image without EXIF data, without parsing the file again."""
        sample = self.samples[i]
        if "info" not in self.feeds or sample is None:
            return {}
        grey = len(shape) == 3 and shape[2] == 1
        info: dict[str, Any] = {
            "exif": {},
            "shape": list(shape[:2] if grey else shape),
            "format": self.spec.meta.sample_compression,
        }
        if sample.path is not None:
            info["filename"] = str(sample.path)
        info["modified"] = False
        return info

    def _part(self) -> Encoded:
        count, ndim = len(self.files), self.ndim
        infos = self.infos if any(self.infos) else None
        if ndim is None:
            return Encoded(empty_block(count, None), self.spec.meta, infos=infos)
        meta = with_dtype(self.spec.meta, self.dtype)
        none = (0,) * ndim
        shapes = np.array([none if s is None else s for s in self.shapes], dtype=np.uint32).reshape(
            count, ndim
        )
        block = Block.of_buffers(self.files, shapes)
        pixels = self._pixels() if "downsample" in self.feeds else None
        return Encoded(block, meta, infos=infos, pixels=pixels)

    def _pixels(self) -> Any:
        arrays, samples = list(self.arrays), list(self.samples)
        empty = np.empty((0,) * (self.ndim or 0), self.dtype)
        pads = self.spec.pads

        def pixels(i: int) -> NDArray[Any]:
            sample, array = samples[i], arrays[i]
            if sample is not None:
                array = sample.array
            return empty if array is None else padded(array) if pads else array

        return pixels


def _codec(spec: TensorSpec) -> FileCodec:
    if spec.files is None:
        raise SampleCompressionError(f"{spec.meta.sample_compression!r} is not a compression by files")
    return spec.files


def _channels(shape: tuple[int, ...]) -> int:
    return 1 if len(shape) == 2 else shape[2] if len(shape) == 3 else 0


def _known(name: str) -> np.dtype[Any] | None:
    try:
        return np.dtype(name)
    except TypeError:
        return None
