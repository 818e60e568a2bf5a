"""What a caller gives is wrapped at once: no secret shows, and none travels to other processes."""

from __future__ import annotations

import copy
import logging
import pickle
import traceback
from typing import Any

import pytest

from lakebed.errors import InvalidInputError, ManagedCredentialsNotFoundError, MissingCredsError
from lakebed.storage import credentials
from lakebed.storage.auth.resolve import resolve
from lakebed.storage.credentials import Grant, kept
from lakebed.storage.secret import Secret, for_own_process
from lakebed.storage.url import parse

CREDS = {
    "aws_access_key_id": "canary-key",
    "aws_secret_access_key": "canary-secret",
    "aws_session_token": "canary-token",
    "endpoint_url": "http://store.example",
    "aws_region": "eu-west-1",
}


class Vault:
    def __init__(self, values: dict[str, Any]) -> None:
        self.values, self.name = values, "vault"

    def grant(self) -> Grant:
        return Grant(self.values)


def test_nothing_secret_shows() -> None:
    given = kept(CREDS)
    assert given is not None
    location = parse("s3://bucket/ds", creds=CREDS)
    for thing in (given, location, location.creds, dict(given), [given], Grant(given)):
        assert "canary" not in f"{thing!r} {thing!s} {thing}"
    assert "http://store.example" in repr(given)
    assert isinstance(given["aws_access_key_id"], Secret)
    assert kept(given) is given
    assert "canary" not in repr(kept({"proxy": "http://user:canary@proxy"}))
    assert "canary" not in repr(kept({"endpoint_url": "http://user:canary@store"}))
    assert "canary" not in repr(kept({"token": {"type": "service_account", "private_key": "canary"}}))
    assert "canary" not in repr(kept({"headers": {"X-Key": "canary"}}))


def test_no_secret_in_the_text_of_an_error_or_its_traceback() -> None:
    with pytest.raises(InvalidInputError) as caught:
        resolve("s3", "bucket", parse("s3://bucket/ds", creds={**CREDS, "aws_acl": "x"}).creds)
    shown = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    assert "canary" not in "".join(shown.format())


def test_settings_travel_and_secrets_do_not() -> None:
    given = kept({**CREDS, "role_arn": "arn:aws:iam::1:role/r", "external_id": "canary"})
    other = pickle.loads(pickle.dumps(given))
    assert dict(other) == {
        "endpoint_url": "http://store.example",
        "aws_region": "eu-west-1",
        "role_arn": "arn:aws:iam::1:role/r",
    }
    assert other.left_behind == (
        "aws_access_key_id",
        "aws_secret_access_key",
        "aws_session_token",
        "external_id",
    )
    assert pickle.loads(pickle.dumps(other)).left_behind == other.left_behind
    assert copy.deepcopy(given) is copy.copy(given) is given  # within a process nothing is lost
    assert copy.deepcopy(Secret("canary")) == Secret("canary")
    assert b"canary" not in pickle.dumps(given)


def test_secrets_reach_processes_of_our_own() -> None:
    given = kept({**CREDS, "external_id": "canary"})
    with for_own_process():
        data = pickle.dumps(given)
    other = pickle.loads(data)
    assert dict(other) == dict(given)
    assert not other.left_behind
    assert "canary" not in repr(other)
    assert b"canary" not in pickle.dumps(given)
    with pytest.raises(InvalidInputError, match="pickled"):
        pickle.dumps(Secret("canary"))


def test_a_process_without_the_secrets_says_what_happened() -> None:
    travelled = pickle.loads(pickle.dumps(kept(CREDS)))
    with pytest.raises(MissingCredsError) as caught:
        resolve("s3", "bucket", travelled)
    text = str(caught.value)
    assert "aws_access_key_id, aws_secret_access_key, aws_session_token" in text
    assert "are not passed" in text
    assert "creds={'creds_key': name}" in text


def test_a_process_without_the_secrets_takes_the_usual_ones(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAWORKER")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary")
    travelled = pickle.loads(pickle.dumps(kept(CREDS)))
    with caplog.at_level(logging.WARNING):
        access = resolve("s3", "bucket", travelled)
    assert access.name == "environment"
    assert access.config["endpoint"] == "http://store.example"
    assert "are not passed" in caplog.text
    assert "environment" in caplog.text


def test_named_ones_are_asked_for_by_name_in_every_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "_resolvers", [])
    with pytest.raises(ManagedCredentialsNotFoundError, match="lake"):
        resolve("s3", "bucket", {"creds_key": "lake"})
    asked = []
    found = {key: value for key, value in CREDS.items() if key != "endpoint_url"}
    credentials.register_named(lambda name: asked.append(name) or Vault(found))
    given = pickle.loads(pickle.dumps(kept({"creds_key": "lake", "endpoint_url": "http://other.example"})))
    assert not given.left_behind
    access = resolve("s3", "bucket", given)
    assert asked == ["lake"]
    assert access.name == "vault"
    assert access.config["endpoint"] == "http://other.example"
    assert access.provider is not None
    assert access.provider()["token"] == "canary-token"
    resolve("s3", "other", given)
    assert asked == ["lake"]


def test_3x_spellings() -> None:
    assert kept(None) is None
    assert kept("ENV") is None
    assert kept({}) == {}
    assert not kept({})
    assert kept(Vault({}))
    access = resolve(
        "s3", "bucket", {**CREDS, "aws_session_token": None, "aws_region": None, "region": "us-west-2"}
    )
    assert access.config["region"] == "us-west-2"
    with pytest.raises(InvalidInputError, match="dictionary or a source"):
        kept(3)  # type: ignore[arg-type]


def test_a_source_is_one_for_all_stores_of_a_place() -> None:
    asked = []

    class Counting(Vault):
        def grant(self) -> Grant:
            asked.append(1)
            return super().grant()

    location = parse("s3://bucket/ds", creds=Counting(CREDS))
    for bucket in ("a", "b"):
        assert resolve("s3", bucket, location.creds).name == "vault"
    assert len(asked) == 1
    assert repr(location.creds) == "Given(vault)"
