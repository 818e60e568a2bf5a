"""Datasets at the destination, held for writing."""

from pathlib import Path

import pytest

import lakebed
from destination_deeplake.lake import hold


def test_what_a_step_that_failed_has_not_published_never_appears(tmp_path: Path) -> None:
    """Neither when the dataset is closed nor when it is forgotten, and the next writer need not wait."""
    path = str(tmp_path / "users")
    dataset = lakebed.empty(path)
    dataset.create_tensor("id", dtype="int64")
    with hold(dataset):
        dataset.extend({"id": [1]})
        dataset.flush()

    def fail_halfway() -> None:
        with hold(dataset):
            dataset.extend({"id": [2]})
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_halfway()
    other = lakebed.load(path, read_only=False)
    other.extend({"id": [3]})
    other.close()
    dataset.close()
    assert lakebed.load(path, read_only=True)["id"].numpy().ravel().tolist() == [1, 3]
