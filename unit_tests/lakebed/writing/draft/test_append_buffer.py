"""Rows and samples that wait to be encoded together: they count at once, in order, and no change is missed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import lakebed
from lakebed.dataset.dataset import Dataset
from lakebed.documents.layouts import Layout, sample_sum
from lakebed.documents.tensor_meta import TensorMeta
from unit_tests.effort import examples
from unit_tests.lakebed.datasets import create_on, new_memory, open_on


@pytest.fixture
def ds() -> Dataset:
    """Numbers, labels and texts, with a first row that settles everything."""
    ds = create_on(new_memory())
    ds.create_tensor("x", dtype="int16")
    ds.create_tensor("label", htype="class_label", class_names=["a", "b"])
    ds.create_tensor("text", htype="text")
    ds.append({"x": 1, "label": "a", "text": "one"})
    return ds


def waiting(ds: Dataset) -> int:
    """How many values wait."""
    draft = ds._session._unpublished.draft
    return 0 if draft is None else sum(len(values) for _, values in draft.buffer.rows)


def test_rows_wait_and_count(ds: Dataset) -> None:
    """Rows like the one before wait; whoever looks sees them, and so does the next opener after a flush."""
    for i in range(5):
        ds.append({"x": i, "label": "b", "text": str(i)})
    assert waiting(ds) == 15
    assert (len(ds), waiting(ds)) == (6, 0)
    ds.append({"x": 9, "label": 0, "text": "nine"})
    ds.flush()
    again = open_on(ds._session.storage)
    assert again.x.numpy().ravel().tolist() == [1, 0, 1, 2, 3, 4, 9]
    assert again.text.text() == ["one", "0", "1", "2", "3", "4", "nine"]


def test_samples_wait_in_their_tensor(ds: Dataset) -> None:
    """Appending to the tensors in turn is as good as whole rows."""
    ds.x.append(2)
    ds.label.append("b")
    ds.text.append("two")
    for i in range(3):
        ds.x.append(i)
        ds.label.append("a")
        ds.text.append(str(i))
    assert waiting(ds) == 12
    assert [len(t) for t in ds.tensors.values()] == [5, 5, 5]


def test_arrays_are_taken_as_they_are_now(ds: Dataset) -> None:
    """What the caller does to an array afterwards changes nothing."""
    array = np.array([7], np.int16)
    ds.append({"x": array, "label": "a", "text": ""})
    assert waiting(ds) == 3
    array[:] = 8
    assert ds.x[-1].numpy().tolist() == [7]


@pytest.mark.parametrize(
    "row",
    [
        {"x": 40_000, "label": "a", "text": ""},
        {"x": 1.5, "label": "a", "text": ""},
        {"x": np.array([[1]], np.int16), "label": "a", "text": ""},
        {"x": 1, "label": "a"},
        {"x": 1, "label": "a", "text": "", "more": 1},
    ],
)
def test_what_does_not_fit_is_refused_at_once(ds: Dataset, row: dict[str, Any]) -> None:
    """By the append that brought it; the rows before it stay."""
    ds.append({"x": 3, "label": "a", "text": "three"})
    with pytest.raises((lakebed.errors.LakebedError, KeyError)):
        ds.append(row)
    assert ds.x.numpy().ravel().tolist() == [1, 3]


def test_new_names_and_shapes_go_the_long_way(ds: Dataset) -> None:
    """And the rows keep their order."""
    ds.append({"x": 2, "label": "a", "text": "é"})
    ds.append({"x": [3, 4], "label": "c", "text": "x"})
    ds.append({"x": 5, "label": "c", "text": "y"})
    assert ds.label.data()["text"] == [["a"], ["a"], ["c"], ["c"]]
    assert [v.tolist() for v in ds.x.numpy(aslist=True)] == [[1], [2], [3, 4], [5]]
    assert ds.text.text() == ["one", "é", "x", "y"]


def test_changes_of_the_schema_are_noticed(ds: Dataset) -> None:
    """New, renamed and deleted tensors, changed names of classes, unequal lengths."""
    ds.append({"x": 2, "label": "b", "text": "two"})
    ds.create_tensor("more", dtype="int64")
    with pytest.raises(KeyError):
        ds.append({"x": 3, "label": "a", "text": "three"})
    ds.delete_tensor("more")
    ds.append({"x": 3, "label": "a", "text": "three"})
    ds.rename_tensor("text", "words")
    with pytest.raises((KeyError, lakebed.TensorDoesNotExistError)):
        ds.append({"x": 4, "label": "a", "text": "four"})
    ds.append({"x": 4, "label": "a", "words": "four"})
    ds.label.info.class_names = ["z", "b"]
    ds.append({"x": 5, "label": "z", "words": "five"})
    ds.x.append(6)
    with pytest.raises(ValueError, match="length"):
        ds.append({"x": 7, "label": "z", "words": "seven"})
    assert ds.x.numpy().ravel().tolist() == [1, 2, 3, 4, 5, 6]
    assert ds.label.numpy().ravel().tolist() == [0, 1, 0, 0, 0]


@pytest.fixture
def photos(tmp_path: Path) -> tuple[Dataset, list[Path]]:
    """JPEG files, and a tensor for them with a first row that settles everything."""
    paths = [tmp_path / f"{i}.jpg" for i in range(6)]
    for i, path in enumerate(paths):
        Image.new("RGB", (8 + i, 5), (40 * i, 0, 0)).save(path)
    ds = create_on(new_memory())
    ds.create_tensor("photo", htype="image", sample_compression="jpeg")
    ds.append({"photo": lakebed.read(paths[0])})
    return ds, paths


def test_files_wait_as_they_are_now(photos: tuple[Dataset, list[Path]]) -> None:
    """They are read by the append that brings them, and stored and recorded as if they came at once."""
    ds, paths = photos
    files = [path.read_bytes() for path in paths]
    for path in paths[1:]:
        ds.append({"photo": lakebed.read(path)})
    assert waiting(ds) == 5
    for path in paths:
        path.unlink()
    assert [bytes(row.tobytes()) for row in ds.photo] == files
    assert [row.shape for row in ds.photo] == [(5, 8 + i, 3) for i in range(6)]
    assert [row.sample_info["filename"] for row in ds.photo] == [str(path) for path in paths]
    assert {row.sample_info["format"] for row in ds.photo} == {"jpeg"}


def test_files_that_need_a_look_do_not_wait(photos: tuple[Dataset, list[Path]], tmp_path: Path) -> None:
    """Grey ones, those with EXIF data, and of another kind; a missing or damaged one is an error at once."""
    ds, _ = photos
    grey, tagged, other = (tmp_path / name for name in ("grey.jpg", "tagged.jpg", "other.png"))
    Image.new("L", (4, 4)).save(grey)
    exif = Image.Exif()
    exif[0x0112] = 3
    Image.new("RGB", (4, 4)).save(tagged, exif=exif)
    Image.new("RGB", (4, 4)).save(other)
    for path in (grey, tagged, other):
        ds.append({"photo": lakebed.read(path)})
        assert waiting(ds) == 0
    (tmp_path / "damaged.jpg").write_bytes(grey.read_bytes()[:40])
    for path in (tmp_path / "none.jpg", tmp_path / "damaged.jpg"):
        with pytest.raises(lakebed.errors.LakebedError):
            ds.append({"photo": lakebed.read(path)})
    assert [row.shape for row in ds.photo] == [(5, 8, 3), (4, 4, 1), (4, 4, 3), (4, 4, 3)]
    assert ds.photo[2].sample_info["exif"]["Orientation"] == 3


@pytest.mark.parametrize("side", [100, 300])
def test_large_arrays_wait_as_they_are_now(side: int) -> None:
    """Their memory is used again, but only once they are written: rows, chunks, and what stays for the next one."""
    ds = create_on(new_memory())
    ds.create_tensor("x", dtype="uint8")
    array = np.empty((side, side, 3), np.uint8)
    with ds:
        for i in range(90):
            array[:] = i
            ds.append({"x": array})
            if i == 1:
                assert waiting(ds) == 1
            if i % 40 == 39:
                assert int(ds.x[i // 2].numpy().max()) == i // 2
    again = open_on(ds._session.storage)
    assert [np.unique(row).tolist() for row in again.x.numpy(aslist=True)] == [[i] for i in range(90)]


VALUES = st.one_of(
    st.integers(-40_000, 40_000), st.floats(allow_nan=False), st.booleans(), st.text(max_size=3)
)


@settings(max_examples=examples(100), deadline=None)
@given(values=st.lists(VALUES, max_size=20), dtype=st.sampled_from(["int16", "float32", "float64", "bool"]))
def test_waiting_changes_neither_values_nor_errors(values: list[Any], dtype: str) -> None:
    """Each sample is taken or refused as when it comes alone."""
    found = []
    for alone in (True, False):
        ds = create_on(new_memory())
        ds.create_tensor("x", dtype=dtype)
        ds.x.append(np.ones(1, dtype))
        taken = []
        for value in values:
            if alone:
                ds.x.numpy()
                ds._session._unpublished.draft.buffer.forget_checks()
            try:
                ds.x.append(value)
            except lakebed.SampleAppendError:
                taken.append(False)
            else:
                taken.append(True)
        found.append((taken, [v.tobytes() for v in ds.x.numpy(aslist=True)]))
    assert found[0] == found[1]


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float64"])
def test_large_arrays_are_copied_at_once(dtype: str) -> None:
    """What the caller does with an array afterwards, contiguous or not, changes nothing."""
    ds = create_on(new_memory())
    ds.create_tensor("x", dtype=dtype)
    random = np.random.default_rng(2)
    given = [random.integers(0, 100, (300, 400)).astype(dtype) for _ in range(6)]
    ds.x.append(given[0])
    for array in given[1:]:
        changed = array.copy() if array[0, 0] % 2 else np.asfortranarray(array)
        ds.x.append(changed)
        changed[...] = 0
    assert waiting(ds) == 5
    ds.flush()
    for row, array in enumerate(given):
        assert np.array_equal(ds.x[row].numpy(), array)


def _stored_sums(ds: Dataset, name: str) -> list[int]:
    """The checksums of samples that the manifest of the head has."""
    table = ds._session.snapshot.tensors[name].table
    found: list[int] = []
    for row in range(len(table)):
        layout = Layout(table.places.layout(row), table.samples(row), int(table.places.sizes[row]))
        assert layout.sums is not None
        found += layout.sums.tolist()
    return found


@pytest.mark.parametrize("side", [149, 300])
def test_stored_checksums_are_those_of_the_samples(side: int) -> None:
    """Among arrays too small for it, strided ones, files of other rows, changes, and samples that an extend brings."""
    ds = create_on(new_memory())
    ds.create_tensor("x", dtype="uint8")
    ds.create_tensor("n", dtype="int64")
    random = np.random.default_rng(3)
    given = [random.integers(0, 256, (side + i % 3, side, 3), dtype=np.uint8) for i in range(60)]
    expected = []
    with ds:
        for i, array in enumerate(given):
            ds.append({"x": np.asfortranarray(array) if i % 7 == 5 else array, "n": i})
            expected.append(array)
            if i == 20:
                ds.x[18] = expected[18] = array[:-1] ^ 1
                ds.pop(4)
                del expected[4]
        more = random.integers(0, 256, (9, side, side, 3), dtype=np.uint8)
        ds.extend({"x": more, "n": range(9)})
    again = open_on(ds._session.storage)
    expected = [*expected, *more]
    assert _stored_sums(again, "x") == [sample_sum(array.tobytes()) for array in expected]
    assert all(map(np.array_equal, again.x.numpy(aslist=True), expected))


TEXTS = st.text(st.characters(exclude_categories=()), max_size=4)
NUMBERS = st.one_of(
    st.integers(-300, 300),
    st.sampled_from([2**31, -(2**63), 2**63, 2**64 - 1, 2**53 + 1, 10**400, True, False, None]),
    st.floats(),
    st.sampled_from(
        [np.int64(7), np.uint8(200), np.float64(0.1), np.float64(1e300), np.float32(0.5), np.bool_(True)]
    ),
)
ARRAYS = st.builds(
    lambda shape, dtype, value: np.full(shape, value, dtype),
    st.sampled_from(
        [(), (1,), (2,), (0,), (2, 4), (1, 4), (0, 4), (2, 3), (3, 2, 3), (3, 2, 1), (3, 2, 4), (3, 2)]
    ),
    st.sampled_from(["uint8", "int16", ">i4", "int64", "uint64", "float32", "float64", "bool"]),
    st.sampled_from([0, 1, 7, 200]),
)
LISTS = st.recursive(
    st.one_of(NUMBERS, st.sampled_from(["a", "b", "new"])),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=6,
)
DOCUMENTS = st.one_of(
    st.dictionaries(TEXTS, LISTS, max_size=3),
    TEXTS,
    st.lists(st.one_of(TEXTS, st.none(), st.integers(-(2**70), 2**70)), max_size=3),
    st.just({"a": np.ones(2), "b": b"x", "c": np.float32(2)}),
    st.just({"a": {1, 2}}),
)
KINDS: list[tuple[dict[str, Any], Any]] = [
    ({"dtype": "int16"}, 1),
    ({"dtype": "int64"}, 1),
    ({"dtype": "uint64"}, [1, 2]),
    ({"dtype": "float32"}, 1.0),
    ({"dtype": "float64"}, [[1.0, 2.0], [1.0, 2.0]]),
    ({"dtype": "bool"}, True),
    ({"dtype": "float32", "sample_compression": "lz4"}, [1.0]),
    ({"dtype": "uint8", "chunk_compression": "lz4"}, np.ones((2, 3), np.uint8)),
    ({"htype": "class_label", "class_names": ["a", "b"]}, "a"),
    ({"htype": "class_label"}, "a"),
    ({"htype": "bbox"}, np.ones((2, 4), np.float32)),
    ({"htype": "embedding"}, np.ones(2, np.float32)),
    ({"htype": "image", "sample_compression": None}, np.ones((3, 2, 3), np.uint8)),
    ({"htype": "image.gray", "sample_compression": "lz4"}, np.ones((3, 2, 1), np.uint8)),
    ({"htype": "segment_mask", "sample_compression": "lz4"}, np.ones((3, 2), np.uint8)),
    ({"htype": "binary_mask"}, np.ones((3, 2), bool)),
    ({"htype": "text"}, "a"),
    ({"htype": "text", "sample_compression": "lz4"}, "a"),
    ({"htype": "json"}, {}),
    ({"htype": "json", "dtype": "Dict"}, {}),
    ({"htype": "list"}, [1]),
    ({"htype": "tag"}, "a"),
]


def stored(ds: Dataset) -> dict[str, Any]:
    """Settings, info and the bytes of all samples of all tensors, hidden ones too, but for random ids."""
    session = ds._session
    found: dict[str, Any] = {}
    with session.mutex, session.writing() as draft:
        for key in draft.tensors:
            tensor = draft.tensors[key]
            rows = [bytes(tensor.stored(row)) for row in range(tensor.meta.length)]
            if key.endswith("_null"):  # which may lag behind
                found[key] = [number for number, mark in enumerate(rows) if mark == b"\1"]
            elif not key.endswith("_id"):
                found[key] = tensor.meta.to_bytes(), dict(tensor.state.info), rows
    return found


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=examples(400), deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    values=st.lists(st.one_of(NUMBERS, ARRAYS, LISTS, DOCUMENTS, TEXTS, st.none()), min_size=1, max_size=8),
)
def test_values_of_all_kinds_wait_or_do_not_but_are_the_same(
    kind: tuple[dict[str, Any], Any], values: list[Any]
) -> None:
    """As when each comes alone: what is taken, with which error not, and every byte that is stored of it."""
    settings_, first = kind
    found: list[Any] = []
    for alone in (True, False):
        ds = create_on(new_memory())
        ds.create_tensor("x", **settings_)
        ds.append({"x": first})
        told: list[str] = []
        for value in values:
            if alone:
                ds._session.schema()  # encodes what waits
                if ds._session._unpublished.draft is not None:
                    ds._session._unpublished.draft.buffer.forget_checks()
            try:
                ds.append({"x": value})
            except (lakebed.SampleAppendError, lakebed.errors.LakebedError) as error:
                told.append(f"{type(error).__name__}: {error}")
            else:
                told.append("")
        found.append((told, stored(ds)))
    assert found[0] == found[1]


def test_a_missing_value_that_cannot_be_recorded_is_refused_at_once() -> None:
    """A tensor of the user has the name of the record; what came before waits on, and is stored."""
    ds = create_on(new_memory())
    ds.create_tensor("x", htype="text")
    with ds._session.mutex, ds._session.writing() as draft:  # Deep Lake 3.x takes the name
        draft.schema.add_tensor("_x_null", TensorMeta(htype="generic", dtype="int8"), {}, ())
    ds.x.extend(["a", "b"])
    ds.x.append("c")
    with pytest.raises(lakebed.errors.LakebedError, match="rename that tensor"):
        ds.x.append(None)
    ds.x.append("d")
    ds.flush()
    assert open_on(ds._session.storage).x.text() == ["a", "b", "c", "d"]


def test_documents_are_kept_as_they_are_now() -> None:
    """The caller goes on with the same dictionary."""
    ds = create_on(new_memory())
    ds.create_tensor("x", htype="json")
    document: dict[str, Any] = {"a": [1], "texts": "ü"}
    for number in range(5):
        document["a"].append(number)
        ds.append({"x": document})
    document.clear()
    assert waiting(ds) == 4
    assert [row["a"] for row in ds.x.data()["value"]] == [[1, *range(n + 1)] for n in range(5)]
