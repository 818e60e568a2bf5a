"""The tree of objects along the paths of columns, for the compiled reader.

A record is read in one pass, so the reader must know which objects have columns inside. Such an object is a group:
number 0 is the data of the record, the others count from 1. A group can also be a column, which keeps the whole object.

The file of a record is described beside its data, in one of two members (`FILE_MEMBERS`). Each is a group without a
key. Columns have the names of the members of the first group; every member of the second group is a group with a single
column, which keeps its value.
"""

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

FILE_MEMBERS = {
    "file_reference": ("staging_file_url", "source_file_relative_path", "file_size_bytes"),
    "file": ("file_url", "file_relative_path", "bytes"),
}
"""Member of the record -> its members; the second one belongs to an older protocol."""

NativeColumn = tuple[int, bytes | None, bytes | None, int, bytes, int, bytes | None]
NativeGroup = tuple[int, bytes | None, bytes | None, bytes, int]


class Leaf(Protocol):
    """A column: `columns.Column`."""

    @property
    def path(self) -> tuple[str, ...]:
        """Properties that lead to the column."""

    @property
    def kind(self) -> int:
        """Number of the column's kind."""

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Shape of the column's values; None if they have no fixed shape."""

    @property
    def item_bytes(self) -> int:
        """Bytes of the unit of the column's offsets."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Arguments of the compiled `TableBuilder`.

    Attributes
    ----------
    columns : list
        One entry per column.
    groups : list
        One entry per group, from number 1 on, each after the group around it.
    names : list of str
        Name of each group in `_airbyte_meta.changes`.
    files : int
        Number of the group of the file; 0 without one.
    fields : list
        For each field of records without names: the name as JSON, and the number of its column, or of its group after
        all columns, or -1.
    """

    columns: list[NativeColumn]
    groups: list[NativeGroup]
    names: list[str]
    files: int
    fields: list[tuple[bytes, int]]


def layout(columns: Sequence[Leaf], files: Sequence[Leaf], fields: Sequence[str] = ()) -> Layout:
    """Arrange columns by the objects around them.

    Parameters
    ----------
    columns : sequence of Leaf
        Columns of the data.
    files : sequence of Leaf
        Columns of the file, one for each member of an entry of `FILE_MEMBERS`; or none.
    fields : sequence of str
        Properties of the stream, in the order in which records without names have their values.
    """
    paths = [column.path for column in columns]
    groups = sorted(
        {path[:end] for path in paths for end in range(1, len(path))}, key=lambda path: (len(path), path)
    )
    numbers: dict[tuple[str, ...], int] = {(): 0} | {path: number for number, path in enumerate(groups, 1)}
    result = Layout([], [], [".".join(path) for path in groups], len(groups) + 1 if files else 0, [])
    for column in columns:
        # The tensor of a whole object gets its name from its group, which refers to this column.
        name = None if column.path in numbers else column.path[-1]
        result.columns.append(_column(numbers[column.path[:-1]], name, column))
    for path in groups:
        own = paths.index(path) if path in paths else -1
        result.groups.append((numbers[path[:-1]], *_name(path[-1]), change(".".join(path)), own))
    if files:
        _add_files(result, files)
    # In the compiled code, extraction time and meta are numbered after the columns and before the groups.
    places = {path: place for place, path in enumerate(paths)} | {
        path: len(result.columns) + 2 + place for place, path in enumerate(groups)
    }
    result.fields.extend((_key(name), places.get((name,), -1)) for name in fields)
    return result


def _add_files(result: Layout, files: Sequence[Leaf]) -> None:
    """Add the columns of the file and the groups that lead to them."""
    (member, names), (older, older_names) = FILE_MEMBERS.items()
    first = len(result.columns)
    for name, column in zip(names, files, strict=True):
        result.columns.append(_column(result.files, name, column))
    for root in (member, older):
        result.groups.append((0, None, None, change(root), -1))
    for position, name in enumerate(older_names):
        result.groups.append((result.files + 1, *_name(name), change(name), first + position))
    result.names.extend((member, older, *older_names))


def change(field: str) -> bytes:
    """Return the entry of `_airbyte_meta.changes` for a value that did not fit."""
    return b'{"field":%b,"change":"NULLED","reason":"DESTINATION_SERIALIZATION_ERROR"}' % _key(field)


def _column(group: int, name: str | None, column: Leaf) -> NativeColumn:
    shape = None if column.shape is None else struct.pack(f"={len(column.shape)}q", *column.shape)
    field = ".".join(column.path)
    return group, *_name(name), int(column.kind), change(field), column.item_bytes, shape


def _name(name: str | None) -> tuple[bytes, bytes] | tuple[None, None]:
    """Return a name in two spellings: without escapes, for comparison, and as most sources write it."""
    return (None, None) if name is None else (name.encode("utf-8", "surrogatepass"), _key(name))


def _key(name: str) -> bytes:
    text = json.dumps(name, ensure_ascii=False)
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        text = json.dumps(name)  # JSON can escape half of a surrogate pair, but UTF-8 cannot encode it
    return text.encode()
