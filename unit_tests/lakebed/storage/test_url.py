"""Addresses: what is a path, what a branch, and what no storage handles."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lakebed.errors import InvalidInputError, UnsupportedUrlError
from lakebed.storage.local import LocalStorage
from lakebed.storage.memory import MemoryStorage
from lakebed.storage.url import Location, open_storage, parse


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ds", Location("file", "ds")),
        ("./a/ds/", Location("file", "./a/ds/")),
        ("/a/ds", Location("file", "/a/ds")),
        ("file:///a/ds", Location("file", "/a/ds")),
        ("FILE:///a/ds", Location("file", "/a/ds")),
        ("file://localhost/a/ds", Location("file", "/a/ds")),
        ("file:///a%20b/100%25", Location("file", "/a b/100%")),
        ("a%20b", Location("file", "a%20b")),
        ("mem://x", Location("mem", "x")),
        ("ds@dev", Location("file", "ds", "dev")),
        ("/a/ds@0123abcd", Location("file", "/a/ds", "0123abcd")),
        ("me@home/ds", Location("file", "me@home/ds")),
        ("me@home/ds@dev", Location("file", "me@home/ds", "dev")),
        ("ds@a@b", Location("file", "ds@a", "b")),
        ("file:///a/ds@dev", Location("file", "/a/ds", "dev")),
        ("mem://x@dev", Location("mem", "x", "dev")),
        ("a:b", Location("file", "a:b")),
    ],
)
def test_splits_addresses(text: str, expected: Location) -> None:
    """Scheme, path and the branch or commit after the last @ that has no slash behind it."""
    assert parse(text) == expected


def test_existing_path_with_an_at_is_a_path(tmp_path: Path) -> None:
    """A folder that really has an @ in its name can be opened."""
    (tmp_path / "ds@home").mkdir()
    assert parse(tmp_path / "ds@home") == Location("file", str(tmp_path / "ds@home"))
    assert parse(f"{tmp_path}/ds@home@dev") == Location("file", str(tmp_path / "ds@home"), "dev")
    assert parse(f"{tmp_path}/ds@work").ref == "work"


def test_names_of_branches_with_a_slash_or_an_at(tmp_path: Path) -> None:
    """Behind a dataset that is there any name can stand; only to read, so that nobody removes another by mistake."""
    (tmp_path / "ds").mkdir()
    for name in ("feature/x", "a@b", "a@b/c", "main"):
        assert parse(f"{tmp_path}/ds@{name}", existing=True).ref != name or name == "main"
    (tmp_path / "ds" / "version_control_info.json").touch()
    for name in ("feature/x", "a@b", "a@b/c", "main"):
        assert parse(f"{tmp_path}/ds@{name}", existing=True) == Location("file", f"{tmp_path}/ds", name)
    assert parse(f"{tmp_path}/ds@feature/x") == Location("file", f"{tmp_path}/ds@feature/x")
    (tmp_path / "ds@a").mkdir()
    (tmp_path / "ds@a" / "version_control_info.json").touch()
    assert parse(f"{tmp_path}/ds@a@b", existing=True) == Location("file", f"{tmp_path}/ds@a", "b")
    with pytest.raises(InvalidInputError, match="follows the @"):
        parse(f"{tmp_path}/ds@", existing=True)


@pytest.mark.parametrize("text", ["hub://user/ds", "nothing://b/x", "gdrive2://b/x"])
def test_other_schemes_are_refused_without_repeating_the_address(text: str) -> None:
    """An address may hold a secret, so the message names the scheme only."""
    with pytest.raises(UnsupportedUrlError, match=r"use a local path|only its own package reads") as caught:
        parse(text)
    assert text.split("://", maxsplit=1)[0] in str(caught.value)
    assert text.split("://")[1] not in str(caught.value)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    "text",
    ["s3://key:secret@bucket/ds", "https://secret@host/ds", "ftp://me:secret@host", "az://secret@c/d@main"],
)
def test_passwords_do_not_belong_into_addresses(text: str) -> None:
    """They are refused, and not repeated."""
    with pytest.raises(UnsupportedUrlError, match="creds=") as caught:
        parse(text)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s3://b", Location("s3", "b")),
        ("s3://b@main", Location("s3", "b", "main")),
        ("S3://b/a/ds?x#y%20@main", Location("s3", "b/a/ds?x#y%20", "main")),
        ("s3://b/me@home/ds", Location("s3", "b/me@home/ds")),
        ("gs://b/ds@0a", Location("gs", "b/ds", "0a")),
        ("gcs://b/ds", Location("gcs", "b/ds")),
        ("az://c/a/ds", Location("az", "c/a/ds")),
        ("azure://c/ds@dev", Location("azure", "c/ds", "dev")),
        ("https://host:8000/a%20b/ds/", Location("https", "host:8000/a b/ds")),
        ("http://host/ds@dev?sig=%2Fx@y#part", Location("http", "host/ds", "dev", query="sig=%2Fx@y")),
        ("ftp://host/ds@dev", Location("ftp", "host/ds", "dev")),
    ],
)
def test_addresses_of_stores(text: str, expected: Location) -> None:
    """Bucket and key as they are; a path of the web unquoted, its query apart; a branch behind any of them."""
    pytest.importorskip("fsspec")
    assert parse(text) == expected


def test_a_query_is_not_shown() -> None:
    """It may be a signature."""
    found = parse("https://host/ds@dev?sig=topsecret")
    assert "topsecret" not in f"{found!r}{found.shown}"
    with pytest.raises(InvalidInputError) as caught:
        parse("https://?sig=topsecret")
    assert "topsecret" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "file://", "@dev", "ds@", "a\0b"])
def test_incomplete_addresses_are_refused(text: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(InvalidInputError):
        parse(text)


@pytest.mark.parametrize("path", ["a/./b", "../a", "a/..", "a//b"])
def test_parts_that_mean_nothing_in_a_bucket_are_refused(path: str) -> None:
    """The client's own error would come later, and be none of ours."""
    with pytest.raises(InvalidInputError, match="have no meaning in a bucket"):
        open_storage(f"s3://bucket/{path}")
    assert open_storage(f"s3://bucket/{path.replace('.', 'x').replace('//', '/')}/").url.startswith("s3://")


def test_bytes_are_no_address() -> None:
    """Neither is any other type that is no text or path."""
    with pytest.raises(InvalidInputError, match="bytes"):
        parse(os.fsencode("ds"))  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        parse(3)  # type: ignore[arg-type]


def test_opens_what_the_address_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path is taken from the current folder, `~` is the home folder; the branch plays no part."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    local = open_storage("ds@dev")
    assert isinstance(local, LocalStorage)
    assert local.url == os.path.realpath(tmp_path / "ds")
    assert open_storage("~/ds").url == os.path.realpath(tmp_path / "home" / "ds")
    memory = open_storage("mem://opened@dev")
    assert isinstance(memory, MemoryStorage)
    assert open_storage(Location("mem", "opened")) is memory
