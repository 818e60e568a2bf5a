"""Excel workbooks: what cells become, and what is told of those that no type fits."""

from __future__ import annotations

import datetime as dt
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from PIL import Image

from lakebed.errors import IngestionError
from lakebed.importers.core.report import ImportReport
from lakebed.importers.tables import xlsx
from unit_tests.lakebed.importers.sources import imported


def written(path: Path, sheets: dict[str, Sequence[Sequence[Any]]]) -> Path:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, lines in sheets.items():
        sheet = book.create_sheet(name)
        for line in lines:
            sheet.append(list(line))
    book.save(path)
    return path


def brought(path: Path, **options: Any) -> ImportReport:
    return imported("auto", path, **options)


def told(report: ImportReport) -> dict[str, str]:
    return {problem.where: problem.reason for problem in report.problems}


def test_cells_are_what_they_are_in_excel(tmp_path: Path) -> None:
    """Also below empty rows and between them; a date is one that has no time of day in all cells."""
    day, moment = dt.datetime.fromisoformat("2024-02-03"), dt.datetime.fromisoformat("2024-02-03T04:05")
    path = written(
        tmp_path / "a.xlsx",
        {
            "cars": [
                [],
                ["name", "n", "x", "yes", "born", "seen", "at", "took", 2024, "void"],
                ["ü", 1, 1, True, day, day, dt.time(4, 5), dt.timedelta(hours=30), "a", None],
                [],
                [None, 2**40, 2.5, False, day, moment, None, None, None, None],
            ]
        },
    )
    report = brought(path)
    assert report.format == "xlsx"
    assert not report.problems
    rows = list(report.dataset.to_arrow().to_pylist())
    assert rows == [
        {
            "name": "ü", "n": 1, "x": 1.0, "yes": True, "born": day.date(), "seen": day, "at": dt.time(4, 5),
            "took": dt.timedelta(hours=30), "2024": "a", "void": None,
        },
        {
            "name": None, "n": 2**40, "x": 2.5, "yes": False, "born": day.date(), "seen": moment, "at": None,
            "took": None, "2024": None, "void": None,
        },
    ]  # fmt: skip


def test_what_no_type_fits_is_told(tmp_path: Path) -> None:
    path = written(
        tmp_path / "a.xlsx",
        {
            "empty": [],
            "one": [
                ["mixed", "error", "sum", None, "mixed"],
                [1, "#DIV/0!", "=A2*2", 5, 7],
                ["x", 2, 3, None, 8],
            ],
            "two": [["q"], [1]],
        },
    )
    report = brought(path)
    assert report.dataset.to_arrow().to_pydict() == {
        "mixed": ["1", "x"],
        "error": [None, 2],
        "sum": [None, 3],
        "column_4": [5, None],
        "mixed_2": [7, 8],
    }
    assert told(report).keys() == {"mixed", "one", "column_4", "mixed_2", "a.xlsx"}
    reasons = " ".join(problem.reason for problem in report.problems)
    for part in (
        "1 int, 1 str",
        "1 cells of the error #DIV/0!",
        "1 formulas have no stored value",
        "'empty', 'two'",
    ):
        assert part in reasons
    assert not brought(path, sheet="two").problems
    assert brought(path, sheet="two", names=["z"]).dataset.z.text() == ["q", "1"]
    assert brought(path, sheet="one", text=["mixed_2"]).dataset.mixed_2.text() == ["7", "8"]
    with pytest.raises(IngestionError, match="no sheet 'three'; sheets: empty, one, two"):
        brought(path, sheet="three")
    with pytest.raises(IngestionError, match="empty"):
        brought(path, sheet="empty")


def test_cells_may_name_files_and_classes(tmp_path: Path) -> None:
    Image.new("RGB", (4, 3)).save(tmp_path / "1.png")
    path = written(tmp_path / "a.xlsx", {"s": [["photo", "kind"], ["1.png", "cat"]]})
    ds = imported("excel", path, media={"photo": "image"}, labels=["kind"]).dataset
    assert ds.photo[0].numpy().shape == (3, 4, 3)
    assert ds.kind.info["class_names"] == ["cat"]


def test_what_is_no_workbook_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "a.xlsx", {"s": [["x"], [1]]})
    cut = tmp_path / "cut.xlsx"
    cut.write_bytes(path.read_bytes()[:-100])
    with zipfile.ZipFile(path) as whole, zipfile.ZipFile(tmp_path / "bad.xlsx", "w") as bad:
        for entry in whole.infolist():
            data = whole.read(entry)
            bad.writestr(entry, data[: len(data) // 2] if "sheet1" in entry.filename else data)
    with zipfile.ZipFile(tmp_path / "other.xlsx", "w") as other:
        other.writestr("word/document.xml", "<a/>")
    for name in ("cut", "bad", "other"):
        with pytest.raises(IngestionError, match="not an Excel workbook, or is damaged"):
            brought(tmp_path / f"{name}.xlsx")
    monkeypatch.setattr(xlsx, "_MOST_BYTES", 100)
    monkeypatch.setattr(xlsx, "_MOST_TIMES", 1)
    with pytest.raises(IngestionError, match="bytes unpack to"):
        brought(path)
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    monkeypatch.setattr("lakebed.importers.core.packages.find_spec", lambda name: None)
    with pytest.raises(IngestionError, match=r"pip install 'lakebed\[xlsx\]'"):
        brought(path)
