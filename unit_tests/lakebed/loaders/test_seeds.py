"""The seed of a loader: given, of the program, of PyTorch, or of chance; and the same for all that share the rows."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

import lakebed
from lakebed.errors import InvalidInputError

ROWS = 200


@pytest.fixture
def ds() -> lakebed.Dataset:
    found = lakebed.empty("mem://")
    found.create_tensor("x", dtype="int64")
    found.extend({"x": range(ROWS)})
    return found


def _rows(loader: Any) -> list[int]:
    return [int(row) for batch in loader for row in batch.rows]


def test_each_loader_draws_its_own(ds: lakebed.Dataset) -> None:
    one, two = (lakebed.Loader(ds, 16, shuffle=True) for _ in range(2))
    assert one.seed != two.seed
    first, second = _rows(one), _rows(two)
    assert first != second
    assert sorted(first) == sorted(second) == list(range(ROWS))


def test_a_seed_that_was_given_counts(ds: lakebed.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = _rows(lakebed.Loader(ds, 16, shuffle=True, seed=7))
    monkeypatch.setattr(lakebed.random, "_seed", 7)
    assert _rows(lakebed.Loader(ds, 16, shuffle=True)) == expected
    assert _rows(lakebed.Loader(ds, 16, shuffle=True, seed=8)) != expected
    assert (
        ds.random_split([0.5, 0.5])[0].x.numpy().tolist()
        == ds.random_split([0.5, 0.5], 7)[0].x.numpy().tolist()
    )
    assert (
        ds.random_split([0.5, 0.5], 8)[0].x.numpy().tolist()
        != ds.random_split([0.5, 0.5])[0].x.numpy().tolist()
    )


def test_a_state_brings_its_seed(ds: lakebed.Dataset) -> None:
    one = lakebed.Loader(ds, 16, shuffle=True)
    iterator = iter(one)
    before = [int(row) for _ in range(3) for row in next(iterator).rows]
    again = lakebed.Loader(ds, 16, shuffle=True)
    again.load_state_dict(one.state_dict())
    assert again.seed == one.seed
    assert sorted([*before, *_rows(again)]) == list(range(ROWS))
    with pytest.raises(InvalidInputError, match="another seed"):
        lakebed.Loader(ds, 16, shuffle=True, seed=one.seed + 1).load_state_dict(one.state_dict())


def test_processes_that_share_the_rows_draw_the_same(ds: lakebed.Dataset) -> None:
    ranks = [lakebed.Loader(ds, 8, shuffle=True, rank=rank, world=2) for rank in range(2)]
    assert [loader.seed for loader in ranks] == [0, 0]
    assert sorted([row for loader in ranks for row in _rows(loader)]) == list(range(ROWS))


def test_a_process_group_that_comes_late_counts(ds: lakebed.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loaders are made before the group is, too: each process would go on in an order of its own."""
    loader = lakebed.Loader(ds, 8, shuffle=True)
    group = SimpleNamespace(
        is_available=lambda: True, is_initialized=lambda: True, get_rank=lambda: 1, get_world_size=lambda: 2
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(distributed=group))
    assert loader.seed == 0
    assert loader.state_dict()["seed"] == 0


def test_the_order_follows_the_seed_of_pytorch(ds: lakebed.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch stands in: the suite runs without it, and integration tests have the real one."""
    torch = SimpleNamespace(randint=lambda high, size: 1234, Generator=object)
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert lakebed.Loader(ds, 8, shuffle=True).seed == 1234
    assert lakebed.Loader(ds, 8).seed == 0, "an order that is none takes nothing from its generator"


def test_each_run_has_another_order() -> None:
    program = (
        "import lakebed; ds = lakebed.empty('mem://x'); ds.create_tensor('x', dtype='int64'); "
        "ds.extend({'x': range(50)}); print([int(r) for b in lakebed.Loader(ds, 8, shuffle=True) for r in b.rows])"
    )
    orders = {
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    }
    assert len(orders) == 2
