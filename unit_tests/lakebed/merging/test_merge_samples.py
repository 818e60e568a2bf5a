"""How merged samples are taken over: every kind of tensor, by reference where that is possible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lakebed
from unit_tests.lakebed.datasets import copy_of, create_on, new_memory, open_on
from unit_tests.lakebed.merging.branching import (
    Edit,
    both,
    everything,
    held,
    lines,
    numbers,
    set_row,
    storage_of,
)


def without_manifests(ds: lakebed.Dataset) -> None:
    """Leave only what 3.9.52 reads: it must say the same."""
    for key in everything(ds):
        if "manifest" in key:
            storage_of(ds).delete(key)


KINDS: dict[str, tuple[dict[str, Any], Callable[[int], Any]]] = {
    "ragged": ({"dtype": "float32"}, lambda i: np.full((i % 5, 2), i, "f4")),
    "lz4": ({"dtype": "int32", "chunk_compression": "lz4"}, lambda i: np.full((3,), i, "i4")),
    "text": ({"htype": "text"}, lambda i: f"text {i}"),
    "json": ({"htype": "json", "sample_compression": "lz4"}, lambda i: {"n": i}),
    "jpeg": (
        {"htype": "image", "sample_compression": "jpeg"},
        lambda i: np.full((8, 8 + i % 3, 3), i % 250, "u1"),
    ),
    "canvas": (
        {"htype": "image", "chunk_compression": "png"},
        lambda i: np.full((4, 4 + i % 3, 3), i % 250, "u1"),
    ),
    "sequence": ({"htype": "sequence", "dtype": "int64"}, lambda i: [np.full((2,), i)] * (i % 4)),
    "tiles": (
        {"dtype": "uint8", "tiling_threshold": 500},
        lambda i: np.full((20, 20 + 10 * (i % 3)), i % 250, "u1"),
    ),
    "polygon": ({"htype": "polygon"}, lambda i: [np.full((3 + i % 2, 2), i, "f4")]),
    "pyramid": (
        {"htype": "image", "sample_compression": "png", "downsampling": (2, 1)},
        lambda i: np.full((32, 40 + i % 3, 3), i % 250, "u1"),
    ),
}


def values(ds: lakebed.Dataset, name: str) -> list[Any]:
    """All samples of a tensor in a form that can be compared."""
    found = []
    for sample in ds[name]:
        value = sample.numpy(aslist=True) if "sequence" in str(ds[name].htype) else sample.data()
        value = value if not isinstance(value, dict) else value.get("value", value)
        found.append(repr(np.asarray(value).tolist()) if isinstance(value, np.ndarray) else repr(value))
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("many", [3, 40])
def test_every_kind_of_tensor_merges(kind: str, many: int) -> None:
    """New and changed samples of every layout come out as they went in, companions included, and can be written on."""
    settings, make = KINDS[kind]
    rng = range(many)

    def there(ds: lakebed.Dataset) -> None:
        ds.x.extend([make(100 + i) for i in rng])
        for row in (0, many - 1):
            ds.x[row] = make(200 + row)

    def here(ds: lakebed.Dataset) -> None:
        ds.x.pop(1)
        ds.x.append(make(300))

    ds = lines(lambda ds: ds.create_tensor("x", **settings).extend([make(i) for i in rng]), there, here)
    ds.merge("b")
    start = [200 if i == 0 else 199 + many if i == many - 1 else i for i in rng if i != 1]
    wanted = [*start, 300, *(100 + i for i in rng)]
    plain = create_on(new_memory())
    plain.create_tensor("x", **settings).extend([make(i) for i in wanted])
    for step in range(3):
        seen = open_on(storage_of(ds), read_only=True) if step else ds
        assert values(seen, "x") == values(plain, "x")
        for hidden in ("_x_shape", "_x_downsampled_2"):
            if hidden in plain._session.schema().names(hidden=True):
                assert values(seen, hidden) == values(plain, hidden)
        assert len(seen["_x_id"]) == len(plain.x)
        if step == 1:
            for each in (ds, plain):
                each.x.append(make(400))
                each.x[many] = make(401)
                each.flush()


def test_whole_chunks_are_named_where_they_lie() -> None:
    """Many new rows cost no copies: the chunks that hold nothing else stay in the folder of the other line."""
    ds = lines(numbers(0, 1, 2), lambda ds: ds.a.extend(np.arange(3_000_000)))
    before = everything(ds)
    ds.merge("b")
    new = {key: len(value) for key, value in everything(ds).items() if key not in before}
    assert sum(new.values()) < 500_000
    state = ds._session.schema().tensor("a")
    assert len({folder for folder, _ in state.table.places.folders}) > 1
    assert len(ds.a) == 3_000_003
    assert ds.a[-1].numpy().tolist() == [2_999_999]
    without_manifests(ds)
    bare = open_on(copy_of(storage_of(ds)), read_only=True)
    assert bare.a[[0, 3, 4, -1]].numpy().ravel().tolist() == [0, 0, 1, 2_999_999]
    ds.checkout("c", create=True)
    ds.a[1_500_000] = -1
    ds.commit("changed in a chunk of another line")
    ds.checkout("main")
    ds.merge("c")
    assert ds.a[1_500_000].numpy().tolist() == [-1]


def test_a_line_that_only_they_went_on_with_is_taken_as_it_is() -> None:
    """Where nothing changed here no sample is copied, whatever was done there; the diff says what it was."""

    def make(ds: lakebed.Dataset) -> None:
        ds.create_tensor("a", dtype="int64").extend(np.arange(5_000))
        ds.create_tensor("s", htype="sequence", dtype="int64").extend([[i] * (i % 3) for i in range(20)])
        ds.create_tensor("l", htype="class_label", class_names=["x"]).extend(["x"] * 5)

    def there(ds: lakebed.Dataset) -> None:
        ds.a[7] = -7
        ds.a.pop(3)
        ds.a.extend(np.arange(5_000))
        ds.s[1] = [9, 9, 9]
        ds.s.append([5])
        ds.l.extend(["x", "y"])
        ds.rename_tensor("a", "z")

    ds = lines(make, there)
    before = everything(ds)
    ds.merge("b")
    assert not [key for key in everything(ds) if key not in before and "/chunks/" in key]
    without_manifests(ds)
    for each in (ds, open_on(copy_of(storage_of(ds)), read_only=True)):
        assert each.z[[2, 3, 6, 4_999, -1]].numpy().ravel().tolist() == [2, 4, -7, 0, 4_999]
        assert [len(row) for row in each.s[[0, 1, -1]].numpy(aslist=True)] == [0, 3, 1]
        assert each.l.data()["text"][-1] == ["y"]
        assert len(each["_z_id"]) == len(each["_z_shape"]) == 9_999
    changes = ds.diff(ds.commits[1]["commit"], ds.commit_id, as_dict=True)["tensor"][1][0]
    assert changes["z"]["data_added"] == [4_999, 9_999]
    assert (changes["z"]["data_updated"], changes["z"]["data_deleted"]) == ({6}, {3})
    assert changes["s"]["data_updated"] == {1}
    ds.z.append(1)
    ds.z[0] = 5
    ds.s[0] = [1, 2]
    ds.commit("goes on")
    assert open_on(storage_of(ds), read_only=True).z[[0, -1]].numpy().ravel().tolist() == [5, 1]


def test_nulls_come_along() -> None:
    """Rows that are null there are null here, and a value that replaces a null is none any more."""
    import pyarrow as pa

    def make(ds: lakebed.Dataset) -> None:
        ds.create_tensor("t", htype="text").extend(pa.array(["a", None, "c"]))

    def there(ds: lakebed.Dataset) -> None:
        ds.t[1] = ""
        ds.t.extend(pa.array([None, "e"]))

    ds = lines(make, there, lambda ds: ds.t.append("d"))
    ds.merge("b")
    assert pa.table(ds)["t"].to_pylist() == ["a", "", "c", "d", None, "e"]


def test_rewritten_chunks_are_no_changes() -> None:
    """Rows whose chunk was only packed anew on one line do not count as changed there."""
    ds = lines(
        lambda ds: [ds.create_tensor("a", dtype="int64"), *[(ds.a.append(i), ds.flush()) for i in range(9)]],
        both(lambda ds: ds.rechunk(), lambda ds: ds.a.append(9)),
        both(set_row(4, 40), lambda ds: ds.a.pop(0)),
    )
    ds.merge("b")
    assert held(ds)["a"] == [1, 2, 3, 40, 5, 6, 7, 8, 9]


def test_images_beside_a_changed_one_have_not_changed() -> None:
    """Images compressed together with a loss come out a little different: that is no change, nor a conflict."""
    random = np.random.default_rng(1)
    images = [random.integers(0, 256, (20, 13, 3)).astype("u1") for _ in range(6)]

    def put(row: int, image: int) -> Edit:
        return lambda ds: ds.x.__setitem__(row, images[image])

    ds = lines(
        lambda ds: ds.create_tensor("x", htype="image", chunk_compression="jpeg").extend(images[:4]),
        both(put(0, 4), lambda ds: ds.x.append(images[2])),
        put(1, 5),
    )
    ours = ds.x[2].numpy()
    ds.merge("b")
    means = [
        int(np.abs(x.numpy().astype(int) - images[i]).mean())
        for x, i in zip(ds.x, [4, 5, 2, 3, 2], strict=True)
    ]
    assert max(means) < 70
    assert np.abs(ds.x[2].numpy().astype(int) - ours).mean() < 40
    ds.checkout("b")
    ds.x[1] = images[0]
    ds.commit("now there, too")
    ds.checkout("main")
    ds.x[1] = images[3]
    with pytest.raises(lakebed.MergeConflictError) as caught:
        ds.merge("b")
    assert caught.value.conflicts == (("x", 1, 1),)
