"""Credentials that go by a name: for a dataset's own storage, for links, in other processes, on real servers."""

from __future__ import annotations

import concurrent.futures
import io
import json
import multiprocessing
import pickle
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import keyring
import numpy as np
import pytest
from click.testing import CliRunner
from keyring.backends.fail import Keyring
from PIL import Image

import lakebed
from integration_tests.stores import servers
from integration_tests.stores.servers import Server
from lakebed.cli import main
from lakebed.credentials.named import forget, named
from lakebed.errors import (
    BucketNotFoundError,
    CredentialsRejectedError,
    GetDataFromLinkError,
    LinkCredentialsError,
    MissingCredsError,
)
from unit_tests.effort import PATIENCE

SPAWN = multiprocessing.get_context("spawn")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The owner's file; nothing else that this machine knows."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    found = tmp_path / "credentials.toml"
    monkeypatch.setenv("LAKEBED_CREDS_FILE", str(found))
    before = keyring.get_keyring()
    keyring.set_keyring(Keyring())  # type: ignore[no-untyped-call]
    forget()
    yield found
    forget()
    keyring.set_keyring(before)


def store(name: str, values: dict[str, Any]) -> None:
    """Keep credentials under a name, as a user does."""
    result = CliRunner().invoke(main, ["creds", "set", name], input=json.dumps(values))
    assert result.exit_code == 0, result.output


def numbers(ds: lakebed.Dataset) -> list[int]:
    return [int(n) for n in ds.x.numpy().ravel()]


def numbers_of(data: bytes) -> list[int]:
    return numbers(pickle.loads(data))


def pixels(ds: lakebed.Dataset) -> list[list[int]]:
    return [[int(n) for n in sample.numpy()[0, 0]] for sample in ds.photo]


@pytest.fixture(scope="module")
def guarded() -> Iterator[tuple[Server, list[dict[str, str]]]]:
    """A server that checks keys, with a bucket ``bucket``, and two pairs of keys that it knows."""
    with servers.moto(checks_keys=True) as server:
        request = urllib.request.Request(
            f"{server.endpoint}/moto-api/reset-auth", b"5", {"Content-Type": "text/plain"}
        )
        with urllib.request.urlopen(request):
            pass  # so many requests are not checked
        options: dict[str, Any] = {
            "endpoint_url": server.endpoint,
            "aws_access_key_id": "any",
            "aws_secret_access_key": "any",
            "region_name": "us-east-1",
        }
        iam, s3 = boto3.client("iam", **options), boto3.client("s3", **options)
        iam.create_user(UserName="u")
        statement = {"Effect": "Allow", "Action": ["s3:*", "iam:*"], "Resource": "*"}
        policy = {"Version": "2012-10-17", "Statement": [statement]}
        iam.put_user_policy(UserName="u", PolicyName="p", PolicyDocument=json.dumps(policy))
        keys = [iam.create_access_key(UserName="u")["AccessKey"] for _ in range(2)]
        s3.create_bucket(Bucket="bucket")
        iam.close()
        s3.close()
        yield (
            server,
            [
                {
                    "aws_access_key_id": key["AccessKeyId"],
                    "aws_secret_access_key": key["SecretAccessKey"],
                    "aws_region": "us-east-1",
                    "endpoint_url": server.endpoint,
                }
                for key in keys
            ],
        )


# -- the dataset's own storage -------------------------------------------------------------------------------


def test_a_dataset_is_opened_by_name_in_every_process(moto: Server) -> None:
    """Written, read, pickled and read in a new process; what was given as a dictionary does not travel."""
    store("lab", moto.creds)
    url = moto.url("named")
    ds = lakebed.empty(url, creds={"creds_key": "lab"})
    ds.create_tensor("x", dtype="int64")
    ds.x.extend([1, 2, 3])
    ds.commit("three")
    data = pickle.dumps(ds)
    assert moto.creds["aws_secret_access_key"].encode() not in data
    with concurrent.futures.ProcessPoolExecutor(1, SPAWN) as pool:
        assert pool.submit(numbers, ds).result(PATIENCE) == [1, 2, 3]
        given = lakebed.load(url, creds=moto.creds)
        with pytest.raises(MissingCredsError, match=r"are not passed to .*creds_key"):
            pool.submit(numbers_of, pickle.dumps(given)).result(PATIENCE)
    assert numbers(lakebed.connect(url, "lab")) == [1, 2, 3]
    with pytest.raises(lakebed.errors.ManagedCredentialsNotFoundError):
        lakebed.load(url, creds={"creds_key": "unknown"})


def test_connecting_changes_the_credentials_of_an_open_dataset(
    guarded: tuple[Server, list[dict[str, str]]],
) -> None:
    _, (first, second) = guarded
    url = "s3://bucket/connected"
    ds = lakebed.empty(url, creds=first)
    ds.create_tensor("x", dtype="int64")
    ds.x.extend([1, 2])
    store("second", second)
    ds.connect(creds_key="second")
    ds.x.append(3)
    ds.flush()
    assert numbers(lakebed.load(url, creds=first)) == [1, 2, 3]
    store("wrong", {**first, "aws_secret_access_key": "wrong"})
    ds.connect(creds_key="wrong")
    with pytest.raises(CredentialsRejectedError, match="SignatureDoesNotMatch"):
        ds.get_creds_keys()


def test_what_a_store_rejects_is_asked_for_once_more(
    guarded: tuple[Server, list[dict[str, str]]], place: Path
) -> None:
    """The entry is corrected while the dataset is open: the next request finds that out and works."""
    _, (first, second) = guarded
    store("k", first)
    ds = lakebed.empty("s3://bucket/rejected", creds={"creds_key": "k"})
    ds.create_tensor("x", dtype="int64")
    ds.x.extend([1, 2])
    ds.flush()
    place.write_text(place.read_text().replace(first["aws_secret_access_key"], "wrong"))
    forget()
    with pytest.raises(CredentialsRejectedError):
        lakebed.load("s3://bucket/rejected", creds={"creds_key": "k"})
    text = place.read_text().replace(first["aws_access_key_id"], second["aws_access_key_id"])
    place.write_text(text.replace("wrong", second["aws_secret_access_key"]))
    assert numbers(lakebed.load("s3://bucket/rejected", creds={"creds_key": "k"})) == [1, 2]


def test_a_dataset_goes_on_when_its_keys_are_replaced(
    guarded: tuple[Server, list[dict[str, str]]],
) -> None:
    """The old keys are withdrawn while the dataset is open: neither reading nor writing fails for it."""
    server, (first, _) = guarded
    options = {
        "endpoint_url": server.endpoint,
        "region_name": "us-east-1",
        "aws_access_key_id": first["aws_access_key_id"],
        "aws_secret_access_key": first["aws_secret_access_key"],
    }
    iam = boto3.client("iam", **options)
    iam.create_user(UserName="short")
    statement = {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    iam.put_user_policy(UserName="short", PolicyName="p", PolicyDocument=policy)
    old, new = (iam.create_access_key(UserName="short")["AccessKey"] for _ in range(2))
    store("short", {**first, **_keys(old)})
    ds = lakebed.empty("s3://bucket/short", creds={"creds_key": "short"})
    ds.create_tensor("x", dtype="int64")
    ds.x.extend([1, 2])
    ds.flush()
    reader = lakebed.load("s3://bucket/short", read_only=True, creds={"creds_key": "short"})
    iam.delete_access_key(UserName="short", AccessKeyId=old["AccessKeyId"])
    text = json.dumps({**first, **_keys(new)})
    assert CliRunner().invoke(main, ["creds", "rotate", "short", "s3://bucket/"], input=text).exit_code == 0
    assert numbers(reader) == [1, 2]
    ds.x.append(3)
    ds.flush()
    assert numbers(lakebed.load("s3://bucket/short", creds={"creds_key": "short"})) == [1, 2, 3]
    iam.close()


def _keys(found: dict[str, str]) -> dict[str, str]:
    return {"aws_access_key_id": found["AccessKeyId"], "aws_secret_access_key": found["SecretAccessKey"]}


def _add(url: str, creds: dict[str, str], mark: str) -> None:
    ds = lakebed.load(url, read_only=False, creds=creds, lock_timeout=60)
    for i in range(5):
        ds.add_creds_key(f"{mark}{i}")


@pytest.mark.stores
def test_processes_that_add_names_at_once_all_succeed(moto: Server) -> None:
    url = moto.url("names")
    lakebed.empty(url, creds=moto.creds).close()
    with concurrent.futures.ProcessPoolExecutor(3, SPAWN) as pool:
        for done in [pool.submit(_add, url, moto.creds, mark) for mark in "abc"]:
            done.result(PATIENCE)
    names = lakebed.load(url, creds=moto.creds).link_creds.creds_keys
    assert sorted(names) == sorted(f"{mark}{i}" for mark in "abc" for i in range(5))


# -- services that keep credentials --------------------------------------------------------------------------


@pytest.fixture
def manager(moto: Server, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Options that lead to Secrets Manager and the parameter store, as moto has them."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "any")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "any")
    return {"manager_endpoint": moto.endpoint, "manager_region": "us-east-1", "endpoint_url": moto.endpoint}


def client(service: str, server: Server) -> Any:
    return boto3.client(service, endpoint_url=server.endpoint, region_name="us-east-1")


def test_credentials_from_aws_secrets_manager(moto: Server, manager: dict[str, str], place: Path) -> None:
    """Found, rotated, missing and unusable."""
    secrets = client("secretsmanager", moto)
    held = {key: moto.creds[key] for key in ("aws_access_key_id", "aws_secret_access_key", "aws_region")}
    arn = secrets.create_secret(Name="prod/lake", SecretString=json.dumps(held))["ARN"]
    secrets.create_secret(Name="text", SecretString="hush hush")
    store("prod", {"provider": "aws-secretsmanager", "secret_id": "prod/lake", **manager})
    store("arn", {"provider": "aws-secretsmanager", "secret_id": arn, **manager})
    store("text", {"provider": "aws-secretsmanager", "secret_id": "text", **manager})
    store("none", {"provider": "aws-secretsmanager", "secret_id": "none", **manager})
    url = moto.url("secrets")
    ds = lakebed.empty(url, creds={"creds_key": "prod"})
    ds.create_tensor("x", dtype="int64")
    ds.x.append(5)
    ds.close()
    assert numbers(lakebed.load(url, creds={"creds_key": "arn"})) == [5]
    before = named("prod").grant()
    secrets.put_secret_value(
        SecretId="prod/lake", SecretString=json.dumps({**held, "aws_access_key_id": "new"})
    )
    assert named("prod").renew(before)
    assert named("prod").grant().values["aws_access_key_id"].reveal() == "new"
    with pytest.raises(lakebed.errors.ManagedCredentialsNotFoundError, match="AWS has no secret 'none'"):
        named("none").grant()
    with pytest.raises(lakebed.errors.InvalidInputError, match="does not hold a JSON dictionary") as caught:
        named("text").grant()
    assert "hush" not in str(caught.value)
    secrets.close()


@pytest.mark.stores
def test_credentials_from_the_parameter_store(moto: Server, manager: dict[str, str]) -> None:
    systems = client("ssm", moto)
    held = {key: moto.creds[key] for key in ("aws_access_key_id", "aws_secret_access_key", "aws_region")}
    systems.put_parameter(Name="/prod/lake", Value=json.dumps(held), Type="SecureString")
    store("prod", {"provider": "aws-ssm", "parameter": "/prod/lake", **manager})
    store("none", {"provider": "aws-ssm", "parameter": "/none", **manager})
    url = moto.url("parameters")
    lakebed.empty(url, creds={"creds_key": "prod"}).close()
    assert lakebed.exists(url, creds={"creds_key": "prod"})
    with pytest.raises(lakebed.errors.ManagedCredentialsNotFoundError, match="AWS has no parameter '/none'"):
        named("none").grant()
    systems.close()


def test_a_role_by_name(moto: Server, manager: dict[str, str]) -> None:
    """The store's own access is that of a role, which the environment's keys take on."""
    role = {"role_arn": "arn:aws:iam::123456789012:role/reader", "sts_endpoint_url": moto.endpoint}
    store(
        "role",
        {"provider": "aws-assume-role", "aws_region": "us-east-1", "endpoint_url": moto.endpoint, **role},
    )
    url = moto.url("role")
    lakebed.empty(url, creds={"creds_key": "role"}).close()
    assert lakebed.exists(url, creds={"creds_key": "role"})


# -- links ---------------------------------------------------------------------------------------------------


def _png(value: int) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.full((2, 2, 3), value, np.uint8)).save(file, "png")
    return file.getvalue()


def test_links_with_managed_names(moto: Server, tmp_path: Path) -> None:
    """Read here and in a new process; names, codes and what is used are in the dataset, and nothing else."""
    s3 = boto3.client(
        "s3",
        endpoint_url=moto.endpoint,
        region_name="us-east-1",
        aws_access_key_id="any",
        aws_secret_access_key="any",
    )
    for n in range(2):
        s3.put_object(Bucket=moto.bucket, Key=f"photos/{n}.png", Body=_png(n))
    s3.close()
    root = f"s3://{moto.bucket}/photos"
    store("lab", {**moto.creds, "urls": [f"{root}/"]})
    ds = lakebed.empty(tmp_path / "ds")
    ds.add_creds_key("other")
    ds.add_creds_key("lab", managed=True)
    ds.create_tensor("photo", htype="link[image]", sample_compression="png")
    ds.photo.extend([lakebed.link(f"{root}/{n}.png", creds_key="lab") for n in range(2)])
    ds.commit("linked")
    assert [ds.photo[n].creds_key() for n in range(2)] == ["lab", "lab"]
    assert json.loads((tmp_path / "ds/linked_creds.json").read_text()) == {
        "creds_keys": ["other", "lab"],
        "managed_creds_keys": ["lab"],
        "used_creds_keys": ["lab"],
    }
    assert pixels(ds) == [[0, 0, 0], [1, 1, 1]]
    with concurrent.futures.ProcessPoolExecutor(1, SPAWN) as pool:
        assert pool.submit(pixels, ds).result(PATIENCE) == [[0, 0, 0], [1, 1, 1]]
    store("lab", {**moto.creds, "urls": ["s3://elsewhere/"]})
    with pytest.raises(GetDataFromLinkError, match="not for s3://") as caught:
        ds.photo[0].numpy()
    assert isinstance(caught.value, LinkCredentialsError)
    for path in (tmp_path / "ds").rglob("*"):
        assert path.is_dir() or moto.creds["aws_secret_access_key"].encode() not in path.read_bytes()


# -- commands ------------------------------------------------------------------------------------------------


def run(*arguments: str, given: Any = None, status: int = 0) -> str:
    text = "" if given is None else json.dumps(given)
    result = CliRunner().invoke(main, ["creds", *arguments], input=text)
    assert result.exit_code == status, result.output
    forget()
    return result.output


def test_credentials_are_tested_and_rotated(
    guarded: tuple[Server, list[dict[str, str]]], place: Path
) -> None:
    """The errors say which kind it is; a rotation to what does not work changes nothing."""
    _, (first, second) = guarded
    store("k", first)
    assert run("test", "k", "s3://bucket/") == "s3://bucket/ lets 'k' in\n"
    assert BucketNotFoundError.__name__ in run("test", "k", "s3://no-such-bucket/", status=1)
    wrong = {**second, "aws_secret_access_key": "wrong"}
    before = place.read_text()
    assert CredentialsRejectedError.__name__ in run("rotate", "k", "s3://bucket/", given=wrong, status=1)
    assert place.read_text() == before
    assert "lets it in" in run("rotate", "k", "s3://bucket/", given=second)
    assert first["aws_secret_access_key"] not in place.read_text()
    assert second["aws_secret_access_key"] in place.read_text()
