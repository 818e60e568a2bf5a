"""Arrays that are compressed by LZ4, one by one or in chunks: read singly, together, in pieces, and damaged."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakebed
from lakebed.codecs.lz4_block import Lz4
from lakebed.errors import FormatError
from lakebed.reading import bulk
from unit_tests.effort import PATIENCE

ROWS = 37
HOW = [{"sample_compression": "lz4"}, {"chunk_compression": "lz4"}]


@pytest.fixture(params=[1, 1 << 10, 1 << 30], ids=["threads", "both", "one thread"])
def threaded(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples above, at and below the size from which threads decode them."""
    monkeypatch.setattr(bulk, "_THREADED_FROM", request.param)


def arrays(shape: tuple[int, ...], dtype: str) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(3)
    return [rng.integers(0, 9, shape).astype(dtype) + row for row in range(ROWS)]


@pytest.mark.usefixtures("threaded")
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize(
    ("shape", "dtype"), [((), "int64"), ((16, 8), "float64"), ((1,), "uint8"), ((5, 0, 2), "int16")]
)
def test_every_way_of_reading_gives_the_values(
    tmp_path: Path, how: dict[str, str], shape: tuple[int, ...], dtype: str
) -> None:
    values = arrays(shape, dtype)
    with lakebed.empty(tmp_path / "ds") as ds:
        ds.create_tensor("x", dtype=dtype, **how).extend(values)
    x = lakebed.load(tmp_path / "ds", read_only=True).x
    expected = np.stack([np.atleast_1d(value) for value in values])
    for found in (x.numpy(), np.stack(x.numpy(aslist=True)), np.stack([x[i].numpy() for i in range(ROWS)])):
        assert found.dtype == np.dtype(dtype)
        assert np.array_equal(found, expected)
    picked = [5, 3, 3, 36, 0]
    assert np.array_equal(x[picked].numpy(), expected[picked])
    assert np.array_equal(x[4:30:3].numpy(), expected[4:30:3])
    listed = x.numpy(aslist=True)
    listed[0][...] = 0  # a caller's own
    assert np.array_equal(x.numpy(), expected)
    assert np.array_equal(listed[1], expected[1])


@pytest.mark.usefixtures("threaded")
@pytest.mark.parametrize("how", HOW)
def test_ragged_arrays_among_them_empty_ones(tmp_path: Path, how: dict[str, str]) -> None:
    values = [np.arange(row % 5 * 300, dtype=np.int32).reshape(-1, 3) for row in range(ROWS)]
    with lakebed.empty(tmp_path / "ds") as ds:
        ds.create_tensor("x", dtype="int32", **how).extend(values)
    found = lakebed.load(tmp_path / "ds", read_only=True).x.numpy(aslist=True)
    assert all(map(np.array_equal, found, values))
    assert [value.shape for value in found] == [value.shape for value in values]


@pytest.mark.usefixtures("threaded")
def test_a_damaged_sample_is_told_by_its_row(tmp_path: Path) -> None:
    """Without checksums, as 3.9.52 writes, the block itself tells; the error names the row whatever is read with it."""
    values = arrays((64, 32), "int32")
    with lakebed.empty(tmp_path / "ds") as ds:
        ds.create_tensor("x", dtype="int32", sample_compression="lz4").extend(values)
    for manifest in (tmp_path / "ds").rglob("manifest-*"):
        manifest.unlink()
    block = Lz4().encode(values[20].tobytes())
    (path,) = [path for path in (tmp_path / "ds").rglob("chunks/*") if block in path.read_bytes()]
    content = path.read_bytes()
    at = content.index(block)
    path.write_bytes(content[: at + 4] + b"\x00\x00\x00" + content[at + 7 :])
    x = lakebed.load(tmp_path / "ds", read_only=True).x
    for read in (x.numpy, lambda: x.numpy(aslist=True), x[20].numpy, x[10:30].numpy):
        with pytest.raises(FormatError, match=r"tensor 'x', row 20.*damaged lz4 block"):
            read()
    assert np.array_equal(x[:20].numpy(), np.stack(values[:20]))


def test_threads_decode_samples_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the first two samples waits until the other one is being decoded, too."""
    values = arrays((200, 200), "int64")
    with lakebed.empty(tmp_path / "ds") as ds:
        ds.create_tensor("x", dtype="int64", sample_compression="lz4").extend(values)
    both, decode, first_two = threading.Barrier(2, timeout=PATIENCE), Lz4.decode_into, [0, 1]

    def decode_together(codec: Lz4, data: Any, out: Any) -> None:
        if first_two:
            first_two.pop()
            both.wait()
        decode(codec, data, out)

    monkeypatch.setattr(Lz4, "decode_into", decode_together)
    monkeypatch.setattr("lakebed.config.THREADS", 2)
    assert np.array_equal(lakebed.load(tmp_path / "ds", read_only=True).x.numpy(), np.stack(values))
