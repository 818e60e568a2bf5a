"""JSON lines: an object a line; types are those that all lines of the whole file have.

A key that is missing is null. Numbers of one kind become numbers, lists of numbers arrays, anything mixed is JSON. The
file is read twice, in pieces of some megabytes; a piece is an item.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from lakebed.errors import IngestionError
from lakebed.importers.columns import Column, Wishes, columns_of, converted
from lakebed.importers.plan import Plan, Problem
from lakebed.importers.source import Source, stem_of
from lakebed.importers.splits import SPLITS
from lakebed.transforms.output import Skipped

if TYPE_CHECKING:
    import pyarrow as pa

BATCHED = True

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")

_PIECE_BYTES = 4 << 20
_MOST_LINE_BYTES = 256 << 20
_EXACT = 2**53  # integers up to it are numbers of float64
_SUFFIXES = (".jsonl", ".ndjson")


class _Piece(NamedTuple):
    """Lines that begin in a range of a file."""

    file: str
    start: int
    stop: int

    def __str__(self) -> str:
        return f"{self.file}, bytes {self.start:,} to {self.stop:,}"


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
    names = source.with_suffix(*_SUFFIXES)
    if not names or (source.is_folder and len(names) < len(source.files) / 2):
        return None
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
        The file, or a folder of files.
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
    files = source.with_suffix(*_SUFFIXES) or ([source.name] if source.is_file else [])
    if not files:
        raise IngestionError(f"{source.shown} holds no .jsonl files")
    wishes = Wishes(dict(media or {}), tuple(labels), tuple(embeddings), link, creds_key, compression)
    kinds: dict[str, set[str]] = {}
    first: list[dict[str, Any]] = []
    items: list[_Piece] = []
    splits: dict[str, range] = {}
    rows, bad = 0, None
    ordered = sorted(files, key=lambda name: list(SPLITS.values()).index(SPLITS.get(stem_of(name), "test")))
    for file in ordered if len(files) > 1 else files:
        start = len(items)
        for piece in _pieces(source, file):
            items.append(piece)
            for line in _lines(source, piece):
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
            f"{source.shown} has no line that is an object of JSON with keys{told}. A list of objects is read by "
            "json.load, and imported as a data frame: import_from('dataframe', pandas.DataFrame(objects), ...)"
        )
    schema = _schema(kinds, embeddings)
    problems: list[Problem] = []
    columns, tensors = columns_of(schema, wishes, _batch(first, schema), source, problems)
    return Plan(
        f"JSON lines: {rows:,} rows of {len(columns)} keys in {len(files):,} files",
        tensors,
        items,
        _Context(source, schema, columns, wishes),
        rows=rows,
        nbytes=sum(source.files[file] for file in files),
        splits=splits if set(splits) != {""} else {},
        problems=problems,
    )


def rows(item: _Piece, context: _Context) -> Iterator[Any]:
    """Read the lines of a piece."""
    lines = []
    for line in _lines(context.source, item):
        if isinstance(line, Skipped):
            yield line
        else:
            lines.append(line)
    if lines:
        batch = _batch(lines, context.schema)
        yield from converted(batch, context.columns, context.source, context.wishes, str(item))


def describe(plan: Plan) -> dict[str, Any]:
    """Say nothing more."""
    return plan.about


def _pieces(source: Source, name: str) -> Iterator[_Piece]:
    """Yield ranges that end where lines do."""
    size = source.files[name]
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


def _lines(source: Source, piece: _Piece) -> Iterator[Any]:
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
            if _SURROGATE.search(text):
                json.dumps(found, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            yield Skipped(where, "half of a surrogate pair, which is no text")
            continue
        except (ValueError, RecursionError) as error:
            yield Skipped(
                where, f"no JSON: {error}" if isinstance(error, ValueError) else "nested too deeply"
            )
            continue
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
