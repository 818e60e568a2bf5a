"""Reading from a store in every order gives what reading from this machine gives, however small the cache is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lakebed
from lakebed.documents.manifest import BLOCK
from unit_tests.effort import examples
from unit_tests.lakebed.reading.remote.remote_storage import RemoteStorage, opened

ROWS = 60
RNG = np.random.default_rng(10)
TENSORS = ["even", "ragged", "png", "jpeg", "text", "number", "coded", "tiled", "items"]


def sample(i: int) -> np.ndarray:
    return RNG.integers(0, 256, (100 + 7 * (i % 3), 90, 3), np.uint8)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Samples of all kinds: in large chunks, in small ones, compressed as chunks, in tiles, in sequences."""
    path = tmp_path_factory.mktemp("far") / "ds"
    pictures = [sample(i) for i in range(ROWS)]
    pictures[17] = pictures[17][:, :, :1].repeat(3, axis=2)
    with lakebed.empty(path) as ds:
        limit = {"max_chunk_size": 1_400_000}
        ds.create_tensor("even", dtype="uint8", **limit).extend(np.stack([p[:100] for p in pictures]))
        ds.create_tensor("ragged", dtype="uint8", **limit).extend(pictures)
        ds.create_tensor("png", htype="image", sample_compression="png", **limit)
        ds.png.extend([None if i == 23 else p for i, p in enumerate(pictures)])
        ds.create_tensor("jpeg", htype="image", sample_compression="jpeg", max_chunk_size=60_000).extend(
            pictures
        )
        ds.create_tensor("text", htype="text", **limit).extend(["ab" * (i % 5) * 3000 for i in range(ROWS)])
        ds.create_tensor("number", dtype="int64", max_chunk_size=200).extend(np.arange(ROWS))
        ds.create_tensor("coded", dtype="uint8", chunk_compression="lz4", **limit).extend(pictures)
        ds.create_tensor("tiled", dtype="uint8", tiling_threshold=200_000, **limit)
        ds.tiled.extend([RNG.integers(0, 256, (500 if i == 30 else 3, 600), np.uint8) for i in range(ROWS)])
        ds.create_tensor("items", htype="sequence[image]", sample_compression="png", **limit)
        ds["items"].extend([pictures[i : i + 1 + i % 2] for i in range(ROWS)])
        ds.commit("all of it")
    return path


@pytest.fixture(scope="module")
def near(path: Path) -> lakebed.Dataset:
    return lakebed.load(path, read_only=True)


@pytest.fixture(scope="module")
def storage(path: Path) -> RemoteStorage:
    return RemoteStorage.of(path)


def same(found: Any, expected: Any) -> bool:
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(same, found, expected))
    is_array = isinstance(expected, np.ndarray)
    return bool(np.array_equal(found, expected)) and (not is_array or found.dtype == expected.dtype)


STEPS = st.one_of(
    st.integers(-ROWS, ROWS - 1),
    st.lists(st.integers(0, ROWS - 1), max_size=12),
    st.builds(slice, st.integers(0, ROWS), st.integers(0, ROWS), st.sampled_from([None, 1, 3, -1])),
    st.builds(range, st.integers(0, ROWS - 8), st.integers(ROWS - 8, ROWS)),
)


@settings(max_examples=examples(40))
@given(
    st.lists(st.tuples(st.sampled_from(TENSORS), STEPS), max_size=10),
    st.sampled_from([0, 3 * BLOCK, 1 << 28]),
)
def test_reads_in_every_order(
    near: lakebed.Dataset, storage: RemoteStorage, steps: list[tuple[str, Any]], cache_bytes: int
) -> None:
    """Single rows, lists, slices, and rows one after the other, of one dataset after the other."""
    far = opened(storage, cache_bytes)
    for name, step in steps:
        if isinstance(step, range):
            for row in step[:20]:
                assert same(far[name][row].numpy(aslist=True), near[name][row].numpy(aslist=True)), (
                    name,
                    row,
                )
            continue
        assert same(far[name][step].numpy(aslist=True), near[name][step].numpy(aslist=True)), (name, step)
    assert far._session.source.remote.prefetched_bytes <= 1 << 25


@settings(max_examples=examples(10))
@given(
    st.lists(st.sampled_from(TENSORS), min_size=1, unique=True), st.integers(1, 70), st.integers(0, ROWS - 1)
)
def test_batches(
    near: lakebed.Dataset, storage: RemoteStorage, names: list[str], size: int, first: int
) -> None:
    """Of all tensors together, from any row on."""
    far = opened(storage, 0)
    for found, expected in zip(
        far[first:].batches(size, names), near[first:].batches(size, names), strict=True
    ):
        for name in names:
            assert same(list(found[name]), list(expected[name])), name


@pytest.mark.parametrize("name", TENSORS)
def test_shapes_and_parts(near: lakebed.Dataset, storage: RemoteStorage, name: str) -> None:
    """What is read without the data, or of a part of it, is the same too."""
    far = opened(storage)
    if name != "items":
        assert np.array_equal(far[name].shapes(), near[name].shapes())
    assert far[name].shape == near[name].shape
    if name in ("even", "ragged", "coded", "tiled"):
        for row in (0, 30, ROWS - 1):
            assert np.array_equal(far[name][row, 1:3, 5].numpy(), near[name][row, 1:3, 5].numpy())
