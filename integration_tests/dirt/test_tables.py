"""Tables and folders with dirt in them: what pandas and Hugging Face users would accept is there, or a line names it.

Each case is a name, files, what remains, and what is told. Files are texts (UTF-8), bytes, or functions that write.
"""

from __future__ import annotations

import datetime as dt
import gzip
import io
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import lakebed
from lakebed.errors import LakebedError

Content = str | bytes | Callable[[Path], object]


class Case(NamedTuple):
    """A source, and what becomes of it.

    Parameters
    ----------
    rows
        Column -> values; a text is what the error says.
    told
        Patterns of lines of the report, one for each line: the import tells these, and nothing else.
    """

    name: str
    files: Mapping[str, Content]
    rows: Mapping[str, list[Any]] | str
    told: tuple[str, ...] = ()
    how: str = "auto"
    options: Mapping[str, Any] = {}


def csv(name: str, text: str | bytes, rows: Any, *told: str, file: str = "t.csv", **options: Any) -> Case:
    how = options.pop("how", "auto")
    return Case(f"csv: {name}", {file: text}, rows, told, how, options)


def jsonl(name: str, text: str | bytes, rows: Any, *told: str, file: str = "t.jsonl", **options: Any) -> Case:
    return Case(f"json: {name}", {file: text}, rows, told, "auto", options)


def parquet(
    name: str, data: Mapping[str, Any], rows: Any, *told: str, file: str = "t.parquet", **options: Any
) -> Case:
    table = pa.table(dict(data))
    return Case(
        f"parquet: {name}", {file: lambda path: pq.write_table(table, path)}, rows, told, "auto", options
    )


def folder(
    name: str, files: Mapping[str, Content], kept: list[str] | str, *told: str, **options: Any
) -> Case:
    rows = kept if isinstance(kept, str) else {"file": kept}
    return Case(f"folder: {name}", files, rows, told, "auto", options)


def picture(kind: str, size: tuple[int, int] = (4, 3), mode: str = "RGB") -> bytes:
    out = io.BytesIO()
    Image.new(mode, size, 200).save(out, kind)
    return out.getvalue()


def bad(count: int, width: int) -> str:
    return f"{count} fields in place of {width}"


JPG, PNG = picture("JPEG"), picture("PNG")
WAV = b"RIFF" + (36 + 2).to_bytes(4, "little") + b"WAVEfmt " + bytes.fromhex(
    "10000000 0100 0100 401f0000 803e0000 0200 1000".replace(" ", "")
) + b"data" + (2).to_bytes(4, "little") + b"\0\0"  # fmt: skip
DAY, MOMENT = dt.date(2024, 2, 3), dt.datetime(2024, 2, 3, 4, 5, 6)  # noqa: DTZ001 - without a zone

CSV = [
    csv("plain", "a,b\n1,x\n2,y\n", {"a": [1, 2], "b": ["x", "y"]}),
    csv("byte order mark", b"\xef\xbb\xbfa,b\n1,x\n", {"a": [1], "b": ["x"]}),
    csv("byte order mark and quotes", b'\xef\xbb\xbf"a","b"\n"1","x"\n', {"a": [1], "b": ["x"]}),
    csv("CRLF", "a,b\r\n1,x\r\n2,y\r\n", {"a": [1, 2], "b": ["x", "y"]}),
    csv("CR of old Macs", "a,b\r1,x\r2,y\r", {"a": [1, 2], "b": ["x", "y"]}),
    csv("CR and sep=", "sep=;\ra;b\r1;x\r", {"a": [1], "b": ["x"]}),
    csv("LF after CRLF", "a,b\r\n1,x\n2,y\r\n", {"a": [1, 2], "b": ["x", "y"]}),
    csv("no end of the last line", "a,b\n1,x", {"a": [1], "b": ["x"]}),
    csv("empty lines", "a,b\n\n1,x\n\n\n2,y\n\n", {"a": [1, 2], "b": ["x", "y"]}),
    csv("empty lines first", "\n\na,b\n1,x\n", {"a": [1], "b": ["x"]}),
    csv("UTF-16 of spreadsheets", "a,b\n1,ü\n".encode("utf-16"), {"a": [1], "b": ["ü"]}, encoding="utf-16"),
    csv("UTF-16 that nobody names", "a,b\n1,ü\n".encode("utf-16"), "--encoding"),
    csv("latin-1", "a,b\n1,ü\n".encode("latin-1"), {"a": [1], "b": ["ü"]}, encoding="latin-1"),
    csv("latin-1 that nobody names", "a,b\n1,ü\n".encode("latin-1"), "--encoding"),
    csv("cp1252", "a,b\n1,“x”\n".encode("cp1252"), {"a": [1], "b": ["“x”"]}, encoding="cp1252"),
    csv("semicolons", "a;b\n1;x\n", {"a": [1], "b": ["x"]}),
    csv("semicolons and commas in numbers", "a;b\n1,5;x\n2,5;y\n", {"a": ["1,5", "2,5"], "b": ["x", "y"]}),
    csv("tabs in .csv", "a\tb\n1\tx\n", {"a": [1], "b": ["x"]}),
    csv("pipes", "a|b\n1|x\n", {"a": [1], "b": ["x"]}),
    csv("sep= of spreadsheets", "sep=;\na;b\n1;x\n", {"a": [1], "b": ["x"]}),
    csv("upper-case suffix", "a\n1\n", {"a": [1]}, file="T.CSV"),
    csv("gzip", gzip.compress(b"a\n1\n"), {"a": [1]}, file="t.csv.gz"),
    csv("tsv", "a\tb\n1\tx,y\n", {"a": [1], "b": ["x,y"]}, file="t.tsv"),
    csv("no suffix", "a,b\n1,x\n", {"a": [1], "b": ["x"]}, file="t", how="csv"),
    csv("spaces and emoji in names", "my col,🎉\n1,x\n", {"my col": [1], "🎉": ["x"]}, file="my table 🎉.csv"),
    csv("quotes", 'a,b\n1,"x,y"\n2,"say ""hi"""\n', {"a": [1, 2], "b": ["x,y", 'say "hi"']}),
    csv("lines in quotes", 'a,b\n1,"x\ny"\n', {"a": [1], "b": ["x\ny"]}),
    csv("quoted numbers", 'a\n"1"\n"2"\n', {"a": [1, 2]}),
    csv("quoted nothing", 'a,b\n1,""\n2,\n', {"a": [1, 2], "b": ["", None]}),
    csv("single quotes", "a,b\n1,'x'\n", {"a": [1], "b": ["'x'"]}),
    csv("a quote that is not closed", 'a,b\n1,"x\n2,y\n', "is not closed"),
    csv("inches", 'a,b\n1,5" disk\n2,y\n', {"a": [1, 2], "b": ['5" disk', "y"]}),
    csv("ragged rows", "a,b\n1,x\n2\n3,y,z\n4,w\n", {"a": [1, 4], "b": ["x", "w"]}, bad(1, 2), bad(3, 2)),
    csv("comma behind every row", "a,b,\n1,x,\n", {"a": [1], "b": ["x"], "column": [None]}, "tensor 'column'"),
    csv("comma behind rows alone", "a,b\n1,x,\n2,y\n", {"a": [2], "b": ["y"]}, bad(3, 2)),
    csv("index of pandas", ",a\n0,5\n1,6\n", {"column": [0, 1], "a": [5, 6]}, "tensor 'column'"),
    csv("two columns of a name", "a,a\n1,2\n", {"a": [1], "a_2": [2]}, "another column is called 'a'"),
    csv("names of methods", "path,info,index\nx,1,2\n", {"path": ["x"], "info": [1], "index_": [2]}, "'index_'"),
    csv("dots and commas in names", '"a.b","a,b"\n1,2\n', {"a_b": [1], "a_b_": [2]}, "'a_b'", "'a_b_'"),
    csv("spaces around names", " a , b \n1,2\n", {"a": [1], "b": [2]}, "tensor 'a'", "tensor 'b'"),
    csv("spaces around numbers", "a,b\n1, 2\n3, 4\n", {"a": [1, 3], "b": [" 2", " 4"]}),
    csv("NULL among numbers", "a\n1\nNULL\n", {"a": ["1", "NULL"]}, "int64 but for 1 times 'NULL': nulls=NULL"),
    csv("NULL that is said", "a\n1\nNULL\n", {"a": [1, None]}, nulls=["NULL"]),
    csv("N/A and NA", "a\n1.5\nN/A\nNA\nNA\n", {"a": ["1.5", "N/A", "NA", "NA"]}, "2 times 'NA', 1 times 'N/A'"),
    csv("NA as a country", "a\nNA\nDE\n", {"a": ["NA", "DE"]}),
    csv("NaN", "a\n1.5\nNaN\nnan\n", {"a": [1.5, float("nan"), float("nan")]}),
    csv("inf", "a\n1.5\ninf\n-inf\n", {"a": [1.5, float("inf"), float("-inf")]}),
    csv("dash for nothing", "a\n1\n-\n", {"a": ["1", "-"]}, "nulls=-"),
    csv("empty fields", "a,b\n1,\n,x\n", {"a": [1, None], "b": [None, "x"]}),
    csv("a column of nothing", "a,b\n1,\n2,\n", {"a": [1, 2], "b": [None, None]}),
    csv("only names", "a,b\n", "no rows below the names"),
    csv("nothing", "", "Empty CSV"),
    csv("one column", "a\n1\n2\n", {"a": [1, 2]}),
    csv("booleans", "a,b\ntrue,TRUE\nFalse,\n", {"a": [True, False], "b": [True, None]}),
    csv("yes and no", "a\nyes\nno\n", {"a": ["yes", "no"]}),
    csv("zero and one", "a\n0\n1\n", {"a": [0, 1]}),
    csv("integers and floats", "a\n1\n2.5\n", {"a": [1.0, 2.5]}),
    csv("numbers and words", "a\n1\nx\n2.5\n", {"a": ["1", "x", "2.5"]}),
    csv("large integers", "a\n9223372036854775807\n1\n", {"a": [2**63 - 1, 1]}),
    csv("larger integers", "a\n9223372036854775808\n1\n", {"a": [2**63, 1]}),
    csv("too large integers", "a\n18446744073709551616\n1\n", {"a": ["18446744073709551616", "1"]}, "fit 64 bits"),
    csv("large integers among floats", "a\n9007199254740993\n1.5\n", {"a": [2.0**53, 1.5]}, "993 in row 1"),
    csv("scientific", "a\n1e5\n2.5E-3\n", {"a": [1e5, 0.0025]}),
    csv("leading zeros", "a\n007\n100\n", {"a": ["007", "100"]}),
    csv("telephones", "a\n+49123\n+1555\n", {"a": ["+49123", "+1555"]}),
    csv("thousands", 'a\n"1,000"\n"2,500"\n', {"a": ["1,000", "2,500"]}),
    csv("money", "a\n$1\n$2.50\n", {"a": ["$1", "$2.50"]}),
    csv("percent", "a\n10%\n20%\n", {"a": ["10%", "20%"]}),
    csv("hexadecimal", "a\n0x10\n3\n", {"a": ["0x10", "3"]}),
    csv("ISO dates", "a\n2024-02-03\n\n", {"a": [DAY]}),
    csv("ISO times", "a,b\n2024-02-03 04:05:06,2024-02-03T04:05:06\n", {"a": [MOMENT], "b": [MOMENT]}),
    csv("times with zones", "a\n2024-02-03T04:05:06Z\n", {"a": [MOMENT.replace(tzinfo=dt.UTC)]}),
    csv("dates of Germany", "a\n03.02.2024\n", {"a": ["03.02.2024"]}),
    csv("dates of America", "a\n02/03/2024\n", {"a": ["02/03/2024"]}),
    csv("dates and words", "a\n2024-02-03\nsoon\n", {"a": ["2024-02-03", "soon"]}),
    csv("comments", "# made by a tool\na,b\n1,x\n2,y\n", "fields in place of 1"),
    csv("a zero byte", "a,b\n1,x\0y\n", {"a": [1], "b": ["x\0y"]}),
    csv("long text", "a\n" + "x" * 1_000_000 + "\n", {"a": ["x" * 1_000_000]}),
    csv("many columns", ",".join(f"c{n}" for n in range(300)) + "\n" + ",".join(["1"] * 300) + "\n",
        {f"c{n}": [1] for n in range(300)}),
    Case("csv: two files of the same columns", {"d/a.csv": "x\n1\n", "d/b.csv": "x\n2\n"}, {"x": [1, 2]}),
    Case("csv: files of other columns", {"d/a.csv": "x\n1\n", "d/b.csv": "y\n2\n"}, "import files with other columns"),
    Case("csv: files of columns in another order", {"d/a.csv": "x,y\n1,2\n", "d/b.csv": "y,x\n2,1\n"},
         "import files with other columns"),
    Case("csv: splits", {"d/train.csv": "x\n1\n", "d/test.csv": "x\n2\n", "d/.hidden.csv": "y\n"}, {"x": [1, 2]}),
]  # fmt: skip

JSON = [
    jsonl("lines", '{"a": 1, "b": "x"}\n{"a": 2, "b": null}\n', {"a": [1, 2], "b": ["x", None]}),
    jsonl("ndjson", '{"a": 1}\n', {"a": [1]}, file="t.ndjson"),
    jsonl("upper-case suffix", '{"a": 1}\n', {"a": [1]}, file="T.JSONL"),
    jsonl("lines called .json", '{"a": 1}\n{"a": 2}\n', {"a": [1, 2]}, file="t.json"),
    jsonl("byte order mark", b'\xef\xbb\xbf{"a": 1}\n{"a": 2}\n', {"a": [1, 2]}),
    jsonl("CRLF and empty lines", '{"a": 1}\r\n\r\n{"a": 2}\r\n', {"a": [1, 2]}),
    jsonl("a list", '[{"a": 1}, {"a": 2}]', {"a": [1, 2]}, file="cars.json"),
    jsonl("a list over lines", '[\n  {"a": 1},\n  {"a": 2}\n]\n', {"a": [1, 2]}, file="cars.json"),
    jsonl("a list called .jsonl", '[{"a": 1}, {"a": 2}]', {"a": [1, 2]}),
    jsonl("columns", '{"a": [1, 2], "b": ["x", "y"]}', {"a": [1, 2], "b": ["x", "y"]}, file="t.json"),
    jsonl("to_json of pandas", pd.DataFrame({"a": [1, 2]}).to_json(), "pandas.read_json", file="t.json"),
    jsonl("records of pandas", pd.DataFrame({"a": [1, None]}).to_json(orient="records"), {"a": [1.0, None]},
          file="t.json"),
    jsonl("rows below a key", '{"version": 1, "data": [{"a": 1}]}', r"\['data'\]", file="t.json"),
    jsonl("UTF-16", '[{"a": "ü"}]'.encode("utf-16"), {"a": ["ü"]}, file="t.json"),
    jsonl("keys that come and go", '{"a": 1}\n{"b": 2}\n', {"a": [1, None], "b": [None, 2]}),
    jsonl("integers and floats", '{"a": 1}\n{"a": 2.5}\n', {"a": [1.0, 2.5]}),
    jsonl("numbers and texts", '{"a": 1}\n{"a": "x"}\n', {"a": ["1", '"x"']}),
    jsonl("NaN of Python", '{"a": NaN}\n{"a": 1.5}\n', {"a": [float("nan"), 1.5]}),
    jsonl("a broken line", '{"a": 1}\n{"a": \n{"a": 3}\n', {"a": [1, 3]}, "not JSON"),
    jsonl("a comma behind each line", '{"a": 1},\n{"a": 2},\n', "no object of JSON"),
    jsonl("a file that was cut", '[{"a": 1}, {"a"', "not JSON", file="t.json"),
    jsonl("nothing", "", "holds no object", file="t.jsonl"),
    jsonl("lists of boxes", '{"b": [[1, 2, 3, 4]]}\n{"b": []}\n', {"b": ["[[1, 2, 3, 4]]", "[]"]}),
    jsonl("dots in keys", '{"a.b": 1}\n', {"a_b": [1]}, "'a_b'"),
    jsonl("a key of nothing", '{"": 1}\n', {"column": [1]}, "'column'"),
    jsonl("emoji and escapes", '{"a": "\\ud83d\\ude00 ü"}\n', {"a": ["😀 ü"]}),
    jsonl("half a surrogate", '{"a": "\\ud83d"}\n{"a": "x"}\n', {"a": ["x"]}, "surrogate"),
    Case("json: lists as splits", {"d/train.json": '[{"a": 1}]', "d/test.json": '[{"a": 2}]'}, {"a": [1, 2]}),
]  # fmt: skip

PARQUET = [
    parquet("plain", {"a": [1, None], "b": ["x", ""]}, {"a": [1, None], "b": ["x", ""]}),
    parquet("no suffix", {"a": [1]}, {"a": [1]}, file="part-00000"),
    parquet("another suffix", {"a": [1]}, {"a": [1]}, file="part-00000-c000.snappy"),
    parquet("upper-case suffix", {"a": [1]}, {"a": [1]}, file="T.PARQUET"),
    parquet("nulls inside lists", {"a": [[1, None], [2]]}, {"a": [[2]]}, "null inside a list"),
    parquet("texts of views", {"a": pa.array(["x", None], pa.string_view())}, {"a": ["x", None]}),
    parquet("decimals", {"a": pa.array([1, None], pa.decimal128(10, 2))}, {"a": ["1.00", None]}),
    parquet("nanoseconds", {"a": pa.array([1, None], pa.timestamp("ns"))}, {"a": [pd.Timestamp(1), None]}),
    parquet("a column of pandas' index", {"a": [1], "__index_level_0__": [5]}, {"a": [1], "__index_level_0__": [5]}),
    Case("parquet: cut", {"t.parquet": b"PAR1" + bytes(20)}, "not a Parquet file|damaged"),
    Case("parquet: nothing", {"t.parquet": b""}, "not a Parquet file|damaged|not a table"),
    Case("parquet: called .csv", {"t.csv": lambda path: pq.write_table(pa.table({"a": [1]}), path)}, {"a": [1]}),
    Case("parquet: a success file of Spark beside it",
         {"d/_SUCCESS": b"", "d/part-0.parquet": lambda path: pq.write_table(pa.table({"a": [1]}), path)},
         {"a": [1]}),
]  # fmt: skip

FOLDERS = [
    folder("classes", {"d/cat/1.jpg": JPG, "d/dog/2.jpg": JPG}, ["cat/1.jpg", "dog/2.jpg"]),
    folder("upper-case suffixes", {"d/1.JPG": JPG, "d/2.Jpeg": JPG}, ["1.JPG", "2.Jpeg"]),
    folder("spaces and emoji", {"d/my cat 🐈/a b.jpg": JPG}, ["my cat 🐈/a b.jpg"]),
    folder("litter of systems", {"d/1.jpg": JPG, "d/.DS_Store": b"x", "d/Thumbs.db": b"x", "d/._1.jpg": b"x"},
           ["1.jpg"]),
    folder("JPEG that is called PNG", {"d/1.png": JPG, "d/2.png": PNG, "d/3.png": PNG, "d/4.png": PNG},
           ["1.png", "2.png", "3.png", "4.png"], "JPEG encoded anew as PNG"),
    folder("PNG that is called JPEG", {"d/1.jpg": JPG, "d/2.jpg": JPG, "d/3.jpg": PNG}, ["1.jpg", "2.jpg", "3.jpg"],
           "PNG encoded anew as JPEG at quality 95"),
    folder("an image that was cut", {"d/1.jpg": JPG, "d/2.jpg": JPG[:200]}, ["1.jpg"], "2.jpg"),
    folder("an image of no bytes", {"d/1.jpg": JPG, "d/2.jpg": b""}, ["1.jpg"], "2.jpg"),
    folder("text that is called JPEG", {"d/1.jpg": JPG, "d/2.jpg": b"<html>404</html>"}, ["1.jpg"], "2.jpg"),
    folder("a README", {"d/1.jpg": JPG, "d/2.jpg": JPG, "d/README.md": "hi"}, ["1.jpg", "2.jpg"], "README.md"),
    folder("captions", {"d/1.jpg": JPG, "d/1.txt": "a cat"}, ["1.jpg"]),
    folder("a table of labels", {"d/1.jpg": JPG, "d/2.jpg": JPG, "d/labels.csv": "a\n1\n"}, ["1.jpg", "2.jpg"],
           "lakebed import csv"),
    folder("splits", {"d/train/cat/1.jpg": JPG, "d/val/cat/2.jpg": JPG}, ["train/cat/1.jpg", "val/cat/2.jpg"]),
    folder("images and sounds", {"d/1.jpg": JPG, "d/1.wav": WAV}, ["1.jpg"]),
    folder("sounds", {"d/a/1.wav": WAV, "d/b/2.WAV": WAV}, ["a/1.wav", "b/2.WAV"]),
    folder("gray, colour and alpha", {"d/1.png": PNG, "d/2.png": picture("PNG", mode="L"),
                                      "d/3.png": picture("PNG", mode="RGBA")}, ["1.png", "2.png", "3.png"]),
    folder("nothing that is known", {"d/a.docx": b"x"}, "is not recognised"),
    folder("folders of nothing", {"d/a/.keep": b""}, "holds no files"),
    folder("arrays", {"d/1.npy": lambda path: np.save(path, np.arange(3))}, ["1.npy"]),
]  # fmt: skip

CASES = [*CSV, *JSON, *PARQUET, *FOLDERS]


def write(root: Path, files: Mapping[str, Content]) -> Path:
    """Write the files, and return the one, or the folder that they are in."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str | bytes):
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        else:
            content(path)
    first = next(iter(files))
    return root / first.partition("/")[0]


def same(found: list[Any], wanted: list[Any]) -> bool:
    """Whether values are the same, NaN being NaN."""
    return len(found) == len(wanted) and all(
        one == other or (one != one and other != other) for one, other in zip(found, wanted, strict=True)
    )


def test_there_are_many() -> None:
    assert len(CASES) >= 100
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_remains(case: Case, tmp_path: Path) -> None:
    source = write(tmp_path, case.files)

    def brought() -> Any:
        return lakebed.import_from(case.how, source, "mem://", progressbar=False, **case.options)

    if isinstance(case.rows, str):
        with pytest.raises(LakebedError, match=case.rows):
            brought()
        return
    report = brought()
    ds = report.dataset
    lines = [f"{one.where}: {one.reason}" for one in report.problems if not one.rows]
    lines += [f"{one['where']}: {one['reason']}" for one in report.left_out]
    lines += report.changes
    for name, values in case.rows.items():
        found = ds[name].to_arrow().to_pylist()
        assert same(found, values), f"{name}: {found!r:.300}"
        assert name in ds.tensors
    if "file" not in case.rows:
        assert set(ds.tensors) - {"split"} == set(case.rows)
    assert len(lines) == len(case.told), lines
    for pattern, line in zip(case.told, lines, strict=True):
        assert re.search(pattern, line), lines
