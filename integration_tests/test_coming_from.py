"""The tables of the pages for those who come from other libraries: what they tell to write runs."""

from __future__ import annotations

import ast
import re
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

import lakebed

DOCS = Path(__file__).resolve().parent.parent / "docs"
SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_NEEDS = {
    "torch": r"pytorch|DataLoader|with_format",
    "datasets": r"\bhf\b|\"d\", \"lake/d\"|export\(\"huggingface",
    "usearch": "hnsw",
}
_ELSEWHERE = {
    'lakebed.import_from("coco", dir, "lake/coco")': "a COCO data set: tests of the importer",
    'lakebed.export_to("coco", ds, dir)': "boxes: tests of the exporter",
    'lakebed.load("d")': "what the line before it saved",
}


def _cells(page: str) -> list[tuple[str, str]]:
    lines = (DOCS / page).read_text(encoding="utf-8").splitlines()
    rows = [
        re.split(r"(?<!\\)\|", line)[1:-1]
        for line in lines
        if line.startswith("|") and not line.startswith("|---")
    ]
    return [(left, right) for left, right in rows]


def _is_code(text: str) -> bool:
    """Whether a span is a statement about a dataset, and no word, argument or shell command."""
    if "..." in text or not re.match(r"(ds\b|lakebed\.|for |del |dict\(|len\(|\()", text):
        return False
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return text != "ds"


def _spans() -> list[tuple[str, str]]:
    found = []
    for page in sorted(path.name for path in DOCS.glob("coming-from-*.md")):
        if page.startswith("coming-from-deep-lake"):
            continue  # names alone; the parity tests run them
        for left, right in _cells(page):
            told = left + right if right.strip().startswith("the same") else right
            found += [(page, text) for text in SPAN.findall(told) if _is_code(text)]
    return found


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the tables name: a dataset, a table, the address of a dataset, folders."""
    monkeypatch.chdir(tmp_path)
    uri = "lake/pets"
    ds = lakebed.empty(uri)
    ds.create_tensor("age", dtype="int64")
    ds.create_tensor("kind", htype="class_label", class_names=["cat", "dog"])
    ds.create_tensor("vec", htype="embedding", dtype="float32")
    ds.create_tensor("photo", htype="image", sample_compression="png")
    photo = np.zeros((6, 6, 3), np.uint8)
    ds.extend(
        {
            "age": [i % 9 for i in range(40)],
            "kind": ["cat", "dog"] * 20,
            "vec": np.eye(40, 4),
            "photo": [photo] * 40,
        }
    )
    ds.commit()
    ds.create_tag("v1")
    for name in ("photos/a", "photos/b"):
        Path(name).mkdir(parents=True)
        Image.fromarray(photo).save(f"{name}/1.png")
    ds.to_pandas(["age", "kind"]).to_csv("rows.csv", index=False)
    table = ds.to_arrow()
    return {
        "lakebed": lakebed,
        "ds": ds,
        "uri": uri,
        "table": pa.table({name: table.column(name) for name in table.column_names}),
        "columns": {"age": [1, 2]},
        "fn": lambda row: {"age": row["age"]},
        "view": ds[:3],
    }


@pytest.mark.parametrize(
    ("page", "text"), _spans(), ids=lambda value: value if isinstance(value, str) else None
)
def test_what_a_table_tells_runs(page: str, text: str, names: dict[str, Any]) -> None:
    if text in _ELSEWHERE:
        pytest.skip(_ELSEWHERE[text])
    for module, pattern in _NEEDS.items():
        if re.search(pattern, text) and find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    if re.search(r"for row in", text):
        text += "; break" if not text.endswith("break") else ""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "[fg] has no column for photo")
        exec(compile(text, page, "exec"), names)


def test_there_is_much_to_run() -> None:
    assert len(_spans()) >= 80
