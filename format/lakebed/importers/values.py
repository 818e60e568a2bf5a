"""What bytes are whose kind nothing tells: values of key-value stores, fields of tables.

what they begin with, or are                     tensor
an image, sound, film                            ``image``, ``audio``, ``video``: byte for byte
the magic of .npy                                an array of that type and shape
an object or a list of JSON                      ``json``
text in UTF-8                                    ``text``
anything else, what is pickled too               the bytes

The kind of a tensor is told by some of its values. Values that turn out to be of another are refused, unless nothing is
lost by converting them.
"""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import lakebed
from lakebed.errors import IngestionError, LakebedError
from lakebed.importers.plan import LOSSY_KINDS, Problem, TensorPlan, media, tensor

MOST_LOOKED_AT = 256
"""Values by which the kind of a tensor is told."""

_MEDIA = {
    kind: htype
    for htype in ("video", "audio", "dicom", "image")
    for kind in sorted(lakebed.file_kinds[htype])
}
_NPY = b"\x93NUMPY"
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
# Protocols 2 to 5 begin with their number, and all end with a full stop.
_PICKLE = re.compile(rb"\A\x80[\x02-\x05].*\.\Z", re.DOTALL)


class Kind(NamedTuple):
    """What a value is: ``image``, ``audio``, ``video``, ``array``, ``json``, ``text``, ``pickle`` or ``bytes``."""

    htype: str
    compression: str | None = None

    def __str__(self) -> str:
        return (self.compression or self.htype).upper() if self.compression else self.htype


TEXT, JSON, ARRAY, BYTES, PICKLE = Kind("text"), Kind("json"), Kind("array"), Kind("bytes"), Kind("pickle")


def kind_of(data: bytes) -> Kind:
    """Return what a value is."""
    if _is_text(data):
        return JSON if _is_json(data) else TEXT
    if data.startswith(_NPY):
        return ARRAY
    if _PICKLE.match(data):
        return PICKLE
    try:
        found = lakebed.read(data).compression
    except LakebedError:
        return BYTES
    return Kind(_MEDIA[found], found) if found in _MEDIA else BYTES


@dataclass(frozen=True)
class Values:
    """How the values of a tensor are stored.

    Parameters
    ----------
    kind
        What they are.
    converts
        Whether images of other kinds are converted though pixels are lost, as the user has said.
    """

    kind: Kind
    converts: bool = False

    def of(self, data: bytes) -> Any:
        """Return the value for a row.

        Raises
        ------
        IngestionError
            If it is of another kind.
        """
        htype = self.kind.htype
        if htype == "text":
            return _decoded(data)
        if htype == "json":
            return parsed(data)
        if htype == "array":
            return _array(data)
        if htype in ("bytes", "pickle"):
            return np.frombuffer(data, np.uint8)
        found = kind_of(data)
        is_kept = found == self.kind or (found.htype == htype == "image" and self._is_lossless)
        if not is_kept:
            hint = "; to store all of them, name a kind: compression=png" if found.htype == "image" else ""
            raise IngestionError(f"a value is {found}, and others {self.kind}{hint}")
        return lakebed.read(data, compression=found.compression)

    @property
    def _is_lossless(self) -> bool:
        return self.converts or self.kind.compression not in LOSSY_KINDS

    def tensor(self, name: str, *, link: bool = False) -> TensorPlan:
        """Return the plan of the tensor."""
        htype, compression = self.kind
        if compression is not None:
            return media(name, htype, compression=compression, link=link)
        if htype in ("text", "json"):
            return tensor(name, htype)
        if htype == "array":
            return tensor(name, chunk_compression="lz4")
        return tensor(name, dtype="uint8", chunk_compression="lz4")


def chosen(found: Iterable[Kind], name: str, compression: str | None, problems: list[Problem]) -> Values:
    """Return how values of these kinds are stored so that nothing of them is lost.

    Parameters
    ----------
    name
        What the values are called, for people.
    compression
        Kind of image that the user wants; None for that of the values.
    problems
        Where it is told what is converted, and what stays as bytes.
    """
    kinds = Counter(found)
    if not kinds:
        return Values(BYTES)
    htypes = {kind.htype for kind in kinds}
    if htypes == {"image"}:
        if compression is not None:
            wanted = Kind("image", compression)
        else:
            wanted = next(iter(kinds)) if len(kinds) == 1 else Kind("image", "png")
        others = sorted(str(kind) for kind in kinds if kind != wanted)
        if others:
            lost = ", which loses pixels" if wanted.compression in LOSSY_KINDS else ""
            told = f"{', '.join(others)} files are converted to {wanted}{lost}"
            problems.append(Problem(name, told, 0))
        return Values(wanted, compression is not None)
    if len(kinds) == 1 and htypes != {"pickle"} and htypes != {"bytes"}:
        return Values(next(iter(kinds)))
    if htypes == {"text", "json"}:
        return Values(TEXT)
    why = f"of several kinds ({', '.join(sorted(str(kind) for kind in kinds))})"
    if htypes == {"bytes"}:
        why = "of an unknown kind"
    elif "pickle" in htypes:
        why = "pickled objects are not loaded, since that would run code"
    problems.append(Problem(name, f"{why}: values are stored as bytes", 0))
    return Values(BYTES)


def parsed(data: bytes) -> Any:
    """Return what JSON says.

    Raises
    ------
    IngestionError
        If it is none.
    """
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise IngestionError(f"a value is no JSON: {error}") from error


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise IngestionError(f"a value is no text in UTF-8: {error}") from error


def _array(data: bytes) -> Any:
    try:
        return np.load(io.BytesIO(data), allow_pickle=False)
    except (ValueError, EOFError, OSError, SyntaxError, TypeError, MemoryError) as error:
        raise IngestionError(f"a value is no array of NumPy: {error}") from error


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return not _CONTROL.search(data)


def _is_json(data: bytes) -> bool:
    head = data.lstrip()[:1]
    if head not in (b"{", b"["):
        return False
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True
