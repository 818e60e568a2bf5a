"""What bytes without a type hold: images, sounds, videos, texts, or none of these; found out by looking at some.

Only signatures that cannot be met by chance count. A tensor is made for what was looked at; a file of another kind that
comes later is converted where nothing is lost, and otherwise its row is left out, with what to do about it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import lakebed
from lakebed.errors import IngestionError, LakebedError
from lakebed.importers.plan import LOSSY_KINDS, Problem, TensorPlan, media, tensor

KINDS = ("image", "audio", "video", "text", "json", "bytes")
"""What a user may say that bytes are."""

_HTYPES: Mapping[str, str] = {
    **dict.fromkeys(("jpeg", "png", "gif", "tiff", "bmp", "webp", "jpeg2000"), "image"),
    **dict.fromkeys(("wav", "flac", "mp3"), "audio"),
    **dict.fromkeys(("mp4", "mkv", "avi"), "video"),
}
_CHUNKS = "lz4"
_CONTROLS = re.compile("[\0-\x08\x0b\x0e-\x1f\x7f]")
_SUPPOSED = {"audio": "wav", "video": "mp4", "image": "png"}


@dataclass(frozen=True)
class Content:
    """What bytes are.

    Parameters
    ----------
    kind
        One of :data:`KINDS`.
    compression
        Kind of file that the tensor stores, of media.
    many
        Whether a row has any number of them.
    converts
        Whether files of other kinds are converted even if they lose something, as the user said.
    """

    kind: str = "bytes"
    compression: str | None = None
    many: bool = False
    converts: bool = False


@dataclass
class Looked:
    """What was seen of a column of bytes.

    Parameters
    ----------
    files
        Kind of file -> how many there are.
    texts, others
        How many others are texts, and how many are neither.
    most, least
        The most and the fewest that a row has.
    """

    files: Counter[str] = field(default_factory=Counter)
    texts: int = 0
    others: int = 0
    most: int = 0
    least: int = 1

    def add(self, values: Sequence[bytes]) -> None:
        """Look at what a row has."""
        self.most, self.least = max(self.most, len(values)), min(self.least, len(values))
        for value in values:
            kind = file_kind(value)
            if kind is not None:
                self.files[kind] += 1
            elif is_text(value):
                self.texts += 1
            else:
                self.others += 1


def file_kind(data: bytes) -> str | None:
    """Return the kind of file that bytes are beyond doubt; None for anything else."""
    if len(data) < 12:
        return None
    try:
        found = lakebed.read(data).compression
    except LakebedError:
        return None
    if found == "bmp" and int.from_bytes(data[2:6], "little") != len(data):
        return None
    if found == "mp3" and not data.startswith(b"ID3"):
        return None
    return found if found in _HTYPES else None


def is_text(data: bytes) -> bool:
    """Tell whether bytes are a text: UTF-8 without control characters."""
    try:
        return _CONTROLS.search(data.decode()) is None
    except UnicodeDecodeError:
        return False


def content_of(
    name: str,
    looked: Looked,
    problems: list[Problem],
    *,
    wish: str | None = None,
    compression: str | None = None,
    supposed: str | None = None,
    texts: bool = True,
) -> Content:
    """Return what a column of bytes is.

    Parameters
    ----------
    problems
        Where it is told what is converted.
    wish
        What the user says that it is.
    compression
        Kind of file that the user wants tensors of images to hold.
    supposed
        Kind of file that it is where no file was looked at.
    texts
        Whether it may be text where the user says nothing.

    Raises
    ------
    IngestionError
        If the user says something else than :data:`KINDS`.
    """
    if wish is not None and wish not in KINDS:
        raise IngestionError(f"{name} cannot be {wish!r}: kinds are {', '.join(KINDS)}")
    many = looked.most > 1
    kind = wish or _kind(looked, texts=texts)
    files = sorted(
        (one for one in looked.files if _HTYPES[one] == kind), key=lambda one: (-looked.files[one], one)
    )
    told = ", ".join(one.upper() for one in files)
    if kind in ("audio", "video") and len(files) > 1:
        reason = f"files are of several kinds ({told}), of which a tensor holds one: "
        if wish is None:
            problems.append(Problem(name, f"{reason}they are stored as bytes", 0))
            return Content("bytes", None, many)
        problems.append(Problem(name, f"{reason}{files[0].upper()} is stored", 0))
        return Content(kind, files[0], many)
    if kind not in ("image", "audio", "video"):
        return Content(kind, None, many)
    chosen: str = files[0] if len(files) == 1 else (supposed if not files else None) or _SUPPOSED[kind]
    if kind == "image" and compression is not None:
        chosen = compression
    if any(one != chosen for one in files):
        lost = ", which loses pixels" if chosen in LOSSY_KINDS else ""
        problems.append(Problem(name, f"{told} files are converted to {chosen.upper()}{lost}", 0))
    return Content(kind, chosen, many, compression is not None)


def tensor_of(name: str, content: Content, info: Mapping[str, Any] | None = None) -> TensorPlan:
    """Return the tensor of a column of bytes."""
    if content.compression is not None:
        htype = f"sequence[{content.kind}]" if content.many else content.kind
        return media(name, htype, compression=content.compression, info=info)
    if content.kind in ("text", "json"):
        return tensor(name, "json" if content.many else content.kind, info=info, chunk_compression=_CHUNKS)
    several = "sequence" if content.many else None
    return tensor(name, several, dtype="uint8", info=info, chunk_compression=_CHUNKS)


def value_of(data: bytes, content: Content) -> Any:
    """Return the value of a tensor for bytes.

    Raises
    ------
    IngestionError
        If the bytes are something else than what the tensor holds, and would lose something.
    ValueError
        If they are no text, or no JSON.
    """
    if content.compression is not None:
        sample = lakebed.read(data)
        other = sample.compression != content.compression
        if other and not content.converts and (content.compression in LOSSY_KINDS or content.kind != "image"):
            raise IngestionError(
                f"the file is {str(sample.compression).upper()}, and others are {content.compression.upper()}: "
                "converted, it would lose something. Import with compression=png, or as bytes (kinds=NAME=bytes)"
            )
        return sample
    if content.kind == "text":
        return data.decode()
    if content.kind == "json":
        return document(data)
    return np.frombuffer(data, np.uint8)


def document(data: bytes) -> Any:
    """Return what a JSON document says.

    Raises
    ------
    ValueError
        If it is none.
    """
    import json

    try:
        return json.loads(data)
    except RecursionError as error:
        raise ValueError("the JSON is nested too deeply") from error


def _kind(looked: Looked, *, texts: bool) -> str:
    kinds = {_HTYPES[one] for one in looked.files}
    if len(kinds) == 1 and not looked.texts and not looked.others:
        return next(iter(kinds))
    return "text" if texts and not kinds and not looked.others else "bytes"
