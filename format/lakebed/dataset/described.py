"""Descriptions of tensors in files of other formats: htype, dtype, compressions, info.

Exporters store them with the values, as JSON, and importers recreate the tensors from them::

    {"htype": "bbox", "dtype": "float32", "chunk_compression": "lz4", "info": {"coords": {...}}, "ndim": 2, ...}

Importers do not trust descriptions: with an unknown htype or compression, the values are read as without a description.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lakebed.codecs.traits import names_of
from lakebed.documents.json_style import decode_custom, encode_custom, load_object
from lakebed.errors import LakebedError
from lakebed.htypes.base import Storing
from lakebed.htypes.registry import FILE_KINDS, htype_named, parse_htype

if TYPE_CHECKING:
    from lakebed.dataset.tensor import Tensor

_BYTES = names_of("bytes")

KEY = "lakebed"
"""Key of descriptions in attributes and metadata."""


@dataclass(frozen=True)
class Described:
    """A description of a tensor.

    Parameters
    ----------
    htype
        Htype of the tensor, without links: ``sequence[bbox]``.
    dtype
        Dtype of the tensor; None for tensors that never had samples.
    sample_compression, chunk_compression
        Compressions of the tensor.
    info
        Info of the tensor.
    more
        Facts that the format needs, such as the layout of the values.
    """

    htype: str
    dtype: str | None = None
    sample_compression: str | None = None
    chunk_compression: str | None = None
    info: Mapping[str, Any] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, tensor: Tensor, **more: Any) -> Described:
        """Return the description of a tensor; for a tensor of links, describe the linked files."""
        meta = tensor.meta
        base = str(tensor.base_htype or "generic")
        return cls(
            f"sequence[{base}]" if tensor.is_sequence else base,
            None if tensor.dtype is None else str(meta.dtype),
            meta.sample_compression,
            meta.chunk_compression,
            dict(tensor.info),
            more,
        )

    def decoded(self) -> Described:
        """Return the description of decoded values, without lossy compression, which would change the values again."""
        return replace(self, sample_compression=None, chunk_compression="lz4")

    @classmethod
    def from_json(cls, value: Any) -> Described | None:
        """Parse a text or an object; return None if it is not a description."""
        try:
            found = load_object(value.encode(), "a description") if isinstance(value, str) else value
            if not isinstance(found, Mapping) or not isinstance(found.get("htype"), str):
                return None
            dtype, sample, chunk = texts = [found.get(key) for key in _OWN[1:4]]
            info = decode_custom(found.get("info") or {})
            more = {key: one for key, one in found.items() if key not in _OWN}
            made = cls(found["htype"], dtype, sample, chunk, info, more)
            made.arguments()
        except (LakebedError, UnicodeEncodeError):
            return None
        is_right = isinstance(info, dict) and all(text is None or isinstance(text, str) for text in texts)
        return made if is_right else None

    def to_dict(self) -> dict[str, Any]:
        """Return the description as an object for JSON."""
        known = {key: getattr(self, key) for key in _OWN[:-1]}
        found = {key: value for key, value in known.items() if value is not None}
        return {**found, "info": encode_custom(dict(self.info)), **self.more}

    def to_json(self) -> str:
        """Return the description as text."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    @property
    def base(self) -> str:
        """The htype of an item."""
        return parse_htype(self.htype).base or "generic"

    @property
    def is_sequence(self) -> bool:
        """True if a row holds several items."""
        return parse_htype(self.htype).is_sequence

    @property
    def storing(self) -> Storing:
        """How samples are stored."""
        return htype_named(self.base).storing

    @property
    def is_file(self) -> bool:
        """True if samples are stored as files, such as JPEG files."""
        return self.storing is Storing.ARRAY and self.sample_compression not in (None, *_BYTES)

    @property
    def is_chunked_file(self) -> bool:
        """True if each chunk is one file, such as PNG, that holds the values of all its samples."""
        return self.storing is Storing.ARRAY and self.chunk_compression not in (None, *_BYTES)

    def arguments(self, sample_compression: str | None = None) -> dict[str, Any]:
        """Return arguments of ``create_tensor``.

        Parameters
        ----------
        sample_compression
            Compression of the samples, if it differs from the tensor's sample compression.
        """
        kind = sample_compression or self.sample_compression
        found: dict[str, Any] = {}
        if self.base != "generic" or self.is_sequence:
            found["htype"] = f"sequence[{self.base}]" if self.is_sequence else self.base
        if self.base in FILE_KINDS or kind is not None:
            found["sample_compression"] = kind
        if self.chunk_compression is not None and kind is None:
            found["chunk_compression"] = self.chunk_compression
            found.pop("sample_compression", None)
        is_array = self.storing in (Storing.ARRAY, Storing.POLYGON)
        # Samples that are files, such as PNG files, take their dtype from the file; only htypes whose samples are
        # usually arrays, such as segment_mask, need it nevertheless.
        is_told = kind in (None, *_BYTES) or (self.base not in FILE_KINDS and self.base != "generic")
        if self.dtype is not None and is_array and is_told:
            found["dtype"] = self.dtype
        return found


_OWN = ("htype", "dtype", "sample_compression", "chunk_compression", "info")
