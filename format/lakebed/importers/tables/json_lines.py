"""JSON lines, with an object on each line and types that fit all lines; and tables in one JSON document.

A missing key is null. Numbers of one kind become numbers, lists of numbers arrays, mixed values JSON. The file is read
twice, in pieces of some megabytes. An item is a piece, or a document:

document                            rows
``[{"a": 1}, {"a": 2}]``            its objects
``{"a": [1, 2], "b": [3, 4]}``      its columns, lists of one length
``{"a": 1, "b": "text"}``           one
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Unpack

import pyarrow as pa

from lakebed.errors import IngestionError
from lakebed.importers.core.columns import FIRST_ROWS, ColumnOptions, Table, Wishes, table_of
from lakebed.importers.core.plan import Plan, Problem, Stretch, several
from lakebed.importers.core.source import Source
from lakebed.importers.core.splits import in_order, ranges_of, split_of_stem
from lakebed.transforms.output import Skipped

BATCHED = True

_PIECE_BYTES = 4 << 20
_MOST_LINE_BYTES = 256 << 20
_EXACT = 2**53  # float64 represents all integers up to this one
# Kinds of numbers in columns of a type.
_FLOATS = frozenset({"int", "minus int", "float"})
_INTS = frozenset({"int", "minus int", "large", "minus large"})
_UNSIGNED = frozenset({"int", "large", "huge"})
_WHOLE = _INTS | {"huge", "beyond"}
_BATCH_ROWS = 65_536
_SUFFIXES = (".jsonl", ".ndjson")
_HEAD_BYTES = 1024
_BEGIN = re.compile(rb"\s*(\[\s*\{|\{\s*\")")
_LIST = re.compile(rb"\s*\[\s*\{")
_BOM = b"\xef\xbb\xbf"
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_NO_TEXT = "half of a surrogate pair, which is not text"


class _Context(NamedTuple):
    table: Table
    schema: pa.Schema


def recognise(source: Source) -> str | None:
    """Describe the source for messages, such as "3 tables of JSON"; None if it is not one."""
    if source.is_file and source.suffix in ("", ".json"):
        is_json = source.suffix == ".json" or _BEGIN.match(source.head.removeprefix(_BOM))
        return "a table of JSON" if is_json else None
    if source.with_suffix(*_SUFFIXES):
        names = source.mainly(*_SUFFIXES)
        return several(names, "JSON lines", "files of JSON lines") if names else None
    names = source.mainly(".json")
    # A folder of files with one object each holds documents; the importer ``folder`` reads it, with a row per file.
    is_table = names and (_is_list(source, names[0]) or _is_lines(source, names[0]))
    return f"{len(names):,} tables of JSON" if is_table else None


def plan(source: Source, **options: Unpack[ColumnOptions]) -> Plan:
    """Plan a tensor for each key of a file, or of a folder of files."""
    files = source.chosen(*_SUFFIXES) or source.with_suffix(".json")
    if not files:
        raise IngestionError(f"{source.shown} holds no .jsonl or .json files")
    wishes = Wishes.of(options)
    kinds: dict[str, set[str]] = {}
    first: list[dict[str, Any]] = []
    by_split: dict[str, list[Stretch]] = {}
    problems: list[Problem] = []
    rows, bad = 0, None
    for file in files:
        items = by_split.setdefault(split_of_stem(file, files), [])
        for piece in _pieces(source, file):
            try:
                lines = list(_lines(source, piece)) if piece.stop is None else _lines(source, piece)
            except IngestionError as error:
                if len(files) == 1:
                    raise
                problems.append(Problem(file, str(error)))
                continue
            items.append(piece)
            for line in lines:
                if isinstance(line, Skipped):
                    bad = bad or line
                    continue
                rows += 1
                _look(kinds, line)
                if len(first) < FIRST_ROWS:
                    first.append(line)
    if not kinds:
        told = f". {bad.where}: {bad.reason}" if bad is not None else ""
        raise IngestionError(
            f"{source.shown} holds no object of JSON with keys, neither in its lines nor in one list{told}"
        )
    found, splits = ranges_of(in_order(by_split))
    schema = _schema(kinds, wishes.embeddings)
    beyond = "it is JSON, because its whole numbers do not fit 64 bits"
    problems += [
        Problem(key, beyond, 0) for key, of in kinds.items() if _is_beyond(of) and key not in wishes.names
    ]
    table, tensors = table_of(schema, wishes, _batch(first, schema), source, problems)
    what = "JSON" if any(item.stop is None for item in found) else "JSON lines"
    return Plan(
        f"{what}: {rows:,} rows of {len(tensors)} keys in {len(files):,} files",
        tensors,
        found,
        _Context(table, schema),
        rows=rows,
        nbytes=sum(source.files[file] for file in files),
        splits=splits,
        problems=problems,
    )


def rows(item: Stretch, context: _Context) -> Iterator[Any]:
    """Read the lines of a piece, or the objects of a document."""
    table, schema = context
    lines: list[dict[str, Any]] = []
    for line in _lines(table.source, item):
        if isinstance(line, Skipped):
            yield line
            continue
        lines.append(line)
        if len(lines) == _BATCH_ROWS:
            yield from table.rows(_batch(lines, schema), str(item))
            lines = []
    if lines:
        yield from table.rows(_batch(lines, schema), str(item))


def _pieces(source: Source, name: str) -> Iterator[Stretch]:
    """Yield stretches of lines; a file that is one document is one stretch."""
    is_lines = not _is_list(source, name) if source.suffix_of(name) in _SUFFIXES else _is_lines(source, name)
    if not is_lines:
        yield Stretch(name, 0, None)
        return
    start, size = 0, source.files[name]
    with source.open(name) as file:
        while start < size:
            stop = min(start + _PIECE_BYTES, size)
            file.seek(stop)
            rest = file.readline(_MOST_LINE_BYTES)
            if len(rest) >= _MOST_LINE_BYTES:
                raise IngestionError(
                    f"{name}: a line at byte {start:,} is longer than {_MOST_LINE_BYTES:,} bytes"
                )
            stop += len(rest)
            yield Stretch(name, start, stop)
            start = stop


def _is_list(source: Source, name: str) -> bool:
    """Return whether a file begins with a list of objects."""
    return _LIST.match(source.start_of(name, _HEAD_BYTES).removeprefix(_BOM)) is not None


def _is_lines(source: Source, name: str) -> bool:
    """Return whether the first line of a file is an object of JSON, and more lines follow."""
    with source.open(name) as file:
        lines = iter(partial(file.readline, _MOST_LINE_BYTES), b"")
        try:
            is_object = isinstance(json.loads(next(filter(bytes.strip, lines), b"")), dict)
        except (ValueError, RecursionError):
            return False
        return is_object and any(other.strip() for other in iter(partial(file.read, _PIECE_BYTES), b""))


def _objects(source: Source, document: str) -> Iterator[Any]:
    """Yield the rows of a file that is one document.

    Raises
    ------
    IngestionError
        If it is not JSON, or not a table.
    """
    data = source.document(document)
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        reason = error if isinstance(error, ValueError) else "nested too deeply"
        raise IngestionError(f"{document}: it is not JSON: {reason}") from error
    may_lack = _SURROGATE.search(data) is not None
    for row, one in enumerate(found if isinstance(found, list) else _of_object(found, document)):
        yield _checked(one, f"{document}, object {row:,}", may_lack=may_lack)


def _checked(found: Any, where: str, *, may_lack: bool) -> Any:
    """Return an object of JSON, or the reason why it is not a row."""
    if may_lack and not _is_text(found):
        return Skipped(where, _NO_TEXT)
    return found if isinstance(found, dict) else Skipped(where, "no object of JSON")


def _of_object(found: Any, where: str) -> list[dict[str, Any]]:
    """Return the rows of an object: one for each item of its columns, or the object as a single row.

    Raises
    ------
    IngestionError
        If the object is neither columns nor a row.
    """
    hint = "if pandas reads it: lakebed.from_pandas(dest, pandas.read_json(path))"
    if isinstance(found, dict):
        lists = {key: value for key, value in found.items() if isinstance(value, list)}
        # Some programs wrap the rows into an object with one member, such as {"data": [...]}.
        is_around = len(found) == 1 and any(
            isinstance(one, dict) for column in lists.values() for one in column
        )
        if len(lists) == len(found) and len(set(map(len, lists.values()))) == 1 and not is_around:
            return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]
        if not any(isinstance(value, list | dict) for value in found.values()):
            return [found] if found else []
        rows = next((key for key, value in lists.items() if value and isinstance(value[0], dict)), None)
        if rows is not None:
            hint = f"if its rows are {rows!r}: lakebed.from_rows(dest, json.load(open(path))[{rows!r}])"
    hint += "; if it describes images, name its format, such as coco"
    raise IngestionError(
        f"{where} is not a table of JSON, which is a list of objects, or an object of columns that are lists of one "
        f"length; {hint}"
    )


def _is_text(value: Any) -> bool:
    """Return whether a value contains no half of a surrogate pair."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _lines(source: Source, piece: Stretch) -> Iterator[Any]:
    if piece.stop is None:
        yield from _objects(source, piece.name)
        return
    with source.open(piece.name) as file:
        file.seek(piece.start)
        data = file.read(piece.stop - piece.start)
    at = piece.start
    for line in data.split(b"\n"):
        where, at = f"{piece.name}, byte {at:,}", at + len(line) + 1
        text = line.strip()
        if not text:
            continue
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            reason = f"not JSON: {error}" if isinstance(error, ValueError) else "nested too deeply"
            yield Skipped(where, reason)
            continue
        yield _checked(found, where, may_lack=_SURROGATE.search(text) is not None)


def _look(kinds: dict[str, set[str]], line: Mapping[str, Any]) -> None:
    for key, value in line.items():
        known = kinds.setdefault(key, set())
        if value is not None:
            known.add(_kind(value))


def _kind(value: Any) -> str:
    """Return the kind of a value; for a list of numbers their kind and its length, such as ``ints 3``."""
    kind = type(value)
    if kind is int:
        return _of_int(value)
    if kind is not list:
        return {float: "float", bool: "bool", str: "text"}.get(kind, "other")
    inner = {_of_int(one) if type(one) is int else type(one).__name__ for one in value}
    if not inner:
        return "empty"
    if inner <= _INTS:
        return f"{'ints' if inner <= _FLOATS else 'larges'} {len(value)}"
    return f"floats {len(value)}" if inner <= _FLOATS else "beyond" if inner <= _WHOLE else "other"


def _of_int(value: int) -> str:
    """Return ``int`` for an integer that float64 holds exactly, ``large`` for another one of int64, or ``minus ...``.

    ``huge`` is an integer that only uint64 holds, ``beyond`` one that has more than 64 bits.
    """
    sign = "minus " if value < 0 else ""
    if -_EXACT <= value <= _EXACT:
        return f"{sign}int"
    if -(2**63) <= value < 2**63:
        return f"{sign}large"
    return "huge" if 0 < value < 2**64 else "beyond"


def _is_beyond(of: set[str]) -> bool:
    """Return whether a column has only integers, but no 64-bit type holds all of them."""
    words = {one.partition(" ")[0] for one in of - _WHOLE}
    return bool(of & {"huge", "beyond"}) and not of <= _UNSIGNED and words <= {"ints", "larges", "empty"}


def _schema(kinds: Mapping[str, set[str]], embeddings: Sequence[str]) -> pa.Schema:
    """Return the schema; columns of JSON are structs."""
    fields = []
    for name, of in kinds.items():
        words = {one.partition(" ")[0] for one in of} - {"empty"}
        kind: Any = pa.struct([])
        if not of or of == {"text"}:
            kind = pa.string()
        elif of <= _INTS:
            kind = pa.int64()
        elif of <= _UNSIGNED:
            kind = pa.uint64()
        elif of <= _FLOATS:
            kind = pa.float64()
        elif of == {"bool"}:
            kind = pa.bool_()
        elif words and (words <= {"ints", "larges"} or words <= {"ints", "floats"}):
            is_float = "floats" in words or (name in embeddings and "larges" not in words)
            inner = pa.float64() if is_float else pa.int64()
            kind = pa.list_(inner, int(next(iter(of)).partition(" ")[2])) if len(of) == 1 else pa.list_(inner)
        fields.append(pa.field(name, kind))
    return pa.schema(fields)


def _batch(lines: Sequence[Mapping[str, Any]], schema: pa.Schema) -> Any:
    """Return lines as columns; columns of JSON become lists."""
    columns: list[Any] = []
    for field in schema:
        values = [line.get(field.name) for line in lines]
        is_json = pa.types.is_struct(field.type)
        columns.append(_Values(values) if is_json else pa.array(values, field.type))
    return _Columns(columns, schema.names)


class _Values(list[Any]):
    """A column of Python values."""

    def to_pylist(self) -> list[Any]:
        return self


@dataclass(frozen=True)
class _Columns:
    """Columns, as a record batch has them."""

    columns: Sequence[Any]
    names: Sequence[str]

    def column(self, key: int | str) -> Any:
        return self.columns[key if isinstance(key, int) else self.names.index(key)]
