"""Whatever call of the storage fails, in whatever way: the dataset opens, shows the old or the new state, and goes on.

The script creates, appends, updates, pops, commits, branches, merges, rechunks, and deletes a tensor and a branch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import lakebed
from lakebed.writing import rewriting
from unit_tests.effort import EFFORT, seed
from unit_tests.proofs.crash import CrashRunner, Position, Step, sampled
from unit_tests.proofs.eager import CONFIGURATIONS, configure
from unit_tests.proofs.model import Model

Record = Callable[[str, object], None]


def make_tensors(ds: lakebed.Dataset) -> None:
    ds.create_tensor("n", dtype="int64")
    ds.create_tensor("t", htype="text")
    ds.create_tensor("c", htype="class_label", class_names=["ant"])


def model_tensors(model: Model) -> None:
    model.create_tensor("n", "generic")
    model.create_tensor("t", "text")
    model.create_tensor("c", "class_label", ["ant"])


ROWS: Any = {"n": [1, 2, 3, 4], "t": ["a", "", "long " * 9, "d"], "c": ["ant", "bee", "ant", "cat"]}
MORE: Any = {"n": [5, 6], "t": ["e", "f"], "c": ["dog", "bee"]}
THEIRS: Any = {"n": [70, 80], "t": ["side", "line"], "c": ["eel", "ant"]}


def set_info(ds: lakebed.Dataset) -> None:
    ds.info["source"] = "test"


def appended(ds: lakebed.Dataset) -> None:
    for i in range(3):
        ds.append({"n": i, "t": str(i), "c": "bee"})


def model_appended(model: Model) -> None:
    for i in range(3):
        model.append({"n": i, "t": str(i), "c": "bee"})


def updated(ds: lakebed.Dataset) -> None:
    ds.n[0] = 100


def updated_text(ds: lakebed.Dataset) -> None:
    ds.t[1] = "changed"


def updated_on_side(ds: lakebed.Dataset) -> None:
    ds.t[2] = "theirs"


def update_many(ds: lakebed.Dataset) -> None:
    ds.update_rows([0, 3, 4], {"n": [-1, -2, -3], "t": ["", "many", "rows"], "c": ["bee", "ant", "dog"]})


def model_update_many(model: Model) -> None:
    for row, n, t, c in ((0, -1, "", "bee"), (3, -2, "many", "ant"), (4, -3, "rows", "dog")):
        model.update("n", row, n)
        model.update("t", row, t)
        model.update("c", row, c)


def model_pop_many(model: Model) -> None:
    model.pop_row(4)
    model.pop_row(1)


def leave(ds: lakebed.Dataset) -> None:
    ds.checkout("side", create=True)


def branch_with_changes(ds: lakebed.Dataset) -> None:
    ds.checkout("short", create=True)


SCRIPT = [
    Step("create tensors", make_tensors, model_tensors),
    Step("extend", lambda ds: ds.extend(ROWS), lambda m: m.extend(ROWS)),
    Step("info", set_info, lambda m: m.set_info("source", "test")),
    Step("commit what is published", lambda ds: ds.commit("one"), lambda m: m.commit("one")),
    Step("append", appended, model_appended),
    Step("update", updated, lambda m: m.update("n", 0, 100)),
    Step("update a text", updated_text, lambda m: m.update("t", 1, "changed")),
    Step("pop", lambda ds: ds.pop(1), lambda m: m.pop_row(1)),
    Step("update many", update_many, model_update_many),
    Step("pop many", lambda ds: ds.pop_rows([1, 4]), model_pop_many),
    Step("branch with changes", branch_with_changes, lambda m: m.checkout("short", create=True)),
    Step("rename", lambda ds: ds.rename_tensor("n", "m"), lambda m: m.rename_tensor("n", "m"), "short"),
    Step("rename back", lambda ds: ds.rename_tensor("m", "n"), lambda m: m.rename_tensor("m", "n"), "short"),
    Step("branch", leave, lambda m: m.checkout("side", create=True)),
    Step("extend the branch", lambda ds: ds.extend(THEIRS), lambda m: m.extend(THEIRS), "side"),
    Step("update the branch", updated_on_side, lambda m: m.update("t", 2, "theirs"), "side"),
    Step("commit the branch", lambda ds: ds.commit("two"), lambda m: m.commit("two"), "side"),
    Step("extend main", lambda ds: ds.extend(MORE), lambda m: m.extend(MORE)),
    Step("merge", lambda ds: ds.merge("side"), lambda m: m.merge("side")),
    Step("rechunk", lambda ds: ds.rechunk(), lambda m: m.rechunk()),
    Step("delete a tensor", lambda ds: ds.delete_tensor("t"), lambda m: m.delete_tensor("t")),
    Step("commit the deletion", lambda ds: ds.commit("three"), lambda m: m.commit("three")),
    Step("clear", lambda ds: ds.c.clear(), lambda m: m.clear("c")),
    Step("reset", lambda ds: ds.reset(), lambda m: m.reset()),
    Step("delete a branch", lambda ds: ds.delete_branch("short"), lambda m: m.delete_branch("short")),
]


@pytest.fixture(scope="module", params=CONFIGURATIONS)
def runner(request: pytest.FixtureRequest) -> Iterator[CrashRunner]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        configure(monkeypatch, request.param)
        monkeypatch.setattr(rewriting, "MANY", 2)
        yield CrashRunner(SCRIPT)


def attempt(runner: CrashRunner, positions: list[Position], record: Record, source: str) -> None:
    """Try all of them, then tell of every failure."""
    wrong = []
    for position in positions:
        try:
            runner.attempt(position)
        except Exception as error:  # noqa: BLE001
            wrong.append(f"{runner.describe(position)}: {type(error).__name__}: {error}")
    kinds = Counter((p.when, "crash" if p.is_crash else "error") for p in positions)
    record("proof", f"n-th fault: {len(positions)} faults ({source}), {dict(kinds)}, {len(wrong)} wrong")
    assert not wrong, f"{len(wrong)} of {len(positions)} wrong:\n" + "\n".join(wrong[:12])


def test_a_sample_of_all_faults(runner: CrashRunner, record_property: Record) -> None:
    """100 with each configuration of all calls x before, after, torn x crash, error; reading calls too."""
    every = [*runner.positions()]
    attempt(
        runner,
        sampled(every, EFFORT.faults, seed()),
        record_property,
        f"of {len(every)}, LAKEBED_SEED={seed()}",
    )
