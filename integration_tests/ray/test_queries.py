"""Queries on a Ray cluster have the answers of one process, also while a node is killed."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakebed
from integration_tests.ray.nodes import Nodes
from lakebed.errors import MemoryDatasetCanNotBePickledError, QueryError
from lakebed.query.functions.function import forget
from lakebed.query.relations.relation import Stored
from unit_tests.lakebed.query import adapter
from unit_tests.lakebed.query.cases import query_of
from unit_tests.lakebed.query.test_split import ANSWERED, check_same

pytestmark = [
    pytest.mark.ray,
    pytest.mark.filterwarnings("ignore:::ray"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


def relation_of(found: Any) -> Any:
    return Stored(found._table()) if isinstance(found, lakebed.Dataset) else found.relation


@pytest.fixture
def ds(tmp_path: Path) -> lakebed.Dataset:
    ds = lakebed.empty(str(tmp_path / "ds"))
    ds.create_tensor("label", htype="class_label", class_names=["cat", "dog", "gull"])
    ds.create_tensor("n", dtype="int32")
    ds.create_tensor("photo", htype="image", sample_compression="png")
    for start in range(0, 120, 30):
        some = range(start, start + 30)
        photos = [np.full((4 + i % 3, 5, 3), i, np.uint8) for i in some]
        ds.extend(
            {"label": [i % 3 for i in some], "n": [None if i % 7 == 3 else i for i in some], "photo": photos}
        )
        ds.commit()
    return ds


def test_the_corpus(nodes: Nodes, tmp_path: Path) -> None:
    place = f"{tmp_path}/tql-"
    adapter.load(place)
    taken = 0
    try:
        for case in ANSWERED[::4]:
            text = query_of(case, place)
            try:
                expected = relation_of(lakebed.query(text))
                for name in expected.names:
                    expected.whole(name)
                found = lakebed.query(text, engine="ray")
            except QueryError:
                continue
            check_same(relation_of(found), expected)
            taken += 1
    finally:
        forget("double_it")
        forget("add_em")
    assert taken > 50


AGGREGATES = """
SELECT label[0] AS label, count(*) AS c, sum(n) AS s, avg(n) AS a, max(photo) AS high
GROUP BY label HAVING count(*) > 3 ORDER BY s DESC LIMIT 2
"""


def test_views_groups_and_errors(nodes: Nodes, ds: lakebed.Dataset) -> None:
    found = ds.query("SELECT * WHERE mean(photo) > 20 ORDER BY n DESC LIMIT 9", engine="ray")
    assert isinstance(found, lakebed.Dataset)
    expected = ds.query("SELECT * WHERE mean(photo) > 20 ORDER BY n DESC LIMIT 9")
    assert list(found.sample_indices) == list(expected.sample_indices)
    check_same(relation_of(ds.query(AGGREGATES, engine="ray")), relation_of(ds.query(AGGREGATES)))
    for text in ("SELECT * LIMIT 3", "SELECT * LIMIT 0", "SELECT n + 1 AS x LIMIT 0"):
        check_same(relation_of(ds.query(text, engine="ray")), relation_of(ds.query(text)))
    with pytest.raises(QueryError, match=r"DISTINCT.*Leave engine out"):
        ds.query("SELECT DISTINCT n", engine="ray")
    with pytest.raises(QueryError, match=r"^row 1: ") as caught:
        ds.query("SELECT photo[0, 0, n] + CAST('x' || label AS int) AS y WHERE n = 1", engine="ray")
    assert caught.value.kind == "runtime"
    with pytest.raises(QueryError, match="more than the 2 allowed"):
        ds.query("SELECT * WHERE n > 3", engine="ray", max_rows=2)
    away = lakebed.empty("mem://away", overwrite=True)
    away.create_tensor("n")
    with pytest.raises(MemoryDatasetCanNotBePickledError, match="copy it to a path"):
        away.query("SELECT * WHERE n > 1", engine="ray")


@pytest.fixture
def slow() -> Any:
    """A function of queries that waits."""

    @lakebed.query.register("slow")
    def wait(x: Any) -> Any:
        time.sleep(0.05)
        return x

    yield
    forget("slow")


def test_tasks_behind_the_limit_cannot_fail(nodes: Nodes, ds: lakebed.Dataset, slow: Any) -> None:
    """The first task is the slowest; all others have failed before it."""
    text = "SELECT * WHERE IF(n < 30 OR n IS NULL, slow(1), CAST('x' || label AS int)) >= 0 LIMIT 1"
    assert list(ds.query(text, engine="ray").sample_indices) == [0]
    with pytest.raises(QueryError, match="is not a valid int64"):
        ds.query(text.replace("LIMIT 1", "LIMIT 40"), engine="ray")


def test_a_node_that_is_killed(nodes: Nodes, ds: lakebed.Dataset, slow: Any) -> None:
    import ray

    text = "SELECT label, count(*) AS c, sum(n) AS s WHERE slow(n) >= 0 GROUP BY label"
    expected = relation_of(ds.query(text.replace("slow(n)", "n")))
    number = nodes.add()
    busy: list[float] = []

    def kill() -> None:
        busy.append(ray.cluster_resources()["CPU"] - ray.available_resources().get("CPU", 0.0))
        nodes.kill(number)

    killer = threading.Timer(1.5, kill)
    killer.start()
    try:
        found = ds.query(text, engine="ray")
        assert killer.finished.is_set()  # while tasks ran
    finally:
        killer.join()
    assert busy == [3.0]  # all three nodes had tasks
    check_same(relation_of(found), expected)


def test_a_timeout_ends_the_tasks(nodes: Nodes, ds: lakebed.Dataset, slow: Any) -> None:
    import ray

    with pytest.raises(QueryError, match="more than 1 seconds") as caught:
        ds.query("SELECT slow(slow(slow(n))) AS y", engine="ray", timeout=1.0)
    assert caught.value.kind == "limit"
    until = time.monotonic() + 30
    while ray.available_resources().get("CPU", 0.0) < 2.0 and time.monotonic() < until:
        time.sleep(0.1)
    assert ray.available_resources()["CPU"] == 2.0
