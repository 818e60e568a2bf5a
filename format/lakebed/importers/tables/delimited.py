"""CSV and TSV: types are those in which no value of the whole file loses anything; ``""`` is empty, nothing is null.

The file is read twice, a block at a time: once to find the types, once for the rows. Numbers with leading zeros stay
text. An item is a file.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from lakebed.errors import IngestionError
from lakebed.importers.core.columns import Column, Wishes, columns_of, converted, reading
from lakebed.importers.core.plan import Plan, Problem
from lakebed.importers.core.source import Source, stem_of
from lakebed.importers.core.splits import SPLITS, in_order
from lakebed.transforms.output import Skipped

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.csv as pacsv

BATCHED = True

_BLOCK_BYTES = 8 << 20
_HEAD_BYTES = 1 << 16
_TAIL_BYTES = 64
_WHOLE = 2**53  # float64 holds all integers up to it
# What Excel writes above the names of the columns.
_SAID = re.compile(r"\ufeff?sep=(.)(\r\n|\n|\r)", re.IGNORECASE)
_CALLED = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "'|'"}
_SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
# What programs write for a missing value; nobody else knows whether it is one.
_OFTEN_NULL = (
    "NA",
    "N/A",
    "n/a",
    "#N/A",
    "NULL",
    "null",
    "None",
    "none",
    "nil",
    "NaN",
    "nan",
    "-",
    "--",
    "?",
    ".",
)
# What a column may be, in the order in which it is tried; text is what is left.
_TRIED = ("int64", "float64", "bool", "date32", "timestamp", "timestamp with zone")


class _File(NamedTuple):
    """A file."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class _Style:
    """How fields are told apart."""

    delimiter: str
    quote: str | None
    encoding: str
    names: tuple[str, ...] | None
    nulls: tuple[str, ...]

    @property
    def codec(self) -> str:
        """Name of the codec that decodes; also of UTF-8, since Arrow's parser does not look whether it is any."""
        return "utf-8-sig" if self.encoding.lower() in ("utf8", "utf-8") else self.encoding


@dataclass
class _Rounded:
    """Numbers of a column that float64 does not hold: how many, and the first one."""

    count: int = 0
    first: str = ""

    def __str__(self) -> str:
        return f"{self.count:,} numbers have more digits than float64 holds, first {self.first}"

    def look(self, column: pa.Array, name: str, before: int, *, is_whole: bool) -> None:
        """Look at texts of a file, all of which are numbers; so many rows were read before them."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if is_whole:
            ends = pc.min_max(column.cast(pa.int64()))
            if max(abs(ends["min"].as_py() or 0), abs(ends["max"].as_py() or 0)) <= _WHOLE:
                return
        digits = _digits(column)
        # The shortest text of a float64 is what nearly all files hold.
        others = pc.not_equal(digits, _digits(column.cast(pa.float64()).cast(pa.string())))
        for at in pc.indices_nonzero(others).to_pylist():
            text = column[at].as_py()
            if _is_rounded(text, digits[at].as_py()):
                self.count += 1
                self.first = self.first or f"{text} in row {before + at + 1:,} ({name})"


@dataclass
class _ButFor:
    """A column of text that would be of another type but for words that often mean null.

    Parameters
    ----------
    types
        The types that it would be of.
    words
        The words, and how often they are there.
    values
        How many other values there are.
    """

    types: list[str]
    values: int = 0
    words: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        told = ", ".join(f"{count:,} times {word!r}" for word, count in self.words.most_common(3))
        nulls = ",".join(self.words)
        return f"it is text, and would be {self.types[0]} but for {told}: nulls={nulls} makes them null"

    def look(self, column: pa.Array) -> None:
        """Look at texts of the column."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if not self.types:
            return
        is_word = pc.is_in(column, pa.array(_OFTEN_NULL))
        self.types = [kind for kind in self.types if _fits(pc.if_else(is_word, None, column), kind)]
        words = column.filter(is_word).to_pylist()
        self.words.update(words)
        self.values += len(column) - column.null_count - len(words)


@dataclass(frozen=True)
class _Context:
    source: Source
    style: _Style
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
    return f"{len(names):,} tables of text" if len(names) > 1 else "a table of text"


def plan(
    source: Source,
    *,
    delimiter: str | None = None,
    quote: str = '"',
    encoding: str = "utf8",
    names: Sequence[str] = (),
    nulls: Sequence[str] = (),
    text: Sequence[str] = (),
    media: Mapping[str, str] | None = None,
    labels: Sequence[str] = (),
    link: bool = False,
    creds_key: str | None = None,
    compression: str | None = None,
) -> Plan:
    """Plan a tensor for each column.

    Parameters
    ----------
    source
        The file, or a folder of files with the same columns.
    delimiter
        What is between fields; left out, a tab for .tsv, and otherwise what the first line has most of.
    quote
        What is around fields with delimiters; empty for nothing.
    encoding
        Encoding of the text.
    names
        Names of the columns, of files without a first line that tells them.
    nulls
        Texts that mean null, besides the empty field.
    text
        Columns that stay text.
    media
        Columns that hold files, as paths below the source or as addresses: photo=image, sound=audio.
    labels
        Columns whose texts are names of classes.
    link
        Store links to files in place of the files.
    creds_key
        Name of the credentials that the links need.
    compression
        Kind of file that tensors of media store.
    """
    files = source.with_suffix(*_SUFFIXES) or ([source.name] if source.is_file else [])
    if not files:
        raise IngestionError(f"{source.shown} holds no .csv or .tsv files")
    style = _Style(
        delimiter or _delimiter(source, files[0], encoding),
        quote or None,
        encoding,
        tuple(names) or None,
        ("", *nulls),
    )
    wishes = Wishes(dict(media or {}), tuple(labels), (), link, creds_key, compression)
    types: dict[str, list[str]] = {}
    first: pa.RecordBatch | None = None
    rounded: dict[str, _Rounded] = {}
    but_for: dict[str, _ButFor] = {}
    rows = 0
    bad: list[Skipped] = []
    by_split: dict[str, list[_File]] = {}
    for file in files:
        batch, below = None, 0
        for batch in _batches(source, file, style, None, bad):
            del bad[1:]
            first = batch if first is None else first
            _check_names(types, batch.schema.names, file)
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                possible = types.setdefault(name, [] if name in text else list(_TRIED))
                before, possible[:] = list(possible), [kind for kind in possible if _fits(column, kind)]
                if before and not possible:
                    but_for[name] = _ButFor(before)
                if name in but_for:
                    but_for[name].look(column)
                if "float64" in possible:
                    rounded.setdefault(name, _Rounded()).look(
                        column, file, below, is_whole=possible[0] == "int64"
                    )
            below += batch.num_rows
        rows += below
        if batch is not None:
            _check_last(source, file, style, batch)
        stem = stem_of(file)
        by_split.setdefault(SPLITS.get(stem, "") if len(files) > 1 else "", []).append(_File(file))
    if not rows:
        told = f". {bad[0].where}: {bad[0].reason}" if bad else ""
        raise IngestionError(
            f"{source.shown} holds nothing to import: no rows below the names of columns{told}"
        )
    schema = _schema(types)
    problems: list[Problem] = []
    header, _ = _header(source, files[0], style)
    for name, said in zip(numbered(header), header, strict=True):
        if name != said:
            problems.append(Problem(name, f"another column is called {said!r}, too: this one is {name!r}", 0))
    small = first.slice(0, 64) if first is not None else None
    problems += [
        Problem(name, f"{told}; as text all are kept (text={name})", 0)
        for name, told in rounded.items()
        if told.count and schema.field(name).type == "double"
    ]
    problems += [
        Problem(name, str(told), 0)
        for name, told in but_for.items()
        if told.types and told.values and name not in (*labels, *wishes.media)
    ]
    columns, tensors = columns_of(schema, wishes, small, source, problems)
    by_split = dict(in_order(by_split))
    items = [one for of in by_split.values() for one in of]
    splits: dict[str, range] = {}
    for split, of in by_split.items():
        start = sum(len(items_of) for items_of in splits.values())
        splits[split] = range(start, start + len(of))
    between = "" if delimiter else f", {_CALLED.get(style.delimiter, repr(style.delimiter))} between fields"
    return Plan(
        f"{rows:,} rows of {len(columns)} columns in {len(files):,} files of text{between}",
        tensors,
        items,
        _Context(source, style, schema, columns, wishes),
        rows=rows,
        nbytes=sum(source.files[file] for file in files),
        splits=splits if set(splits) != {""} else {},
        problems=problems,
    )


def rows(item: _File, context: _Context) -> Iterator[Any]:
    """Read a file, a block at a time."""
    bad: list[Skipped] = []
    for batch in _batches(context.source, item.name, context.style, context.schema, bad):
        yield from bad
        bad.clear()
        yield from converted(batch, context.columns, context.source, context.wishes, str(item))
    yield from bad


def describe(plan: Plan) -> dict[str, Any]:
    """Say nothing more."""
    return plan.about


def _delimiter(source: Source, name: str, encoding: str) -> str:
    if ".tsv" in name:
        return "\t"
    with _opened(source, name) as file:
        head = file.read(_HEAD_BYTES).decode(encoding, "replace")
    said = _SAID.match(head)
    line = head.partition("\n")[0]
    return said[1] if said else max((",", ";", "\t", "|"), key=line.count)


def _opened(source: Source, name: str) -> Any:
    import pyarrow as pa

    file = source.open("" if source.is_file else name)
    return pa.CompressedInputStream(file, "gzip") if name.endswith(".gz") else file


def _batches(
    source: Source, name: str, style: _Style, schema: pa.Schema | None, bad: list[Skipped]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file, as text where no schema is given.

    Raises
    ------
    IngestionError
        If the file is no such table.
    """
    import pyarrow as pa
    import pyarrow.csv as pacsv

    def wrong(row: pacsv.InvalidRow) -> str:
        where = f"{name}, row {row.number}" if row.number is not None else name
        bad.append(
            Skipped(
                where, f"{row.actual_columns} fields in place of {row.expected_columns}: {row.text[:100]}"
            )
        )
        return "skip"

    with reading(name):
        names, skipped = _header(source, name, style)
    is_double = len(set(names)) < len(names)
    types = (
        {column: pa.string() for column in numbered(names)}
        if schema is None
        else dict(zip(schema.names, schema.types, strict=True))
    )
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
        _ = reader.schema.names  # which are no text of the encoding, perhaps
        yield from reader


def _check_last(source: Source, name: str, style: _Style, batch: pa.RecordBatch) -> None:
    """Refuse a file whose last field is all that follows a quote: Arrow takes the end of the file for its end.

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
    """Say what to do about a file of another encoding."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowInvalid, UnicodeError) as error:
        hint = (
            f"; if it is of another encoding than {style.encoding}, name it (--encoding)"
            if "UTF8" in str(error) or isinstance(error, UnicodeError)
            else ""
        )
        raise IngestionError(f"{name}: {error}{hint}") from error


def _header(source: Source, name: str, style: _Style) -> tuple[list[str], int]:
    """Return the names of the columns, and how many lines are before what tells them."""
    import csv
    import io

    with _opened(source, name) as file:
        head = file.read(_HEAD_BYTES).decode(style.codec, "replace")
    said = _SAID.match(head)
    if style.names is not None:
        return list(style.names), 1 if said else 0
    lines = csv.reader(
        io.StringIO(head[said.end() :] if said else head, newline=None),  # lines of old Macs end with CR
        delimiter=style.delimiter,
        quotechar=style.quote or None,
        quoting=csv.QUOTE_MINIMAL if style.quote else csv.QUOTE_NONE,
    )
    try:
        return next((line for line in lines if line), []), 1 if said else 0
    except csv.Error as error:
        raise IngestionError(f"{name}: the first line names no columns: {error}") from error


def numbered(names: Sequence[str]) -> list[str]:
    """Return names of columns without any twice: the second one of a name gets ``_2``, and so on."""
    said, found = frozenset(names), dict[str, None]()
    for name in names:
        count, one = 1, name
        while one in found or (count > 1 and one in said):
            count += 1
            one = f"{name}_{count}"
        found[one] = None
    return list(found)


def _check_names(types: Mapping[str, Any], names: Sequence[str], file: str) -> None:
    if types and list(types) != list(names):
        raise IngestionError(
            f"{file} has the columns {', '.join(names)[:200]}, and the first file {', '.join(types)[:200]}: import "
            "files of other columns by themselves"
        )


def _fits(column: pa.Array, kind: str) -> bool:
    """Whether all texts of a column are values of a type, and none loses anything."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if kind == "int64" and pc.any(pc.match_substring_regex(column, r"^[+-]?0[\dxX]|^\+|^ | $")).as_py():
        return False
    if kind == "bool":
        return bool(
            pc.all(pc.match_substring_regex(column, "^([tT]rue|TRUE|[fF]alse|FALSE)$")).as_py()
            in (True, None)
        )
    try:
        column.cast(_arrow(kind))
    except pa.ArrowInvalid:
        return False
    if kind == "float64":
        return not pc.any(pc.match_substring_regex(column, r"^-?0\d|^\+|^-?\d{17,}$|^ | $")).as_py()
    return True


def _digits(column: pa.Array) -> pa.Array:
    """Return the significant digits of texts of numbers."""
    import pyarrow.compute as pc

    digits = pc.replace_substring_regex(column, r"[eE].*$|[^0-9]", "")
    return pc.utf8_rtrim(pc.utf8_ltrim(digits, "0"), "0")


def _is_rounded(text: str, digits: str) -> bool:
    """Whether the float64 that is nearest to a number has other digits: as many as written are looked at."""
    return (
        f"{float(text):.{max(len(digits), 1) - 1}e}".lstrip("-").partition("e")[0].replace(".", "") != digits
    )


def _arrow(kind: str) -> pa.DataType:
    import pyarrow as pa

    return {
        "int64": pa.int64(),
        "float64": pa.float64(),
        "bool": pa.bool_(),
        "date32": pa.date32(),
        "timestamp": pa.timestamp("us"),
        "timestamp with zone": pa.timestamp("us", "UTC"),
    }[kind]


def _schema(types: Mapping[str, list[str]]) -> pa.Schema:
    """Return the types that are left; columns without a value, for which all are, are text."""
    import pyarrow as pa

    fields = []
    for name, possible in types.items():
        whole = not possible or len(possible) == len(_TRIED)
        fields.append(pa.field(name, pa.string() if whole else _arrow(possible[0])))
    return pa.schema(fields)
