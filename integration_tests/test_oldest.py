"""An ordinary day with the oldest NumPy and Arrow that the project allows, and without pandas."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PYTHON = ROOT / ".cache/venvs/oldest/bin/python"

PROGRAM = """
import datetime, importlib.util, pathlib, sys
import numpy as np
import pyarrow as pa
import lakebed

assert importlib.util.find_spec("pandas") is None
print(np.__version__, pa.__version__)
rows = [{"n": i, "f": None if i % 3 else i / 2, "t": f"row {i}", "at": datetime.datetime(2026, 1, 1 + i),
         "l": list(range(i))} for i in range(9)]
ds = lakebed.from_rows("lake", rows)
ds.create_tensor("image", htype="image", sample_compression="jpeg")
ds.image.extend([np.full((8, 8, 3), i, np.uint8) for i in range(9)])
ds.commit("rows")
ds = lakebed.load("lake")
assert ds.to_arrow()["f"].to_pylist() == [row["f"] for row in rows]
assert ds.to_arrow()["at"].to_pylist() == [row["at"] for row in rows]
assert ds.query("SELECT * WHERE n > 5 AND f IS NOT NULL").n.numpy().ravel().tolist() == [6]
assert ds.query("SELECT count(*) AS c, max(f) AS m GROUP BY true").to_arrow().to_pylist() == [{"c": 9, "m": 3.0}]
assert len(ds.filter(lambda row: row.n.numpy()[0] > 6, progressbar=False)) == 2
seen = [int(n) for batch in lakebed.Loader(ds, 4, shuffle=True, threads=2) for n in batch["n"].ravel()]
assert sorted(seen) == list(range(9))
ds.map(lambda row: {"n": row["n"] * 10}, progressbar=False)
assert ds.n.numpy().ravel().tolist() == [10 * i for i in range(9)]
for kind in ("csv", "parquet"):
    lakebed.export_to(kind, ds[["n", "f", "t"]], kind, progressbar=False)
    source = kind if kind == "parquet" else next(iter(pathlib.Path(kind).rglob("*.csv")))
    again = lakebed.import_from(kind, source, f"from-{kind}", progressbar=False).dataset
    assert again.to_arrow().select(["n", "t"]).to_pylist() == ds.to_arrow().select(["n", "t"]).to_pylist()
"""


def test_an_ordinary_day(tmp_path: Path) -> None:
    if not PYTHON.exists():
        pytest.skip("make .cache/venvs/oldest/.ready")
    made = (
        subprocess.run([PYTHON, "-V"], capture_output=True, text=True, check=True)
        .stdout.split()[1]
        .split(".")[:2]
    )
    if made != [str(part) for part in sys.version_info[:2]]:
        pytest.skip("the compiled core is for another Python")
    program = tmp_path / "day.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [PYTHON, program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'format'}:{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    if sys.version_info < (3, 13):
        assert done.stdout.startswith("1.26."), done.stdout
