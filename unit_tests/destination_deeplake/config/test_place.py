"""`destination_path`: folders and buckets are taken, and messages say what to change."""

from pathlib import Path

import pytest

from destination_deeplake.config import DestinationConfig, Place
from destination_deeplake.failures import ConfigError


def place(path: object) -> Place:
    return DestinationConfig.from_mapping({"destination_path": path}).place


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ("/local/lake", "/local/lake"),
        (" /local/lake ", "/local/lake"),
        ("file:///data/my%20lake", "/data/my lake"),
        ("FILE:///data", "/data"),
        ("file://localhost/data", "/data"),
        ("/data/a@b", "/data/a@b"),
        ("/", "/"),
    ],
)
def test_local_folders_are_taken(value: str, path: str) -> None:
    found = place(value)
    assert (found.url, found.folder, found.creds) == (path, Path(path), None)
    assert found.dataset("public/users") == f"{path.rstrip('/')}/public/users"


@pytest.mark.parametrize(
    ("value", "url"),
    [
        ("s3://lake", "s3://lake"),
        ("s3://lake/", "s3://lake"),
        (" S3://lake//raw/air byte/ ", "s3://lake/raw/air byte"),
        ("gs://lake/a@b", "gs://lake/a@b"),
        ("gcs://lake/a", "gs://lake/a"),
        ("az://box/a", "az://box/a"),
        ("azure://box/a", "az://box/a"),
    ],
)
def test_buckets_are_taken_in_one_spelling(value: str, url: str) -> None:
    found = place(value)
    assert (found.url, found.folder) == (url, None)
    assert found.creds is not None
    assert dict(found.creds) == {}
    assert found.dataset("users") == f"{url}/users"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "no destination_path"),
        ({"destination_path": None}, "must be a string, not null"),
        ({"destination_path": 3}, "must be a string, not a number"),
        ({"destination_path": True}, "must be a string, not a boolean"),
        ({"destination_path": "  "}, "is empty"),
        ({"destination_path": "lake"}, "absolute path"),
        ({"destination_path": "./lake"}, "absolute path"),
        ({"destination_path": "~/lake"}, "begins with ~, which only a shell turns into a home folder"),
        ({"destination_path": "~me/lake"}, "write the whole path, for example /local/lake."),
        ({"destination_path": "file://host/lake"}, "names the host 'host'"),
        ({"destination_path": "/a\0b"}, "NUL"),
        ({"destination_path": "/a\ud800"}, "half a surrogate pair"),
        ({"destination_path": "s3://"}, "names no bucket"),
        ({"destination_path": "s3:///lake"}, "names no bucket"),
        ({"destination_path": "s3://lake/a/../b"}, "has a part . or .."),
        ({"destination_path": "az://box/a?sv=1"}, "signatures into credentials"),
        ({"destination_path": "ftp://host/lake"}, "cannot be written to ftp://"),
        ({"destination_path": "mem://lake"}, "cannot be written to mem://"),
        ({"destination_path": "https://lake.s3.amazonaws.com/a"}, "web address of a bucket"),
        ({"destination_path": "https://example.org/a"}, "cannot be written to https://"),
    ],
)
def test_wrong_values_are_refused_with_the_field_and_a_cure(values: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=r"^destination_path: ") as caught:
        DestinationConfig.from_mapping(values)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "value", ["s3://key:hunter2@lake/a", "https://u:hunter2@host/a", "s3://hunter2@lake"]
)
def test_a_password_in_the_address_is_refused_and_not_shown(value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        place(value)
    assert "hunter2" not in str(caught.value)
