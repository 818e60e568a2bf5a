"""Ctrl-C at a chosen line: everything that a dataset can be asked for, ended in the middle, and what must hold then."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Self

import numpy as np
import pyarrow as pa

import lakebed
from lakebed.dataset.dataset import Dataset
from lakebed.maintenance.verify import verify
from lakebed.storage.base import Storage
from unit_tests.lakebed.datasets import copy_of, create_on, new_memory, open_on

PACKAGE = str(Path(lakebed.__file__).parent)

Op = Callable[[Dataset], object]


@cache
def _leaves_with(code: CodeType) -> frozenset[int]:
    """Return the offsets in a code at which a ``with`` block without an error goes on to call ``__exit__``.

    A tracer meets the line of the ``with`` there once more. The interpreter looks for signals within the block, or
    after the call, but not there: an error at that place would leave every lock taken.
    """
    found = set()
    known = [op for op in dis.get_instructions(code) if op.opname not in ("CACHE", "EXTENDED_ARG")]
    for i in range(len(known) - 4):
        nones = [op.opname == "LOAD_CONST" and op.argval is None for op in known[i : i + 3]]
        call = next(op for op in known[i + 3 :] if op.opname != "PRECALL")
        if all(nones) and call.opname == "CALL" and call.arg in (2, 3):
            first = i
            while first and known[first - 1].opname in ("SWAP", "NOP"):
                first -= 1
            found |= {op.offset for op in known[first : i + 1]}
    return frozenset(found)


def _is_finalized(frame: FrameType | None) -> bool:
    """Whether a line belongs to a ``__del__`` or to what one calls, where Python drops every error."""
    while frame is not None:
        if frame.f_code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False


class Interrupt:
    """Raises an error at the n-th line that is executed inside the package in a ``with`` block; counts the lines.

    Parameters
    ----------
    at
        Which line, from 1 on; 0 interrupts nothing.
    error
        What is raised.
    """

    def __init__(self, at: int = 0, error: type[BaseException] = KeyboardInterrupt) -> None:
        self.at = at
        self.error = error
        self.lines = 0
        self.where = ""

    def _call(self, frame: FrameType, event: str, arg: object) -> Any:
        return self._line if frame.f_code.co_filename.startswith(PACKAGE) else None

    def _line(self, frame: FrameType, event: str, arg: object) -> Any:
        if event == "line" and frame.f_lasti not in _leaves_with(frame.f_code):
            self.lines += 1
            if 0 < self.at <= self.lines and not _is_finalized(frame):
                self.where = f"{frame.f_code.co_filename[len(PACKAGE) :]}:{frame.f_lineno}"
                sys.settrace(None)
                raise self.error(f"line {self.at}")
        return self._line

    def __enter__(self) -> Self:
        sys.settrace(self._call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)


def row(i: int) -> dict[str, Any]:
    """One row for all tensors of the dataset below."""
    return {
        "n": i,
        "text": f"row {i}" if i % 3 else "zeile äöü",
        "box": np.full((1 + i % 2, 4), i, np.float32),
        "image": np.full((4 + i % 3, 5, 3), i, np.uint8),
        "label": ["cat", "dog"][i % 2],
        "steps": [np.full((2,), j, np.int16) for j in range(i % 3 + 1)],
        "doc": {"i": i},
        "bare": float(i),
    }


def filled(*, bare: bool = True) -> Dataset:
    """Return a dataset of all kinds of tensors: rows committed, rows published, rows that wait.

    Parameters
    ----------
    bare
        Whether there is a tensor without hidden companions.
    """
    ds = open_on(copy_of(_published(bare=bare)))
    for i in range(6, 8):
        ds.append(row(i))
    return ds


@cache
def _published(*, bare: bool) -> Storage:
    ds = create_on(new_memory())
    ds.create_tensor("n", dtype="int64")
    ds.create_tensor("text", htype="text")
    ds.create_tensor("box", htype="bbox")
    ds.create_tensor("image", htype="image", sample_compression="png")
    ds.create_tensor("label", htype="class_label", class_names=["cat", "dog"])
    ds.create_tensor("steps", htype="sequence", dtype="int16")
    ds.create_tensor("doc", htype="json")
    ds.create_tensor("bare", dtype="float64", create_id_tensor=not bare, create_shape_tensor=not bare)
    ds.info["made"] = "by a test"
    for i in range(4):
        ds.append(row(i))
    ds.commit("first")
    for i in range(4, 6):
        ds.append(row(i))
    ds.flush()
    return ds._session.storage


def content(ds: Dataset) -> dict[str, Any]:
    """Return what a dataset holds, in plain values."""
    found: dict[str, Any] = {"branch": ds.branch, "info": dict(ds.info), "groups": sorted(ds.groups)}
    for name, tensor in ds.tensors.items():
        found[name] = [_plain(value) for value in tensor.data(aslist=True)["value"]], dict(tensor.info)
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value


@dataclass(frozen=True)
class Case:
    """Something to do with a dataset, in steps of which each is made as a whole or not at all."""

    name: str
    steps: tuple[Op, ...]


def _with_block(ds: Dataset) -> None:
    with ds:
        ds.append(row(8))


def _extend(ds: Dataset) -> None:
    rows = [row(i) for i in range(8, 12)]
    ds.extend({name: [one[name] for one in rows] for name in rows[0]})


def _merge(ds: Dataset) -> None:
    ds.merge("other")


def _branched(ds: Dataset) -> None:
    ds.commit("here")
    ds.checkout("other", create=True)
    ds.append(row(20))
    ds.n[0] = 99
    ds.commit("there")
    ds.checkout("main")
    ds.append(row(21))
    ds.commit("more")


def _to_branch(ds: Dataset) -> None:
    ds.checkout("side", create=True)


def _transform(ds: Dataset) -> None:
    lakebed.compute(lambda item, out: out.append(row(item)), name="rows")().eval(
        [8, 9], ds, progressbar=False
    )


CASES = [
    Case("transform", (_transform,)),
    Case("append a row that surely fits", (lambda ds: ds.bare.append(1.0), lambda ds: ds.bare.append(2.0))),
    Case("append a row", (lambda ds: ds.append(row(8)), lambda ds: ds.append(row(9)))),
    Case("append a row with a null", (lambda ds: ds.append({**row(8), "text": None, "n": None}),)),
    Case("append with names left out", (lambda ds: ds.append({"n": 8}, append_empty=True),)),
    Case(
        "append one sample", (lambda ds: ds.text.append("text"), lambda ds: ds.image.append(row(8)["image"]))
    ),
    Case("extend", (_extend,)),
    Case("extend one tensor", (lambda ds: ds.n.extend(np.arange(300)),)),
    Case("extend by another tensor", (lambda ds: ds.bare.extend(ds.bare),)),
    Case("replace a sample", (lambda ds: ds.n.__setitem__(1, 70), lambda ds: ds.n.__setitem__(7, 71))),
    Case("replace a text by a null", (lambda ds: ds.text.__setitem__(2, None),)),
    Case("replace a slice", (lambda ds: ds.text.__setitem__(slice(0, 3), ["a", "b", "c"]),)),
    Case("replace an image", (lambda ds: ds.image.__setitem__(3, np.zeros((9, 9, 3), np.uint8)),)),
    Case("replace a part", (lambda ds: ds.box[1, 0].assign(np.ones(4, np.float32)),)),
    Case("replace a sequence", (lambda ds: ds.steps.__setitem__(1, [np.zeros(2, np.int16)] * 4),)),
    Case("replace rows", (lambda ds: ds[2:4].update({"n": [8, 9], "text": ["x", "y"]}),)),
    Case("update rows", (lambda ds: ds.update_rows([1, 6], {"n": [5, 6], "text": ["x", "y"]}),)),
    Case("write behind the end", (lambda ds: ds.n.__setitem__(11, 5),)),
    Case("count up", (lambda ds: ds.n.__setitem__(slice(0, 2), np.array([5, 6])),)),
    Case("pop", (lambda ds: ds.pop(1), lambda ds: ds.pop())),
    Case("pop rows", (lambda ds: ds.pop_rows([0, 3, 7]),)),
    Case("pop of one tensor", (lambda ds: ds.steps.pop(2),)),
    Case("clear", (lambda ds: ds.image.clear(),)),
    Case(
        "create a tensor",
        (lambda ds: ds.create_tensor("group/new", htype="image", sample_compression="jpeg"),),
    ),
    Case("create a group", (lambda ds: ds.create_group("one/two"),)),
    Case("delete a tensor", (lambda ds: ds.delete_tensor("image"),)),
    Case("rename a tensor", (lambda ds: ds.rename_tensor("text", "words"),)),
    Case("change a type", (lambda ds: ds.change_type("n", dtype="float64"),)),
    Case("rechunk", (lambda ds: ds.rechunk(),)),
    Case("info", (lambda ds: ds.info.update(a=1), lambda ds: ds.label.info.update(class_names=["a", "b"]))),
    Case("flush", (lambda ds: ds.flush(),)),
    Case("commit", (lambda ds: ds.commit("second"),)),
    Case("a with block", (_with_block,)),
    Case("checkout of a new branch", (_to_branch,)),
    Case("checkout of a commit", (lambda ds: ds.checkout(ds.commit_id),)),
    Case("reset", (lambda ds: ds.discard(), lambda ds: ds.reset())),
    Case("read", (content,)),
    Case("read a value that waits", (lambda ds: ds.n[-1].numpy(), lambda ds: ds.image[7].numpy())),
    Case("batches", (lambda ds: list(ds.batches(3)),)),
    Case("arrow", (lambda ds: pa.table(ds[["n", "text", "bare"]]),)),
    Case("batches in any order", (lambda ds: list(ds[[5, 0, 3]].batches(2)),)),
    Case("tables", (lambda ds: ds[["n", "text", "label"]].to_arrow(), lambda ds: ds.n.numpy(masked=True))),
    Case("rows as dictionaries", (lambda ds: list(ds[["n", "text"]].rows()), lambda ds: ds[1].to_dict())),
    Case("notebook", (lambda ds: ds._repr_html_(),)),
    Case("length and look", (lambda ds: (len(ds), ds.n.shape, repr(ds)),)),
    Case("diff", (lambda ds: ds.diff(as_dict=True),)),
    Case("log", (lambda ds: ds.log(),)),
    Case("tag", (lambda ds: ds.create_tag("mark"),)),
    Case("squash", (lambda ds: ds.squash("all"),)),
]
MERGE = Case("merge", (_merge,))


def states(case: Case, make: Callable[[], Dataset]) -> list[dict[str, Any]]:
    """Return what the dataset may hold when the case is interrupted: before, and after each step."""
    ds = make()
    found = [content(ds)]
    for step in case.steps:
        step(ds)
        found.append(content(ds))
    return found


def lines(case: Case, make: Callable[[], Dataset]) -> int:
    """Count the lines that a case executes."""
    ds = make()
    with Interrupt() as counted:
        for step in case.steps:
            step(ds)
    return counted.lines


def merging() -> Dataset:
    """Return a dataset with a branch to merge."""
    ds = filled(bare=False)
    _branched(ds)
    return ds


def interrupted(
    case: Case,
    make: Callable[[], Dataset],
    allowed: list[dict[str, Any]],
    at: int,
    error: type[BaseException] = KeyboardInterrupt,
) -> None:
    """Interrupt a case at a line; then the object must go on with what it held before or after a step."""
    ds = make()
    with Interrupt(at, error) as interrupt:
        try:
            for step in case.steps:
                step(ds)
        except BaseException as found:
            if interrupt.where == "":
                raise
            del found
    place = f"{case.name}: {error.__name__} at line {at}, {interrupt.where}"
    now = content(ds)
    assert now in allowed, f"{place}: {_difference(now, allowed[0])}"
    if ds._session.is_head:
        for name, sample in row(30).items():
            if name in ds.tensors:
                ds[name].append(sample)
    ds.flush()
    later, address = content(ds), ds.branch if ds._session.is_head else ds.commit_id
    assert ds._session._lock is None, f"{place}: the lock is held"
    again = open_on(ds._session.storage, address)
    assert content(again) == later, f"{place}: what was published differs"
    if ds._session.is_head:
        again.bare.append(5.0)  # the lock is free
        again.flush()
    found = verify(ds._session.storage, deep=True)
    assert found.is_sound, f"{place}: {[str(damage) for damage in found.damage]}"


def _difference(now: dict[str, Any], before: dict[str, Any]) -> str:
    keys = [key for key in {*now, *before} if now.get(key) != before.get(key)]
    return ", ".join(f"{key}: {now.get(key)!s:.200} was {before.get(key)!s:.200}" for key in keys)
