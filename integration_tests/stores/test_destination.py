"""The connector on object stores: what opens them, what is acknowledged when, and what is said when they refuse."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lakebed
from destination_deeplake.config import DestinationConfig
from destination_deeplake.probe import problem_with
from integration_tests.connector import EXECUTABLE, Outcome, run, write_json
from integration_tests.messages import configure, record, states, stream
from integration_tests.stores.servers import Server, counting
from lakebed.storage.stores import conditional_put
from lakebed.storage.url import Location, open_storage

USERS = stream("users", id={"type": "integer"}, name={"type": ["null", "string"]})


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Keep what this machine knows about clouds out of the tests."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "AZURE_", "GOOGLE_", "STORAGE_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def form(store: Server, **changes: Any) -> dict[str, Any]:
    """Configuration for a fresh place on a store, as a user would fill it in."""
    keys = {name: value for name, value in store.creds.items() if name.startswith(("aws_", "account_"))}
    region = keys.pop("aws_region", None)
    credentials = {
        "s3": {"method": "aws_keys", **keys},
        "az": {"method": "azure_key", **keys},
        "gs": {"method": "environment"},
    }[store.scheme]
    values = {
        "destination_path": store.url("lake"),
        "credentials": credentials,
        "region": region,
        "endpoint_url": store.creds["endpoint_url"],
    }
    return {**values, **changes}


@pytest.fixture
def as_google(store: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The store, with what the form has no field for in the environment: an emulator knows no service account."""
    if store.scheme == "gs":
        key = json.dumps({"bearer_token": store.creds["bearer_token"]})
        monkeypatch.setenv("LAKEBED_CREDS_EMULATOR", key)
    return store


def config_of(store: Server, **changes: Any) -> dict[str, Any]:
    named = {"credentials": {"method": "named", "creds_key": "emulator"}} if store.scheme == "gs" else {}
    return form(store, **named, **changes)


def check(config: dict[str, Any]) -> str | None:
    """What `check` tells the user to change."""
    return problem_with(DestinationConfig.from_mapping(config))


def sync(folder: Path, config: dict[str, Any], lines: bytes, mode: str = "append", **more: Any) -> Outcome:
    streams = more.pop("streams", [USERS])
    config_path = write_json(folder / "config.json", config)
    catalog = write_json(folder / "catalog.json", configure(streams, mode, **more))
    return run([EXECUTABLE, "write", "--config", config_path, "--catalog", catalog], lines)


def said(*messages: Any) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


def state(number: int, name: str = "users") -> dict[str, Any]:
    descriptor = {"stream_descriptor": {"name": name}, "stream_state": {"n": number}}
    return {"type": "STATE", "state": {"type": "STREAM", "stream": descriptor, "id": number}}


def users(*ids: int) -> list[dict[str, Any]]:
    return [record("users", {"id": number, "name": f"user {number}"}) for number in ids]


def ids(config: dict[str, Any], at: str = "") -> list[int]:
    place = DestinationConfig.from_mapping(config).place
    dataset = lakebed.load(place.dataset("users") + at, read_only=True, creds=place.creds)
    return [int(number) for number in dataset["id"].numpy().reshape(-1)]


def objects(config: dict[str, Any]) -> list[str]:
    place = DestinationConfig.from_mapping(config).place
    scheme, _, path = place.url.partition("://")
    return sorted(key for key, _ in open_storage(Location(scheme, path, None, place.creds)).list())


def secrets_of(config: dict[str, Any]) -> list[str]:
    return [
        value
        for key, value in config["credentials"].items()
        if key in ("aws_access_key_id", "aws_secret_access_key", "account_key", "external_id")
    ]


# -- every store --------------------------------------------------------------------------------------------


def test_check_writes_reads_back_and_leaves_nothing(
    as_google: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of(as_google)
    monkeypatch.setattr(conditional_put, "_warned", set())  # it warns once per endpoint and process
    if as_google.name == "rclone":
        with pytest.warns(lakebed.WeakStoreWarning):
            assert check(config) is None
    else:
        assert check(config) is None
    assert objects(config) == []


def test_syncs_append_and_overwrite_and_acknowledge(as_google: Server, tmp_path: Path) -> None:
    config = config_of(as_google)
    first = sync(tmp_path, config, said(*users(1, 2), state(1), *users(3), state(2)), sync_id=1).succeeded()
    assert [(s["id"], s["destinationStats"]["recordCount"]) for s in states(first.messages)] == [
        (1, 2),
        (2, 1),
    ]
    assert ids(config) == [1, 2, 3]
    place = DestinationConfig.from_mapping(config).place
    before = lakebed.load(place.dataset("users"), read_only=True, creds=place.creds).commits[0]["commit"]
    second = sync(tmp_path, config, said(*users(7), state(3)), "overwrite", sync_id=2).succeeded()
    assert [s["id"] for s in states(second.messages)] == [3]
    assert ids(config) == [7]
    assert ids(config, f"@{before}") == [1, 2, 3]
    for outcome in (first, second):
        spoken = b"".join(outcome.output).decode() + outcome.errors
        assert not [secret for secret in secrets_of(config) if secret in spoken]
        weak = "does not enforce them" in spoken
        assert weak is (as_google.name == "rclone")
        assert outcome.errors == ""


def test_newer_rows_take_the_place_of_older_ones(as_google: Server, tmp_path: Path) -> None:
    """Upserts and deletes by key: side branch, merge and commit on a store."""
    config = config_of(as_google)
    deleted = {"_ab_cdc_deleted_at": {"type": ["null", "string"], "format": "date-time"}}
    streams = [stream("users", **{**USERS["json_schema"]["properties"], **deleted})]
    keyed: dict[str, Any] = {
        "streams": streams,
        "mode": "append_dedup",
        "primary_key": [["id"]],
        "generation_id": 1,
    }
    sync(tmp_path, config, said(*users(1, 2, 3), state(1)), **keyed, minimum_generation_id=0).succeeded()
    newer = [
        record("users", {"id": 2, "name": "newer"}, emitted_at=2),
        record("users", {"id": 1, "_ab_cdc_deleted_at": "2026-01-01T00:00:00Z"}, emitted_at=2),
        record("users", {"id": 4, "name": "new"}, emitted_at=2),
    ]
    done = sync(tmp_path, config, said(*newer, state(2)), **keyed, minimum_generation_id=0).succeeded()
    assert [s["destinationStats"]["recordCount"] for s in states(done.messages)] == [3]
    place = DestinationConfig.from_mapping(config).place
    dataset = lakebed.load(place.dataset("users"), read_only=True, creds=place.creds)
    names = [dataset["name"][row].text() for row in range(len(dataset))]
    assert dict(zip(ids(config), names, strict=True)) == {2: "newer", 3: "user 3", 4: "new"}


# -- credentials --------------------------------------------------------------------------------------------


def test_every_way_to_be_let_in_to_s3(moto: Server, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys, environment, profile, a name, and a role with an external id that the token service gets to hear."""
    key, secret = moto.creds["aws_access_key_id"], moto.creds["aws_secret_access_key"]
    (home / ".aws").mkdir()
    (home / ".aws/credentials").write_text(
        f"[lake]\naws_access_key_id = {key}\naws_secret_access_key = {secret}\n", encoding="utf-8"
    )
    with counting(moto) as proxy:
        role = {
            "method": "aws_role",
            "role_arn": "arn:aws:iam::123456789012:role/lake",
            "external_id": "hunter2-external",
            "role_session_name": "airbyte",
            "aws_access_key_id": key,
            "aws_secret_access_key": secret,
            "sts_endpoint_url": proxy.endpoint,
        }
        assert check(form(moto, credentials=role)) is None
        assert [request.method for request in proxy.requests] == ["POST"]
    assert check(form(moto, credentials={"method": "aws_profile", "profile_name": "lake"})) is None
    monkeypatch.setenv("LAKEBED_CREDS_LAB", json.dumps(moto.creds))
    named = {"method": "named", "creds_key": "lab"}
    assert check({"destination_path": moto.url("lake"), "credentials": named}) is None
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
    monkeypatch.setenv("AWS_ENDPOINT_URL", moto.endpoint)
    assert check({"destination_path": moto.url("lake")}) is None


def test_no_credentials_anywhere(moto: Server) -> None:
    problem = check(form(moto, credentials={"method": "environment"}))
    assert problem is not None
    assert "No credentials for AWS" in problem
    assert "Choose another method under credentials." in problem
    problem = check(form(moto, credentials={"method": "named", "creds_key": "nobody"}))
    assert problem is not None
    assert "Keep credentials under this name" in problem


# -- refusals -----------------------------------------------------------------------------------------------

DENIED = "<Error><Code>{}</Code><Message>{}</Message></Error>"


@pytest.mark.parametrize(
    ("status", "code", "text", "only", "words"),
    [
        (403, "InvalidAccessKeyId", "The key does not exist", "", "Correct the fields under credentials."),
        (403, "SignatureDoesNotMatch", "It does not match", "PUT", "Correct the fields under credentials."),
        (403, "AccessDenied", "Access Denied", "PUT", "Let the account list, read, write and delete objects"),
        (
            403,
            "AccessDenied",
            "Access Denied",
            "DELETE",
            "Let the account list, read, write and delete objects",
        ),
        (
            400,
            "AuthorizationHeaderMalformed",
            "the region 'us-east-1' is wrong; expecting 'eu-central-1'",
            "PUT",
            "expecting 'eu-central-1'",
        ),
        (
            404,
            "NoSuchBucket",
            "The specified bucket does not exist",
            "PUT",
            "create the bucket, or correct its",
        ),
    ],
)
def test_check_tells_what_to_change(
    moto: Server, status: int, code: str, text: str, only: str, words: str
) -> None:
    with counting(moto) as proxy:
        config = form(moto, endpoint_url=proxy.endpoint)
        proxy.answer(status, DENIED.format(code, text), only=only, times=1000)
        problem = check(config)
    assert problem is not None
    assert problem.startswith(f"destination_path {config['destination_path']}: ")
    assert words in problem
    assert not [secret for secret in secrets_of(config) if secret in problem]


def test_check_of_a_bucket_that_is_not_there(moto: Server) -> None:
    problem = check(form(moto, destination_path=f"s3://no-such-{uuid.uuid4().hex}/lake"))
    assert problem is not None
    assert "create the bucket, or correct its name" in problem


def test_check_of_a_server_that_is_not_there(moto: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lakebed.config, "RETRY_SECONDS", 0.1)
    problem = check(form(moto, endpoint_url="http://127.0.0.1:9"))
    assert problem is not None
    assert "check the network and the address" in problem


def test_what_a_sync_was_refused_is_not_acknowledged(moto: Server, tmp_path: Path) -> None:
    """Rows reach the bucket and the publish does not: no STATE, and a failure that asks the user to act."""
    with counting(moto) as proxy:
        config = form(moto, endpoint_url=proxy.endpoint)
        sync(tmp_path, config, said(*users(1), state(1))).succeeded()
        version_file = config["destination_path"].removeprefix("s3:/") + "/users/version_control_info.json"
        proxy.answer(403, DENIED.format("AccessDenied", "no"), only=f"PUT {version_file}", times=1000)
        refused = sync(tmp_path, config, said(*users(2), state(2)))
        assert refused.status == 1
        assert states(refused.messages) == []
        [failure] = refused.failures
        assert failure["failure_type"] == "config_error"
        assert "Let the account list, read, write and delete objects there" in failure["message"]
        spoken = b"".join(refused.output).decode() + refused.errors
        assert not [secret for secret in secrets_of(config) if secret in spoken]
    assert ids({**config, "endpoint_url": moto.endpoint}) == [1]


@pytest.mark.parametrize(
    "sent", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.stores)], ids=["killed", "silent"]
)
def test_a_sync_that_is_gone_does_not_keep_the_next_one_out(
    moto: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: signal.Signals
) -> None:
    """Killed on this machine: the next goes on at once. Silent, as one of another machine: when its lease is over."""
    monkeypatch.setenv("LAKEBED_LEASE_SECONDS", "20")  # longer than a process takes to start
    config = form(moto)
    sync(tmp_path, config, said(*users(1), state(1))).succeeded()
    files: list[str | Path] = ["--config", tmp_path / "config.json", "--catalog", tmp_path / "catalog.json"]
    with subprocess.Popen(
        [EXECUTABLE, "write", *files], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as gone:
        assert gone.stdin is not None
        assert gone.stdout is not None
        gone.stdin.write(said(state(2), *users(2)))
        gone.stdin.flush()
        # When it answers, it has the dataset open.
        assert next(found for found in map(json.loads, gone.stdout) if found["type"] == "STATE")
        gone.send_signal(sent)
        if sent is signal.SIGKILL:
            gone.wait()
        try:
            again = sync(tmp_path, config, said(*users(2, 3), state(3))).succeeded()
        finally:
            gone.kill()
    logs = [message["log"] for message in again.messages if message["type"] == "LOG"]
    warnings = [log["message"] for log in logs if log["level"] != "INFO"]
    assert len(warnings) == (1 if sent is signal.SIGSTOP else 0)
    assert all("Waiting" in text and "read_only" not in text for text in warnings)
    assert [s["id"] for s in states(again.messages)] == [3]
    assert ids(config) == [1, 2, 3]


# -- many streams -------------------------------------------------------------------------------------------


def test_many_small_streams_go_side_by_side_on_shared_connections(moto: Server, tmp_path: Path) -> None:
    """The streams are opened and published at the same time, with the clients of one."""
    names = [f"s{number}" for number in range(8)]
    streams = [stream(name, id={"type": "integer"}) for name in names]
    lines = said(*(record(name, {"id": 1}) for name in names), *(state(1, name) for name in names))
    with counting(moto) as proxy:
        config = form(moto, endpoint_url=proxy.endpoint)
        done = sync(tmp_path, config, lines, streams=streams).succeeded()
        requests = proxy.requests
    assert len(states(done.messages)) == len(names)
    busy = sum(request.ended - request.began for request in requests)
    lasted = max(request.ended for request in requests) - min(request.began for request in requests)
    assert busy > 4 * lasted, "requests wait for each other"
    assert len(requests) < 110 * len(names)


# -- weak stores --------------------------------------------------------------------------------------------


@pytest.mark.stores
def test_check_warns_of_a_store_without_conditional_writes(
    running_stores: Callable[[str], Server], tmp_path: Path
) -> None:
    store = running_stores("rclone")
    config = write_json(tmp_path / "config.json", form(store))
    outcome = run([EXECUTABLE, "check", "--config", config]).succeeded()
    kinds = [message["type"] for message in outcome.messages]
    assert kinds == ["LOG", "CONNECTION_STATUS"]
    assert outcome.messages[0]["log"]["level"] == "WARN"
    assert "Write from one process at a time" in outcome.messages[0]["log"]["message"]
    assert outcome.messages[1]["connectionStatus"]["status"] == "SUCCEEDED"
