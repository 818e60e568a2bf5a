"""What arrives at a server: signatures, headers, certificates; and credentials that are renewed on the way."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from lakebed.errors import (
    CredentialsRejectedError,
    InvalidInputError,
    MissingCredsError,
    StoragePermissionError,
    StorageUnavailableError,
)
from lakebed.runtime import clock
from lakebed.storage.auth.resolve import resolve
from lakebed.storage.objects import ObjectStorage
from lakebed.storage.stores.clients import bucket_client
from lakebed.testing import VirtualClock
from unit_tests.lakebed.storage.auth import certificates
from unit_tests.lakebed.storage.auth.cloud import ACCESS_KEY, HIDDEN, Cloud, cloud

EXPLICIT = {"aws_access_key_id": ACCESS_KEY, "aws_secret_access_key": HIDDEN}
ROLE = {"role_arn": "arn:aws:iam::123456789012:role/lake"}


@pytest.fixture
def server() -> Iterator[Cloud]:
    with cloud() as found:
        yield found


def s3(server: Cloud, **more: Any) -> ObjectStorage:
    creds = {**EXPLICIT, "endpoint_url": server.endpoint, **more}
    return ObjectStorage("s3", "bucket", "ds", creds)


def last(server: Cloud) -> dict[str, str]:
    return server.asked[-1][2]


def test_signed_by_the_keys_that_were_given(server: Cloud) -> None:
    storage = s3(server, aws_region="eu-north-1", aws_session_token=f"token-{time.time() + 60}")
    storage.put("a", b"1")
    assert storage.get("a") == b"1"
    assert f"Credential={ACCESS_KEY}/" in last(server)["authorization"]
    assert "/eu-north-1/s3/" in last(server)["authorization"]
    assert server.asked[-1][1] == "/bucket/ds/a"
    assert "canary" not in repr(storage)


def test_anonymous_is_not_signed(server: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAENVIRONMENT")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    storage = ObjectStorage("s3", "bucket", "ds", {"anonymous": True, "endpoint_url": server.endpoint})
    storage.put("a", b"1")
    assert "authorization" not in last(server)


KMS_KEY = "arn:aws:kms:us-east-1:123456789012:key/1234"
OWN_KEY = base64.b64encode(b"k" * 32).decode()
SSE = "x-amz-server-side-encryption"


@pytest.mark.parametrize(
    ("creds", "of_puts", "of_gets"),
    [
        (
            {"requester_pays": True},
            {"x-amz-request-payer": "requester"},
            {"x-amz-request-payer": "requester"},
        ),
        (
            {"sse": "aws:kms", "sse_kms_key_id": KMS_KEY, "bucket_key_enabled": True},
            {SSE: "aws:kms", f"{SSE}-aws-kms-key-id": KMS_KEY, f"{SSE}-bucket-key-enabled": "true"},
            {},
        ),
        ({"sse_kms_key_id": KMS_KEY}, {SSE: "aws:kms"}, {}),
        ({"sse": "AES256"}, {SSE: "AES256"}, {}),
        ({"sse_customer_key": OWN_KEY}, {f"{SSE}-customer-key": OWN_KEY}, {f"{SSE}-customer-key": OWN_KEY}),
    ],
)
def test_settings_are_headers(
    creds: dict[str, Any], of_puts: dict[str, str], of_gets: dict[str, str], server: Cloud
) -> None:
    """They are signed, as AWS demands."""
    storage = s3(server, **creds)
    for request, wanted in ((lambda: storage.put("a", b"1"), of_puts), (lambda: storage.get("a"), of_gets)):
        request()
        assert wanted.items() <= last(server).items()
        assert all(name in last(server)["authorization"] for name in wanted)


def test_the_bucket_in_the_name_of_the_host(server: Cloud) -> None:
    access = resolve(
        "s3", "bucket", {**EXPLICIT, "endpoint_url": "http://store.example", "addressing_style": "virtual"}
    )
    assert access.config["endpoint"] == "http://bucket.store.example"
    assert access.config["virtual_hosted_style_request"] is True


def test_certificates_of_an_authority_of_your_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakebed.config.RETRY_SECONDS", 0.2)
    authority, files = certificates.make(tmp_path)
    with cloud(certificate=files) as server:
        with pytest.raises(StorageUnavailableError):
            s3(server).put("a", b"1")
        storage = s3(server, ca_bundle=str(authority), sts_endpoint_url=server.endpoint, **ROLE)
        storage.put("a", b"1")
        assert storage.get("a") == b"1"
        assert len(server.calls("AssumeRole")) == 1  # believed there too
        assert s3(server, verify=str(authority)).get("a") == b"1"
        assert s3(server, verify=False).get("a") == b"1"
        monkeypatch.setenv("AWS_CA_BUNDLE", str(authority))
        assert s3(server).get("a") == b"1"
    empty = tmp_path / "empty.pem"
    empty.write_text("nothing")
    with pytest.raises(InvalidInputError, match="no certificates"):
        resolve("s3", "b", {**EXPLICIT, "endpoint_url": "https://x", "ca_bundle": str(empty)})


def test_through_a_proxy(server: Cloud) -> None:
    creds = {**EXPLICIT, "endpoint_url": "http://store.example", "proxy": server.endpoint}
    ObjectStorage("s3", "bucket", "ds", creds).put("a", b"1")
    assert last(server)["host"] == "store.example"
    with_role = {**creds, **ROLE, "sts_endpoint_url": "http://tokens.example"}
    ObjectStorage("s3", "bucket", "ds", with_role).put("a", b"1")
    assert [headers["host"] for headers, _ in server.calls("AssumeRole")] == ["tokens.example"]


def test_tokens_that_run_out_are_renewed_on_the_way() -> None:
    with cloud(seconds=0.6) as server:
        storage = s3(server, sts_endpoint_url=server.endpoint, **ROLE)
        storage.put("a", b"1")
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            assert storage.get("a") == b"1"
        assert 2 <= server.granted <= 6


def test_a_token_that_is_refused_early_is_renewed_and_the_request_done_again(server: Cloud) -> None:
    storage = s3(server, sts_endpoint_url=server.endpoint, **ROLE)
    storage.put("a", b"1")
    server.revoked.add(last(server)["x-amz-security-token"])
    assert storage.get("a") == b"1"
    assert (server.refused, server.granted) == (1, 2)
    storage.put("b", b"2")
    assert server.granted == 2


def test_a_refusal_without_a_reason_makes_old_tokens_suspect(
    server: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ceph does not tell a token that has ended from an account that may not do this."""
    server.code = "AccessDenied"
    storage = s3(server, sts_endpoint_url=server.endpoint, **ROLE)
    storage.put("a", b"1")
    server.revoked.add(last(server)["x-amz-security-token"])
    with pytest.raises(StoragePermissionError):
        storage.get("a")  # the token is new: nobody asks for another
    assert server.granted == 1
    monkeypatch.setattr("lakebed.storage.auth.client._SETTLED", 0.0)
    assert storage.get("a") == b"1"
    assert server.granted == 2


def test_keys_that_stay_the_same_are_not_tried_twice(server: Cloud) -> None:
    token = f"token-{time.time() + 60}"
    server.revoked.add(token)
    with pytest.raises(CredentialsRejectedError, match="ExpiredToken") as caught:
        s3(server, aws_session_token=token).get("a")
    assert server.refused == 1
    assert token not in str(caught.value)


def test_an_error_of_the_source_comes_through_as_it_is(
    server: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakebed.storage.auth.aws_chain.ATTEMPTS", 1)
    virtual = VirtualClock(time.time())
    with clock.replaced(virtual):
        storage = s3(server, sts_endpoint_url=server.endpoint, **ROLE)
        storage.put("a", b"1")
        virtual.advance(4000.0)
        server.fails_with = 503
        time.sleep(0.15)  # the client asks ten times a second at most
        with pytest.raises(
            StorageUnavailableError, match="role arn:aws:iam::123456789012:role/lake through creds"
        ):
            storage.get("a")
        assert len(server.calls("AssumeRole")) == 2  # no reason to renew what was not rejected
        server.fails_with = 403
        with pytest.raises(CredentialsRejectedError, match="role arn:aws:iam::123456789012:role/lake"):
            storage.get("a")
        server.fails_with = None
        server.seconds = 9000.0
        assert storage.get("a") == b"1"


# -- Google ----------------------------------------------------------------------------------------------------


def _service_account(server: Cloud) -> dict[str, Any]:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return {
        "type": "service_account",
        "client_email": "lake@project.example",
        "private_key_id": "1",
        "private_key": pem.decode(),
        "client_id": "7",
        "token_uri": f"{server.endpoint}/token",
    }


@pytest.mark.parametrize("how", ["itself", "token", "text", "path", "environment", "gcloud"])
def test_a_service_account_of_google(
    how: str, server: Cloud, bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = _service_account(server)
    path = bare / "account.json"
    path.write_text(json.dumps(account))
    creds: dict[str, Any] = {
        "itself": account,
        "token": {"token": account},
        "text": {"token": json.dumps(account)},
        "path": {"service_account": str(path)},
        "environment": {},
        "gcloud": {"token": "google_default"},
    }[how]
    if how == "environment":
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    if how == "gcloud":
        (bare / ".config/gcloud").mkdir(parents=True)
        path.rename(bare / ".config/gcloud/application_default_credentials.json")
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.endpoint.removeprefix("http://"))
    storage = ObjectStorage("gs", "bucket", "ds", creds)
    storage.put("a", b"1")
    token = last(server)["authorization"].removeprefix("Bearer ")
    claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    assert claims["iss"] == "lake@project.example"
    wanted = {"environment": "GOOGLE_APPLICATION_CREDENTIALS", "gcloud": "gcloud"}
    assert storage.authenticated_by == wanted.get(how, "creds")
    assert "private" not in repr(storage)


def test_what_gcloud_leaves_for_a_person(bare: Path) -> None:
    """The client renews it by itself, from the file: what is in it goes nowhere else."""
    person = {
        "type": "authorized_user",
        "client_id": "c",
        "client_secret": "canary",
        "refresh_token": "canary",
    }
    folder = bare / ".config/gcloud"
    folder.mkdir(parents=True)
    (folder / "application_default_credentials.json").write_text(json.dumps(person))
    access = resolve("gs", "bucket", None)
    assert access.name == "gcloud"
    assert "canary" not in repr(access.config)
    assert bucket_client("gs", "bucket", None).access.name == "gcloud"
    with pytest.raises(InvalidInputError, match="read from their file") as caught:
        resolve("gs", "bucket", {"token": person})
    assert "canary" not in str(caught.value)


def test_metadata_of_a_machine_of_google(server: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GCE_METADATA_HOST", server.endpoint.removeprefix("http://"))
    storage = ObjectStorage(
        "gs", "bucket", "ds", {"endpoint_url": server.endpoint, "requester_pays": "project-7"}
    )
    storage.put("a", b"1")
    assert storage.authenticated_by == "instance metadata"
    assert "-google" in last(server)["authorization"].removeprefix("Bearer canary-token")
    assert last(server)["x-goog-user-project"] == "project-7"


def test_google_anonymous_bearer_and_nothing(server: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = {"endpoint_url": server.endpoint}
    for creds in ({"token": "anon"}, {"anonymous": True}):
        storage = ObjectStorage("gs", "bucket", "ds", {**creds, **endpoint})
        storage.put("a", b"1")
        assert "authorization" not in last(server)
        assert storage.get("a") == b"1"
        assert "authorization" not in last(server)
    ObjectStorage("gs", "bucket", "ds", {"bearer_token": "canary", **endpoint}).put("a", b"1")
    assert last(server)["authorization"] == "Bearer canary"
    with pytest.raises(MissingCredsError, match=r"GOOGLE_APPLICATION_CREDENTIALS.*gcloud.*metadata.*anon"):
        resolve("gs", "bucket", None)
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.endpoint)
    ObjectStorage("gs", "bucket", "ds").get("a")
    assert "authorization" not in last(server)


@pytest.mark.parametrize(
    ("creds", "words"),
    [
        ({"tokn": "canary"}, "unknown keys tokn; known are token"),
        ({"bearer_token": "canary", "anonymous": True}, "bearer_token and anonymous"),
        ({"token": {"type": "external_account", "canary": 1}}, "external_account"),
        ({"token": "{canary"}, "type None"),
    ],
)
def test_credentials_of_google_that_are_wrong(creds: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words) as caught:
        resolve("gs", "bucket", creds)
    assert "canary" not in str(caught.value)


# -- Azure -----------------------------------------------------------------------------------------------------

KEY = base64.b64encode(b"canary" * 8).decode()


def azure(server: Cloud, **creds: Any) -> ObjectStorage:
    return ObjectStorage("az", "container", "ds", {"endpoint_url": f"{server.endpoint}/lake", **creds})


def test_azure_by_key_signature_token_or_nothing(server: Cloud) -> None:
    azure(server, account_name="lake", account_key=KEY).put("a", b"1")
    assert last(server)["authorization"].startswith("SharedKey lake:")
    azure(server, account_name="lake", sas_token="?sv=2024&sig=canary%2F").put("a", b"1")
    assert server.asked[-1][3] == {"sv": "2024", "sig": "canary/"}
    assert "authorization" not in last(server)
    azure(server, account_name="lake", bearer_token="canary").put("a", b"1")
    assert last(server)["authorization"] == "Bearer canary"
    azure(server, account_name="lake", anonymous=True).put("a", b"1")
    assert "authorization" not in last(server)


def test_azure_by_connection_string(server: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"DefaultEndpointsProtocol=http;AccountName=lake;AccountKey={KEY};BlobEndpoint={server.endpoint}/lake;"
    ObjectStorage("az", "container", "ds", {"connection_string": text}).put("a", b"1")
    assert last(server)["authorization"].startswith("SharedKey lake:")
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", text)
    storage = ObjectStorage("az", "container", "ds")
    storage.put("a", b"1")
    assert storage.authenticated_by == "environment"
    parts = f"AccountName=lake;AccountKey={KEY};EndpointSuffix=core.chinacloudapi.cn"
    access = resolve("az", "c", {"connection_string": parts})
    assert access.config["endpoint"] == "https://lake.blob.core.chinacloudapi.cn"


def test_azure_by_the_environment(server: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "lake")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)
    azure(server).put("a", b"1")
    assert last(server)["authorization"].startswith("SharedKey lake:")
    # What is given wins over what is there.
    azure(server, sas_token="sig=x").put("a", b"1")
    assert "authorization" not in last(server)


def test_azure_by_an_application(server: Cloud) -> None:
    storage = azure(
        server,
        account_name="lake",
        tenant_id="tenant",
        client_id="app",
        client_secret="canary-secret",
        authority_host=server.endpoint,
    )
    storage.put("a", b"1")
    assert last(server)["authorization"] == "Bearer canary-token-azure-app"
    [(_, form)] = server.calls("/tenant/oauth2/v2.0/token")
    assert form["client_secret"] == "canary-secret"
    assert storage.authenticated_by == "client_secret (creds)"


def test_azure_by_a_federated_token(server: Cloud, bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (bare / "token").write_text("canary-of-the-cluster")
    monkeypatch.setenv("AZURE_TENANT_ID", "tenant")
    monkeypatch.setenv("AZURE_CLIENT_ID", "app")
    monkeypatch.setenv("AZURE_FEDERATED_TOKEN_FILE", str(bare / "token"))
    monkeypatch.setenv("AZURE_AUTHORITY_HOST", server.endpoint)
    storage = azure(server, account_name="lake")
    storage.put("a", b"1")
    assert last(server)["authorization"] == "Bearer canary-token-azure-app"
    assert storage.authenticated_by == "workload_identity (environment)"


@pytest.mark.parametrize(
    ("creds", "words"),
    [
        ({"account": "canary"}, "unknown keys account; known are account_name"),
        ({"account_key": KEY}, "no storage account"),
        ({"account_name": "a", "account_key": KEY, "sas_token": "canary"}, "account_key and sas_token"),
        ({"account_name": "a", "account_key": "canary!"}, "account_key of creds is not valid base64"),
        (
            {"account_name": "a", "account_key": KEY[:-3] + "canary"},
            "account_key of creds is not valid base64",
        ),
        ({"account_name": "a", "client_secret": "canary"}, "needs tenant_id and client_id"),
        ({"connection_string": "canary=1"}, "names no AccountName"),
        ({"account_name": "a"}, "AZURE_STORAGE_ACCOUNT_KEY.*managed identity.*anonymous"),
    ],
)
def test_credentials_of_azure_that_are_wrong(creds: dict[str, Any], words: str) -> None:
    with pytest.raises((InvalidInputError, MissingCredsError), match=words) as caught:
        resolve("az", "container", creds)
    assert "canary" not in str(caught.value)


# -- web servers -----------------------------------------------------------------------------------------------


def test_headers_for_web_servers(server: Cloud) -> None:
    server.objects["/ds/a"] = b"1"
    host = server.endpoint.removeprefix("http://")
    for creds, name, value in (
        ({"headers": {"X-Key": "canary"}}, "x-key", "canary"),
        ({"username": "u", "password": "p"}, "authorization", f"Basic {base64.b64encode(b'u:p').decode()}"),
        ({"bearer_token": "canary"}, "authorization", "Bearer canary"),
    ):
        assert ObjectStorage("http", host, "ds", creds).get("a") == b"1"
        assert last(server)[name] == value
    assert ObjectStorage("http", host, "ds").get("a") == b"1"
    assert "authorization" not in last(server)
    for wrong, words in (
        ({"username": "u"}, "both"),
        ({"aws_access_key_id": "canary"}, "unknown keys"),
        ({"headers": {"X": "a\r\nY: b"}}, "line break"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            resolve("http", host, wrong)
