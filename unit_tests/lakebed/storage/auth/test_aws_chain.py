"""Where credentials for AWS come from: the order, who wins, and that no secret is logged."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from botocore.credentials import SSOProvider

from lakebed.errors import CredentialsRejectedError, InvalidInputError, MissingCredsError
from lakebed.storage.auth import aws_chain
from lakebed.storage.auth.resolve import resolve
from unit_tests.lakebed.storage.auth.cloud import ACCESS_KEY, HIDDEN, Cloud, cloud

EXPLICIT = {"aws_access_key_id": ACCESS_KEY, "aws_secret_access_key": HIDDEN}


def _profile(home: Path) -> None:
    (home / ".aws/credentials").write_text(
        "[default]\naws_access_key_id = AKIAPROFILE\naws_secret_access_key = canary-secret-profile\n"
    )


def _sso(home: Path) -> None:
    import hashlib

    (home / ".aws/config").write_text(
        "[default]\nsso_start_url = https://sso.example.org/start\nsso_region = us-east-1\n"
        "sso_account_id = 123456789012\nsso_role_name = reader\n"
    )
    folder = home / ".aws/sso/cache"
    folder.mkdir(parents=True)
    name = hashlib.sha1(b"https://sso.example.org/start").hexdigest()
    token = {"accessToken": "canary-token-of-sso", "expiresAt": "2999-01-01T00:00:00Z"}
    (folder / f"{name}.json").write_text(json.dumps(token))


def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAENVIRONMENT")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary-secret-environment")


def _web_identity(monkeypatch: pytest.MonkeyPatch, home: Path, server: Cloud) -> None:
    (home / "token").write_text("canary-token-of-the-cluster")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(home / "token"))
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/web")
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.endpoint)


def _container(monkeypatch: pytest.MonkeyPatch, server: Cloud) -> None:
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{server.endpoint}/container")


def _machine(monkeypatch: pytest.MonkeyPatch, server: Cloud) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", f"{server.endpoint}/")


STAGES = ["creds", "profile", "environment", "web identity", "container", "machine"]
WINNERS = {
    "creds": ("creds", ACCESS_KEY),
    "profile": ("profile 'default' (shared-credentials-file)", "AKIAPROFILE"),
    "environment": ("environment", "AKIAENVIRONMENT"),
    "web identity": ("web identity", "ASIA000001"),
    "container": ("container metadata", "ASIA000001"),
    "machine": ("instance metadata", "ASIA000001"),
}


@pytest.mark.parametrize("first", STAGES)
def test_each_stage_wins_over_all_that_follow(
    first: str, monkeypatch: pytest.MonkeyPatch, bare: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with cloud() as server:
        present = STAGES[STAGES.index(first) :]
        if "profile" in present:
            _profile(bare)
        if "environment" in present:
            _environment(monkeypatch)
        if "web identity" in present:
            _web_identity(monkeypatch, bare, server)
        if "container" in present:
            _container(monkeypatch, server)
        _machine(monkeypatch, server)
        access = resolve("s3", "bucket", EXPLICIT if first == "creds" else None)
        assert access.provider is not None
        assert (access.name, access.provider()["access_key_id"]) == WINNERS[first]
        # Nobody behind the winner was asked.
        assert server.granted == (0 if first in STAGES[:3] else 1)
    assert any(WINNERS[first][0] in record.getMessage() for record in caplog.records)
    _nothing_secret(caplog)


def _nothing_secret(caplog: pytest.LogCaptureFixture) -> None:
    for record in caplog.records:
        assert "canary" not in f"{record.getMessage()} {record.exc_text} {record.args}", record.name
        assert not record.name.startswith(("botocore", "boto3", "urllib3")), record.getMessage()


def test_nobody_else_is_asked_for_anything_if_keys_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*args: Any) -> None:
        raise AssertionError("asked")

    monkeypatch.setattr(aws_chain.Chain, "grant", never)
    access = resolve("s3", "bucket", EXPLICIT)
    assert access.provider is not None
    assert access.provider()["secret_access_key"] == HIDDEN


def test_sso_counts_as_profile(
    monkeypatch: pytest.MonkeyPatch, bare: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    _sso(bare)
    _environment(monkeypatch)
    # botocore looks up the home folder when it is imported.
    monkeypatch.setattr(SSOProvider, "_SSO_TOKEN_CACHE_DIR", str(bare / ".aws/sso/cache"))
    with cloud() as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_SSO", server.endpoint)
        access = resolve("s3", "bucket", None)
        assert access.name == "profile 'default' (sso)"
        [(headers, form)] = server.calls("/federation/credentials")
        assert headers["x-amz-sso_bearer_token"] == "canary-token-of-sso"
        assert form == {"role_name": "reader", "account_id": "123456789012"}
    _nothing_secret(caplog)


def test_a_profile_without_keys_hands_on(monkeypatch: pytest.MonkeyPatch, bare: Path) -> None:
    """The machine is not asked in the name of the profile."""
    (bare / ".aws/config").write_text("[default]\nregion = eu-west-1\n")
    with cloud() as server:
        _machine(monkeypatch, server)
        access = resolve("s3", "bucket", None)
    assert (access.name, access.config["region"]) == ("instance metadata", "eu-west-1")


def test_a_profile_that_is_named_is_the_only_place(monkeypatch: pytest.MonkeyPatch, bare: Path) -> None:
    _environment(monkeypatch)
    (bare / ".aws/config").write_text(
        "[profile lake]\nregion = eu-north-1\nendpoint_url = http://lake.example\n"
    )
    with pytest.raises(MissingCredsError, match="profile 'lake' holds no credentials"):
        resolve("s3", "bucket", {"profile_name": "lake"})
    (bare / ".aws/credentials").write_text(
        "[lake]\naws_access_key_id = AKIALAKE\naws_secret_access_key = s\n"
    )
    access = resolve("s3", "bucket", {"profile_name": "lake"})
    assert access.provider is not None
    assert access.provider()["access_key_id"] == "AKIALAKE"
    assert access.config["region"] == "eu-north-1"
    assert access.config["endpoint"] == "http://lake.example"
    with pytest.raises(MissingCredsError, match="sea"):
        resolve("s3", "bucket", {"profile_name": "sea"})


def test_a_program_of_a_profile_is_asked(bare: Path) -> None:
    program = bare / "keys.json"
    program.write_text(
        json.dumps({"Version": 1, "AccessKeyId": "AKIAPROGRAM", "SecretAccessKey": "canary-secret"})
    )
    (bare / ".aws/config").write_text(f"[profile other]\ncredential_process = cat {program}\n")
    access = resolve("s3", "bucket", {"profile_name": "other"})
    assert access.name == "profile 'other' (custom-process)"


def test_none_found_says_what_was_tried_in_order_and_what_to_do() -> None:
    with pytest.raises(MissingCredsError) as caught:
        resolve("s3", "bucket", None)
    text = str(caught.value)
    places = [
        "creds=",
        "profile",
        "SSO",
        "AWS_ACCESS_KEY_ID",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "metadata",
        "anonymous",
    ]
    assert [text.find(place) for place in places] == sorted(text.index(place) for place in places)


def test_anonymous_only_when_asked() -> None:
    access = resolve("s3", "bucket", {"anonymous": True})
    assert access.provider is None
    assert access.config["skip_signature"] is True
    assert access.name == "anonymous"


def test_a_web_identity_that_is_refused_is_an_error_and_no_reason_to_look_further(
    monkeypatch: pytest.MonkeyPatch, bare: Path
) -> None:
    with cloud() as server:
        _web_identity(monkeypatch, bare, server)
        _machine(monkeypatch, server)
        server.fails_with = 403
        with pytest.raises(CredentialsRejectedError, match="web identity"):
            resolve("s3", "bucket", None)
        (bare / "token").unlink()
        with pytest.raises(MissingCredsError, match="web identity"):
            resolve("s3", "bucket", None)
        assert not server.calls("/latest/meta-data/iam/security-credentials/")


@pytest.mark.parametrize(
    ("creds", "words"),
    [
        ({"acess_key": "canary", "aws_region": "x"}, "unknown keys acess_key; known are aws_access_key_id"),
        ({"aws_access_key_id": "canary"}, "lack aws_secret_access_key"),
        ({"aws_secret_access_key": "canary"}, "lack aws_access_key_id"),
        ({"aws_session_token": "canary"}, "without the two keys"),
        ({**EXPLICIT, "anonymous": True}, "leave one of them out"),
        ({**EXPLICIT, "profile_name": "p"}, "give one of them"),
        ({"external_id": "canary"}, "without the role_arn"),
        ({"region": "a", "aws_region": "b"}, "twice"),
        ({**EXPLICIT, "role_arn": "a", "duration_seconds": 60}, "900 to 43200"),
        ({**EXPLICIT, "endpoint_url": "ftp://x"}, "http:// or https://"),
        ({**EXPLICIT, "sse": "rot13"}, "AES256"),
        ({**EXPLICIT, "sse": "AES256", "sse_kms_key_id": "k"}, "needs sse='aws:kms'"),
        ({**EXPLICIT, "ca_bundle": "/nowhere/ca.pem"}, "cannot be read"),
        ({**EXPLICIT, "addressing_style": "sideways"}, "path, virtual"),
        ({**EXPLICIT, "requester_pays": "perhaps"}, "True or False"),
        ({3: "canary"}, "keys of creds must be text"),
    ],
)
def test_a_dictionary_that_is_wrong_is_explained_without_its_values(
    creds: dict[Any, Any], words: str
) -> None:
    with pytest.raises(InvalidInputError, match=words) as caught:
        resolve("s3", "bucket", creds)
    assert "canary" not in str(caught.value)


def test_settings_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    _environment(monkeypatch)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://all.example")
    monkeypatch.setenv("AWS_REGION", "eu-west-3")
    access = resolve("s3", "bucket", None)
    assert (access.config["endpoint"], access.config["region"]) == ("http://all.example", "eu-west-3")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://s3.example")
    assert resolve("s3", "bucket", None).config["endpoint"] == "http://s3.example"
    explicit = resolve("s3", "bucket", {**EXPLICIT, "endpoint_url": "http://given.example"})
    assert explicit.config["endpoint"] == explicit.config["aws_endpoint_url_s3"] == "http://given.example"
    monkeypatch.setenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true")
    assert "endpoint" not in resolve("s3", "bucket", None).config


def test_other_threads_may_log_what_botocore_says(caplog: pytest.LogCaptureFixture) -> None:
    import threading

    from lakebed.storage.auth.log_filter import quiet

    caplog.set_level(logging.DEBUG)
    log = logging.getLogger("botocore.endpoint")
    with quiet():
        log.debug("ours")
        thread = threading.Thread(target=log.debug, args=("theirs",))
        thread.start()
        thread.join()
        log.error("serious")
    log.debug("later")
    assert [record.getMessage() for record in caplog.records] == ["theirs", "serious", "later"]
