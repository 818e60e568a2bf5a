"""Names of credentials in a dataset: the 3.x calls, races, other processes, and what is behind a name."""

from __future__ import annotations

import json
import multiprocessing
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lakebed
from lakebed.credentials.named import forget, named
from lakebed.errors import (
    DatasetCorruptError,
    LinkCredentialsError,
    ManagedCredentialsNotFoundError,
    MissingCredsError,
    PreconditionFailed,
    ReadOnlyModeError,
    StorageError,
)
from lakebed.session.credentials import LinkCredentials
from lakebed.storage.credentials import Given
from lakebed.storage.secret import Secret
from lakebed.storage.url import open_storage
from unit_tests.effort import PATIENCE
from unit_tests.lakebed.no_credentials import nobody_knows

CANARY = "c4n4ry"
URL = "s3://bucket/x.png"


@pytest.fixture(autouse=True)
def nothing_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with nobody_knows(tmp_path / "credentials.toml", monkeypatch):
        yield


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "ds"


@pytest.fixture
def ds(place: Path) -> lakebed.Dataset:
    return lakebed.empty(place)


def stored(place: Path) -> Any:
    return json.loads((place / "linked_creds.json").read_text())


# -- the 3.x calls -------------------------------------------------------------------------------------------


def test_names_are_declared_and_renamed(ds: lakebed.Dataset, place: Path) -> None:
    """Each step gives the bytes that 3.9.52 writes for it."""
    assert ds.get_creds_keys() == set()
    assert not (place / "linked_creds.json").exists()
    ds.add_creds_key("A")
    assert (place / "linked_creds.json").read_bytes() == (
        b'{"creds_keys": ["A"], "managed_creds_keys": [], "used_creds_keys": []}'
    )
    ds.add_creds_key("B")
    ds.update_creds_key("A", "A2")
    assert ds.get_creds_keys() == {"A2", "B"}
    ds.update_creds_key("A2", "B")
    assert stored(place)["creds_keys"] == ["B", "B"]
    ds.update_creds_key("B", managed=False)
    assert stored(place)["managed_creds_keys"] == []
    with pytest.raises(ValueError, match="Creds key B already exists"):
        ds.add_creds_key("B")
    with pytest.raises(KeyError, match="Creds key Z does not exist"):
        ds.update_creds_key("Z", "Q")
    with pytest.raises(ValueError, match="one of new_creds_key or managed must be provided"):
        ds.update_creds_key("B")
    for bad in (5, None, ""):
        with pytest.raises(ValueError, match="a credentials key must be text"):
            ds.add_creds_key(bad)  # type: ignore[arg-type]


def test_names_belong_to_all_versions_and_views(ds: lakebed.Dataset, place: Path) -> None:
    """They are there at once, uncommitted and from wherever they were added."""
    ds.create_tensor("x", dtype="int64")
    ds.x.extend([1, 2])
    ds.add_creds_key("A")
    ds[:1].add_creds_key("V")
    ds.create_group("g").add_creds_key("G")
    first = ds.commit("first")
    assert not ds.has_head_changes
    ds.checkout(first)
    ds.add_creds_key("old")
    assert lakebed.load(place).get_creds_keys() == {"A", "V", "G", "old"} == ds["g"].get_creds_keys()


def test_datasets_in_memory_have_names(ds: lakebed.Dataset) -> None:
    memory = lakebed.empty("mem://names of credentials")
    memory.add_creds_key("A")
    assert memory.get_creds_keys() == {"A"}


def test_read_only_datasets_keep_their_names(ds: lakebed.Dataset, place: Path) -> None:
    """Populating is not changing."""
    ds.add_creds_key("A")
    before = (place / "linked_creds.json").read_bytes()
    readable = lakebed.load(place, read_only=True)
    for call in (
        lambda: readable.add_creds_key("B"),
        lambda: readable.update_creds_key("A", "B"),
        lambda: readable.update_creds_key("A", managed=False),
    ):
        with pytest.raises(ReadOnlyModeError):
            call()
    readable.populate_creds("A", {"token": CANARY})
    assert (place / "linked_creds.json").read_bytes() == before


def test_populating(ds: lakebed.Dataset) -> None:
    ds.add_creds_key("A")
    with pytest.raises(MissingCredsError, match="Creds key Z does not exist"):
        ds.populate_creds("Z", {})
    with pytest.raises(ValueError, match="Only one of creds or from_environment"):
        ds.populate_creds("A", {"token": CANARY}, from_environment=True)
    with pytest.raises(ValueError, match="needs creds"):
        ds.populate_creds("A")
    with pytest.raises(ValueError, match="dictionary"):
        ds.populate_creds("A", 5)  # type: ignore[arg-type]
    ds.populate_creds("A", {"token": CANARY})
    found = ds.link_creds.by_name("A", URL)
    assert isinstance(found, Given)
    assert found["token"].reveal() == CANARY
    assert CANARY not in repr(found) + repr(ds.link_creds) + repr(ds)
    ds.populate_creds("A", from_environment=True)
    assert ds[:1].link_creds.by_name("A", URL) == {}


def test_what_scripts_look_at(ds: lakebed.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEBED_CREDS_M", '{"token": "x"}')
    ds.add_creds_key("A")
    ds.add_creds_key("M", managed=True)
    ds.add_creds_key("B")
    ds.populate_creds("B", {})
    ds.link_creds.code("M")
    seen = ds.link_creds
    assert (seen.creds_keys, seen.managed_creds_keys, seen.used_creds_keys, seen.missing_keys) == (
        ["A", "M", "B"],
        {"M"},
        {"M"},
        ["A"],
    )


# -- what is behind a name -----------------------------------------------------------------------------------


def test_managed_names_are_looked_up_when_they_are_needed(
    ds: lakebed.Dataset, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ManagedCredentialsNotFoundError, match="LAKEBED_CREDS_M"):
        ds.add_creds_key("M", managed=True)
    ds.add_creds_key("K")
    with pytest.raises(ManagedCredentialsNotFoundError):
        ds.update_creds_key("K", managed=True)
    with pytest.raises(ManagedCredentialsNotFoundError):
        ds.update_creds_key("K", "M", managed=True)
    assert (ds.get_creds_keys(), ds.get_managed_creds_keys()) == ({"K"}, [])
    monkeypatch.setenv("LAKEBED_CREDS_M", json.dumps({"token": CANARY}))
    ds.add_creds_key("M", managed=True)
    monkeypatch.setenv("LAKEBED_CREDS_K", json.dumps({"token": CANARY}))
    ds.update_creds_key("K", "K2")
    forget()
    monkeypatch.setenv("LAKEBED_CREDS_K2", json.dumps({"token": CANARY}))
    ds.update_creds_key("K2", managed=True)
    assert ds.get_managed_creds_keys() == ["M", "K2"]
    assert lakebed.load(place).link_creds.by_name("M", URL) is named("M")
    assert ds.link_creds.by_code(2, URL) is named("M")
    assert ds.link_creds.by_code(0, URL) is ds.link_creds.by_name(None, URL) is None
    assert CANARY not in (place / "linked_creds.json").read_text()


def test_names_that_nobody_knows(ds: lakebed.Dataset, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to do; a provider may know what the dataset does not call managed."""
    ds.add_creds_key("A")
    with pytest.raises(MissingCredsError, match=r"ds.populate_creds\('A'.*lakebed creds set A"):
        ds.link_creds.by_name("A", URL)
    with pytest.raises(MissingCredsError, match="Creds key Z does not exist"):
        ds.link_creds.by_name("Z", URL)
    assert ds.link_creds.by_name("A", "folder/x.png") is None, "files on this machine need none"
    monkeypatch.setenv("LAKEBED_CREDS_A", json.dumps({"token": CANARY, "urls": ["s3://other/"]}))
    with pytest.raises(LinkCredentialsError, match="not for s3://bucket"):
        ds.link_creds.by_name("A", URL)
    assert ds.link_creds.by_name("A", "s3://other/x") is named("A")
    lakebed.load(place).add_creds_key("later")
    assert ds.link_creds.code("later") == 2
    with pytest.raises(lakebed.errors.FormatError, match="declares 2 names"):
        ds.link_creds.by_code(7, URL)


def test_used_names_are_recorded_before_the_samples(ds: lakebed.Dataset, place: Path) -> None:
    """As 3.9.52 does; one that is renamed meanwhile keeps its code."""
    for name in "ABC":
        ds.add_creds_key(name)
    other = lakebed.load(place, read_only=True).link_creds
    creds = ds.link_creds
    assert [creds.code(key) for key in (None, "B", "A", "B")] == [0, 2, 1, 2]
    assert stored(place)["used_creds_keys"] == ["B", "A"]
    ds.update_creds_key("B", "B2")
    assert stored(place)["used_creds_keys"] == ["B2", "A"]
    assert (creds.code("B2"), other.names().name_of(2)) == (2, "B2")
    reader = lakebed.load(place, read_only=True)
    reader.populate_creds("B2", {"token": "x"})
    reader.populate_creds("A", {"token": "y"})
    assert reader.link_creds.by_code(1, URL) == {"token": Secret("y")}
    ds.update_creds_key("B2", "B3")
    ds.update_creds_key("A", "A3")
    ds.populate_creds("A3", {"token": "z"})
    reader.link_creds._populated = {"A3": Given({"token": "z"})}
    assert reader.link_creds.by_code(1, URL) == {"token": Secret("z")}, "its name is another by now"
    ds.update_creds_key("B3", "B2")
    for name in ("B", "Z"):
        with pytest.raises(MissingCredsError, match=f"Creds key {name} does not exist"):
            creds.code(name)


# -- races, faults, damage -----------------------------------------------------------------------------------


def _add(place: str, mark: str, count: int) -> None:
    ds = lakebed.load(place, read_only=False, lock_timeout=60)
    for i in range(count):
        ds.add_creds_key(f"{mark}{i}")


def test_processes_that_add_names_at_once_all_succeed(ds: lakebed.Dataset, place: Path) -> None:
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_add, args=(str(place), mark, 20)) for mark in "abcd"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(PATIENCE)
        assert worker.exitcode == 0
    names = stored(place)["creds_keys"]
    assert sorted(names) == sorted(f"{mark}{i}" for mark in "abcd" for i in range(20))
    for mark in "abcd":  # the order of each is that of its calls
        assert [name for name in names if name[0] == mark] == [f"{mark}{i}" for i in range(20)]


def test_damage_is_told(ds: lakebed.Dataset, place: Path) -> None:
    (place / "linked_creds.json").write_text('{"creds_keys": 5}')
    for call in (ds.get_creds_keys, ds.get_managed_creds_keys, lambda: ds.add_creds_key("A")):
        with pytest.raises(DatasetCorruptError, match=r"linked_creds.json of .* can not be read"):
            call()
    assert (place / "linked_creds.json").read_text() == '{"creds_keys": 5}'


# -- other processes -----------------------------------------------------------------------------------------


def test_secrets_do_not_travel(ds: lakebed.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pickle names what was populated; whoever needs it there is told what to do, or finds it by its name."""
    for name in ("secret", "settings", "environment", "managed"):
        ds.add_creds_key(name)
    ds.populate_creds("secret", {"aws_access_key_id": "id", "aws_secret_access_key": CANARY})
    ds.populate_creds("settings", {"profile_name": "lab"})
    ds.populate_creds("environment", from_environment=True)
    monkeypatch.setenv("LAKEBED_CREDS_MANAGED", json.dumps({"token": CANARY}))
    named("managed").grant()
    data = pickle.dumps(ds)
    assert CANARY.encode() not in data
    creds = pickle.loads(data).link_creds
    with pytest.raises(MissingCredsError, match=r"populated in another process.*lakebed creds set secret"):
        creds.by_name("secret", URL)
    assert creds.by_name("settings", URL) == {"profile_name": "lab"}
    assert creds.by_name("environment", URL) == {}
    assert creds.by_name("managed", URL) is named("managed")
    monkeypatch.setenv("LAKEBED_CREDS_SECRET", json.dumps({"token": CANARY}))
    assert creds.by_name("secret", URL) is named("secret")


# -- the dataset's own storage -------------------------------------------------------------------------------


def test_connecting_needs_a_name_and_a_store(ds: lakebed.Dataset) -> None:
    with pytest.raises(ValueError, match="creds_key argument must be provided"):
        ds.connect()
    with pytest.raises(ValueError, match="no managed service"):
        ds.connect(creds_key="A", dest_path="hub://org/name")
    with (
        pytest.warns(UserWarning, match="org_id and ds_name have no meaning"),
        pytest.raises(ValueError, match="opened without credentials"),
    ):
        ds.connect(creds_key="A", org_id="org", token="secret")
    with pytest.raises(ValueError, match="opened without credentials"):
        ds.connect(creds_key="A")


@pytest.mark.parametrize("fails", ["before", "after", "repeated"])
def test_an_answer_that_is_lost_is_looked_up(place: Path, ds: lakebed.Dataset, fails: str) -> None:
    """A put that has worked counts, also if it was repeated and then found itself there; else it is an error."""
    creds = LinkCredentials(Lossy(open_storage(place), fails))
    if fails != "before":
        creds.declare("A")
        creds.update("A", "B", None)
        creds.code("B")
        assert stored(place) == {"creds_keys": ["B"], "managed_creds_keys": [], "used_creds_keys": ["B"]}
        return
    with pytest.raises(StorageError):
        creds.declare("A")
    assert not (place / "linked_creds.json").exists()


class Lossy:
    """A storage whose conditional puts fail, before or after they did their work."""

    def __init__(self, inner: Any, fails: str) -> None:
        self.inner, self.fails = inner, fails

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def put_if(self, key: str, data: bytes, etag: str | None) -> str:
        if self.fails != "before":
            self.inner.put_if(key, data, etag)
        if self.fails == "repeated":
            raise PreconditionFailed("the object is another by now")
        raise StorageError("the connection was reset")
