"""Excel workbooks: a sheet is a table, and its first row that is not empty names the columns.

A column has the type of its cells; cells of several types are stored as text, which is reported. A formula has the
value that was stored when the file was saved. A sheet has at most a million rows, and is read whole.
"""

from __future__ import annotations

import datetime as dt
import warnings
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Unpack
from xml.etree.ElementTree import ParseError

import pyarrow as pa

from lakebed.errors import IngestionError
from lakebed.importers.core.columns import FileOptions, Wishes, doubles, numbered
from lakebed.importers.core.packages import check_installed, damaged
from lakebed.importers.core.plan import Plan, Problem
from lakebed.importers.core.source import Source
from lakebed.importers.tables import dataframe

BATCHED = True

_SUFFIXES = (".xlsx", ".xlsm")
# Limits of the decompressed size, in bytes and relative to the file; a file that claims more is an attack on memory.
_MOST_BYTES = 1 << 30
_MOST_TIMES = 200
# Errors that openpyxl raises on damage: bad zip files, bad XML, and cells that hold no valid value.
_DAMAGE = (zipfile.BadZipFile, ParseError, LookupError, OSError, TypeError, ValueError, AttributeError)
_MIDNIGHT = dt.time()

# Types that occur in the cells of a column -> type of Arrow.
_TYPES = {
    frozenset({"bool"}): "bool",
    frozenset({"int"}): "int64",
    frozenset({"float"}): "float64",
    frozenset({"int", "float"}): "float64",
    frozenset({"datetime"}): "timestamp[us]",
    frozenset({"date"}): "date32[day]",
    frozenset({"time"}): "time64[us]",
    frozenset({"timedelta"}): "duration[us]",
}


def recognise(source: Source) -> str | None:
    """Describe a workbook."""
    return "an Excel workbook" if source.is_file and source.suffix in _SUFFIXES else None


def plan(
    source: Source,
    *,
    sheet: str | None = None,
    names: Sequence[str] = (),
    text: Sequence[str] = (),
    **options: Unpack[FileOptions],
) -> Plan:
    """Plan a tensor for each column.

    Parameters
    ----------
    source
        The file.
    sheet
        Name of the sheet; by default the first one that is not empty.
    names
        Names of the columns, for sheets without a row of names.
    text
        Columns that are stored as text.
    options
        Options of columns.
    """
    check_installed("Excel workbooks", "xlsx", "openpyxl")
    problems: list[Problem] = []
    called, lines = _read(source, sheet, problems)
    table = _table(lines, names, text, problems)
    found = dataframe.plan_of_table(table, source, Wishes.of(options), problems)
    found.found = f"sheet {called!r}, {table.num_rows:,} rows of {table.num_columns} columns"
    return found


rows = dataframe.rows


def _read(source: Source, sheet: str | None, problems: list[Problem]) -> tuple[str, list[list[Any]]]:
    """Return the name of a sheet, and the values of its rows that are not empty.

    Raises
    ------
    IngestionError
        If the workbook has no such sheet, all sheets are empty, or the file is not a workbook.
    """
    import openpyxl
    from openpyxl.utils.exceptions import InvalidFileException

    with (
        damaged(f"{source.shown} is not an Excel workbook, or is damaged", *_DAMAGE, InvalidFileException),
        source.open() as file,
        warnings.catch_warnings(),
    ):
        # Styles and input rules, about which the package warns, are not read.
        warnings.simplefilter("ignore", UserWarning)
        has_formulas = _has_formulas(file, source)
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
    raise IngestionError(f"{source.shown} holds nothing to import: its sheets are empty")


def _has_formulas(file: Any, source: Source) -> bool:
    """Return whether cells have formulas.

    Raises
    ------
    IngestionError
        If the file claims to hold more than it can.
    """
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        size = sum(entry.file_size for entry in entries)
        if size > max(_MOST_BYTES, _MOST_TIMES * source.nbytes):
            raise IngestionError(
                f"{source.shown} says that its {source.nbytes:,} bytes unpack to {size:,}, which is not plausible"
            )
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
    """Yield the values of rows that are not empty; errors are null."""
    sheet.reset_dimensions()  # ignore the stored dimensions, which some programs write wrongly
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
    header: list[Any] = list(names) or lines[0]
    lines = lines if names else lines[1:]
    width = max(len(header), max(map(len, lines), default=0))
    said = [None if name is None else str(name) for name in (*header, *[None] * (width - len(header)))]
    columns = [[line[at] if at < len(line) else None for line in lines] for at in range(width)]
    used = [at for at in range(width) if said[at] is not None or any(one is not None for one in columns[at])]
    wanted = [said[at] or f"column_{at + 1}" for at in used]
    called = numbered(wanted)
    for at, name in zip(used, called, strict=True):
        if said[at] is None:
            problems.append(Problem(name, f"column {at + 1} of the sheet has no name", 0))
    problems += doubles(wanted)
    made = [_array(name, columns[at], name in text, problems) for at, name in zip(used, called, strict=True)]
    return pa.table(made, names=called)


def _array(name: str, values: list[Any], is_text: bool, problems: list[Problem]) -> pa.Array:
    """Return the cells of a column as an Arrow array."""
    counts = Counter(type(value).__name__ for value in values if value is not None)
    kind = _TYPES.get(frozenset(counts), "string") if not is_text else "string"
    if kind == "timestamp[us]" and all(value is None or value.time() == _MIDNIGHT for value in values):
        kind = "date32[day]"
        values = [value and value.date() for value in values]
    if kind == "string" and set(counts) - {"str"}:
        if not is_text:
            told = ", ".join(f"{count:,} {one}" for one, count in counts.most_common())
            reason = f"its cells are of several types ({told}): it is stored as text"
            problems.append(Problem(name, reason, 0))
        values = [None if value is None else str(value) for value in values]
    try:
        return pa.array(values, pa.type_for_alias(kind))
    except (OverflowError, pa.ArrowInvalid):  # the integers need more than 64 bits
        return pa.array([value if value is None else float(value) for value in values], pa.float64())
