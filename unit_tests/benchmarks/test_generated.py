"""Datasets of any size that are true but for their payload."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.generated import GeneratedStorage, created, grow, opened
from benchmarks.scale import slope
from lakebed.errors import KeyNotFound
from lakebed.maintenance.verify import verify
from lakebed.storage.memory import MemoryStorage
from unit_tests.lakebed.storage.test_conformance import StorageConformance

PLAIN = {"create_id_tensor": False, "create_shape_tensor": False}


class TestGeneratedStorage(StorageConformance):
    @pytest.fixture
    def storage(self, tmp_path: Path) -> GeneratedStorage:
        return GeneratedStorage(tmp_path)


@pytest.fixture
def grown(tmp_path: Path) -> GeneratedStorage:
    small = created(MemoryStorage())
    small.create_tensor("x", dtype="int64", max_chunk_size=20_000_000, **PLAIN)
    small.create_tensor("y", dtype="uint8", max_chunk_size=800_000, **PLAIN)
    small.x.extend(np.arange(100_000))
    small.y.extend(np.random.default_rng(1).integers(0, 256, (2000, 20, 20), np.uint8))
    grow(small, tmp_path, 1_200_000, ["x"]).close()
    return GeneratedStorage(tmp_path)


def test_what_grows_verifies_and_can_be_written(grown: GeneratedStorage) -> None:
    ds = opened(grown)
    per_chunk = int(ds._session.snapshot.tensors["y"].table.ids.counts[0])
    assert len(ds) == 1_200_000
    assert [ds.x[row].numpy().item() for row in (0, 99_999, 100_000, 1_199_999)] == [
        0,
        99_999,
        100_000,
        1_199_999,
    ]
    assert (ds.x[250_000:250_010].numpy().ravel() == np.arange(250_000, 250_010)).all()
    first, again, other = (ds.y[row].numpy() for row in (1, 2001, per_chunk + 1))
    assert (first == again).all()
    assert (first != other).any()
    ds.commit("grown")
    ds.append({"x": 7, "y": first})
    ds.commit("one more")
    assert opened(grown).x[-1].numpy().item() == 7
    found = verify(grown)
    assert found.is_sound, found


def test_statistics_rule_out_chunks_that_were_made(grown: GeneratedStorage) -> None:
    opened(grown).update_statistics()
    ds = opened(grown)
    before = grown.received
    assert ds.query("select * where x == 654321").x.numpy().ravel().tolist() == [654_321]
    assert grown.received - before < 2_000_000  # one chunk of 800 kB, and the statistics


def test_a_listing_has_the_chunks_that_were_made_until_they_are_deleted(grown: GeneratedStorage) -> None:
    chunks = [(key, stat.size) for key, stat in grown.list("versions/") if "/x/chunks/" in key]
    assert len(chunks) == 12
    key, size = chunks[3]
    assert len(grown.get(key)) == size == getattr(grown.stat(key), "size", 0)
    assert grown.get_ranges(key, [(5, 100), (size - 9, 9)]) == [grown.get(key)[5:105], grown.get(key)[-9:]]
    grown.delete(key)
    assert key not in [key for key, _ in grown.list()]
    with pytest.raises(KeyNotFound):
        grown.get(key)


def test_slopes_are_those_between_the_last_two_sizes() -> None:
    assert slope([10, 100, 1000], [5.0, 1.0, 10.0]) == pytest.approx(1)
    assert slope([10], [1.0]) is None
    assert slope([10, 100], [1.0, 0.0]) is None
