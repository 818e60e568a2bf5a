"""What a thread may be the first to import works in an interpreter that has imported nothing but NumPy before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from unit_tests.forks import Forks

# Columns of datasets in memory, as in a bucket, are loaded by threads, several at once.
PROGRAMS = {
    "nulls, two columns": """
ds = lakebed.empty("mem://fresh")
for k in range(2): ds.create_tensor(f"c{k}", dtype="int64")
ds.extend({"c0": [1, None, 3] * 50, "c1": [1, 2, 3] * 50})
assert sum(len(b.rows) for b in lakebed.Loader(ds, 8)) == 150
""",
    "nulls, eight columns": """
ds = lakebed.empty("mem://fresh")
for k in range(8): ds.create_tensor(f"c{k}", dtype="int64")
ds.extend({f"c{k}": ([1, None, 3] if k % 2 else [1, 2, 3]) * 50 for k in range(8)})
assert sum(len(b.rows) for b in lakebed.Loader(ds, 8, threads=3)) == 150
""",
    "pictures": """
ds = lakebed.empty("mem://fresh")
for form in ("png", "jpeg", "webp", "bmp"): ds.create_tensor(form, htype="image", sample_compression=form)
picture = np.zeros((8, 8, 3), "uint8")
ds.extend({form: [picture] * 40 for form in ("png", "jpeg", "webp", "bmp")})
assert sum(len(b.rows) for b in lakebed.Loader(ds, 8, threads=3)) == 40
""",
    "texts, documents, lists, labels": """
ds = lakebed.empty("mem://fresh")
ds.create_tensor("t", htype="text"); ds.create_tensor("j", htype="json"); ds.create_tensor("l", htype="list")
ds.create_tensor("c", htype="class_label")
ds.extend({"t": ["a", None] * 20, "j": [{"a": 1}, None] * 20, "l": [[1], None] * 20, "c": ["x", None] * 20})
assert sum(len(b.rows) for b in lakebed.Loader(ds, 8, threads=3)) == 40
""",
    "many threads read, each another way": """
from concurrent.futures import ThreadPoolExecutor
ds = lakebed.empty("mem://fresh")
ds.create_tensor("n", dtype="int64"); ds.create_tensor("t", htype="text")
ds.extend({"n": [1, None, 3] * 9, "t": ["a", "b", None] * 9})
ways = [lambda: len(ds.n.numpy(aslist=True)), lambda: len(ds.to_arrow()), lambda: len(list(ds.batches(27))) * 27,
        lambda: len(ds.query("SELECT * WHERE n > 0")) + 9, lambda: len(ds.t.data()["value"]),
        lambda: sum(len(b.rows) for b in lakebed.Loader(ds, 4)), lambda: len(list(ds.rows()))]
with ThreadPoolExecutor(len(ways)) as pool: assert [f.result() for f in [pool.submit(w) for w in ways]] == [27] * 7
""",
    "a transform on threads": """
@lakebed.compute
def double(i, out): out.x.append(np.full((3,), i)); out.t.append(str(i)); out.p.append(np.zeros((4, 4, 3), "uint8"))
ds = lakebed.empty("mem://fresh")
ds.create_tensor("x"); ds.create_tensor("t", htype="text")
ds.create_tensor("p", htype="image", sample_compression="png")
double().eval(list(range(40)), ds, num_workers=4, scheduler="threaded", progressbar=False)
assert len(ds) == 40
""",
}


@pytest.fixture(scope="module")
def interpreter() -> Iterator[Forks]:
    """A process that has imported of other packages what `import lakebed` itself does, and forks."""
    with Forks("import numpy") as forks:
        yield forks


@pytest.mark.parametrize("name", PROGRAMS)
def test_threads_may_be_the_first(name: str, interpreter: Forks, tmp_path: Path) -> None:
    code = "import lakebed\nimport numpy as np\n" + PROGRAMS[name]
    failure = interpreter.run(code, tmp_path, {})
    assert failure is None, failure
