"""Excel workbooks: a sheet is a table, its first row that is not empty names the columns.

A column has the type that all of its cells have; cells of several types are stored as text, which is told. Of a formula
the value counts that the program stored which wrote the file. Sheets of Excel have a million rows at most: one is read
whole.
"""

from __future__ import annotations

import datetime as dt
import warnings
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from xml.etree.ElementTree import ParseError

from lakebed.errors import IngestionError
from lakebed.importers.core.columns import Wishes
from lakebed.importers.core.plan import Plan, Problem
from lakebed.importers.core.source import Source
from lakebed.importers.tables import dataframe
from lakebed.importers.tables.delimited import numbered

if TYPE_CHECKING:
    import pyarrow as pa

BATCHED = True

_SUFFIXES = (".xlsx", ".xlsm")
# What zip files of that size cannot hold, unless they are made to fill the memory.
_MOST_BYTES = 1 << 30
_MOST_TIMES = 200
# What openpyxl raises at damage: bad zip files and XML, and values that are no values.
_DAMAGE = (zipfile.BadZipFile, ParseError, LookupError, OSError, TypeError, ValueError, AttributeError)
_MIDNIGHT = dt.time()


def recognise(source: Source) -> str | None:
    """Say that it is a workbook; None if it is none."""
    return "an Excel workbook" if source.is_file and source.suffix in _SUFFIXES else None


def plan(
    source: Source,
    *,
    sheet: str | None = None,
    names: Sequence[str] = (),
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
        The file.
    sheet
        Name of the sheet; left out, the first one that is not empty.
    names
        Names of the columns, of sheets without a row that tells them.
    text
        Columns that are stored as text.
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
    if find_spec("openpyxl") is None:
        raise IngestionError(
            "Excel workbooks need openpyxl: pip install openpyxl, or, in a checkout, pip install '.[xlsx]'"
        )
    problems: list[Problem] = []
    called, lines = _read(source, sheet, problems)
    table = _table(lines, names, text, problems)
    wishes = Wishes(dict(media or {}), tuple(labels), (), link, creds_key, compression)
    found = dataframe.plan_of_table(table, source, wishes, problems)
    found.found = f"sheet {called!r}, {table.num_rows:,} rows of {table.num_columns} columns"
    return found


def rows(item: range, context: Any) -> Iterator[Any]:
    """Yield some rows."""
    return dataframe.rows(item, context)


def describe(plan: Plan) -> dict[str, Any]:
    """Say nothing more."""
    return plan.about


def _read(source: Source, sheet: str | None, problems: list[Problem]) -> tuple[str, list[list[Any]]]:
    """Return the name of a sheet, and the values of its rows that are not empty.

    Raises
    ------
    IngestionError
        If there is no such sheet, all are empty, or the file is no workbook.
    """
    import openpyxl
    from openpyxl.utils.exceptions import InvalidFileException

    try:
        with source.open("") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of styles and rules for input, which are not read
            has_formulas = _look(file, source)
            book = openpyxl.load_workbook(file, read_only=True, data_only=True)
            there = [one.title for one in book.worksheets]
            if sheet is not None and sheet not in there:
                raise IngestionError(f"{source.shown} has no sheet {sheet!r}; sheets: {', '.join(there)}")
            formulas = openpyxl.load_workbook(file, read_only=True) if has_formulas else book
            for name in there if sheet is None else [sheet]:
                lines = list(_lines(book[name], formulas[name] if has_formulas else None, problems))
                if lines:
                    others = [repr(one) for one in there if one != name]
                    if sheet is None and others:
                        told = f"sheets that are not imported: {', '.join(others)} (--sheet NAME takes one)"
                        problems.append(Problem(source.name, told, 0))
                    return name, lines
    except (*_DAMAGE, InvalidFileException) as error:
        if isinstance(error, IngestionError):
            raise
        raise IngestionError(f"{source.shown} is no Excel workbook, or damaged: {error}") from error
    raise IngestionError(f"{source.shown} holds nothing to import: its sheets are empty")


def _look(file: Any, source: Source) -> bool:
    """Tell whether cells have formulas.

    Raises
    ------
    IngestionError
        If the file says that it holds more than it can.
    """
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        size = sum(entry.file_size for entry in entries)
        if size > max(_MOST_BYTES, _MOST_TIMES * source.nbytes):
            raise IngestionError(f"{source.shown} says that its {source.nbytes:,} bytes hold {size:,}")
        for entry in entries:
            if entry.filename.startswith("xl/worksheets/"):
                with archive.open(entry) as sheet:
                    before = b""
                    while piece := sheet.read(1 << 20):
                        if b"<f>" in before + piece or b"<f " in before + piece:
                            return True
                        before = piece[-2:]
    return False


def _lines(sheet: Any, formulas: Any, problems: list[Problem]) -> Iterator[list[Any]]:
    """Yield the values of rows; empty rows are passed over, and errors are null."""
    sheet.reset_dimensions()  # which some programs write wrong
    errors: Counter[str] = Counter()
    unknown = 0
    if formulas is not None:
        formulas.reset_dimensions()
    beside = (row for row in (formulas.iter_rows() if formulas is not None else ()))
    for row in sheet.iter_rows():
        values = [None if cell.data_type == "e" else cell.value for cell in row]
        errors.update(str(cell.value) for cell in row if cell.data_type == "e")
        for value, cell in zip(values, next(beside, ()), strict=False):
            unknown += value is None and cell.data_type == "f"
        if any(value is not None for value in values):
            yield values
    for error, count in errors.items():
        problems.append(Problem(sheet.title, f"{count:,} cells of the error {error} are null", 0))
    if unknown:
        told = f"{unknown:,} formulas have no stored value, and are null: save the file in Excel, which computes them"
        problems.append(Problem(sheet.title, told, 0))


def _table(
    lines: list[list[Any]], names: Sequence[str], text: Sequence[str], problems: list[Problem]
) -> pa.Table:
    import pyarrow as pa

    header: list[Any] = list(names) or lines[0]
    lines = lines if names else lines[1:]
    width = max(len(header), max(map(len, lines), default=0))
    said = [None if name is None else str(name) for name in (*header, *[None] * (width - len(header)))]
    columns = [[line[at] if at < len(line) else None for line in lines] for at in range(width)]
    used = [at for at in range(width) if said[at] is not None or any(one is not None for one in columns[at])]
    called = numbered([said[at] or f"column_{at + 1}" for at in used])
    for at, name in zip(used, called, strict=True):
        if said[at] is None:
            problems.append(Problem(name, f"column {at + 1} of the sheet has no name", 0))
        elif said[at] != name:
            problems.append(
                Problem(name, f"another column is called {said[at]!r}, too: this one is {name!r}", 0)
            )
    made = [_array(name, columns[at], name in text, problems) for at, name in zip(used, called, strict=True)]
    return pa.table(made, names=called)


def _array(name: str, values: list[Any], is_text: bool, problems: list[Problem]) -> pa.Array:
    """Return the cells of a column."""
    import pyarrow as pa

    counts = Counter(type(value).__name__ for value in values if value is not None)
    kind = _TYPES.get(frozenset(counts), "string") if not is_text else "string"
    if kind == "timestamp[us]" and all(value is None or value.time() == _MIDNIGHT for value in values):
        kind = "date32[day]"
        values = [value and value.date() for value in values]
    if kind == "string" and set(counts) - {"str"}:
        if not is_text:
            told = ", ".join(f"{count:,} {one}" for one, count in counts.most_common())
            problems.append(
                Problem(name, f"its cells are of several types ({told}): it is stored as text", 0)
            )
        values = [None if value is None else str(value) for value in values]
    try:
        return pa.array(values, pa.type_for_alias(kind))
    except (OverflowError, pa.ArrowInvalid):  # integers of more than 64 bits
        return pa.array([value if value is None else float(value) for value in values], pa.float64())


# Types of the cells of a column -> type of Arrow.
_TYPES: Mapping[frozenset[str], str] = {
    frozenset({"bool"}): "bool",
    frozenset({"int"}): "int64",
    frozenset({"float"}): "float64",
    frozenset({"int", "float"}): "float64",
    frozenset({"datetime"}): "timestamp[us]",
    frozenset({"date"}): "date32[day]",
    frozenset({"time"}): "time64[us]",
    frozenset({"timedelta"}): "duration[us]",
}
