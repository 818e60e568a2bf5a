"""Batches against NumPy: all kinds of columns, batch sizes that straddle chunks, arrays that belong to the caller."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lakebed
from lakebed.reading.columns.strings import Strings

ROWS = 1000
RNG = np.random.default_rng(0)

FIXED: dict[str, Any] = {
    "scalar": RNG.integers(-(2**40), 2**40, ROWS),
    "flag": RNG.random(ROWS) < 0.5,
    "vector": RNG.random((ROWS, 3)).astype("f4"),
    "matrix": RNG.integers(0, 255, (ROWS, 2, 5), dtype="u1"),
    "nothing": np.zeros((ROWS, 0, 4), "i2"),
}
RAGGED = [np.arange(n % 7, dtype="i2") for n in range(ROWS)]
RAGGED_2D = [np.full((n % 3, n % 2 + 1), n, "f8") for n in range(ROWS)]
TEXT = [("näme " * (n % 4) + str(n))[: n % 40] for n in range(ROWS)]
DOCUMENTS = [{"n": n, "odd": bool(n % 2)} for n in range(ROWS)]
LISTS = [list(range(n % 4)) for n in range(ROWS)]
MASK = np.arange(ROWS) % 5 == 2


def fill(ds: lakebed.Dataset, **settings: Any) -> lakebed.Dataset:
    """One tensor of each kind, in chunks of a few kilobytes."""
    kinds = {"text": "text", "doc": "json", "list_": "list"}
    names = [*FIXED, "ragged", "ragged2", "text", "doc", "list_", "holes", "word"]
    for name in names:
        ds.create_tensor(name, htype=kinds.get(name, "unspecified"), max_chunk_size=4000, **settings)
    for a, b in itertools.pairwise([0, 300, 301, ROWS]):
        part = {name: values[a:b] for name, values in FIXED.items()}
        part |= {"ragged": RAGGED[a:b], "ragged2": RAGGED_2D[a:b], "text": TEXT[a:b], "doc": DOCUMENTS[a:b]}
        part["list_"] = LISTS[a:b]
        part["holes"] = pa.array(FIXED["scalar"][a:b], mask=MASK[a:b])
        part["word"] = pa.array(TEXT[a:b], mask=MASK[a:b])
        ds.extend(part)
    ds.flush()
    return ds


@pytest.fixture(scope="module", params=["plain", "published", "committed", "chunk lz4", "sample lz4"])
def ds(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> lakebed.Dataset:
    """The same rows in memory, on disk as head, on disk below a commit (mapped files), and compressed."""
    compression = {"chunk lz4": {"chunk_compression": "lz4"}, "sample lz4": {"sample_compression": "lz4"}}
    settings = compression.get(request.param, {})
    if request.param in ("published", "committed"):
        path = tmp_path_factory.mktemp("batches") / "ds"
        made = fill(lakebed.empty(path), **settings)
        if request.param == "committed":
            made.commit("sealed")
        return lakebed.load(path, read_only=True)
    return fill(lakebed.empty(f"mem://batches-{request.param}"), **settings)


def check(batch: dict[str, Any], rows: np.ndarray) -> None:
    """Each column of a batch is what NumPy and lists give for these rows."""
    for name, values in FIXED.items():
        expected = values[rows].reshape(len(rows), *(values.shape[1:] or (1,)))
        assert batch[name].dtype == values.dtype
        assert np.array_equal(batch[name], expected), name
    assert all(map(np.array_equal, batch["ragged"], [RAGGED[r] for r in rows]))
    assert all(map(np.array_equal, batch["ragged2"], [RAGGED_2D[r] for r in rows]))
    assert list(batch["text"]) == [TEXT[r] for r in rows]
    assert list(batch["doc"]) == [DOCUMENTS[r] for r in rows]
    assert list(batch["list_"]) == [LISTS[r] for r in rows]
    assert list(batch["word"]) == [None if MASK[r] else TEXT[r] for r in rows]
    assert {len(column) for column in batch.values()} == {len(rows)}


@pytest.mark.parametrize("size", [1, 3, 64, 299, 500, ROWS, 5000])
def test_batches_are_the_rows_in_order(ds: lakebed.Dataset, size: int) -> None:
    """Whatever the batch size, the batches put together are the dataset; the last one may be short."""
    at = 0
    batches = ds.batches(size)
    assert len(batches) == -(-ROWS // size)
    for batch in batches if size > 1 else itertools.islice(batches, 310):
        rows = np.arange(at, min(at + size, ROWS))
        check(batch, rows)
        at += len(rows)
    assert at == ROWS or size == 1


def test_nullable_numbers_are_masked_arrays(ds: lakebed.Dataset) -> None:
    """Numbers of which some are null come with a mask; the others keep their values."""
    at = 0
    for batch in ds.batches(77, ["holes"]):
        column = batch["holes"]
        mask = MASK[at : at + 77]
        at += len(mask)
        if isinstance(column, np.ma.MaskedArray):
            assert column.shape == (len(mask), 1)
            assert np.array_equal(np.ma.getmaskarray(column).ravel(), mask)
            assert np.array_equal(column.compressed(), FIXED["scalar"][at - len(mask) : at][~mask])
        else:
            # Compressed by sample, they come one by one.
            assert ds.holes.meta.sample_compression == "lz4"
            assert [None if v is None else v.tolist() for v in column] == [
                None if gone else [v]
                for v, gone in zip(FIXED["scalar"][at - len(mask) : at].tolist(), mask, strict=True)
            ]


@pytest.mark.parametrize(
    "select",
    [
        slice(10, 20),
        slice(290, 700, 1),
        slice(None, None, -1),
        slice(5, 900, 7),
        [999, 0, 5, 5, 300],
        MASK.tolist(),
        RNG.permutation(ROWS),
        RNG.integers(-ROWS, ROWS, 3 * ROWS),
    ],
    ids=["few", "many", "backwards", "steps", "list", "mask", "shuffled", "drawn"],
)
def test_batches_of_a_selection(ds: lakebed.Dataset, select: Any) -> None:
    """A view's batches hold the selected rows in the order selected."""
    rows = np.arange(ROWS)[np.array(select) if isinstance(select, list) else select]
    at = 0
    for batch in ds[select].batches(64):
        check(batch, rows[at : at + 64])
        at += len(next(iter(batch.values())))
    assert at == len(rows)


def test_batches_of_shuffled_rows_come_out_of_mapped_files(tmp_path: Path) -> None:
    """Chunks below a commit are mapped, those of a head are read; a selection stays what it was when it was made."""
    ds = fill(lakebed.empty(tmp_path / "ds"))
    ds.commit("sealed")
    order = RNG.permutation(ROWS)
    rows = order.copy()
    for view in (ds[rows], lakebed.load(tmp_path / "ds", read_only=True)[rows]):
        scan = view._table(None).scans()["vector"]
        assert scan.scattered(rows) is not None
        assert scan.scattered(rows[:40]) is None  # one or two in each chunk
        rows[:] = 0
        check({name: join_columns(view, name) for name in ds.tensors}, order)
        rows[:] = order
    ds.extend({name: values[:300] for name, values in FIXED.items()}, skip_ok=True)
    assert ds[["vector"]]._table(None).scans()["vector"].scattered(np.arange(ROWS)) is not None
    assert ds[["vector"]]._table(None).scans()["vector"].scattered(np.arange(ROWS + 300)) is None
    drawn = RNG.permutation(ROWS + 300)
    found = np.concatenate([batch["vector"] for batch in ds[["vector"]][drawn].batches(70)])
    assert np.array_equal(found, np.concatenate([FIXED["vector"], FIXED["vector"][:300]])[drawn])


def join_columns(view: lakebed.Dataset, name: str) -> Any:
    """A column of all rows of a view, as one list."""
    columns = [batch[name] for batch in view.batches(70)]
    is_even = all(isinstance(column, np.ndarray) for column in columns) and name in FIXED
    return np.concatenate(columns) if is_even else [value for column in columns for value in column]


def test_arrays_are_writable_and_independent(ds: lakebed.Dataset) -> None:
    """Kept batches keep their values while the scan goes on, and writing into them changes nothing else."""
    kept = [(batch, {n: batch[n].copy() for n in FIXED}) for batch in ds.batches(50)]
    for batch, values in kept:
        for name in FIXED:
            assert np.array_equal(batch[name], values[name])
            assert batch[name].flags.writeable
            batch[name][...] = 0
    at = 0
    for batch in ds.batches(50):
        check(batch, np.arange(at, at + 50))
        at += 50
    for row in (0, 299, 300, 999):
        assert np.array_equal(ds.scalar[row].numpy(), FIXED["scalar"][row : row + 1])


def test_kept_strings_and_masked_arrays_stay(ds: lakebed.Dataset) -> None:
    """Texts and masked numbers of earlier batches are unharmed by later ones."""
    kept = list(ds.batches(64, ["text", "word", "doc", "holes", "ragged"]))
    assert [t for batch in kept for t in batch["text"]] == TEXT
    assert [t for batch in kept for t in batch["word"]] == [None if MASK[r] else TEXT[r] for r in range(ROWS)]
    assert [d for batch in kept for d in batch["doc"]] == DOCUMENTS
    assert all(map(np.array_equal, [v for batch in kept for v in batch["ragged"]], RAGGED))


def test_two_scans_at_once_do_not_meet(ds: lakebed.Dataset) -> None:
    """Two iterations over one dataset, interleaved with single reads, each see their own rows."""
    first, second = iter(ds.batches(100, ["scalar", "text"])), iter(ds.batches(60, ["scalar", "text"]))
    for i in range(10):
        a, b = next(first), next(second)
        single = ds.scalar[i * 7].numpy()
        assert np.array_equal(a["scalar"].ravel(), FIXED["scalar"][i * 100 : i * 100 + 100])
        assert np.array_equal(b["scalar"].ravel(), FIXED["scalar"][i * 60 : i * 60 + 60])
        assert list(a["text"]) == TEXT[i * 100 : i * 100 + 100]
        assert single[0] == FIXED["scalar"][i * 7]


def test_arrow_tables_outlive_the_scan(ds: lakebed.Dataset) -> None:
    """Record batches that are kept hold their values when later ones have been read."""
    with pa.RecordBatchReader.from_stream(ds[["scalar", "text", "vector"]]) as reader:
        kept = list(reader)
    list(ds.batches(10))
    table = pa.Table.from_batches(kept)
    assert table["scalar"].to_pylist() == FIXED["scalar"].tolist()
    assert table["text"].to_pylist() == TEXT
    assert table["vector"].to_pylist() == FIXED["vector"].tolist()


def test_chosen_tensors_come_in_the_order_asked_for(ds: lakebed.Dataset) -> None:
    """`tensors` names what to read; unknown names and groups are errors."""
    assert list(next(iter(ds.batches(2, ["text", "scalar"])))) == ["text", "scalar"]
    with pytest.raises(lakebed.TensorDoesNotExistError):
        ds.batches(2, ["no"])


def test_impossible_batches_are_refused(ds: lakebed.Dataset) -> None:
    """A batch has at least one row, and consists of rows."""
    with pytest.raises(ValueError, match="at least 1"):
        ds.batches(0)
    with pytest.raises(lakebed.errors.InvalidOperationError):
        ds[0:5, 1].batches(2)


def test_tensors_of_different_lengths_end_with_the_shortest() -> None:
    """Batches stop where a row would lack a column."""
    ds = lakebed.empty("mem://batches-uneven")
    for name in ("a", "b"):
        ds.create_tensor(name, dtype="int64")
    ds.a.extend([1, 2, 3])
    ds.b.extend([4, 5])
    assert [batch["a"].ravel().tolist() for batch in ds.batches(2)] == [[1, 2]]
    assert [batch["a"].ravel().tolist() for batch in ds.batches(2, ["a"])] == [[1, 2], [3]]


def test_no_rows_and_no_tensors_are_no_batches() -> None:
    """Nothing to read is an empty iteration, not an error."""
    ds = lakebed.empty("mem://batches-empty")
    assert list(ds.batches(3)) == []
    ds.create_tensor("a")
    assert list(ds.batches(3)) == []
    ds.extend({"a": [1, 2]})
    assert list(ds[0:0].batches(3)) == []
    (batch,) = ds[1].batches(3)
    assert batch["a"].tolist() == [[2]]


def test_columns_of_nothing_but_nulls_are_masked_too() -> None:
    """A column that holds only nulls so far has the form that it will have with values."""
    ds = lakebed.empty("mem://batches-nulls")
    ds.create_tensor("a")
    ds.extend({"a": pa.nulls(3, pa.int32())})
    (batch,) = ds.batches(5)
    assert isinstance(batch["a"], np.ma.MaskedArray)
    assert batch["a"].shape == (3, 1)
    assert np.ma.getmaskarray(batch["a"]).all()


def test_own_unpublished_rows_are_in_batches(tmp_path: Path) -> None:
    """A scan sees what its own dataset has written and not published yet."""
    ds = lakebed.empty(tmp_path / "ds")
    ds.create_tensor("a")
    with ds:
        ds.extend({"a": np.arange(10)})
        assert [b["a"].ravel().tolist() for b in ds.batches(6)] == [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9]]
        ds.extend({"a": np.arange(3)})
        assert sum(len(b["a"]) for b in ds.batches(6)) == 13


class TestStrings:
    """Text columns behave like sequences of str."""

    values = ("", "a", None, "zwölf", None, "x" * 50)

    @pytest.fixture
    def strings(self) -> Strings:
        """A column with nulls, cut out of a longer one."""
        raw = [(v or "").encode() for v in ("skip", *self.values, "skip")]
        offsets = np.cumsum([0, *map(len, raw)])
        nulls = np.array([v is None for v in ("skip", *self.values, "skip")])
        whole = Strings(memoryview(b"".join(raw)), offsets, nulls)
        cut = whole[1:-1]
        assert isinstance(cut, Strings)
        return cut

    def test_is_a_sequence(self, strings: Strings) -> None:
        """Length, items, iteration, equality and membership are those of the list."""
        assert len(strings) == 6
        assert list(strings) == list(self.values)
        assert [strings[i] for i in range(-6, 6)] == list(self.values * 2)
        assert strings == list(self.values)
        assert strings != ["other"]
        assert "zwölf" in strings
        assert None in strings
        assert strings.index("a") == 1

    @pytest.mark.parametrize(
        "part", [slice(2), slice(1, 4), slice(None, None, 2), slice(None, None, -1), slice(4, 1)]
    )
    def test_slices(self, strings: Strings, part: slice) -> None:
        """Slices of any step hold what slices of the list hold."""
        assert list(strings[part]) == list(self.values)[part]

    def test_items_beyond_the_end(self, strings: Strings) -> None:
        """There is no wrapping around."""
        with pytest.raises(IndexError):
            strings[6]
        with pytest.raises(IndexError):
            strings[-7]

    def test_as_an_array(self, strings: Strings) -> None:
        """NumPy gets an array of objects."""
        assert np.asarray(strings).tolist() == list(self.values)
        assert np.asarray(strings).dtype == object

    def test_is_shown_short(self, strings: Strings) -> None:
        """The repr shows the first few."""
        assert repr(strings) == "Strings(['', 'a', None, 'zwölf', None, ...], count=6)"
