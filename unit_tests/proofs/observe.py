"""What readers see of a real dataset, in the words of the model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from lakebed.dataset.dataset import Dataset
from lakebed.dataset.tensor import Tensor
from lakebed.session.handle import Handle
from lakebed.session.session import Session
from lakebed.storage.base import Storage
from unit_tests.proofs.content import State, Value


def open_on(storage: Storage, address: str | None = None, *, read_only: bool = False) -> Dataset:
    """Open the dataset in a storage, as ``lakebed.load`` does at a path."""
    return Dataset(Handle(Session(storage, address, read_only=read_only)))


def state_of(storage: Storage) -> State:
    """Return what a reader sees of every branch, and the tags."""
    ds = open_on(storage, read_only=True)
    branches = {}
    for name in ds.branches:
        if name != ds.branch:
            ds.checkout(name)
        messages = [message_of(entry) for entry in ds.commits]
        branches[name] = {"log": messages, "changed": ds.has_head_changes, **content_of(ds)}
    tags = {}
    for name in ds.get_tags():
        ds.checkout(name)
        tags[name] = len(ds.commits)
    return {"branches": branches, "tags": tags}


def message_of(entry: Mapping[str, Any]) -> str | None:
    """Return the message of a commit; ids, which are random, are left out."""
    message = entry["message"]
    return message and re.sub(r"(?<=^Merge )[0-9a-f]{40}(?= into )", "#", message)


def content_of(ds: Dataset) -> State:
    """Return what a reader sees of one version.

    Raises
    ------
    ValueError
        If a tensor's hidden companions have another length than it has.
    """
    lengths = {name: ds[name].num_samples for name in ds._session.schema().names(hidden=True)}
    tensors: dict[str, Any] = {}
    for name, tensor in ds.tensors.items():
        for companion in (f"_{name}_id", f"_{name}_shape"):
            if lengths.get(companion, tensor.num_samples) != tensor.num_samples:
                raise ValueError(f"{companion} has {lengths[companion]} samples, {name} {tensor.num_samples}")
        tensors[name] = {
            "htype": tensor.htype or "generic",
            "values": values_of(tensor),
            "info": dict(tensor.info),
        }
    return {"tensors": tensors, "info": dict(ds.info)}


def values_of(tensor: Tensor) -> list[Value]:
    """Return the samples of a tensor: texts, numbers, and labels by their names."""
    if not tensor.num_samples:
        return []
    if tensor.htype == "text":
        return [*tensor.values()]
    numbers = [int(value[0]) if value.size else None for value in tensor.numpy(aslist=True)]
    if tensor.htype != "class_label":
        return [*numbers]
    names = tensor.info["class_names"]
    return [None if number is None else names[number] for number in numbers]
