"""Datasets of Ray Data and collections of Dask hold what a dataset holds, and fill one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.dataset as pads
import pytest

import lakebed
from integration_tests.ray.nodes import Nodes
from lakebed.errors import InvalidInputError
from lakebed.maintenance.verify import verify

pytestmark = [
    pytest.mark.ray,
    pytest.mark.filterwarnings("ignore:::ray"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
ROWS = 60


def make(path: Path) -> lakebed.Dataset:
    ds = lakebed.empty(str(path))
    ds.create_tensor("photo", htype="image", sample_compression="png")
    ds.create_tensor("vector", dtype="float32")
    ds.create_tensor("number", dtype="int64")
    ds.create_tensor("text", htype="text")
    return ds


def columns() -> dict[str, list[Any]]:
    rng = np.random.default_rng(1)
    return {
        "photo": [rng.integers(0, 255, (8 + i % 3, 9, 3), np.uint8) for i in range(ROWS)],
        "vector": [np.full(4, i, np.float32) for i in range(ROWS)],
        "number": [None if i % 7 == 3 else i for i in range(ROWS)],
        "text": [None if i % 11 == 5 else f"row {i} é" for i in range(ROWS)],
    }


@pytest.fixture
def ds(tmp_path: Path) -> lakebed.Dataset:
    made = make(tmp_path / "ds")
    made.extend(columns())
    made.flush()
    return made


def check_same(ds: lakebed.Dataset, rows: range = range(ROWS)) -> None:
    """The rows of a dataset are those rows of the columns, nulls included."""
    ds = lakebed.load(ds.path, read_only=True)
    findings = verify(ds.storage, deep=True)
    assert findings.is_sound, findings.damage
    expected = columns()
    assert len(ds) == len(rows)
    for name in ("number", "text"):
        found = ds.read_columns(0, len(rows), [name])[name].to_pylist()
        assert found == [expected[name][i] for i in rows]
    for at, i in enumerate(rows):
        assert np.array_equal(ds.photo[at].numpy(), expected["photo"][i])
        assert np.array_equal(ds.vector[at].numpy(), expected["vector"][i])


# -- Ray Data ----------------------------------------------------------------------------------------------------


def test_ray_reads_and_writes_it_back(nodes: Nodes, ds: lakebed.Dataset, tmp_path: Path) -> None:
    import lakebed.ray

    data = lakebed.ray.read(ds, blocks=4)
    rows = sorted(data.take_all(), key=lambda row: float(row["vector"][0]))
    expected = columns()
    assert len(rows) == data.count() == ROWS
    for i, row in enumerate(rows):
        assert np.array_equal(row["photo"], expected["photo"][i])
        assert (row["number"], row["text"]) == (expected["number"][i], expected["text"][i])
    out = make(tmp_path / "out")
    lakebed.ray.write(data, out)
    check_same(out)


def test_ray_reads_a_view_and_some_tensors(nodes: Nodes, ds: lakebed.Dataset) -> None:
    import lakebed.ray

    found = lakebed.ray.read(ds[40:10:-3], ["vector"], blocks=2).take_all()
    assert sorted(row["vector"][0] for row in found) == sorted(range(40, 10, -3))


CHOSEN = (pads.field("number") > 20) & (pads.field("text") != "row 30 é")
"""A filter about two columns with nulls."""


def chosen(rows: range = range(ROWS)) -> list[int]:
    """Numbers of the rows that the filter leaves."""
    found = columns()
    numbers, texts = found["number"], found["text"]
    return [i for i in rows if (numbers[i] or 0) > 20 and texts[i] not in (None, "row 30 é")]


@pytest.mark.parametrize("blocks", [1, 4, None])
def test_ray_reads_the_rows_of_a_filter(nodes: Nodes, ds: lakebed.Dataset, blocks: int | None) -> None:
    import lakebed.ray

    data = lakebed.ray.read(ds, ["photo", "vector"], filter=CHOSEN, blocks=blocks)
    rows = sorted(data.take_all(), key=lambda row: float(row["vector"][0]))
    assert [row["vector"][0] for row in rows] == chosen()
    assert set(rows[0]) == {"photo", "vector"}
    expected = columns()
    for row, i in zip(rows, chosen(), strict=True):
        assert np.array_equal(row["photo"], expected["photo"][i])
    assert data.count() == len(chosen())
    view = lakebed.ray.read(ds[50:10:-3], ["number"], filter=CHOSEN, blocks=blocks)
    assert sorted(row["number"] for row in view.take_all()) == sorted(chosen(range(50, 10, -3)))
    nothing = lakebed.ray.read(ds, ["number"], filter=pads.field("number") > 1000, blocks=blocks)
    assert nothing.take_all() == []
    with pytest.raises(InvalidInputError, match="does not fit"):
        lakebed.ray.read(ds, ["number"], filter=pads.field("nope") > 1)


def test_ray_reads_again_what_a_killed_node_read(nodes: Nodes, ds: lakebed.Dataset) -> None:
    import threading

    import lakebed.ray

    number = nodes.add()
    data = lakebed.ray.read(ds, ["vector"], filter=CHOSEN, blocks=12)

    def slow(batch: dict[str, Any]) -> dict[str, Any]:
        import time

        time.sleep(1.5)
        return batch

    killer = threading.Timer(2.0, lambda: nodes.kill(number))
    killer.start()
    try:
        rows = data.map_batches(slow, batch_size=5).take_all()
        assert killer.finished.is_set()  # while rows were read
    finally:
        killer.join()
    assert sorted(row["vector"][0] for row in rows) == chosen()


def test_ray_writes_in_the_order_of_blocks(nodes: Nodes, tmp_path: Path) -> None:
    import ray

    import lakebed.ray

    out = lakebed.empty(str(tmp_path / "out"))
    out.create_tensor("id", dtype="int64")

    def slow_first(batch: dict[str, Any]) -> dict[str, Any]:
        import time

        time.sleep(1.0 if batch["id"][0] == 0 else 0.0)
        return batch

    lakebed.ray.write(ray.data.range(400, override_num_blocks=8).map_batches(slow_first), out)
    assert out.id.numpy().ravel().tolist() == list(range(400))


def test_ray_writes_all_or_nothing(nodes: Nodes, tmp_path: Path) -> None:
    import ray

    import lakebed.ray

    out = lakebed.empty(str(tmp_path / "out"))
    out.create_tensor("id", dtype="int64")

    def fails(batch: dict[str, Any]) -> dict[str, Any]:
        if 150 in batch["id"]:
            raise ValueError("this one")
        return batch

    with pytest.raises(Exception, match="this one"):
        lakebed.ray.write(ray.data.range(200, override_num_blocks=4).map_batches(fails), out)
    with pytest.raises(Exception, match="other"):
        lakebed.ray.write(ray.data.from_items([{"other": 1}]), out)
    assert len(lakebed.load(out.path)) == 0
    out.extend({"id": [1]})  # the lock is free
    assert len(out) == 1


def short(path: Path) -> lakebed.Dataset:
    """Make a dataset of which one tensor is empty, and one is short."""
    ds = lakebed.empty(str(path))
    ds.create_tensor("id", dtype="int64")
    ds.create_tensor("b")
    ds.create_tensor("text", htype="text")
    ds.id.extend(list(range(5)))
    ds.text.extend(["x", "y", "z"])
    ds.flush()
    return ds


def test_ray_does_not_hide_rows(nodes: Nodes, tmp_path: Path) -> None:
    """Nor does a short tensor shorten the others in silence."""
    import lakebed.ray

    ds = short(tmp_path / "short")
    with pytest.raises(InvalidInputError, match=r"'b' has 0 .* 'id' has 5: .* tensors=\['id'\]"):
        lakebed.ray.read(ds)
    with pytest.raises(InvalidInputError, match=r"'text' has 3 .* 'id' has 5: .* ds\[:3\]"):
        lakebed.ray.read(ds, ["id", "text"])
    assert sorted(row["id"] for row in lakebed.ray.read(ds, ["id"]).take_all()) == list(range(5))
    assert lakebed.ray.read(ds[:3], ["id", "text"]).count() == 3


# -- Dask --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("partitions", [1, 5])
def test_dask_reads_the_rows_of_a_filter(ds: lakebed.Dataset, partitions: int) -> None:
    import lakebed.dask

    bag = lakebed.dask.read_bag(ds, ["photo", "vector"], filter=CHOSEN, partitions=partitions)
    assert bag.npartitions == partitions
    rows, expected = bag.compute(scheduler="processes"), columns()
    assert [int(row["vector"][0]) for row in rows] == chosen()
    assert np.array_equal(rows[0]["photo"], expected["photo"][chosen()[0]])
    frame = lakebed.dask.read_dataframe(ds[50:10:-3], ["number"], filter=CHOSEN, partitions=partitions)
    assert frame.compute(scheduler="sync")["number"].tolist() == chosen(range(50, 10, -3))
    nothing = lakebed.dask.read_dataframe(ds, ["number"], filter=pads.field("number") > 1000)
    assert len(nothing.compute(scheduler="sync")) == 0
    with pytest.raises(InvalidInputError, match="does not fit"):
        lakebed.dask.read_bag(ds, filter=pads.field("nope") > 1)


def test_dask_reads_no_chunk_that_cannot_match(tmp_path: Path) -> None:
    """Each chunk is damaged in turn: the few that hold matching rows are missed, the others are not."""
    import lakebed.dask

    ds = lakebed.empty(str(tmp_path / "parts"))
    for name in ("number", "other"):
        ds.create_tensor(name, dtype="int64", max_chunk_size=32_000)
        ds[name].extend(np.arange(40_000))
    ds.flush()
    ds.update_statistics()
    chunks = {name: list((tmp_path / "parts").glob(f"**/{name}/chunks/*")) for name in ("number", "other")}
    missed = dict.fromkeys(chunks, 0)
    for name, path in ((name, path) for name, paths in chunks.items() for path in paths):
        content = path.read_bytes()
        path.write_bytes(bytes(len(content)))
        again = lakebed.load(ds.path, read_only=True)
        bag = lakebed.dask.read_bag(again, ["other"], filter=pads.field("number") >= 39_990, partitions=3)
        try:
            found = bag.compute(scheduler="sync")
            assert found == [{"other": i} for i in range(39_990, 40_000)]
        except lakebed.errors.LakebedError:
            missed[name] += 1
        path.write_bytes(content)
    assert missed == {"number": 1, "other": 1}
    assert all(len(paths) > 5 for paths in chunks.values())


def test_a_bag_there_and_back(ds: lakebed.Dataset, tmp_path: Path) -> None:
    import lakebed.dask

    bag = lakebed.dask.read_bag(ds, partitions=3)
    assert bag.npartitions == 3
    rows, expected = bag.compute(scheduler="sync"), columns()
    assert [row["number"] for row in rows] == expected["number"]
    assert [row["text"] for row in rows] == expected["text"]
    out = make(tmp_path / "out")
    lakebed.dask.write(bag, out)  # in processes: what Dask does with bags
    check_same(out)
    part = make(tmp_path / "part")
    lakebed.dask.write(lakebed.dask.read_bag(ds[20:50]), part)
    check_same(part, range(20, 50))


def test_a_data_frame_there_and_back(ds: lakebed.Dataset, tmp_path: Path) -> None:
    import lakebed.dask

    frame = lakebed.dask.read_dataframe(ds, ["number", "text"], partitions=2)
    found, expected = frame.compute(), columns()
    assert found["text"].isna().tolist() == [text is None for text in expected["text"]]
    out = make(tmp_path / "out")
    lakebed.dask.write(frame, out, skip_ok=True)
    out.flush()
    for name in ("number", "text"):
        assert lakebed.load(out.path).read_columns(0, ROWS, [name])[name].to_pylist() == expected[name]
    with pytest.raises(KeyError, match="photo"):
        lakebed.dask.write(frame, make(tmp_path / "strict"))


def test_an_array_there_and_back(ds: lakebed.Dataset, tmp_path: Path) -> None:
    import lakebed.dask

    array = lakebed.dask.read_array(ds, "vector", partitions=3)
    assert (array.shape, array.dtype) == ((ROWS, 4), np.float32)
    assert array.sum().compute() == 4 * sum(range(ROWS))
    out = lakebed.empty(str(tmp_path / "out"))
    out.create_tensor("twice", dtype="float32")
    lakebed.dask.write((array * 2).rechunk((7, 2)), out, "twice")
    assert np.array_equal(out.twice.numpy(), ds.vector.numpy() * 2)
    with pytest.raises(InvalidInputError, match="photo"):
        lakebed.dask.read_array(ds, "photo")


def test_dask_does_not_hide_rows(tmp_path: Path) -> None:
    """Nor does a short tensor shorten the others in silence."""
    import lakebed.dask

    ds = short(tmp_path / "short")
    for read in (lakebed.dask.read_bag, lakebed.dask.read_dataframe):
        with pytest.raises(InvalidInputError, match=r"'b' has 0 .* 'id' has 5: .* tensors=\['id'\]"):
            read(ds)
        with pytest.raises(InvalidInputError, match=r"'text' has 3 .* 'id' has 5: .* ds\[:3\]"):
            read(ds, ["id", "text"])
        assert len(read(ds, ["id"]).compute(scheduler="sync")) == 5
        assert len(read(ds[1:3], ["id", "text"]).compute(scheduler="sync")) == 2


def test_dask_writes_all_or_nothing(ds: lakebed.Dataset, tmp_path: Path) -> None:
    import dask.bag

    import lakebed.dask

    def fails(row: int) -> dict[str, Any]:
        if row == 33:
            raise ValueError("this one")
        return {"id": row}

    out = lakebed.empty(str(tmp_path / "out"))
    out.create_tensor("id", dtype="int64")
    with pytest.raises(ValueError, match="this one"):
        lakebed.dask.write(dask.bag.from_sequence(range(50), npartitions=5).map(fails), out)
    assert len(lakebed.load(out.path)) == 0
    lakebed.dask.write(dask.bag.from_sequence(range(30), npartitions=5).map(fails), out)
    assert out.id.numpy().ravel().tolist() == list(range(30))
