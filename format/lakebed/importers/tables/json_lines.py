"""JSON lines: an object a line; types are those that all lines of the whole file have. And tables as one JSON document.

A key that is missing is null. Numbers of one kind become numbers, lists of numbers arrays, anything mixed is JSON. The
file is read twice, in pieces of some megabytes; a piece is an item, and so is a document:

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
from typing import TYPE_CHECKING, Any, NamedTuple

from lakebed.errors import IngestionError
from lakebed.importers.core.columns import Column, Wishes, columns_of, converted
from lakebed.importers.core.plan import Plan, Problem
from lakebed.importers.core.source import Source, stem_of
from lakebed.importers.core.splits import SPLITS
from lakebed.transforms.output import Skipped

if TYPE_CHECKING:
    import pyarrow as pa

BATCHED = True

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")

_PIECE_BYTES = 4 << 20
_MOST_LINE_BYTES = 256 << 20
_EXACT = 2**53  # integers up to it are numbers of float64
_BATCH_ROWS = 65_536
_SUFFIXES = (".jsonl", ".ndjson")
_BEGIN = re.compile(rb"\s*(\[\s*\{|\{\s*\")")
_NO_TEXT = "half of a surrogate pair, which is no text"
_HEAD_BYTES = 1024
_LIST = re.compile(rb"\s*\[\s*\{")
_BOM = b"\xef\xbb\xbf"


class _Piece(NamedTuple):
    """Lines that begin in a range of a file."""

    file: str
    start: int
    stop: int

    def __str__(self) -> str:
        return f"{self.file}, bytes {self.start:,} to {self.stop:,}"


class _Document(NamedTuple):
    """A file that is one document."""

    file: str

    def __str__(self) -> str:
        return self.file


@dataclass(frozen=True)
class _Context:
    source: Source
    schema: pa.Schema
    columns: Sequence[Column]
    wishes: Wishes


def recognise(source: Source) -> str | None:
    """Say how many files there are; None without any."""
    if source.is_object:
        return None
    if source.is_file and source.suffix in ("", ".json"):
        is_json = source.suffix == ".json" or _BEGIN.match(source.head.removeprefix(_BOM))
        return "a table of JSON" if is_json else None
    names = _names(source)
    if not names or (source.is_folder and len(names) < len(source.files) / 2):
        return None
    if source.suffix_of(names[0]) == ".json":
        with source.open(names[0]) as file:
            is_list = _LIST.match(file.read(_HEAD_BYTES).removeprefix(_BOM))
        # A folder of objects is one of documents, a row each.
        return (
            f"{len(names):,} tables of JSON"
            if is_list or _is_lines(source, names[0], is_named=False)
            else None
        )
    return f"{len(names):,} files of JSON lines" if len(names) > 1 else "JSON lines"


def plan(
    source: Source,
    *,
    media: Mapping[str, str] | None = None,
    labels: Sequence[str] = (),
    embeddings: Sequence[str] = (),
    link: bool = False,
    creds_key: str | None = None,
    compression: str | None = None,
) -> Plan:
    """Plan a tensor for each key.

    Parameters
    ----------
    source
        The file, or a folder of files: of lines, or of one list of objects or object of columns each.
    media
        Keys that hold files, as paths below the source or as addresses: photo=image, sound=audio.
    labels
        Keys whose texts are names of classes.
    embeddings
        Keys of lists that are embeddings.
    link
        Store links to files in place of the files.
    creds_key
        Name of the credentials that the links need.
    compression
        Kind of file that tensors of media store.
    """
    files = _names(source) or ([source.name] if source.is_file else [])
    if not files:
        raise IngestionError(f"{source.shown} holds no .jsonl or .json files")
    wishes = Wishes(dict(media or {}), tuple(labels), tuple(embeddings), link, creds_key, compression)
    kinds: dict[str, set[str]] = {}
    first: list[dict[str, Any]] = []
    items: list[_Piece | _Document] = []
    splits: dict[str, range] = {}
    problems: list[Problem] = []
    rows, bad = 0, None
    ordered = sorted(files, key=lambda name: list(SPLITS.values()).index(SPLITS.get(stem_of(name), "test")))
    for file in ordered if len(files) > 1 else files:
        start = len(items)
        for piece in _pieces(source, file):
            try:
                lines = list(_lines(source, piece)) if isinstance(piece, _Document) else _lines(source, piece)
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
                if len(first) < 64:
                    first.append(line)
        split = SPLITS.get(stem_of(file), "") if len(files) > 1 else ""
        before = splits.get(split, range(start, start))
        splits[split] = range(before.start, len(items))
    if not kinds:
        told = f". {bad.where}: {bad.reason}" if bad is not None else ""
        raise IngestionError(
            f"{source.shown} holds no object of JSON with keys, neither in its lines nor in one list{told}"
        )
    schema = _schema(kinds, embeddings)
    columns, tensors = columns_of(schema, wishes, _batch(first, schema), source, problems)
    what = "JSON" if any(isinstance(item, _Document) for item in items) else "JSON lines"
    return Plan(
        f"{what}: {rows:,} rows of {len(columns)} keys in {len(files):,} files",
        tensors,
        items,
        _Context(source, schema, columns, wishes),
        rows=rows,
        nbytes=sum(source.files[file] for file in files),
        splits=splits if set(splits) != {""} else {},
        problems=problems,
    )


def rows(item: _Piece | _Document, context: _Context) -> Iterator[Any]:
    """Read the lines of a piece, or the objects of a document."""
    lines: list[dict[str, Any]] = []

    def made() -> Iterator[Any]:
        if lines:
            batch = _batch(lines, context.schema)
            yield from converted(batch, context.columns, context.source, context.wishes, str(item))
            lines.clear()

    for line in _lines(context.source, item):
        if isinstance(line, Skipped):
            yield line
            continue
        lines.append(line)
        if len(lines) == _BATCH_ROWS:
            yield from made()
    yield from made()


def describe(plan: Plan) -> dict[str, Any]:
    """Say nothing more."""
    return plan.about


def _names(source: Source) -> list[str]:
    return source.with_suffix(*_SUFFIXES) or source.with_suffix(".json")


def _pieces(source: Source, name: str) -> Iterator[_Piece | _Document]:
    """Yield ranges that end where lines do; of a file that is one document, that."""
    size = source.files[name]
    if not _is_lines(source, name, is_named=source.suffix_of(name) in _SUFFIXES):
        yield _Document(name)
        return
    with source.open("" if source.is_file else name) as file:
        start = 0
        while start < size:
            stop = min(start + _PIECE_BYTES, size)
            file.seek(stop)
            rest = file.readline(_MOST_LINE_BYTES)
            if len(rest) >= _MOST_LINE_BYTES:
                raise IngestionError(
                    f"{name}: a line at byte {start:,} is longer than {_MOST_LINE_BYTES:,} bytes"
                )
            stop += len(rest)
            yield _Piece(name, start, stop)
            start = stop


def _is_lines(source: Source, name: str, *, is_named: bool) -> bool:
    """Whether the first line of a file is an object of JSON, and others follow; of its name: whether it is no list."""
    with source.open("" if source.is_file else name) as file:
        if is_named:
            return not _LIST.match(file.read(_HEAD_BYTES).removeprefix(_BOM))
        line = next(
            (line for line in iter(partial(file.readline, _MOST_LINE_BYTES), b"") if line.strip()), b""
        )
        try:
            is_object = isinstance(json.loads(line), dict)
        except (ValueError, RecursionError):
            return False
        return is_object and any(other.strip() for other in iter(partial(file.read, _PIECE_BYTES), b""))


def _objects(source: Source, document: _Document) -> Iterator[Any]:
    """Yield the rows of a document.

    Raises
    ------
    IngestionError
        If it is no JSON, or no table.
    """
    data = source.document("" if source.is_file else document.file)
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        reason = error if isinstance(error, ValueError) else "nested too deeply"
        raise IngestionError(f"{document}: it is no JSON: {reason}") from error
    for row, one in enumerate(found if isinstance(found, list) else _of_object(found, str(document))):
        where = f"{document}, object {row:,}"
        if not isinstance(one, dict):
            yield Skipped(where, "no object of JSON")
        elif _SURROGATE.search(data) and not _is_text(one):
            yield Skipped(where, _NO_TEXT)
        else:
            yield one


def _of_object(found: Any, where: str) -> list[dict[str, Any]]:
    """Return the rows of an object: of its columns, or one.

    Raises
    ------
    IngestionError
        If it is neither.
    """
    hint = "if pandas reads it: lakebed.from_pandas(dest, pandas.read_json(path))"
    if isinstance(found, dict):
        lists = {key: value for key, value in found.items() if isinstance(value, list)}
        # The only column of objects is what programs write around rows: {"data": [...]}.
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
        f"{where} is no table of JSON, which is a list of objects, or an object of columns that are lists of one "
        f"length; {hint}"
    )


def _is_text(value: Any) -> bool:
    """Whether a value holds no half of a surrogate pair."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _lines(source: Source, piece: _Piece | _Document) -> Iterator[Any]:
    if isinstance(piece, _Document):
        yield from _objects(source, piece)
        return
    with source.open("" if source.is_file else piece.file) as file:
        file.seek(piece.start)
        data = file.read(piece.stop - piece.start)
    at = piece.start
    for line in data.split(b"\n"):
        where, at = f"{piece.file}, byte {at:,}", at + len(line) + 1
        text = line.strip()
        if not text:
            continue
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            yield Skipped(
                where, f"no JSON: {error}" if isinstance(error, ValueError) else "nested too deeply"
            )
            continue
        if _SURROGATE.search(text) and not _is_text(found):
            yield Skipped(where, _NO_TEXT)
        else:
            yield found if isinstance(found, dict) else Skipped(where, "no object of JSON")


def _look(kinds: dict[str, set[str]], line: Mapping[str, Any]) -> None:
    for key, value in line.items():
        known = kinds.setdefault(key, set())
        if value is not None:
            known.add(_kind(value))


def _kind(value: Any) -> str:
    kind = type(value)
    if kind is int:
        return _of_int(value)
    if kind is list:
        inner = {_of_int(one) if type(one) is int else type(one).__name__ for one in value}
        if inner and inner <= {"int", "large"}:
            return f"{'larges' if 'large' in inner else 'ints'} {len(value)}"
        return (
            f"floats {len(value)}" if inner and inner <= {"int", "float"} else ("other" if inner else "empty")
        )
    return {float: "float", bool: "bool", str: "text"}.get(kind, "other")


def _of_int(value: int) -> str:
    """Return ``int`` for what float64 holds exactly, too, ``large`` for what int64 does, else ``other``."""
    if -_EXACT <= value <= _EXACT:
        return "int"
    return "large" if -(2**63) <= value < 2**63 else "other"


def _schema(kinds: Mapping[str, set[str]], embeddings: Sequence[str]) -> pa.Schema:
    import pyarrow as pa

    fields = []
    for name, of in kinds.items():
        words = {one.partition(" ")[0] for one in of}
        kind: Any = pa.struct([])
        if not of or of == {"text"}:
            kind = pa.string()
        elif of <= {"int", "large"}:
            kind = pa.int64()
        elif of <= {"int", "float"}:
            kind = pa.float64()
        elif of == {"bool"}:
            kind = pa.bool_()
        elif (words <= {"ints", "larges", "empty"} or words <= {"ints", "floats", "empty"}) and words != {
            "empty"
        }:
            is_float = "floats" in words or (name in embeddings and "larges" not in words)
            inner = pa.float64() if is_float else pa.int64()
            kind = pa.list_(inner, int(next(iter(of)).partition(" ")[2])) if len(of) == 1 else pa.list_(inner)
        fields.append(pa.field(name, kind))
    return pa.schema(fields)


def _batch(lines: Sequence[Mapping[str, Any]], schema: pa.Schema) -> Any:
    """Return lines as columns; those of JSON as lists."""
    import pyarrow as pa

    return _Columns(
        [
            _Values([line.get(field.name) for line in lines])
            if pa.types.is_struct(field.type)
            else pa.array([line.get(field.name) for line in lines], field.type)
            for field in schema
        ],
        schema.names,
    )


class _Values(list[Any]):
    """A column of Python values."""

    def to_pylist(self) -> list[Any]:
        return self


@dataclass(frozen=True)
class _Columns:
    """Columns as a record batch has them."""

    columns: Sequence[Any]
    names: Sequence[str]

    def column(self, key: int | str) -> Any:
        return self.columns[key if isinstance(key, int) else self.names.index(key)]
