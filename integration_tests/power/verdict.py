"""Judge a dataset after the power failed: whether it opens, holds what it should, verifies, and takes the next row."""

from __future__ import annotations

from typing import Any

import numpy as np

import lakebed
from lakebed.errors import DatasetNotFoundError
from lakebed.maintenance.verify import verify
from lakebed.session.handle import Handle
from lakebed.session.session import Session
from lakebed.storage.local import LocalStorage
from lakebed.versions.refs import read_refs

Seen = dict[str, Any]


def _open(url: str, branch: str | None = None) -> lakebed.Dataset:
    # Unlike `load` this does not ask other datasets of this process to publish.
    return lakebed.Dataset(Handle(Session(LocalStorage(url), branch, read_only=True)))


def seen(url: str) -> Seen | None:
    """Everything that a reader sees in another process, by branch; None if there is no dataset."""
    try:
        branches = _open(url).branches
    except DatasetNotFoundError:
        return None
    found: Seen = {}
    for name in branches:
        ds = _open(url, name)
        tensors = {}
        for tensor in ds.tensors:
            rows = [np.asarray(row).tolist() for row in ds[tensor].numpy(aslist=True)]
            tensors[tensor] = (rows, dict(ds[tensor].info))
        found[name] = (tensors, dict(ds.info), [commit["message"] for commit in ds.commits])
    return {"branches": found, "tags": sorted(read_refs(LocalStorage(url)).tags)}


def goes_on(url: str, before: Seen | None) -> None:
    """Write the next row, or the dataset, and look again."""
    findings = verify(LocalStorage(url), deep=True) if before is not None else None
    assert findings is None or findings.is_sound, [str(damage) for damage in findings.damage]
    ds = lakebed.empty(url) if before is None else lakebed.load(url, read_only=False)
    with ds:
        if "n" not in ds.tensors:
            ds.create_tensor("n", htype="class_label", class_names=["a", "b"])
        ds.n.append(1)
    ds.commit("after the power came back")
    count = len(ds.n)
    ds.close()
    again = lakebed.load(url, read_only=True)
    labels = [] if before is None else before["branches"]["main"][0].get("n", ([], {}))[0]
    assert [row.tolist() for row in again.n.numpy(aslist=True)] == [*labels, [1]]
    assert len(again.n) == count == len(labels) + 1
    after = verify(LocalStorage(url))
    assert after.is_sound, [str(damage) for damage in after.damage]
