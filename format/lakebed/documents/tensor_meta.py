"""Settings and extent of a tensor in one version: `tensor_meta.json` (format.md 3).

members                                    meaning                                         if missing
version, name, htype, dtype, typestr       text or null                                    null
min_shape, max_shape                       per axis, over all samples ever written         []
length                                     flat samples (items of sequences)               an error
is_sequence, is_link, hidden               flags                                           false
links                                      hidden tensors that this one feeds              {}
sample_compression, chunk_compression      names of compressions, exclusive                null
max_chunk_size, tiling_threshold           bytes; null: 16 MB                              null
verify                                     whether links are checked on writing            true
anything else                              members of the htype, and unknown ones          kept as they are
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakebed.documents import fields, json_style
from lakebed.documents.frozen import changed
from lakebed.documents.indexes.version_prefix import FORMAT_VERSION
from lakebed.errors import FormatError

_WHAT = "tensor_meta.json"

Bounds = tuple[tuple[int, ...], tuple[int, ...]]
"""Smallest and largest extents of samples."""

MAX_CHUNK_SIZE = 16_000_000
TILING_THRESHOLD = 16_000_000


@dataclass(frozen=True)
class TensorMeta:
    """The settings and extent of a tensor; members of the htype and unknown ones are in `extra`."""

    length: int = 0
    name: str | None = None
    htype: str | None = None
    dtype: str | None = None
    typestr: str | None = None
    min_shape: tuple[int, ...] = ()
    max_shape: tuple[int, ...] = ()
    is_sequence: bool = False
    is_link: bool = False
    hidden: bool = False
    links: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    sample_compression: str | None = None
    chunk_compression: str | None = None
    max_chunk_size: int | None = None
    tiling_threshold: int | None = None
    verify: bool = True
    version: str = FORMAT_VERSION
    extra: Mapping[str, Any] = field(default_factory=dict)
    raw: bytes | None = field(default=None, init=False, compare=False, repr=False)
    """The document, if it was written, or was read with ``keep``."""

    @property
    def chunk_size(self) -> int:
        """Maximum size of a chunk in bytes; its samples fill at most half of it (format.md 6)."""
        return self.max_chunk_size or MAX_CHUNK_SIZE

    @classmethod
    def from_bytes(cls, data: bytes, *, keep: bool = False) -> TensorMeta:
        """Parse `tensor_meta.json`.

        Parameters
        ----------
        keep
            Keep the bytes, so that they are written again as long as nothing changes.

        Raises
        ------
        FormatError
            If the file is damaged, or names a hidden tensor whose key could lead out of the dataset's folder.
        """
        doc = json_style.load_object(data, _WHAT)
        links = fields.mapping(doc, "links", _WHAT)
        for key, link in links.items():
            if not isinstance(link, dict):
                raise FormatError(f"{_WHAT}: the link {key!r:.60} is not an object")
            fields.checked_key(key, _WHAT)
        low, high = fields.shape(doc, "min_shape", _WHAT), fields.shape(doc, "max_shape", _WHAT)
        if len(low) != len(high) or any(a > b for a, b in zip(low, high, strict=True)):
            raise FormatError(f"{_WHAT}: min_shape {low} and max_shape {high} contradict each other")
        meta = cls(
            length=fields.count(doc, "length", _WHAT),
            min_shape=low,
            max_shape=high,
            links=links,
            version=fields.text(doc, "version", _WHAT, FORMAT_VERSION),
            **fields.optional(doc, str, _TEXTS, _WHAT),
            **fields.optional(doc, int, _NUMBERS, _WHAT),
            **fields.optional(doc, bool, _FLAGS, _WHAT),
            extra={key: value for key, value in doc.items() if key not in _MEMBERS},
        )
        if keep:
            object.__setattr__(meta, "raw", data)
        return meta

    def to_bytes(self) -> bytes:
        """Write `tensor_meta.json`."""
        if self.raw is None:
            doc = dict(self.extra)
            doc.update({name: getattr(self, name) for name in _MEMBERS})
            doc["links"] = {key: dict(link) for key, link in self.links.items()}
            object.__setattr__(self, "raw", json_style.dump_meta(doc))
        return self.raw or b""

    def widened(self, bounds: Bounds | None) -> Bounds:
        """Return min_shape and max_shape extended to samples of such bounds (format.md 3)."""
        if bounds is None:
            return tuple(self.min_shape), tuple(self.max_shape)
        low, high = bounds
        if low == self.min_shape and high == self.max_shape:
            return low, high
        if not self.max_shape:
            # All samples so far are empty, so their extents are zeros.
            return (low if self.length == 0 else (0,) * len(low)), high
        return (
            tuple(min(a, b) for a, b in zip(self.min_shape, low, strict=True)),
            tuple(max(a, b) for a, b in zip(self.max_shape, high, strict=True)),
        )

    def with_(self, **changes: Any) -> TensorMeta:
        """Return a copy with some members changed."""
        if not changes.keys() <= _FIELDS:
            raise TypeError(f"there is no member {', '.join(sorted(changes.keys() - _FIELDS))}")
        return changed(self, **changes, raw=None)


_FIELDS = frozenset(TensorMeta.__match_args__) - {"raw"}
_MEMBERS = _FIELDS - {"extra"}
_TEXTS = ("name", "htype", "dtype", "typestr", "sample_compression", "chunk_compression")
_NUMBERS = ("max_chunk_size", "tiling_threshold")
_FLAGS = ("is_sequence", "is_link", "hidden", "verify")
