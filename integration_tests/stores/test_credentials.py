"""Who gets in: servers that check signatures and keys, and roles that their own token service hands out."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import pickle
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

import lakebed
from integration_tests.stores import servers
from integration_tests.stores.servers import Server
from lakebed.errors import CredentialsRejectedError, MissingCredsError, StoragePermissionError
from lakebed.storage.auth import aws_chain

_needs_servers = pytest.mark.stores


@pytest.fixture
def ceph(running_stores: Callable[[str], Server]) -> Server:
    return running_stores("ceph")


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Keep what this machine knows about AWS out of the tests."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(aws_chain, "_shared", {})
    (tmp_path / ".aws").mkdir()
    return tmp_path


def _write_and_read(url: str, creds: Any) -> None:
    with lakebed.empty(url, creds=creds) as ds:
        ds.create_tensor("x", dtype="int32")
        ds.x.extend([[1], [2]])
    assert lakebed.load(url, read_only=True, creds=creds).x.numpy().tolist() == [[1], [2]]


def _place(server: Server) -> dict[str, str]:
    return {"endpoint_url": server.endpoint, "aws_region": "us-east-1"}


@_needs_servers
def test_explicit_keys_profile_and_environment(
    ceph: Server, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write_and_read(ceph.url("explicit"), ceph.creds)
    key, secret = ceph.creds["aws_access_key_id"], ceph.creds["aws_secret_access_key"]
    with pytest.raises(MissingCredsError):
        lakebed.load(ceph.url("nobody"), creds=_place(ceph))
    (home / ".aws/credentials").write_text(
        f"[lake]\naws_access_key_id = {key}\naws_secret_access_key = {secret}\n"
    )
    (home / ".aws/config").write_text(f"[profile lake]\nregion = us-east-1\nendpoint_url = {ceph.endpoint}\n")
    _write_and_read(ceph.url("profile"), {"profile_name": "lake"})
    monkeypatch.setenv("AWS_PROFILE", "lake")
    _write_and_read(ceph.url("profile"), None)
    monkeypatch.delenv("AWS_PROFILE")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", ceph.endpoint)
    _write_and_read(ceph.url("environment"), None)


@_needs_servers
@pytest.mark.parametrize("wrong", ["aws_access_key_id", "aws_secret_access_key"])
def test_wrong_keys(ceph: Server, wrong: str) -> None:
    """Ceph says no more than that access is denied."""
    creds = {**ceph.creds, wrong: "canary-wrong"}
    with pytest.raises(StoragePermissionError) as caught:
        lakebed.empty(ceph.url("wrong"), creds=creds)
    assert "canary" not in str(caught.value)


@_needs_servers
def test_nobody(ceph: Server) -> None:
    with pytest.raises(StoragePermissionError):
        lakebed.empty(ceph.url("nobody"), creds={**_place(ceph), "anonymous": True})


def test_a_dataset_that_travels_leaves_secrets_behind(
    moto: Server, home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The other process asks the usual places; if these have nothing, it says why and what to do."""
    url = moto.url("travel")
    _write_and_read(url, moto.creds)
    with lakebed.load(url, read_only=True, creds=moto.creds) as ds:
        luggage = pickle.dumps(ds), pickle.dumps(ds.x[0]), pickle.dumps(ds[1:])
    for item in luggage:
        assert moto.creds["aws_secret_access_key"].encode() not in item
        assert moto.creds["aws_access_key_id"].encode() not in item
        with pytest.raises(MissingCredsError, match=r"are not passed to other processes.*creds_key"):
            _ = pickle.loads(item)[0]
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of-the-worker")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of-the-worker")
    assert pickle.loads(luggage[0]).x.numpy().tolist() == [[1], [2]]
    assert pickle.loads(luggage[1]).numpy().tolist() == [1]
    assert "are not passed to other processes" in caplog.text
    assert "instead: environment" in caplog.text
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    named = {"creds_key": "travel", "endpoint_url": moto.endpoint, "aws_region": "us-east-1"}
    keys = {name: moto.creds[name] for name in ("aws_access_key_id", "aws_secret_access_key")}
    monkeypatch.setenv("LAKEBED_CREDS_TRAVEL", json.dumps(keys))
    with lakebed.load(url, read_only=True, creds=named) as ds:
        item = pickle.dumps(ds)
    assert pickle.loads(item).x.numpy().tolist() == [[1], [2]]


@pytest.fixture
def roles(ceph: Server) -> Iterator[Callable[[str, str], str]]:
    """Make roles that the user of the tests may assume; returns their names."""
    import boto3

    client = boto3.client(
        "iam",
        endpoint_url=ceph.endpoint,
        aws_access_key_id=ceph.creds["aws_access_key_id"],
        aws_secret_access_key=ceph.creds["aws_secret_access_key"],
        region_name="us-east-1",
    )
    made = []

    def make(name: str, action: str) -> str:
        trusted = {
            "Effect": "Allow",
            "Principal": {"AWS": ["arn:aws:iam:::user/lakebed"]},
            "Action": ["sts:AssumeRole"],
        }
        client.create_role(RoleName=name, AssumeRolePolicyDocument=_policy(trusted))
        made.append(name)
        allowed = {"Effect": "Allow", "Action": [action], "Resource": "arn:aws:s3:::*"}
        client.put_role_policy(RoleName=name, PolicyName="p", PolicyDocument=_policy(allowed))
        return f"arn:aws:iam:::role/{name}"

    yield make
    for name in made:
        client.delete_role_policy(RoleName=name, PolicyName="p")
        client.delete_role(RoleName=name)
    client.close()


def _policy(statement: dict[str, Any]) -> str:
    # No spaces: Ceph takes the + that stands for one in a form to be a plus.
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]}, separators=(",", ":"))


@_needs_servers
def test_a_role(ceph: Server, roles: Callable[[str, str], str]) -> None:
    writer = {**ceph.creds, "role_arn": roles("writer", "s3:*"), "sts_endpoint_url": ceph.endpoint}
    url = ceph.url("role")
    _write_and_read(url, {**writer, "duration_seconds": 900, "role_session_name": "test"})
    reader = {**writer, "role_arn": roles("reader", "s3:Get*")}
    with pytest.raises(StoragePermissionError) as caught:
        lakebed.empty(ceph.url("role"), creds=reader)
    assert not isinstance(caught.value, CredentialsRejectedError)
    with pytest.raises(CredentialsRejectedError, match="role arn:aws:iam:::role/nobody through creds"):
        lakebed.load(url, creds={**writer, "role_arn": "arn:aws:iam:::role/nobody"})


def _signature(account: str, key: str, permissions: str) -> str:
    """Return a shared access signature for an hour, as the account's owner would hand it out."""
    end = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    version = "2019-12-12"
    text = f"{account}\n{permissions}\nb\nsco\n\n{end}\n\nhttps,http\n{version}\n"
    digest = hmac.new(base64.b64decode(key), text.encode(), hashlib.sha256).digest()
    fields = {"sv": version, "ss": "b", "srt": "sco", "sp": permissions, "se": end, "spr": "https,http"}
    return urlencode({**fields, "sig": base64.b64encode(digest).decode()})


@_needs_servers
def test_azure(running_stores: Callable[[str], Server], monkeypatch: pytest.MonkeyPatch) -> None:
    """By key, by signature, by connection string, by the environment; a reader's signature does not write."""
    server = running_stores("azurite")
    account, key = server.creds["account_name"], server.creds["account_key"]
    place = {"account_name": account, "endpoint_url": server.creds["endpoint_url"]}
    url = server.url("key")
    _write_and_read(url, server.creds)
    _write_and_read(server.url("sas"), {**place, "sas_token": "?" + _signature(account, key, "rwdlac")})
    reader = {**place, "sas_token": _signature(account, key, "rl")}
    assert lakebed.load(url, read_only=True, creds=reader).x.numpy().tolist() == [[1], [2]]
    with pytest.raises(StoragePermissionError):
        lakebed.empty(server.url("sas"), creds=reader)
    text = f"DefaultEndpointsProtocol=http;AccountName={account};AccountKey={key};BlobEndpoint={place['endpoint_url']};"
    _write_and_read(server.url("text"), {"connection_string": text})
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", text)
    _write_and_read(server.url("environment"), None)
    monkeypatch.delenv("AZURE_STORAGE_CONNECTION_STRING")
    wrong = base64.b64encode(b"canary" * 8).decode()
    with pytest.raises(StoragePermissionError, match="failed to authenticate") as caught:
        lakebed.load(url, creds={**place, "account_key": wrong})
    assert wrong not in str(caught.value)
    with pytest.raises(StoragePermissionError):
        lakebed.load(url, creds={**place, "anonymous": True})


@_needs_servers
def test_moto_that_checks_keys() -> None:
    import boto3

    with servers.moto(checks_keys=True) as server:
        with pytest.raises(CredentialsRejectedError, match="InvalidAccessKeyId"):
            lakebed.load("s3://bucket/ds", creds=server.creds)
        # The next four requests are not checked: they make somebody whose requests will be.
        request = urllib.request.Request(
            f"{server.endpoint}/moto-api/reset-auth", b"4", {"Content-Type": "text/plain"}
        )
        with urllib.request.urlopen(request):
            pass
        options: dict[str, Any] = {
            "endpoint_url": server.endpoint,
            "aws_access_key_id": "any",
            "aws_secret_access_key": "any",
            "region_name": "us-east-1",
        }
        iam, s3 = boto3.client("iam", **options), boto3.client("s3", **options)
        iam.create_user(UserName="u")
        allowed = {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}
        iam.put_user_policy(UserName="u", PolicyName="p", PolicyDocument=_policy(allowed))
        key = iam.create_access_key(UserName="u")["AccessKey"]
        s3.create_bucket(Bucket="bucket")
        iam.close()
        s3.close()
        creds = {
            **_place(server),
            "aws_access_key_id": key["AccessKeyId"],
            "aws_secret_access_key": key["SecretAccessKey"],
        }
        _write_and_read("s3://bucket/ds", creds)
        with pytest.raises(CredentialsRejectedError, match="SignatureDoesNotMatch"):
            lakebed.load("s3://bucket/ds", creds={**creds, "aws_secret_access_key": "wrong"})
