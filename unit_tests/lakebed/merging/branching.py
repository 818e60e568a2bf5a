"""Datasets with two lines of history, and what they hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lakebed
from lakebed.storage.base import Storage
from unit_tests.lakebed.datasets import create_on, new_memory, objects, open_on

Edit = Callable[[lakebed.Dataset], Any]


def storage_of(ds: lakebed.Dataset) -> Storage:
    """The storage that a dataset lies in."""
    return ds._session.storage


def lines(make: Edit, there: Edit, here: Edit | None = None) -> lakebed.Dataset:
    """A dataset on main whose branch b holds other changes since the commit that both come from."""
    ds = create_on(new_memory())
    make(ds)
    ds.commit("start")
    ds.checkout("b", create=True)
    there(ds)
    ds.commit("there")
    ds.checkout("main")
    if here is not None:
        here(ds)
        ds.commit("here")
    return ds


def numbers(*values: int, names: str = "a") -> Edit:
    """Make tensors of these numbers."""

    def make(ds: lakebed.Dataset) -> None:
        for name in names:
            ds.create_tensor(name, dtype="int64").extend(list(values))

    return make


def held(ds: lakebed.Dataset) -> dict[str, list[Any]]:
    """All samples of tensors of numbers; None for empty ones."""
    return {
        name: [x.numpy().ravel().tolist()[0] if x.numpy().size else None for x in tensor]
        for name, tensor in sorted(ds.tensors.items())
    }


def everything(ds: lakebed.Dataset) -> dict[str, bytes]:
    """All that is stored."""
    return objects(storage_of(ds))


def set_row(row: int, value: int, name: str = "a") -> Edit:
    """Change one sample."""

    def edit(ds: lakebed.Dataset) -> None:
        ds[name][row] = value

    return edit


def both(*edits: Edit) -> Edit:
    """Several changes."""

    def edit(ds: lakebed.Dataset) -> None:
        for each in edits:
            each(ds)

    return edit


def ids(ds: lakebed.Dataset) -> dict[int, int]:
    """Ids of the rows by their numbers."""
    pairs = zip(ds.a.numpy().ravel().tolist(), ds["_a_id"].numpy().ravel().tolist(), strict=True)
    return dict(pairs)


def commit_of(ds: lakebed.Dataset, branch: str) -> str | None:
    """The last commit of a branch."""
    return open_on(storage_of(ds), branch, read_only=True).commit_id


def messages(ds: lakebed.Dataset) -> list[str]:
    return [commit["message"] for commit in ds.commits]
