"""Rows and columns as users of pandas type them, and the commands that change datasets, in buckets."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import lakebed
from integration_tests.stores import servers
from integration_tests.stores.servers import Server
from lakebed.cli import main
from lakebed.errors import CommitFailed, DatasetNotFoundError, PathNotEmptyException
from lakebed.session.process import finalizer
from lakebed.storage.base import Storage
from lakebed.storage.url import open_storage, parse

KINDS = ["cat", "dog", "owl"]


def pets(url: str, creds: Any = None) -> lakebed.Dataset:
    """Nine committed rows: ages 0 to 8, three kinds, names and photos."""
    ds = lakebed.empty(url, creds=creds)
    with ds:
        ds.create_tensor("age", dtype="int64")
        ds.create_tensor("kind", htype="class_label", class_names=KINDS)
        ds.create_tensor("name", htype="text")
        ds.create_tensor("photo", htype="image", sample_compression="png")
        ds.extend(
            {
                "age": np.arange(9),
                "kind": np.arange(9) % 3,
                "name": [f"n{i}" for i in range(9)],
                "photo": [np.full((4 + i, 4, 3), i, np.uint8) for i in range(9)],
            }
        )
    ds.commit("pets")
    return ds


# -- what is read ----------------------------------------------------------------------------------------------------

ASKS: dict[str, tuple[Callable[[lakebed.Dataset], Any], Any, list[str]]] = {
    "a condition": (lambda ds: ds[ds["age"] > 6].sample_indices, [7, 8], ["age"]),
    "two conditions": (
        lambda ds: ds[(ds["age"] > 2) & (ds["kind"] == "cat")].sample_indices,
        [3, 6],
        ["age", "kind"],
    ),
    "missing": (lambda ds: ds["photo"].isna().sum(), 0, []),
    "counts": (lambda ds: ds["kind"].value_counts(), {"cat": 3, "dog": 3, "owl": 3}, ["kind"]),
    "a mean": (lambda ds: ds["age"].mean(), 4.0, ["age"]),
    "a loop": (lambda ds: sum(int(row["age"]) for row in ds), 36, ["age"]),
    "a row": (lambda ds: ds[3]["age"] + 1, 4, ["age"]),
    "a function": (lambda ds: len(ds.filter(lambda row: row["age"] > 6)), 2, ["age"]),
    "an order": (
        lambda ds: ds.sort("age", descending=True)["name"].tolist()[:2],
        ["n8", "n7"],
        ["age", "name"],
    ),
    "groups": (lambda ds: len(ds.groupby("kind").count()), 3, ["kind"]),
    "rows together": (lambda ds: lakebed.concat([ds[:2], ds[7:]])["age"].tolist(), [0, 1, 7, 8], ["age"]),
    "other names": (lambda ds: ds.rename_columns({"age": "years"})["years"].tolist()[8], 8, ["age"]),
    "a schema": (lambda ds: len(ds.schema), 4, []),
}


@pytest.mark.parametrize("ask", ASKS)
def test_only_the_columns_that_are_used_are_read(moto: Server, ask: str) -> None:
    """One request for each of them."""
    url = moto.url("pets")
    pets(url, moto.creds).close()
    asked, answer, columns = ASKS[ask]
    with servers.counting(moto) as book:
        ds = lakebed.load(url, creds=moto.through(book), read_only=True)
        book.clear()
        found = asked(ds)
        assert (list(found) if isinstance(answer, list) else found) == answer
        paths = [request.path for request in book.requests if "/chunks/" in request.path]
    assert sorted(path.split("/chunks/")[0].rpartition("/")[2] for path in paths) == columns


# -- what comes of it ------------------------------------------------------------------------------------------------


def test_what_is_chosen_is_joined_and_copied(bare: Server) -> None:
    """With the credentials that a call is given: the environment has none."""
    creds = bare.creds
    ds = pets(bare.url("pets"), creds)
    homes = lakebed.from_rows(
        bare.url("homes"), [{"age": 2, "home": "barn"}, {"age": 5, "home": "wood"}], creds=creds
    )
    joined = ds.join(homes, on="age")
    assert [(row["name"], row["home"]) for row in joined.rows()] == [("n2", "barn"), ("n5", "wood")]
    stored = joined.materialize(bare.url("joined"), creds=creds)
    assert stored["home"].tolist() == ["barn", "wood"]
    assert [len(photo) for photo in stored.photo.numpy(aslist=True)] == [6, 9]

    copied = bare.url("copied")
    renamed = ds.rename_columns({"age": "years"})
    assert renamed.copy(copied, creds=creds)["years"].tolist() == list(range(9))
    renamed[renamed["years"] > 6].copy(copied, overwrite=True, creds=creds)
    again = lakebed.load(copied, creds=creds)
    assert (again["years"].tolist(), "age" in again.tensors) == ([7, 8], False)
    lakebed.concat([ds[:1], ds[8:]]).copy(copied, overwrite=True, creds=creds)
    assert lakebed.load(copied, creds=creds)["name"].tolist() == ["n0", "n8"]
    ds[:2, 0:3].copy(copied, overwrite=True, tensors=["photo"], creds=creds)
    assert lakebed.load(copied, creds=creds).photo.shape == (2, 3, 4, 3)


def test_columns_and_rows_are_changed(bare: Server) -> None:
    url = bare.url("pets")
    ds = pets(url, bare.creds)
    ds["twice"] = ds["age"].numpy().ravel() * 2
    ds["twice"][[0, 1]] = 7
    ds.remove(ds["age"] > 4)
    ds.add_item({"age": 40, "kind": "owl", "name": "old", "twice": 80, "photo": None})
    del ds["name"]
    ds.commit("changed")
    again = lakebed.load(url, creds=bare.creds, read_only=True)
    assert again["age"].tolist() == [0, 1, 2, 3, 4, 40]
    assert again["twice"].tolist() == [7, 7, 4, 6, 8, 80]
    assert again["kind"].value_counts() == {"owl": 2, "cat": 2, "dog": 2}
    assert again[again["photo"].isna()].sample_indices == [5]
    assert again.column_names == ["age", "kind", "photo", "twice"]


# -- commands --------------------------------------------------------------------------------------------------------


def run(*words: str) -> Any:
    done = CliRunner().invoke(main, [*words, "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.output)


def test_commands_commit_merge_rename_and_delete(ambient: Server) -> None:
    url = ambient.url("pets")
    ds = pets(url)
    ds.checkout("fixes", create=True)
    ds["age"][0] = 50
    ds.commit("older")
    ds.checkout("main")
    ds.append({"age": 9, "kind": "dog", "name": "n9", "photo": None})
    ds.close()
    assert run("commit", url, "-m", "one more")["branch"] == "main"
    assert run("merge", url, "fixes")["rows"] == 10
    assert lakebed.load(url)["age"].tolist() == [50, *range(1, 10)]
    assert run("rename", url, "name", "called")["new"] == "called"
    run("commit", url, "-m", "called")
    assert run("delete", url, "-t", "photo", "--yes") == {"deleted": ["photo"]}
    run("commit", url, "-m", "no photos")
    ds = lakebed.load(url, read_only=True)
    assert ds.column_names == ["age", "kind", "called"]
    assert ds.commits[0]["message"] == "no photos"
    assert run("head", f"{url}[0:2]")
    assert run("delete", url, "--yes") == {"deleted": url}
    assert not list(open_storage(parse(url)).list())


# -- what is gone, and what is there ---------------------------------------------------------------------------------


def objects_at(store: Server, url: str) -> Storage:
    return open_storage(parse(url, creds=store.creds))


def test_a_dataset_is_made_anew_where_another_program_deleted_it(bare: Server) -> None:
    """What was not published of the old one is dropped with a warning."""
    url = bare.url("gone")
    old = lakebed.empty(url, creds=bare.creds)
    old.create_tensor("x", dtype="int64").append(5)
    objects_at(bare, url).delete_prefix("")
    with pytest.warns(
        UserWarning, match=r"was deleted while it was written here.*unpublished changes are dropped"
    ):
        new = lakebed.empty(url, creds=bare.creds)
    new.create_tensor("x", dtype="int64").extend([7, 8])
    del old
    gc.collect()
    finalizer.drain()
    new.x.append(9)
    new.flush()
    assert lakebed.load(url, creds=bare.creds, read_only=True).x.numpy().ravel().tolist() == [7, 8, 9]


def changed_and_deleted(store: Server) -> lakebed.Dataset:
    """Return a dataset with an unpublished change, whose objects are gone."""
    ds = lakebed.empty(store.url("gone"), creds=store.creds)
    ds.create_tensor("x").extend([1, 2])
    ds.flush()
    ds.x[0] = 7
    objects_at(store, ds.path).delete_prefix("")
    return ds


def test_what_is_published_into_nothing_is_an_error(bare: Server, caplog: pytest.LogCaptureFixture) -> None:
    """One line of the log, where nobody calls flush."""
    ds = changed_and_deleted(bare)
    with pytest.raises(
        CommitFailed,
        match=r"was deleted while this process was writing it|deleted meanwhile; nothing was published",
    ):
        ds.flush()
    ds = changed_and_deleted(bare)
    url = ds.path
    del ds
    gc.collect()
    finalizer.drain()
    [record] = [record for record in caplog.records if record.levelname == "ERROR"]
    assert record.getMessage().startswith(f"changes of {url}, branch 'main', could not be stored")


def test_other_objects_are_left_alone(bare: Server) -> None:
    url = bare.url("mine")
    objects_at(bare, url).put("letter.txt", b"hi")
    with pytest.raises(PathNotEmptyException, match=r"holds other files \(letter\.txt\) and no dataset"):
        lakebed.empty(url, creds=bare.creds)
    with pytest.raises(DatasetNotFoundError, match="Other files are there"):
        lakebed.load(url, creds=bare.creds)
    assert objects_at(bare, url).get("letter.txt") == b"hi"
