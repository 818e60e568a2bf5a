"""Requirements of a tensor for its samples, computed once per call from its metadata."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from lakebed.codecs.base import FileCodec
from lakebed.codecs.registry import BYTE_NAMES, IMAGE_NAMES, file_codec
from lakebed.documents.tensor_meta import TILING_THRESHOLD, TensorMeta
from lakebed.errors import (
    SampleCompressionError,
    TensorDtypeMismatchError,
    TensorInvalidSampleShapeError,
)
from lakebed.htypes.dtypes import array_dtype
from lakebed.htypes.images import CHANNELS, pads_rank
from lakebed.htypes.registry import htype_named

dtype_named = lru_cache(maxsize=64)(array_dtype)


class TensorSpec:
    """The requirements of a tensor for samples that are not text.

    Attributes
    ----------
    dtype
        Required dtype of values; None if the tensor has none yet.
    ndim
        Required rank of samples; None if the tensor has none yet.
    pads
        Whether samples with fewer than three axes are padded to three axes.
    converts
        Whether images are converted to the channels of the htype.
    by_value
        Whether arrays of any width are accepted if their values fit. This excludes pixels and sound: 200 of 255 is not
        the brightness of 200 of 65,535.
    threshold
        Samples of more bytes are tiled; negative for never.
    """

    __slots__ = ("by_value", "converts", "dtype", "htype", "meta", "ndim", "pads", "threshold")

    def __init__(self, meta: TensorMeta) -> None:
        self.meta = meta
        self.htype = htype_named(meta.htype)
        is_open = meta.dtype in (None, "object") or self.htype.is_text_like
        self.dtype: np.dtype[Any] | None = None if is_open else dtype_named(meta.dtype)
        self.ndim = len(meta.max_shape) or None
        self.pads = pads_rank(meta)
        self.converts = meta.htype in CHANNELS
        self.by_value = meta.htype == "class_label" or (not self.takes_files and self.image_chunks is None)
        self.threshold = TILING_THRESHOLD if meta.tiling_threshold is None else meta.tiling_threshold

    @property
    def takes_files(self) -> bool:
        """Return whether samples may be given as pictures, sounds or other files."""
        return self.htype.is_image or self.htype.has_info_tensor or self.files is not None

    @property
    def files(self) -> FileCodec | None:
        """Codec of samples that are stored as files."""
        return file_codec(self.meta.sample_compression)

    @property
    def image_chunks(self) -> FileCodec | None:
        """Codec of chunks that are stored as images."""
        name = self.meta.chunk_compression
        if name is None or name in BYTE_NAMES:
            return None
        if name not in IMAGE_NAMES:
            raise SampleCompressionError(
                f"chunks can be compressed by lz4 or as images, not by {name!r}; use it as sample_compression"
            )
        return file_codec(name)

    @property
    def feeds(self) -> frozenset[str]:
        """Kinds of hidden companions that the tensor feeds: info, shape, id, len, downsample."""
        return frozenset(
            str(link.get("extend", "")).removeprefix("extend_") for link in self.meta.links.values()
        )

    def check_rank(self, shape: tuple[int, ...], ndim: int | None) -> None:
        """Refuse a sample of another rank than the samples before it.

        Raises
        ------
        TensorInvalidSampleShapeError
            If the ranks differ; the message gives both.
        """
        if ndim is not None and len(shape) != ndim:
            raise TensorInvalidSampleShapeError(
                f"Sample shape length is expected to be {ndim}, actual length is {len(shape)}: {tuple(shape)}."
            )


def with_dtype(meta: TensorMeta, dtype: np.dtype[Any] | None) -> TensorMeta:
    """Return the metadata of a tensor with the dtype of encoded values; the first value determines it.

    Raises
    ------
    TensorDtypeMismatchError
        If the tensor has another dtype, since the values were not converted. For links the dtype is that of files,
        which may differ.
    """
    if dtype is None or (meta.dtype is not None and meta.is_link):
        return meta
    if meta.dtype is None:
        return meta.with_(htype=meta.htype or "generic", dtype=dtype.name, typestr=dtype.str)
    # Compare two dtypes and not a dtype with None, which NumPy would read as float64.
    if meta.dtype != "object" and dtype_named(meta.dtype) != dtype:
        raise TensorDtypeMismatchError(
            f"values of dtype {dtype} were encoded for a tensor of dtype {meta.dtype}: nothing was stored"
        )
    return meta


def as_htype(meta: TensorMeta, name: str) -> TensorMeta:
    """Return the metadata with the htype of the first value."""
    htype = htype_named(name)
    return meta.with_(htype=name, dtype=htype.dtype, extra={**htype.meta_extra, **meta.extra})
