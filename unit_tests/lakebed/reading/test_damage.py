"""Damaged and missing chunk files: reported with dataset, tensor and row, never returned as data."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lakebed
from lakebed.documents.manifest import BLOCK

ROWS = 90_000
NUMBERS = np.arange(ROWS, dtype="<i8")
WORDS = [f"word {i}" for i in range(2000)]


@pytest.fixture(scope="module", params=["head", "committed"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset with one chunk of 720 KB, one small one of text, and one of masked numbers."""
    path = tmp_path_factory.mktemp("damage") / "ds"
    ds = lakebed.empty(path)
    ds.create_tensor("big", create_id_tensor=False, create_shape_tensor=False)
    ds.create_tensor("g/words", htype="text", create_id_tensor=False)
    ds.create_tensor("holes", create_id_tensor=False, create_shape_tensor=False)
    with ds:
        ds.big.extend(NUMBERS)
        ds["g/words"].extend(WORDS)
        ds.holes.extend(pa.array([1, None, 3] * 500))
        if request.param == "committed":
            ds.commit("sealed")
    return path


def chunk_file(path: Path, tensor: str) -> Path:
    """The only chunk file of a tensor."""
    (found,) = path.glob(f"versions/*/{tensor}/chunks/*")
    return found


@contextmanager
def changed(file: Path, change: Callable[[bytearray], bytes | bytearray | None]) -> Iterator[None]:
    """Change the bytes of a file, and put them back at the end; no open reader maps the changed file."""
    original = file.read_bytes()
    data = bytearray(original)
    replace(file, change(data) or data)
    try:
        yield
    finally:
        replace(file, original)


def replace(file: Path, data: bytes | bytearray) -> None:
    """Write a file under its name without touching those who have the old one open."""
    beside = file.with_name(file.name + ".new")
    beside.write_bytes(data)
    beside.replace(file)


def flipped(at: int) -> Callable[[bytearray], None]:
    """Flip one bit."""

    def change(data: bytearray) -> None:
        data[at] ^= 1 << (at % 8)

    return change


READS: dict[str, Callable[[lakebed.Dataset, str], Any]] = {
    "all": lambda ds, name: ds[name].numpy(aslist=True),
    "batches": lambda ds, name: list(ds.batches(100, [name])),
    "shuffled": lambda ds, name: list(
        ds[[name]][np.random.default_rng(0).permutation(len(ds[name]))].batches(100)
    ),
    "arrow": lambda ds, name: pa.RecordBatchReader.from_stream(ds[[name]]).read_all(),
    "rows": lambda ds, name: [ds[name][i].numpy() for i in range(0, len(ds[name]), 37)],
    "list": lambda ds, name: ds[name][[5, 1, 2, 3, 4]].numpy(aslist=True),
}


@contextmanager
def reported(
    how: str, path: Path, tensor: str, kind: type[lakebed.CorruptError], words: str
) -> Iterator[None]:
    """Expect an error that names dataset, tensor and row; the Arrow C interface passes on its text only."""
    if how == "arrow":
        with pytest.raises(pa.ArrowInvalid, match=words):
            yield
        return
    with pytest.raises(kind, match=words) as caught:
        yield
    assert caught.value.tensor == tensor
    assert caught.value.row is not None
    assert str(path) in (caught.value.dataset or "")


@pytest.mark.parametrize("how", READS)
@pytest.mark.parametrize("tensor", ["big", "g/words", "holes"])
def test_a_flipped_bit_anywhere_is_noticed(path: Path, tensor: str, how: str) -> None:
    """Each way of reading the whole chunk raises ChecksumError with tensor and row, wherever the bit is."""
    if tensor == "big" and how in ("rows", "list"):
        pytest.skip("a few rows of a large chunk read blocks, see below")
    file = chunk_file(path, tensor)
    size = file.stat().st_size
    for at in sorted({0, 7, 20, size // 2, size - 1, *range(0, size, size // 6)}):
        words = f"tensor '{tensor}', row .*{file.name}"
        with changed(file, flipped(at)), reported(how, path, tensor, lakebed.errors.ChecksumError, words):
            READS[how](lakebed.load(path, read_only=True), tensor)
    READS[how](lakebed.load(path, read_only=True), tensor)


def test_single_rows_of_a_large_chunk_verify_what_they_touch(path: Path) -> None:
    """One row reads and checks its own block, and needs no header; rows of sound blocks stay readable."""
    file = chunk_file(path, "big")
    size = file.stat().st_size
    assert size > 2 * BLOCK
    for at in (50, BLOCK - 1, BLOCK, 2 * BLOCK + 5, size - 1):
        with changed(file, flipped(at)):
            damaged = at // BLOCK
            for row in (0, BLOCK // 8, 2 * BLOCK // 8, ROWS - 1):
                ds = lakebed.load(path, read_only=True)
                first = size - 8 * (ROWS - row)
                if damaged in {first // BLOCK, (first + 7) // BLOCK}:
                    with pytest.raises(lakebed.errors.ChecksumError) as caught:
                        ds.big[row].numpy()
                    assert (caught.value.tensor, caught.value.row) == ("big", row)
                    assert str(path) in (caught.value.dataset or "")
                else:
                    assert ds.big[row].numpy().tolist() == [row]


def test_few_rows_of_a_large_chunk_are_read_from_it(path: Path) -> None:
    """Rows one by one, or a few at once, are found without the whole chunk, and are the right ones."""
    ds = lakebed.load(path, read_only=True)
    assert [ds.big[i].numpy()[0] for i in (0, 50_000, 89_999)] == [0, 50_000, 89_999]
    assert ds.big[[89_999, 5, 40_000]].numpy().tolist() == [[89_999], [5], [40_000]]
    for i in range(0, ROWS, 4000):
        assert ds.big[i].numpy()[0] == i


@pytest.mark.parametrize("how", ["all", "batches", "arrow", "list", "first"])
@pytest.mark.parametrize("cut", [1, 1000, -5])
def test_a_chunk_of_another_length_is_noticed(path: Path, how: str, cut: int) -> None:
    """A truncated or longer chunk file is damage, found by any read that needs what is missing."""
    read = READS.get(how, lambda ds, name: ds[name][len(ds[name]) - 1].numpy())
    for tensor in ("big", "g/words"):
        with changed(chunk_file(path, tensor), lambda data: data + b"added" if cut < 0 else data[:-cut]):
            if tensor == "big" and (how == "list" or (cut < 0 and how == "first")):
                continue  # the blocks that this read touches are whole
            with reported(how, path, tensor, lakebed.errors.CorruptError, f"tensor '{tensor}', row "):
                read(lakebed.load(path, read_only=True), tensor)


@pytest.mark.parametrize("how", [*READS, "first"])
def test_a_missing_chunk_is_named(path: Path, how: str) -> None:
    """GetChunkError says which chunk of which tensor is gone; other tensors stay readable."""
    file = chunk_file(path, "big")
    read = READS.get(how, lambda ds, name: ds[name][0].numpy())
    hidden = file.with_suffix(".away")
    file.rename(hidden)
    try:
        ds = lakebed.load(path, read_only=True)
        with reported(how, path, "big", lakebed.errors.GetChunkError, file.name):
            read(ds, "big")
        assert ds["g/words"][7].text() == "word 7"
    finally:
        hidden.rename(file)


@pytest.mark.parametrize(
    "rows", [[1, 2, 3], [np.zeros((1000, 1000))] * 5, ["a", "b"]], ids=["tail", "large", "text"]
)
def test_a_dataset_that_was_deleted_is_gone_and_not_damaged(tmp_path: Path, rows: list[Any]) -> None:
    """Whatever asks for a chunk of it next."""
    made = lakebed.empty(tmp_path / "ds")
    made.create_tensor("t", htype="text" if isinstance(rows[0], str) else None)
    made.t.extend(rows)
    made.close()
    del made
    reader = lakebed.load(tmp_path / "ds", read_only=True)
    shutil.rmtree(tmp_path / "ds")
    with pytest.raises(lakebed.DatasetNotFoundError, match="deleted after it was opened"):
        reader.t[0].numpy()


@pytest.mark.parametrize(
    "rows", [[1, 2, 3], [np.zeros((1000, 1000))] * 5, ["a", "b"]], ids=["tail", "large", "text"]
)
def test_an_append_to_a_dataset_that_was_deleted(tmp_path: Path, rows: list[Any]) -> None:
    """It goes on with the last chunk, and the lock was taken before."""
    made = lakebed.empty(tmp_path / "ds")
    made.create_tensor("t", htype="text" if isinstance(rows[0], str) else None)
    made.t.extend(rows)
    made.close()

    def go_on(ds: lakebed.Dataset) -> None:
        with ds:
            shutil.rmtree(tmp_path / "ds")
            ds.t.append(rows[0])
            ds.flush()

    ds = lakebed.load(tmp_path / "ds", read_only=False)
    with pytest.raises(lakebed.DatasetNotFoundError, match="deleted after it was opened"):
        go_on(ds)
    ds.discard()


def test_a_chunk_of_another_tensor_is_noticed(path: Path) -> None:
    """A chunk file copied over another is wrong by its checksums though it parses."""
    other = chunk_file(path, "holes").read_bytes()
    with changed(chunk_file(path, "g/words"), lambda _: other), pytest.raises(lakebed.errors.ChecksumError):
        lakebed.load(path, read_only=True)["g/words"].text()


def test_undecodable_text_is_named(tmp_path: Path) -> None:
    """Bytes that are no UTF-8, as another writer may leave them, name tensor and row in every way of reading."""
    ds = lakebed.empty(tmp_path / "ds")
    ds.create_tensor("t", htype="text")
    ds.extend({"t": ["aa", "bb", "cc"]})
    ds.flush()
    for file in (tmp_path / "ds" / ".lakebed").glob("manifest-*"):
        file.unlink()
    file = chunk_file(tmp_path / "ds", "t")
    replace(file, file.read_bytes().replace(b"bb", b"\xff\xfe"))
    ds = lakebed.load(tmp_path / "ds", read_only=True)
    assert ds.t[0].text() == "aa"
    for read in (lambda: ds.t[1].text(), lambda: ds.t.text()):
        with pytest.raises(lakebed.errors.ReadSampleFromChunkError) as caught:
            read()
        assert (caught.value.tensor, caught.value.row) == ("t", 1)
    with pytest.raises((lakebed.errors.FormatError, pa.ArrowInvalid)):
        pa.table(ds)
    with pytest.raises(lakebed.errors.FormatError):
        [list(batch["t"]) for batch in ds.batches(3)]
