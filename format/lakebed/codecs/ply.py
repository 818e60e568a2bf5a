"""PLY meshes, text and binary (format.md 5.3, 7).

A file holds several arrays of different lengths: properties of vertices, of faces, and of any other declared element.
The format registers one shape for all arrays, (vertices, names), where a list of corners counts as the names
``n_points``, ``v1``, ``v2``, ``v3`` and the name of the type of its count. Reading gives the vertices, shape (vertices,
properties); ``fields`` gives everything.

Text files are read as sequences of numbers: line ends count as blanks. A line with more numbers than its element
declares would shift all following ones, so it is an error if the numbers do not come out even. Some files put a row of
every element on each line instead of one element after another, some write colours as fractions under an integer type,
and Microsoft's C library has its own spellings of NaN and infinity.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lakebed import limits
from lakebed.codecs.base import FileCodec, FileFacts, into
from lakebed.errors import FormatError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lakebed.codecs.base import Buffer

_TYPES = {
    "char": "i1", "int8": "i1", "uchar": "u1", "uint8": "u1", "short": "i2", "int16": "i2", "ushort": "u2",
    "uint16": "u2", "int": "i4", "int32": "i4", "uint": "u4", "uint32": "u4", "float": "f4", "float32": "f4",
    "double": "f8", "float64": "f8",
}  # fmt: skip
_ORDERS = {"ascii": "", "binary_little_endian": "<", "binary_big_endian": ">"}
_CORNERS = ("vertex_indices", "vertex_index")
_MAX_HEADER = 1 << 20
_MAGIC = re.compile(rb"ply[ \t]*[\r\n]")
_FIRST_LINE = re.compile(rb"\s*([^\r\n]*)")
_OF_MICROSOFT = re.compile(rb"([+-]?)(?:(nan)\((?:s?nan|ind)\)|1\.#(IND|[QS]NAN|INF)0*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Property:
    """One property; for a list, ``count`` is the type name of the list's length, else None."""

    name: str
    kind: str
    count: str | None = None


@dataclass(frozen=True, slots=True)
class _Element:
    name: str
    rows: int
    properties: tuple[_Property, ...]

    @property
    def has_lists(self) -> bool:
        return any(item.count is not None for item in self.properties)


@dataclass(frozen=True, slots=True)
class _Header:
    form: str
    elements: tuple[_Element, ...]
    comments: tuple[str, ...]
    size: int

    @property
    def order(self) -> str:
        return _ORDERS[self.form]

    def names(self) -> list[str]:
        """Return the names of all properties as the format counts them."""
        found: list[str] = []
        for element in self.elements:
            for item in element.properties:
                if item.count is not None and item.name in _CORNERS:
                    found += ["n_points", "v1", "v2", "v3", item.count]
                else:
                    found.append(item.name)
        return found

    @property
    def vertices(self) -> _Element:
        for element in self.elements:
            if element.name == "vertex" and not element.has_lists:
                return element
        raise FormatError("a PLY file declares no vertices")


_Columns = dict[str, "NDArray[Any] | tuple[NDArray[Any], NDArray[Any]]"]
"""Values of each property by name; for a list the counts and all items back to back."""


@dataclass(frozen=True, slots=True)
class Ply(FileCodec):
    """PLY files; only files can be stored, arrays cannot be encoded."""

    name: str = "ply"

    def facts(self, data: Buffer) -> FileFacts:
        """Read the number of vertices and of names from the header; the dtype is object, as names differ in dtype.

        Raises
        ------
        FormatError, LimitError
            If the data is not a PLY file, or a larger one than this process allows.
        """
        header = _header(data)
        return FileFacts((header.vertices.rows, len(header.names())), "object")

    def decode(self, data: Buffer, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Decode the vertices: shape (vertices, properties of a vertex), in the smallest dtype for all of them.

        Raises
        ------
        FormatError, LimitError
            If the data is damaged, or decodes to more than this process allows.
        """
        header = _header(data)
        columns = _body(data, header)["vertex"]
        values = np.stack([np.asarray(columns[item.name]) for item in header.vertices.properties], axis=1)
        return into(values, out)

    def value(self, data: Buffer) -> NDArray[Any]:
        """Decode the value of a sample: the vertices."""
        return self.decode(data)

    def fields(self, data: Buffer) -> dict[str, NDArray[Any]]:
        """Return the values of every property by name: shape (vertices,) for vertices, (faces,) for faces, and so on.

        Corners of faces are ``n_points``, their number, and ``v1``, ``v2``, ...: numbers of vertices, -1 beyond the
        corners of a face. A name that an earlier element has used is prefixed with its element: ``face_red``.

        Raises
        ------
        FormatError, LimitError
            As :meth:`decode`.
        """
        header = _header(data)
        found: dict[str, NDArray[Any]] = {}
        for element, columns in _body(data, header).items():
            for name, values in columns.items():
                if isinstance(values, tuple):
                    if name in _CORNERS:
                        found.update(_corners(*values, stored=len(data)))
                    continue
                found[f"{element}_{name}" if name in found else name] = values
        return found

    def metadata(self, data: Buffer) -> dict[str, Any]:
        """Return names and dtypes of the properties, comments and the number of each element."""
        header = _header(data)
        kinds: dict[str, dict[str, str]] = {}
        for element in header.elements:
            kinds[element.name] = {}
            for item in element.properties:
                kind = header.order + _TYPES[item.kind]
                if item.count is None:
                    kinds[element.name][item.name] = kind
                elif item.name in _CORNERS:
                    corners = {"v1": kind, "v2": kind, "v3": kind}
                    kinds[element.name].update({"n_points": header.order + _TYPES[item.count], **corners})
        return {
            "dimensions_names": header.names(),
            "element_name_to_property_dtypes": kinds,
            "dimensions_names_to_dtype": {n: kind for group in kinds.values() for n, kind in group.items()},
            "comments": list(header.comments),
            "fmt": header.form,
            "extension": "ply",
            **{element.name: element.rows for element in header.elements},
        }


def _header(data: Buffer) -> _Header:
    head = bytes(data[:_MAX_HEADER])
    if not _MAGIC.match(head):
        raise FormatError(f"{len(data)} bytes are not a PLY file: they begin with {head[:4].hex()}")
    size, form, comments = 0, "", []
    elements: list[tuple[str, int, list[_Property]]] = []
    for raw in head.splitlines(keepends=True):
        size += len(raw)
        line = raw.decode("latin-1").strip()
        words = line.split()
        if words == ["end_header"]:
            break
        if words[:1] == ["comment"]:
            comments.append(line[8:])
        elif words[:1] == ["format"] and len(words) == 3 and words[1] in _ORDERS:
            form = words[1]
        elif words[:1] == ["element"] and len(words) == 3 and words[2].isdecimal() and len(words[2]) < 20:
            limits.check("MAX_POINTS", int(words[2]), f"a PLY file, {words[1]!r} elements")
            elements.append((words[1], int(words[2]), []))
        elif words[:1] == ["property"] and elements:
            elements[-1][2].append(_property(words))
        elif words and words[0] not in ("ply", "obj_info"):
            raise FormatError(f"the header of a PLY file holds an unknown line: {line[:80]!r}")
    else:
        raise FormatError("the header of a PLY file does not end")
    if not form or len({name for name, _, _ in elements}) != len(elements):
        raise FormatError("the header of a PLY file has no format, or two elements of one name")
    header = _Header(form, tuple(_Element(n, r, tuple(p)) for n, r, p in elements), tuple(comments), size)
    _check(header, len(data))
    return header


def _property(words: list[str]) -> _Property:
    if len(words) == 3 and words[1] in _TYPES:
        return _Property(words[2], words[1])
    if len(words) == 5 and words[1] == "list" and words[3] in _TYPES and _TYPES.get(words[2], "f")[0] in "iu":
        return _Property(words[4], words[3], words[2])
    raise FormatError(f"a PLY file declares a property of unknown type: {' '.join(words)[:80]!r}")


def _check(header: _Header, size: int) -> None:
    """Compare the counts of the header with the size of the file."""
    needed = header.size
    for element in header.elements:
        if len({item.name for item in element.properties}) != len(element.properties):
            raise FormatError(f"a PLY file declares a property of {element.name!r} twice")
        if element.rows and not element.properties:
            raise FormatError(f"a PLY file has {element.rows} elements {element.name!r} without properties")
        # In a text file, each number takes at least a digit and a space; only the last number may lack the space.
        kinds = (_TYPES[item.count or item.kind] for item in element.properties)
        needed += element.rows * sum(np.dtype(kind).itemsize if header.order else 2 for kind in kinds)
    _ = header.vertices
    if needed - (not header.order) > size:
        raise FormatError(f"a PLY file needs {needed} bytes at least, but has {size}")


def _body(data: Buffer, header: _Header) -> dict[str, _Columns]:
    """Read all values, by element and property, little-endian or native."""
    found: dict[str, _Columns] = {}
    if not header.order:
        return _text(bytes(data[header.size :]), header)
    at = header.size
    for element in header.elements:
        read = _walked_rows if element.has_lists else _plain_rows
        found[element.name], at = read(data, at, element, header.order)
    return found


def _plain_rows(data: Buffer, at: int, element: _Element, order: str) -> tuple[_Columns, int]:
    row = np.dtype([(item.name, order + _TYPES[item.kind]) for item in element.properties])
    if at + row.itemsize * element.rows > len(data):
        raise FormatError(f"a PLY file ends within its {element.rows} elements {element.name!r}")
    table = np.frombuffer(data, dtype=row, count=element.rows, offset=at)
    return {
        item.name: table[item.name].astype("<" + _TYPES[item.kind]) for item in element.properties
    }, at + table.nbytes


def _walked_rows(data: Buffer, at: int, element: _Element, order: str) -> tuple[_Columns, int]:
    """Read rows with lists: in one step if all lists are as long as the first, else row by row."""
    lengths = _first_lengths(data, at, element, order) if element.rows else {}
    kinds: list[tuple[Any, ...]] = []
    for number, item in enumerate(element.properties):
        if item.count is not None:
            kinds.append((f"n{number}", order + _TYPES[item.count]))
            kinds.append((f"p{number}", order + _TYPES[item.kind], (lengths.get(number, 0),)))
        else:
            kinds.append((f"p{number}", order + _TYPES[item.kind]))
    row = np.dtype(kinds)
    if at + row.itemsize * element.rows <= len(data):
        table = np.frombuffer(data, dtype=row, count=element.rows, offset=at)
        if all((table[f"n{number}"] == length).all() for number, length in lengths.items()):
            columns: _Columns = {}
            for number, item in enumerate(element.properties):
                values = table[f"p{number}"].astype("<" + _TYPES[item.kind])
                counts = None if item.count is None else np.array(table[f"n{number}"], dtype="i8")
                columns[item.name] = values if counts is None else (counts, values.reshape(-1))
            return columns, at + table.nbytes
    return _stepped_rows(data, at, element, order)


def _first_lengths(data: Buffer, at: int, element: _Element, order: str) -> dict[int, int]:
    """Return the lengths of the lists of the first row, by number of the property."""
    found: dict[int, int] = {}
    for number, item in enumerate(element.properties):
        width = np.dtype(_TYPES[item.kind]).itemsize
        if item.count is None:
            at += width
            continue
        length, at = _length(data, at, item, order)
        found[number] = length
        at += length * width
    return found


def _length(data: Buffer, at: int, item: _Property, order: str) -> tuple[int, int]:
    kind = _TYPES[item.count or "int"]
    stop = at + int(kind[1])
    length = int.from_bytes(data[at:stop], "little" if order == "<" else "big", signed=kind[0] == "i")
    if stop > len(data) or length < 0 or length * int(_TYPES[item.kind][1]) > len(data) - stop:
        raise FormatError(f"a PLY file ends within a list of {item.name!r} with {length} items")
    return length, stop


def _stepped_rows(data: Buffer, at: int, element: _Element, order: str) -> tuple[_Columns, int]:
    raw = bytes(data)
    parts: list[list[bytes]] = [[] for _ in element.properties]
    lengths: list[list[int]] = [[] for _ in element.properties]
    for _ in range(element.rows):
        for number, item in enumerate(element.properties):
            length = 1
            if item.count is not None:
                length, at = _length(raw, at, item, order)
                lengths[number].append(length)
            stop = at + length * int(_TYPES[item.kind][1])
            if stop > len(raw):
                raise FormatError(f"a PLY file ends within its {element.rows} elements {element.name!r}")
            parts[number].append(raw[at:stop])
            at = stop
    values = [
        np.frombuffer(b"".join(part), dtype=order + _TYPES[item.kind]).astype("<" + _TYPES[item.kind])
        for part, item in zip(parts, element.properties, strict=True)
    ]
    return _listed(element, values, lengths), at


def _listed(element: _Element, values: list[NDArray[Any]], lengths: list[list[int]]) -> _Columns:
    """Return the columns of an element: values, and for lists their lengths, too."""
    columns: _Columns = {}
    for item, value, length in zip(element.properties, values, lengths, strict=True):
        columns[item.name] = value if item.count is None else (np.array(length, dtype="i8"), value)
    return columns


def _text(body: bytes, header: _Header) -> dict[str, _Columns]:
    """Read the values of a text file; line ends count as blanks, as in most readers."""
    words = body.split()
    if _is_side_by_side(body, header):
        return _lines(words, header)
    try:
        found, at = _text_elements(words, header)
    except _Misfit:
        if not _has_its_lines(body, header):
            raise
        found, at = _text_elements(words, header, as_written=True)
    except FormatError:
        _check_lines(body, header)
        raise
    if at < len(words):
        _check_lines(body, header)
    return found


def _text_elements(
    words: list[bytes], header: _Header, *, as_written: bool = False
) -> tuple[dict[str, _Columns], int]:
    found: dict[str, _Columns] = {}
    at = 0
    for element in header.elements:
        found[element.name], at = _text_rows(words, at, element, as_written=as_written)
    return found, at


class _Misfit(FormatError):
    """Error for a number with a fraction in a property of whole numbers."""


def _is_side_by_side(body: bytes, header: _Header) -> bool:
    """Tell whether each line holds a row of every element, instead of one element following the other."""
    elements = [element for element in header.elements if element.rows]
    if len({element.rows for element in elements}) != 1 or any(element.has_lists for element in elements):
        return False
    first = _FIRST_LINE.match(body)
    words = first[1].split() if first is not None else []
    return len(elements) > 1 and len(words) == sum(len(element.properties) for element in elements)


def _lines(words: list[bytes], header: _Header) -> dict[str, _Columns]:
    """Read rows of all elements side by side."""
    elements = [element for element in header.elements if element.rows]
    width = sum(len(element.properties) for element in elements)
    if len(words) < width * elements[0].rows:
        raise FormatError(f"a PLY file ends within its {elements[0].rows} rows of {len(elements)} elements")
    found: dict[str, _Columns] = {}
    at = 0
    for element in header.elements:
        stop = width * element.rows
        found[element.name] = {
            item.name: _numbers(words[at + number : stop : width], item, as_written=True)
            for number, item in enumerate(element.properties)
        }
        at += len(element.properties) if element.rows else 0
    return found


def _has_its_lines(body: bytes, header: _Header) -> bool:
    """Tell whether each row without lists has a line of its own, so that its values certainly belong to its names."""
    lines = [len(line.split()) for line in body.splitlines() if line.strip()]
    at = 0
    for element in header.elements:
        stop = at + element.rows
        if not element.has_lists and lines[at:stop] != [len(element.properties)] * element.rows:
            return False
        at = stop
    return True


def _check_lines(body: bytes, header: _Header) -> None:
    """Refuse lines with more numbers than a row of their element, in a file with a line for each row."""
    lines = [len(line.split()) for line in body.splitlines() if line.strip()]
    if len(lines) < sum(element.rows for element in header.elements):
        return
    at = 0
    for element in header.elements:
        width, stop = len(element.properties), at + element.rows
        for number in lines[at:stop] if not element.has_lists else ():
            if number > width:
                raise FormatError(
                    f"a PLY file has {number} numbers on a line of element {element.name!r}, which declares {width}"
                )
        at = stop


def _text_rows(
    words: list[bytes], at: int, element: _Element, *, as_written: bool = False
) -> tuple[_Columns, int]:
    width = len(element.properties)
    if not element.has_lists:
        stop = at + width * element.rows
        if stop > len(words):
            raise FormatError(f"a PLY file ends within its {element.rows} elements {element.name!r}")
        return {
            item.name: _numbers(words[at + number : stop : width], item, as_written=as_written)
            for number, item in enumerate(element.properties)
        }, stop
    parts: list[list[bytes]] = [[] for _ in element.properties]
    lengths: list[list[int]] = [[] for _ in element.properties]
    for _ in range(element.rows):
        for number, item in enumerate(element.properties):
            length = 1
            if item.count is not None:
                count = words[at] if at < len(words) else b""
                if not count.isdigit() or len(count) > 9:
                    raise FormatError(f"a list of {item.name!r} in a PLY file has no valid length")
                length, at = int(count), at + 1
                lengths[number].append(length)
            if at + length > len(words):
                raise FormatError(f"a PLY file ends within its {element.rows} elements {element.name!r}")
            parts[number] += words[at : at + length]
            at += length
    values = [_numbers(part, item) for part, item in zip(parts, element.properties, strict=True)]
    return _listed(element, values, lengths), at


def _numbers(words: list[bytes], item: _Property, *, as_written: bool = False) -> NDArray[Any]:
    """Read numbers in the declared type; with ``as_written``, read numbers with a fraction as float64."""
    kind = np.dtype("<" + _TYPES[item.kind])
    try:
        values = np.array([float(word) for word in words], dtype=np.float64)
    except ValueError:
        values = np.array([_of_microsoft(word) for word in words], dtype=np.float64)
    if kind.kind == "f":
        with np.errstate(all="ignore"):
            return values.astype(kind)
    bounds = np.iinfo(kind)
    if not ((values >= bounds.min) & (values <= bounds.max)).all():
        raise FormatError(f"a PLY file holds a value of {item.name!r} outside of {item.kind}")
    if not (values == np.floor(values)).all():
        if as_written and item.count is None:
            return values
        raise _Misfit(f"a PLY file holds a value of {item.name!r} that is not {item.kind}")
    return values.astype(kind)


def _of_microsoft(word: bytes) -> float:
    found = _OF_MICROSOFT.fullmatch(word)
    if found is not None:
        return float(found[1] + (b"inf" if (found[3] or b"").upper() == b"INF" else b"nan"))
    try:
        return float(word)
    except ValueError as error:
        raise FormatError(f"a PLY file holds a word that is not a number: {error}") from error


def _corners(counts: NDArray[np.int64], items: NDArray[Any], stored: int) -> dict[str, NDArray[Any]]:
    """Lay out the corners of faces as columns."""
    widest = max(3, int(counts.max())) if len(counts) else 3
    limits.check_sample((len(counts), widest), 8, "the corners of a PLY file", stored=stored)
    table = np.full((len(counts), widest), -1, dtype=items.dtype if items.dtype.kind == "i" else np.int64)
    table[np.arange(widest) < counts[:, None]] = items
    kind = np.uint8 if widest < 256 else np.int64
    return {"n_points": counts.astype(kind), **{f"v{k + 1}": table[:, k] for k in range(widest)}}
