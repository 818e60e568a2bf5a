"""Kinds of bytes without a declared type: values of key-value stores, columns of records, fields of tables.

bytes                                            kind
UTF-8; an object or a list of JSON               ``text``, ``json``
a file with an unmistakable signature            ``image``, ``audio``, ``video``, ``dicom``: byte for byte
an array as NumPy saves it                       ``array``
others, pickles included                         ``bytes``

The kind of a tensor is the kind of the inspected values, or the kind that the user requests. A later value of another
kind is converted if that loses nothing; otherwise its row is left out, and the report gives advice. In tensors of
files, arrays or JSON, empty bytes are null.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, NamedTuple, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import IngestionError, LakebedError
from lakebed.htypes.registry import FILE_KINDS
from lakebed.importers.arrays.numpy_files import loaded
from lakebed.importers.core.columns import SUPPOSED, form_of_files, tensor_name
from lakebed.importers.core.plan import Problem, TensorPlan, media, tensor
from lakebed.importers.core.source import Source
from lakebed.links.read import read

KINDS = ("image", "audio", "video", "dicom", "array", "json", "text", "bytes")
"""Kinds that a user may request."""

FILES = frozenset({"image", "audio", "video", "dicom"})
"""Kinds whose tensors store files."""

NAMES: Mapping[str, str] = {"image": "images", "audio": "audio", "video": "videos", "dicom": "scans"}
"""Names for tensors of files in sources without names."""

PICKLED = "pickled objects are not loaded, since that would run code"

_OF_FILES: Mapping[str, str] = {
    **dict.fromkeys(("jpeg", "png", "gif", "tiff", "bmp", "webp", "jpeg2000", "ppm"), "image"),
    **dict.fromkeys(("wav", "flac", "mp3"), "audio"),
    **dict.fromkeys(("mp4", "mkv", "avi"), "video"),
    "dcm": "dicom",
}
_CHUNKS = "lz4"
_LEAST_BYTES = 12  # smallest file whose kind can be recognised, in bytes
_NPY = b"\x93NUMPY"
_CONTROLS = re.compile(rb"[\0-\x08\x0b\x0e-\x1f\x7f]")
# Pickles of protocols 2 to 5 begin with the number of the protocol; all pickles end with a full stop.
_PICKLE = re.compile(rb"\A\x80[\x02-\x05].*\.\Z", re.DOTALL)
_PPM = re.compile(rb"P[4-6]\s(?:\s|#[^\n]*\n)*\d+\s+\d+\s")
# Possible lengths, in bytes, of the second header of a BMP file.
_BITMAPS = frozenset({12, 40, 52, 56, 64, 108, 124})
# Bit rates of MP3 (layer III) in kbit/s, by the numbers 1 to 14, for MPEG 1 and for MPEG 2 and 2.5.
_RATES = (
    (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
)
_HERTZ = (44_100, 48_000, 32_000)


class KindOptions(TypedDict, total=False):
    """Options of importers of columns of bytes."""

    kinds: Annotated[
        Mapping[str, str] | None,
        "What columns of bytes hold, where their first values do not tell it: photo=image, note=text; image, audio, "
        "video, dicom, array, json, text or bytes.",
    ]
    compression: Annotated[
        str | None,
        "Kind of image that is stored; left out, the kind of the images with the most bytes.",
    ]


class Kind(NamedTuple):
    """The kind of a value: one of :data:`KINDS` or ``pickle``; and for a file its kind, such as ``png``."""

    name: str
    compression: str | None = None

    def __str__(self) -> str:
        return self.compression.upper() if self.compression else self.name


def kind_of(data: bytes) -> Kind:
    """Return the kind of a value; ``bytes`` if it is uncertain."""
    if is_text(data):
        is_json = data.lstrip()[:1] in (b"{", b"[") and reads(partial(document, strict=True), data)
        return Kind("json" if is_json else "text")
    if data.startswith(_NPY):
        return Kind("array" if reads(_array, data) else "bytes")
    if _PICKLE.match(data):
        return Kind("pickle")
    found = _file_kind(data)
    return Kind("bytes") if found is None else Kind(_OF_FILES[found], found)


def reads(read: Callable[[bytes], Any], data: bytes) -> bool:
    """Return whether a function reads bytes without an `IngestionError`."""
    try:
        read(data)
    except IngestionError:
        return False
    return True


def is_text(data: bytes) -> bool:
    """Return whether bytes are a text: UTF-8 without control characters."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return _CONTROLS.search(data) is None


@dataclass(frozen=True)
class Content:
    """The kind of the values of a tensor.

    Parameters
    ----------
    kind
        One of :data:`KINDS`.
    compression
        Kind of file that the tensor stores.
    many
        True if a row has any number of values, not a single one.
    """

    kind: str = "bytes"
    compression: str | None = None
    many: bool = False


@dataclass
class Looked:
    """Statistics of the inspected values of a column.

    Parameters
    ----------
    kinds
        Number of values by kind.
    nbytes
        Total size of the values by kind, if it is known.
    empty
        Number of empty values, which have no kind.
    most
        Maximum number of values in a row.
    """

    kinds: Counter[Kind] = field(default_factory=Counter)
    nbytes: Counter[Kind] = field(default_factory=Counter)
    empty: int = 0
    most: int = 0

    def add(self, values: Sequence[bytes]) -> None:
        """Inspect the values of a row."""
        self.most = max(self.most, len(values))
        for value in values:
            if value:
                kind = kind_of(value)
                self.kinds[kind] += 1
                self.nbytes[kind] += len(value)
            else:
                self.empty += 1

    @classmethod
    def at(cls, values: Sequence[bytes]) -> Looked:
        """Inspect rows of one value each."""
        found = cls()
        for value in values:
            found.add([value])
        return found


@dataclass
class Planning:
    """A plan of columns of bytes while it is made.

    Parameters
    ----------
    source
        The source.
    kinds, compression
        See :class:`KindOptions`.
    problems, tensors, taken
        Problems and tensors of the plan, and the names that are taken.
    """

    source: Source
    kinds: Mapping[str, str] = field(default_factory=dict)
    compression: str | None = None
    problems: list[Problem] = field(default_factory=list)
    tensors: list[TensorPlan] = field(default_factory=list)
    taken: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, source: Source, problems: list[Problem], **options: Unpack[KindOptions]) -> Planning:
        """Begin a plan with the options of the user."""
        return cls(source, options.get("kinds") or {}, options.get("compression"), problems)

    def check(self, known: Collection[str], what: str) -> None:
        """Check that the source has every column for which the user gives a kind.

        Raises
        ------
        IngestionError
            If a column is missing.
        """
        for name in self.kinds:
            if name not in known:
                raise IngestionError(
                    f"{self.source.shown} has no {what} {name!r}; it has: {', '.join(known) or 'none'}"
                )

    def free(self, column: str) -> str:
        """Reserve and return a name for a column's tensor."""
        name = tensor_name(column, self.taken)
        self.taken.add(name)
        return name

    def named(self, column: str, key: str = "column") -> tuple[str, dict[str, str]]:
        """Reserve a name for a column's tensor; return the name, and an info with the column's name if both differ."""
        name = self.free(column)
        return name, {key: column} if name != column else {}

    def content(
        self,
        name: str,
        looked: Looked,
        *,
        wish: str | None = None,
        supposed: str | None = None,
        texts: bool = True,
    ) -> Content:
        """Return a kind for a column of bytes that stores all inspected values without loss.

        Parameters
        ----------
        name
            Name of the column.
        wish
            The kind that is stored; by default the kind that the user requests.
        supposed
            Kind of file to assume if no file was inspected.
        texts
            Whether the kind may be text or JSON if no kind is requested.

        Raises
        ------
        IngestionError
            If the requested kind is not one of :data:`KINDS`.
        """
        wish = wish or self.kinds.get(name)
        if wish is not None and wish not in KINDS:
            raise IngestionError(f"{name} cannot be {wish!r}: kinds are {', '.join(KINDS)}")
        kind, why = (wish, "") if wish is not None else _kind(looked, texts=texts)
        if why:
            told = f"{why}: they are stored as bytes (kinds={name}=... changes that)"
            self.problems.append(Problem(name, told, 0))
        if kind not in FILES:
            return Content(kind, None, looked.most > 1)
        found = {
            str(one.compression): (count, looked.nbytes[one])
            for one, count in looked.kinds.items()
            if one.name == kind and one.compression
        }
        wished = self.compression if kind == "image" else None
        form = form_of_files(name, kind, found, wished, self.problems, supposed or SUPPOSED[kind])
        return Content(kind, form, looked.most > 1)


def tensor_of(
    name: str, content: Content, info: Mapping[str, Any] | None = None, *, link: bool = False
) -> TensorPlan:
    """Return the tensor of a column of bytes, or of links to its files."""
    if content.compression is not None:
        htype = f"sequence[{content.kind}]" if content.many else content.kind
        return media(name, htype, compression=content.compression, link=link, info=info)
    if content.kind in ("text", "json"):
        return tensor(name, "json" if content.many else content.kind, info=info, chunk_compression=_CHUNKS)
    several = "sequence" if content.many else None
    dtype = "uint8" if content.kind == "bytes" else None
    return tensor(name, several, dtype=dtype, info=info, chunk_compression=_CHUNKS)


def value_of(data: bytes, content: Content) -> Any:
    """Return bytes as a value of the tensor.

    Raises
    ------
    IngestionError
        If the bytes are of another kind, and converting them would lose something.
    """
    if content.kind == "bytes":
        return np.frombuffer(data, np.uint8)
    if content.kind == "text":
        return decoded(data)
    if not data and not content.many:
        return None
    if content.kind == "json":
        return document(data, strict=True)
    if content.kind == "array":
        return _array(data)
    return _file(data, content)


def decoded(data: bytes, name: str = "it", encoding: str = "utf-8") -> str:
    """Decode a text; the encoding ``utf-8-sig`` skips a mark at its beginning.

    Raises
    ------
    IngestionError
        If the bytes are not UTF-8.
    """
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise IngestionError(f"{name} is not text in UTF-8: {error}") from error


def document(data: bytes, *, strict: bool = False) -> Any:
    """Parse a JSON document.

    Parameters
    ----------
    strict
        Refuse an object with a repeated key; otherwise the last value of the key counts.

    Raises
    ------
    IngestionError
        If the bytes are not JSON, or are nested too deeply.
    """
    try:
        return json.loads(data, object_pairs_hook=_unique if strict else None)
    except RecursionError as error:
        raise IngestionError("the JSON is nested too deeply") from error
    except ValueError as error:
        raise IngestionError(f"it is not JSON: {error}") from error


# -- one value ----------------------------------------------------------------------------------------------------


def _file(data: bytes, content: Content) -> Any:
    sample = read(data)
    found = str(sample.compression)
    is_alike = content.kind in FILES and found in FILE_KINDS[content.kind]
    if found != content.compression and not (is_alike and content.kind == "image"):
        hint = ": import them as bytes (kinds=NAME=bytes)" if is_alike else ""
        raise IngestionError(
            f"it is {found.upper()}, but other files are {str(content.compression).upper()}{hint}"
        )
    return sample


def _array(data: bytes) -> NDArray[Any]:
    found = loaded(data)
    wide = 2 if data[6:7] == b"\1" else 4
    begin = 8 + wide + int.from_bytes(data[8 : 8 + wide], "little")
    if begin + found.nbytes != len(data):
        raise IngestionError(f"{len(data) - begin - found.nbytes:,} bytes follow the end of the array")
    if found.dtype.kind not in "biufc":
        raise IngestionError(f"it is an array of {found.dtype}, not an array of numbers")
    return found.astype(found.dtype.newbyteorder("="), copy=False)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object has a key twice, of which one would be lost: import it as text")
    return found


def _file_kind(data: bytes) -> str | None:
    """Return the kind of a file; None if it is uncertain."""
    if len(data) < _LEAST_BYTES:
        return None
    try:
        found = read(data).compression
    except LakebedError:
        return None
    if found == "bmp" and (any(data[6:10]) or int.from_bytes(data[14:18], "little") not in _BITMAPS):
        return None
    if found == "mp3" and not (data.startswith(b"ID3") or _is_mp3(data)):
        return None
    if found == "ppm" and not _PPM.match(data):
        return None
    return found if found in _OF_FILES else None


def _is_mp3(data: bytes) -> bool:
    """Return whether bytes are MP3: a frame begins at the end of the first frame."""
    length = _frame_bytes(data[:4])
    return length is not None and _frame_bytes(data[length : length + 4]) is not None


def _frame_bytes(head: bytes) -> int | None:
    """Return the length of a frame of MPEG layer III from its header; None if the bytes are not such a header."""
    if len(head) < 4 or head[0] != 0xFF or head[1] & 0xE6 != 0xE2:
        return None
    version, rate, hertz = head[1] >> 3 & 3, head[2] >> 4, head[2] >> 2 & 3
    if version == 1 or rate in (0, 15) or hertz == 3:
        return None
    is_first = version == 3
    per_second = _HERTZ[hertz] >> {3: 0, 2: 1, 0: 2}[version]
    size = (144 if is_first else 72) * 1000 * _RATES[not is_first][rate - 1] // per_second
    return size + (head[2] >> 1 & 1)


# -- some values --------------------------------------------------------------------------------------------------


def _kind(looked: Looked, *, texts: bool) -> tuple[str, str]:
    """Return (kind of the values, reason): the reason tells why values are stored as bytes; it may be empty."""
    kinds = set(looked.kinds)
    if not texts:
        kinds = {Kind("bytes") if kind.name in ("text", "json") else kind for kind in kinds}
    names = {kind.name for kind in kinds}
    if not names:
        return ("text" if texts and looked.empty else "bytes"), ""
    if "pickle" in names:
        return "bytes", PICKLED
    if names == {"text", "json"}:
        return "text", ""
    if len(names) == 1 and (len(kinds) == 1 or names == {"image"}):
        return names.pop(), ""
    told = ", ".join(sorted(map(str, kinds)))
    return "bytes", f"values are of several kinds ({told}), of which a tensor holds one"
