"""Names of tensors in one version."""

from __future__ import annotations

from dataclasses import replace

from lakebed.documents.dataset_meta import DatasetMeta
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.versions.chunk_table import empty_table
from lakebed.versions.state import Snapshot, TensorState


def test_a_tensor_with_two_names_goes_by_both() -> None:
    """3.9.52 adds the old name, and the key once more, when it merges a line in which the tensor was not renamed."""
    state = TensorState("a", TensorMeta(name="z"), {}, empty_table())
    hidden = replace(state, key="_a_id", meta=TensorMeta(name="_z_id", hidden=True))
    meta = DatasetMeta(
        tensors=("a", "_a_id", "a"),
        tensor_names={"z": "a", "_z_id": "_a_id", "a": "a"},
        hidden_tensors=("_a_id", "_a_id"),
    )
    snapshot = Snapshot("0" * 40, meta, {}, {"a": state, "_a_id": hidden})
    assert snapshot.names() == ["z", "a"]
    assert snapshot.names(hidden=True) == ["z", "a", "_z_id"]
    assert snapshot.tensor("a") is snapshot.tensor("z") is state


def test_without_a_table_of_names_keys_are_names() -> None:
    """As in datasets of old releases."""
    state = TensorState("a", TensorMeta(), {}, empty_table())
    snapshot = Snapshot("0" * 40, DatasetMeta(tensors=("a",), tensor_names={}), {}, {"a": state})
    assert snapshot.names() == ["a"]
