"""Queries of datasets in buckets, alone and beside those on a disk."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakebed
from integration_tests.stores.servers import Server
from lakebed.errors import QueryError
from lakebed.query.functions.function import forget


@pytest.fixture
def url(bare: Server) -> str:
    """Birds in a bucket: three in the first commit, which the tag v1 names, four in the second."""
    address = bare.url(f"queries-{uuid.uuid4().hex[:8]}/birds")
    ds = lakebed.empty(address, creds=bare.creds)
    ds.create_tensor("id", dtype="int64")
    ds.create_tensor("name", htype="text")
    ds.create_tensor("photo", htype="image", sample_compression="png")
    for i, name in enumerate(["wren", "kite", "gull"]):
        ds.append({"id": i, "name": name, "photo": np.full((4 + i, 4, 3), i, np.uint8)})
    ds.create_tag("v1", ds.commit("three"))
    ds.append({"id": 3, "name": "swan", "photo": np.zeros((9, 4, 3), np.uint8)})
    ds.commit("four")
    return address


@pytest.fixture
def seen(tmp_path: Path) -> str:
    """What was seen, on the disk."""
    ds = lakebed.empty(tmp_path / "seen")
    ds.create_tensor("bird", dtype="int64")
    ds.create_tensor("place", htype="text")
    ds.extend({"bird": [3, 1, 3, 8], "place": ["lake", "hill", "sea", "moon"]})
    ds.commit()
    return str(tmp_path / "seen")


def names(found: Any) -> list[str]:
    return list(found.name.to_arrow().to_pylist())


def test_a_bucket_is_asked_at_its_versions(url: str, bare: Server) -> None:
    ask = lakebed.query
    assert names(ask(f'SELECT * FROM "{url}" WHERE id > 0', creds=bare.creds)) == ["kite", "gull", "swan"]
    assert names(ask(f'SELECT * FROM "{url}"@v1 WHERE id > 0', creds=bare.creds)) == ["kite", "gull"]
    assert names(ask(f'SELECT * FROM "{url}@v1" ORDER BY name', creds=bare.creds)) == ["gull", "kite", "wren"]
    assert names(ask(f"SELECT * FROM \"{url}\" VERSION 'HEAD~2'", creds=bare.creds)) == [
        "wren",
        "kite",
        "gull",
    ]
    view = ask(f'SELECT * FROM "{url}" WHERE shape(photo)[0] > 5', creds=bare.creds)
    assert [len(array) for array in view.photo.numpy(aslist=True)] == [6, 9]
    newer = f"""SELECT * FROM "{url}" WHERE id NOT IN (SELECT id FROM "{url}"@v1)"""
    assert names(ask(newer, creds=bare.creds)) == ["swan"]
    prepared = lakebed.query.prepare(f'SELECT * FROM "{url}" WHERE id > ?', creds=bare.creds)
    assert [len(found) for found in prepared.run_many([[0], [2]])] == [3, 1]
    assert "4 rows" in lakebed.explain(f'SELECT * FROM "{url}"', creds=bare.creds)


def test_a_bucket_is_joined_with_the_disk(url: str, seen: str, bare: Server) -> None:
    joined = lakebed.query(
        f'SELECT b.name, s.place FROM "{seen}" AS s LEFT JOIN "{url}" AS b ON b.id = s.bird', creds=bare.creds
    )
    assert [(row["name"], row["place"]) for row in joined.rows()] == [
        ("swan", "lake"),
        ("kite", "hill"),
        ("swan", "sea"),
        (None, "moon"),
    ]
    unseen = lakebed.query(
        f'SELECT * FROM "{url}" AS b WHERE NOT EXISTS (SELECT * FROM "{seen}" AS s WHERE s.bird = b.id)',
        creds=bare.creds,
    )
    assert names(unseen) == ["wren", "gull"]
    local = lakebed.load(seen)
    text = f"""SELECT * WHERE bird IN (SELECT id FROM "{url}" WHERE name == 'swan')"""
    assert local.query(text, creds=bare.creds).place.to_arrow().to_pylist() == ["lake", "sea"]
    again = local.prepare(text.replace("'swan'", "?"), creds=bare.creds)
    assert again.run("kite").place.to_arrow().to_pylist() == ["hill"]


def test_a_copy_of_what_was_joined_goes_to_a_bucket(
    url: str, seen: str, bare: Server, tmp_path: Path
) -> None:
    joined = lakebed.query(
        f'SELECT b.photo, s.place FROM "{url}" AS b JOIN "{seen}" AS s ON b.id = s.bird', creds=bare.creds
    )
    for dest in (tmp_path / "joined", bare.url("joined")):
        stored: Any = joined.materialize(dest, creds=bare.creds)
        assert [len(array) for array in stored.photo.numpy(aslist=True)] == [5, 9, 9]


def test_functions_of_programs_keep_their_types(url: str, bare: Server) -> None:
    """What mypy says of a program that registers a function and calls it is part of this."""

    @lakebed.query.register("long_name")
    def long_name(name: str) -> bool:
        return len(name) > limit

    limit = 3
    same: Callable[[str], bool] = long_name
    assert same("gulls")
    try:
        found = lakebed.query(f'SELECT * FROM "{url}" WHERE long_name(name) AND id < 2', creds=bare.creds)
        assert names(found) == ["wren", "kite"]
    finally:
        forget("long_name")
    lengths: Callable[[Any], list[int]] = lakebed.query.register(
        "lengths", lambda values: [len(value) for value in values], vectorised=True
    )
    forget("lengths")
    assert lengths(["ab"]) == [2]


def test_a_dataset_that_is_not_there_is_named(url: str, bare: Server) -> None:
    with pytest.raises(QueryError, match="cannot be read") as caught:
        lakebed.query(f'SELECT * FROM "{url}nothing"', creds=bare.creds)
    assert caught.value.kind == "unknown_source"
