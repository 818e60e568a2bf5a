"""`credentials`: what opens a bucket, what does not go together, and that no secret is seen."""

import json
import traceback
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

import lakebed
from destination_deeplake.config import DestinationConfig
from destination_deeplake.config.credentials import METHODS, SECRETS
from destination_deeplake.failures import ConfigError, describe

ACCOUNT = json.dumps({"type": "service_account", "client_email": "a@b", "private_key": "hunter2-private"})
KEYS = {"aws_access_key_id": "AKIAHUNTER2", "aws_secret_access_key": "hunter2hunter2"}
EXAMPLES: dict[str, tuple[str, dict[str, str], dict[str, str]]] = {
    # method: (address, fields of the form, what lakebed gets)
    "environment": ("s3://lake", {}, {}),
    "aws_keys": ("s3://lake", KEYS, KEYS),
    "aws_profile": ("s3://lake", {"profile_name": "lab"}, {"profile_name": "lab"}),
    "aws_role": (
        "s3://lake",
        {"role_arn": "arn:aws:iam::1:role/x", "external_id": "hunter2", **KEYS},
        {"role_arn": "arn:aws:iam::1:role/x", "external_id": "hunter2", **KEYS},
    ),
    "gcs_service_account": ("gs://lake", {"service_account_json": ACCOUNT}, {"token": ACCOUNT}),
    "azure_key": (
        "az://box",
        {"account_name": "lake", "account_key": "aHVudGVyMg=="},
        {"account_name": "lake", "account_key": "aHVudGVyMg=="},
    ),
    "azure_sas": (
        "az://box",
        {"account_name": "lake", "sas_token": "sv=1&sig=hunter2"},
        {"account_name": "lake", "sas_token": "sv=1&sig=hunter2"},
    ),
    "azure_application": (
        "az://box",
        {"account_name": "lake", "tenant_id": "my-tenant", "client_id": "my-app", "client_secret": "hunter2"},
        {"account_name": "lake", "tenant_id": "my-tenant", "client_id": "my-app", "client_secret": "hunter2"},
    ),
    "named": ("gs://lake", {"creds_key": "lab"}, {"creds_key": "lab"}),
}


def config(path: str, credentials: Any = None, **others: Any) -> DestinationConfig:
    return DestinationConfig.from_mapping({"destination_path": path, "credentials": credentials, **others})


def revealed(found: DestinationConfig) -> dict[str, Any]:
    """What lakebed gets, secrets included."""
    creds = found.place.creds
    return {} if creds is None else {k: getattr(v, "reveal", lambda v=v: v)() for k, v in creds.items()}


def refused(path: str, credentials: Any = None, **others: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        config(path, credentials, **others)
    return str(caught.value)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_gives_lakebed_its_own_names(method: str) -> None:
    path, fields, expected = EXAMPLES[method]
    found = config(path, {"method": method, **fields, "sts_endpoint_url": "", "aws_session_token": None})
    assert revealed(found) == expected


@pytest.mark.parametrize("method", METHODS)
def test_no_secret_is_seen_in_the_configuration_or_in_what_is_made_of_it(method: str) -> None:
    path, fields, _ = EXAMPLES[method]
    found = config(path, {"method": method, **fields})
    shown = repr(found) + str(found.place)
    for key, value in fields.items():
        assert (value in shown) == (key not in SECRETS - {"tenant_id"}), key


def test_without_credentials_the_environment_is_asked() -> None:
    assert revealed(config("s3://lake")) == {}
    assert config("/lake", {"method": "environment"}).place.creds is None
    assert revealed(config("s3://lake", {}, endpoint_url="", region=None)) == {}


def test_the_server_is_told_beside_any_method() -> None:
    found = config(
        "s3://lake", endpoint_url="http://h:9000", region="eu-1", encryption="aws:kms", kms_key_id="k"
    )
    assert revealed(found) == {
        "endpoint_url": "http://h:9000",
        "aws_region": "eu-1",
        "sse": "aws:kms",
        "sse_kms_key_id": "k",
    }
    assert revealed(config("az://box", endpoint_url="https://h")) == {"endpoint_url": "https://h"}


def test_lakebed_takes_what_the_form_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key of ours is unknown to it: it complains of the address that nobody is at, not of the dictionary."""
    monkeypatch.setattr("lakebed.config.RETRY_SECONDS", 0.0)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    account = {**json.loads(ACCOUNT), "private_key": key.decode(), "token_uri": "http://127.0.0.1:9/token"}
    account |= {"private_key_id": "1", "client_id": "2"}
    google = ("gs://lake", {"service_account_json": json.dumps(account)}, {})
    for method in ("aws_keys", "azure_key", "azure_sas", "gcs_service_account"):
        path, fields, _ = google if method == "gcs_service_account" else EXAMPLES[method]
        more = {"region": "eu-1", "encryption": "AES256"} if method == "aws_keys" else {}
        found = config(path, {"method": method, **fields}, endpoint_url="http://127.0.0.1:9", **more)
        with pytest.raises(lakebed.StorageUnavailableError):
            lakebed.exists(found.place.dataset("users"), creds=found.place.creds)


@pytest.mark.parametrize(
    ("path", "credentials", "words"),
    [
        ("s3://lake", 3, "credentials: must be an object, not a number"),
        (
            "s3://lake",
            {"aws_access_key_id": "x"},
            "credentials.method: is missing; write environment, aws_keys",
        ),
        ("s3://lake", {"method": "keys"}, "credentials.method: 'keys' is not possible; write environment"),
        ("s3://lake", {"method": 1}, "credentials.method: must be a string"),
        ("s3://lake", {"method": "aws_keys"}, "credentials.aws_access_key_id: is missing; aws_keys needs it"),
        (
            "s3://lake",
            {"method": "azure_key"},
            "opens Azure Blob Storage (az://), but destination_path begins",
        ),
        ("az://box", {"method": "aws_keys"}, "opens S3 (s3://), but destination_path begins with az://"),
        ("/lake", {"method": "aws_keys", **KEYS}, "destination_path is a local folder; choose environment"),
        (
            "az://box",
            {"method": "azure_key", "account_name": "lake", "account_key": "hunter2!"},
            "credentials.account_key: is not a key of a storage account, which is base64",
        ),
        ("s3://lake", {"method": "aws_role", "role_arn": "lake"}, "role_arn: 'lake' is not an ARN"),
        (
            "s3://lake",
            {"method": "aws_role", "role_arn": "arn:x", "aws_access_key_id": "AKIAHUNTER2"},
            "aws_secret_access_key: is missing; the two keys go together",
        ),
        (
            "s3://lake",
            {"method": "aws_role", "role_arn": "arn:x", "aws_session_token": "hunter2"},
            "aws_session_token: belongs to two keys",
        ),
        (
            "s3://lake",
            {"method": "aws_role", "role_arn": "arn:x", "sts_endpoint_url": "https://u:hunter2@h"},
            "sts_endpoint_url: must hold no user name, password",
        ),
        (
            "gs://x",
            {"method": "gcs_service_account", "service_account_json": "hunter2"},
            "is not JSON; paste",
        ),
        ("gs://x", {"method": "gcs_service_account", "service_account_json": "[]"}, "is not JSON; paste"),
        (
            "gs://x",
            {"method": "gcs_service_account", "service_account_json": '{"private_key": "hunter2"}'},
            "has no client_email",
        ),
    ],
)
def test_wrong_credentials_are_refused_with_the_field_and_without_secrets(
    path: str, credentials: Any, words: str
) -> None:
    message = refused(path, credentials)
    assert words in message
    assert "hunter2" not in message.lower()


@pytest.mark.parametrize(
    ("path", "others", "words"),
    [
        (
            "s3://x",
            {"endpoint_url": "minio:9000"},
            "endpoint_url: is not an address of a server; write for example",
        ),
        ("s3://x", {"endpoint_url": "http://[x"}, "endpoint_url: is not an address of a server"),
        ("s3://x", {"endpoint_url": "https://u:hunter2@h"}, "endpoint_url: must hold no user name"),
        ("s3://x", {"encryption": "AES"}, "encryption: 'AES' is not possible; write AES256, aws:kms or"),
        ("s3://x", {"kms_key_id": "k"}, "kms_key_id: goes with encryption"),
        ("gs://x", {"region": "eu"}, "region: is for S3, which destination_path does not name"),
        ("az://x", {"encryption": "AES256"}, "encryption: is for S3"),
        ("/x", {"endpoint_url": "https://h"}, "endpoint_url: is for a bucket"),
    ],
)
def test_what_the_server_is_told_is_checked(path: str, others: dict[str, str], words: str) -> None:
    message = refused(path, **others)
    assert words in message
    assert "hunter2" not in message


def test_a_secret_is_in_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakebed.config.RETRY_SECONDS", 0.0)
    found = config("s3://lake", {"method": "aws_keys", **KEYS}, endpoint_url="http://127.0.0.1:9")
    with pytest.raises(lakebed.StorageUnavailableError) as caught:
        lakebed.exists(found.place.dataset("users"), creds=found.place.creds)
    frames = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    texts = json.dumps(describe(caught.value).trace()) + "".join(
        line for line in frames.format() if "test_credentials" not in line
    )
    library = [f"{frame.locals}" for frame in frames.stack if "unit_tests" not in frame.filename]
    assert KEYS["aws_secret_access_key"] not in texts.partition("test_credentials")[0] + "".join(library)
