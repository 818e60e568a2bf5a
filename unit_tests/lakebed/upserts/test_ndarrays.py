"""NumPy arrays as Arrow arrays."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lakebed.upserts.ndarrays import as_arrow

UPSERTS = """
import sys
import pyarrow as pa
import lakebed
from lakebed.upserts.store import Budget, UpsertStore

base = lakebed.empty("mem://x")
for name in "kt":
    base.create_tensor(name, dtype="int64")
for budget in (Budget(), Budget(at_once=0)):
    target = UpsertStore(base, key=["k"], cursor=None, deleted=None, extracted="t", budget=budget)
    for numbers in ([1, 2, 3], [3, 1, 1, 4]):
        buffer = pa.py_buffer(b"".join(n.to_bytes(8, "little") for n in numbers))
        column = pa.Array.from_buffers(pa.int64(), len(numbers), [None, buffer])
        target.publish({"k": column, "t": column})
    target.merge()
assert base.max_len == 4
assert "pandas" not in sys.modules
"""

SYNC = """
import sys
from destination_deeplake.catalog import StreamPlan, WriteMode
from destination_deeplake.config import Place
from destination_deeplake.lake import Lake
from destination_deeplake.stream.writer import open_stream
from destination_deeplake.wire import Wire

schema = {"properties": {"id": {"type": "number"}, "at": {"type": "integer"}}}
plan = StreamPlan(None, "s", WriteMode.DEDUP, schema, primary_key=(("id",),), cursor=("at",))
record = '{"type":"RECORD","record":{"stream":"s","emitted_at":1,"data":{"id":%s,"at":%d}}}\\n'
for at, number in enumerate(("1", "2", "1.0")):
    writer = open_stream(Lake(Place(sys.argv[1])), plan)
    assert list(Wire({plan.key: writer.table}).feed((record % (number, at)).encode())) == []
    writer.publish()
    writer.finish()
    writer.commit("done")
    assert "pandas" not in sys.modules, number
"""


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "int64", "uint64", "float32", "float64"])
@pytest.mark.parametrize("count", [0, 1, 9])
def test_arrays_are_what_pyarrow_makes_of_them(dtype: str, count: int) -> None:
    values = (np.arange(2 * count) % 3).astype(dtype)
    absent = np.arange(count) % 4 == 1
    for given in (values[:count], values[::2], values[::-1][:count]):
        assert as_arrow(given).equals(pa.array(given))
        assert as_arrow(given, absent=absent).equals(pa.array(given, mask=absent))
    as_arrow(values).validate(full=True)


def test_rows_by_key_do_without_pandas() -> None:
    pytest.importorskip("pandas")
    subprocess.run([sys.executable, "-c", UPSERTS], check=True)


def test_syncs_by_key_do_without_pandas(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    subprocess.run([sys.executable, "-c", SYNC, str(tmp_path)], check=True)
