"""What a file of another format says of a tensor, so that it comes back as it was: htype, dtype, compressions, info.

Exporters put it beside the values, as JSON; importers make the tensor by it::

    {"htype": "bbox", "dtype": "float32", "chunk_compression": "lz4", "info": {"coords": {...}}, "ndim": 2, ...}

Importers trust none of it: an htype or a compression that there is not means that the values are read as those of any
other file.
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
    import lakebed

_BYTES = names_of("bytes")

# Under this name in attributes and metadata.
KEY = "lakebed"


@dataclass(frozen=True)
class Described:
    """A tensor as another format describes it.

    Parameters
    ----------
    htype
        Its htype, without links: ``sequence[bbox]``.
    dtype
        Its dtype; None where nothing was ever stored.
    sample_compression, chunk_compression
        Its compressions.
    info
        Its info.
    more
        What the format itself has to know, such as how the values lie.
    """

    htype: str
    dtype: str | None = None
    sample_compression: str | None = None
    chunk_compression: str | None = None
    info: Mapping[str, Any] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, tensor: lakebed.Tensor, **more: Any) -> Described:
        """Return the description of a tensor; of links, that of the files they lead to."""
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
        """Return what values become that are taken out of their files: to encode them again would change them."""
        return replace(self, sample_compression=None, chunk_compression="lz4")

    @classmethod
    def from_json(cls, value: Any) -> Described | None:
        """Return the description that a text or an object is; None if it is none."""
        try:
            found = load_object(value.encode(), "a description") if isinstance(value, str) else value
            if not isinstance(found, Mapping) or not isinstance(found.get("htype"), str):
                return None
            dtype, sample, chunk = (found.get(key) for key in _OWN[1:4])
            texts = (dtype, sample, chunk)
            info = decode_custom(found.get("info") or {})
            more = {key: one for key, one in found.items() if key not in _OWN}
            made = cls(found["htype"], dtype, sample, chunk, info, more)
            made.arguments()
        except (LakebedError, UnicodeEncodeError):
            return None
        is_right = isinstance(info, dict) and all(text is None or isinstance(text, str) for text in texts)
        return made if is_right else None

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        known = {key: getattr(self, key) for key in _OWN[:-1]}
        found = {key: value for key, value in known.items() if value is not None}
        return {**found, "info": encode_custom(dict(self.info)), **self.more}

    def to_json(self) -> str:
        """Return it as text."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    @property
    def base(self) -> str:
        """The htype of an item."""
        return parse_htype(self.htype).base or "generic"

    @property
    def is_sequence(self) -> bool:
        """Whether a row holds several samples."""
        return parse_htype(self.htype).is_sequence

    @property
    def storing(self) -> Storing:
        """How samples are laid down."""
        return htype_named(self.base).storing

    @property
    def is_file(self) -> bool:
        """Whether samples are stored as files, such as JPEG."""
        return self.storing is Storing.ARRAY and self.sample_compression not in (None, *_BYTES)

    @property
    def is_chunked_file(self) -> bool:
        """Whether samples are stored together as files, and handed out as values."""
        return self.storing is Storing.ARRAY and self.chunk_compression not in (None, *_BYTES)

    def arguments(self, sample_compression: str | None = None) -> dict[str, Any]:
        """Return what ``create_tensor`` takes.

        Parameters
        ----------
        sample_compression
            Kind of the files, where it is another than the tensor had.
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
        # Of files it is theirs, unless the htype has one of its own.
        is_told = kind in (None, *_BYTES) or (self.base not in FILE_KINDS and self.base != "generic")
        if self.dtype is not None and is_array and is_told:
            found["dtype"] = self.dtype
        return found


_OWN = ("htype", "dtype", "sample_compression", "chunk_compression", "info")
