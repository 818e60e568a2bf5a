"""CSV and TSV: a type is used only if no value of the file loses digits; ``""`` is an empty text, an empty field null.

The file is read twice, a block at a time: first for the types, then for the rows. Numbers with leading zeros stay text.
An item is a file.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

import pyarrow as pa

from lakebed.errors import IngestionError
from lakebed.importers.core.columns import (
    FIRST_ROWS,
    FileOptions,
    Table,
    Wishes,
    doubles,
    numbered,
    reading,
    table_of,
)
from lakebed.importers.core.packages import damaged
from lakebed.importers.core.plan import Plan, Problem, several
from lakebed.importers.core.source import Source
from lakebed.importers.core.splits import by_split, ranges_of, split_of_stem
from lakebed.transforms.output import Skipped

if TYPE_CHECKING:
    import pyarrow.csv as pacsv

BATCHED = True

_BLOCK_BYTES = 8 << 20
_HEAD_BYTES = 1 << 16
_TAIL_BYTES = 64
_WHOLE = 2**53  # float64 represents all integers up to this one
# Excel may write this line above the line with the names of the columns.
_SAID = re.compile(r"\ufeff?sep=(.)(\r\n|\n|\r)", re.IGNORECASE)
_CALLED = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "'|'"}
_SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
# Words that programs often write for a missing value; only the user knows whether a word means that.
_OFTEN_NULL = pa.array(
    ["NA", "N/A", "n/a", "#N/A", "NULL", "null", "None", "none", "nil", "NaN", "nan", "-", "--", "?", "."]
)
# Types of columns in the order in which they are tried; a column that fits none of them is text.
_TRIED: Mapping[str, pa.DataType] = {
    "int64": pa.int64(),
    "uint64": pa.uint64(),
    "float64": pa.float64(),
    "bool": pa.bool_(),
    "date32": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamp with zone": pa.timestamp("us", "UTC"),
}


@dataclass(frozen=True)
class _Style:
    """Syntax of the files."""

    delimiter: str
    quote: str | None
    encoding: str
    names: tuple[str, ...]
    nulls: tuple[str, ...]

    @property
    def codec(self) -> str:
        """Name of the codec that decodes; also for UTF-8, which Arrow's parser does not validate."""
        return "utf-8-sig" if self.encoding.lower() in ("utf8", "utf-8") else self.encoding


@dataclass
class _Rounded:
    """Numbers of a column that float64 would round: their count, and the first one."""

    count: int = 0
    first: str = ""

    def __str__(self) -> str:
        return f"{self.count:,} numbers have more digits than float64 holds, first {self.first}"

    def look(self, column: pa.Array, name: str, before: int, *, is_whole: bool) -> None:
        """Inspect texts of a file, all of them numbers; `before` is the number of rows above them."""
        import pyarrow.compute as pc

        if is_whole:
            ends = pc.min_max(column.cast(pa.int64()))
            if max(abs(ends["min"].as_py() or 0), abs(ends["max"].as_py() or 0)) <= _WHOLE:
                return
        digits = _digits(column)
        # In nearly all files, numbers are the shortest texts of a float64: compare only the others exactly.
        others = pc.not_equal(digits, _digits(column.cast(pa.float64()).cast(pa.string())))
        for at in pc.indices_nonzero(others).to_pylist():
            text = column[at].as_py()
            if _is_rounded(text, digits[at].as_py()):
                self.count += 1
                self.first = self.first or f"{text} in row {before + at + 1:,} ({name})"


@dataclass
class _ButFor:
    """A column of text that would have another type if some words meant null.

    Parameters
    ----------
    types
        The types that the column would have.
    words
        The words, and how often each occurs.
    values
        Number of values that are not such words.
    """

    types: list[str]
    values: int = 0
    words: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        told = ", ".join(f"{count:,} times {word!r}" for word, count in self.words.most_common(3))
        nulls = ",".join(self.words)
        return f"it is text, and would be {self.types[0]} but for {told}: nulls={nulls} makes them null"

    def look(self, column: pa.Array) -> None:
        """Inspect texts of the column."""
        import pyarrow.compute as pc

        is_word = pc.is_in(column, _OFTEN_NULL)
        self.types = [kind for kind in self.types if _fits(pc.if_else(is_word, None, column), kind)]
        words = column.filter(is_word).to_pylist()
        self.words.update(words)
        self.values += len(column) - column.null_count - len(words)


class _Column:
    """The types that fit a column, and the losses that its values would have."""

    def __init__(self, *, is_text: bool) -> None:
        self.types = [] if is_text else list(_TRIED)
        self.is_whole = not is_text
        self.rounded = _Rounded()
        self.but_for: _ButFor | None = None

    def look(self, column: pa.Array, file: str, before: int) -> None:
        """Inspect texts of the column; `before` is the number of rows above them in the file."""
        types, self.types = self.types, [kind for kind in self.types if _fits(column, kind)]
        if not self.types and self.is_whole:
            self.is_whole = _all_like(column, r"^(0|-?[1-9]\d*)$")
        if types and not self.types:
            self.but_for = _ButFor(types)
        if self.but_for is not None and self.but_for.types:
            self.but_for.look(column)
        if "float64" in self.types:
            self.rounded.look(column, file, before, is_whole=self.types[0] == "int64")

    @property
    def kind(self) -> pa.DataType:
        """Type of the column; a column without values, which fits all types, is text."""
        return pa.string() if len(self.types) in (0, len(_TRIED)) else _TRIED[self.types[0]]

    def problems(self, name: str, *, is_wished: bool) -> Iterator[Problem]:
        """Yield reports of losses, and advice on options."""
        if self.rounded.count and self.kind == pa.float64():
            yield Problem(name, f"{self.rounded}; as text all are kept (text={name})", 0)
        if self.is_whole and not self.types and not is_wished:
            yield Problem(name, "it is text, because its whole numbers do not fit 64 bits", 0)
        if self.but_for is not None and self.but_for.types and self.but_for.values and not is_wished:
            yield Problem(name, str(self.but_for), 0)


class _Context(NamedTuple):
    table: Table
    style: _Style
    schema: pa.Schema


def recognise(source: Source) -> str | None:
    """Describe the source for messages, such as "3 tables of text"; None if it holds no such files."""
    names = source.mainly(*_SUFFIXES)
    return several(names, "a table of text", "tables of text") if names else None


def plan(
    source: Source,
    *,
    delimiter: str | None = None,
    quote: str = '"',
    encoding: str = "utf8",
    names: Sequence[str] = (),
    nulls: Sequence[str] = (),
    text: Sequence[str] = (),
    **options: Unpack[FileOptions],
) -> Plan:
    """Plan a tensor for each column.

    Parameters
    ----------
    source
        The file, or a folder of files with the same columns.
    delimiter
        Separator of fields; by default a tab for .tsv, otherwise the most frequent one of the first line.
    quote
        Quote around fields with delimiters; empty for none.
    encoding
        Encoding of the text.
    names
        Names of the columns, for files without a first line of names.
    nulls
        Texts that mean null, besides the empty field.
    text
        Columns that stay text.
    options
        Options of columns.
    """
    files = source.chosen(*_SUFFIXES)
    if not files:
        raise IngestionError(f"{source.shown} holds no .csv or .tsv files")
    style = _Style(
        delimiter or _delimiter(source, files[0], encoding),
        quote or None,
        encoding,
        tuple(names),
        ("", *nulls),
    )
    columns, first, rows, bad = _looked(source, files, style, text)
    if not rows:
        told = f". {bad.where}: {bad.reason}" if bad else ""
        raise IngestionError(
            f"{source.shown} holds nothing to import: no rows below the names of columns{told}"
        )
    wishes = Wishes.of(options)
    problems = list(doubles(_header(source, files[0], style)[0]))
    for name, one in columns.items():
        problems += one.problems(name, is_wished=name in wishes.names)
    schema = pa.schema([(name, one.kind) for name, one in columns.items()])
    table, tensors = table_of(
        schema, wishes, None if first is None else first.slice(0, FIRST_ROWS), source, problems
    )
    items, splits = ranges_of(by_split(files, lambda file: split_of_stem(file, files)).items())
    between = "" if delimiter else f", {_CALLED.get(style.delimiter, repr(style.delimiter))} between fields"
    return Plan(
        f"{rows:,} rows of {len(tensors)} columns in {len(files):,} files of text{between}",
        tensors,
        items,
        _Context(table, style, schema),
        rows=rows,
        nbytes=sum(source.files[file] for file in files),
        splits=splits,
        problems=problems,
    )


def _looked(
    source: Source, files: Sequence[str], style: _Style, text: Sequence[str]
) -> tuple[dict[str, _Column], pa.RecordBatch | None, int, Skipped | None]:
    """Inspect all files; return columns, the first rows, the number of rows, and the first malformed row."""
    columns: dict[str, _Column] = {}
    first: pa.RecordBatch | None = None
    rows = 0
    bad: list[Skipped] = []
    for file in files:
        batch, below = None, 0
        for batch in _batches(source, file, style, None, bad):
            del bad[1:]
            first = batch if first is None else first
            _check_names(columns, batch.schema.names, file)
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                columns.setdefault(name, _Column(is_text=name in text)).look(column, file, below)
            below += batch.num_rows
        rows += below
        if batch is not None:
            _check_last(source, file, style, batch)
    return columns, first, rows, bad[0] if bad else None


def rows(item: str, context: _Context) -> Iterator[Any]:
    """Read a file, a block at a time."""
    bad: list[Skipped] = []
    table = context.table
    for batch in _batches(table.source, item, context.style, context.schema, bad):
        yield from bad
        bad.clear()
        yield from table.rows(batch, item)
    yield from bad


def _delimiter(source: Source, name: str, encoding: str) -> str:
    if ".tsv" in name:
        return "\t"
    with _opened(source, name) as file:
        head = file.read(_HEAD_BYTES).decode(encoding, "replace")
    said = _SAID.match(head)
    line = head.partition("\n")[0]
    return said[1] if said else max((",", ";", "\t", "|"), key=line.count)


def _opened(source: Source, name: str) -> Any:
    file = source.open(name)
    return pa.CompressedInputStream(file, "gzip") if name.endswith(".gz") else file


def _batches(
    source: Source, name: str, style: _Style, schema: pa.Schema | None, bad: list[Skipped]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file, as text if no schema is given; add malformed rows to `bad`.

    Raises
    ------
    IngestionError
        If the file is not a table.
    """
    import pyarrow.csv as pacsv

    def wrong(row: pacsv.InvalidRow) -> str:
        where = f"{name}, row {row.number}" if row.number is not None else name
        reason = f"{row.actual_columns} fields in place of {row.expected_columns}: {row.text[:100]}"
        bad.append(Skipped(where, reason))
        return "skip"

    with reading(name):
        names, skipped = _header(source, name, style)
    is_double = len(set(names)) < len(names)
    types = dict.fromkeys(numbered(names), pa.string())
    if schema is not None:
        types = dict(zip(schema.names, schema.types, strict=True))
    convert = pacsv.ConvertOptions(
        column_types=types,
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        null_values=list(style.nulls),
        true_values=["true", "True", "TRUE"],
        false_values=["false", "False", "FALSE"],
    )
    read = pacsv.ReadOptions(
        block_size=_BLOCK_BYTES,
        encoding=style.codec,
        column_names=numbered(names) if style.names or is_double else None,
        skip_rows=skipped,
        skip_rows_after_names=0 if style.names or not is_double else 1,
        use_threads=False,
    )
    parse = pacsv.ParseOptions(
        delimiter=style.delimiter,
        quote_char=style.quote or False,
        newlines_in_values=style.quote is not None,
        invalid_row_handler=wrong,
    )
    with (
        reading(name),
        _hinted(name, style),
        _opened(source, name) as file,
        pacsv.open_csv(file, read, parse, convert) as reader,
    ):
        _ = reader.schema.names  # raises if the names cannot be decoded
        yield from reader


def _check_last(source: Source, name: str, style: _Style, batch: pa.RecordBatch) -> None:
    """Refuse a file whose last field is not closed: for Arrow the end of the file closes it.

    Raises
    ------
    IngestionError
        If a quote is not closed.
    """
    is_wide = style.encoding.lower().startswith(("utf-16", "utf16", "utf-32", "utf32"))
    if style.quote is None or not batch.num_rows or name.endswith(".gz") or is_wide:
        return
    last = batch.column(batch.num_columns - 1)[batch.num_rows - 1].as_py()
    if last is None or "\n" not in last:
        return
    with _opened(source, name) as file:
        file.seek(-min(source.files[name], _TAIL_BYTES), os.SEEK_END)
        tail = file.read().decode(style.encoding, "replace").rstrip("\r\n")
    if not tail.endswith(style.quote):
        raise IngestionError(
            f"{name}: the quote before {last[:60]!r} is not closed, so that the rest of the file is one field: close "
            "it, or take quotes as they are (quote='', --quote '')"
        )


@contextmanager
def _hinted(name: str, style: _Style) -> Iterator[None]:
    """Add advice to errors that occur if a file is in another encoding."""
    try:
        yield
    except (pa.ArrowInvalid, UnicodeError) as error:
        is_encoding = "UTF8" in str(error) or isinstance(error, UnicodeError)
        hint = f"; if it is of another encoding than {style.encoding}, name it (--encoding)"
        raise IngestionError(f"{name}: {error}{hint if is_encoding else ''}") from error


def _header(source: Source, name: str, style: _Style) -> tuple[list[str], int]:
    """Return the names of the columns, and the number of lines above them."""
    import csv
    import io

    with _opened(source, name) as file:
        head = file.read(_HEAD_BYTES).decode(style.codec, "replace")
    said = _SAID.match(head)
    if style.names:
        return list(style.names), 1 if said else 0
    lines = csv.reader(
        # With newline=None, CR alone also ends a line, as on old Macs.
        io.StringIO(head[said.end() :] if said else head, newline=None),
        delimiter=style.delimiter,
        quotechar=style.quote or None,
        quoting=csv.QUOTE_MINIMAL if style.quote else csv.QUOTE_NONE,
    )
    with damaged(f"{name}: the first line names no columns", csv.Error):
        return next((line for line in lines if line), []), 1 if said else 0


def _check_names(columns: Mapping[str, Any], names: Sequence[str], file: str) -> None:
    if columns and list(columns) != list(names):
        raise IngestionError(
            f"{file} has the columns {', '.join(names)[:200]}, but the first file has {', '.join(columns)[:200]}: "
            "import files with other columns separately"
        )


def _fits(column: pa.Array, kind: str) -> bool:
    """Return whether all texts of a column are values of a type, without loss."""
    import pyarrow.compute as pc

    def any_like(pattern: str) -> bool:
        return bool(pc.any(pc.match_substring_regex(column, pattern)).as_py())

    if kind in ("int64", "uint64") and any_like(r"^[+-]?0[\dxX]|^\+|^ | $"):
        return False
    if kind == "bool":
        return _all_like(column, "^([tT]rue|TRUE|[fF]alse|FALSE)$")
    try:
        column.cast(_TRIED[kind])
    except pa.ArrowInvalid:
        return False
    return kind != "float64" or not any_like(r"^-?0\d|^\+|^-?\d{17,}$|^ | $")


def _all_like(column: pa.Array, pattern: str) -> bool:
    """Return whether all texts of a column match a pattern."""
    import pyarrow.compute as pc

    return pc.all(pc.match_substring_regex(column, pattern)).as_py() in (True, None)


def _digits(column: pa.Array) -> pa.Array:
    """Return the significant digits of texts of numbers."""
    import pyarrow.compute as pc

    digits = pc.replace_substring_regex(column, r"[eE].*$|[^0-9]", "")
    return pc.utf8_rtrim(pc.utf8_ltrim(digits, "0"), "0")


def _is_rounded(text: str, digits: str) -> bool:
    """Return whether the nearest float64 of a number differs from the written digits."""
    nearest = f"{float(text):.{max(len(digits), 1) - 1}e}"
    return nearest.lstrip("-").partition("e")[0].replace(".", "") != digits
