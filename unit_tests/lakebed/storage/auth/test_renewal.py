"""Credentials that run out are asked for again in good time, once for all threads, and in every process."""

from __future__ import annotations

import logging
import multiprocessing
import os
import threading
import time
import traceback
from collections.abc import Callable

import pytest

from lakebed.errors import (
    CredentialsRejectedError,
    InvalidInputError,
    MissingCredsError,
    StorageUnavailableError,
)
from lakebed.runtime import clock
from lakebed.storage.auth.renewal import Renewal
from lakebed.storage.auth.resolve import resolve
from lakebed.storage.credentials import Grant
from lakebed.testing import VirtualClock
from unit_tests.effort import PATIENCE
from unit_tests.lakebed.storage.auth.cloud import ACCESS_KEY, HIDDEN, cloud

EXPLICIT = {"aws_access_key_id": ACCESS_KEY, "aws_secret_access_key": HIDDEN}
ROLE = "arn:aws:iam::123456789012:role/lake"


class Source:
    """Grants a number that counts up, valid for some time."""

    name = "test"

    def __init__(self, seconds: float | None = 3600.0) -> None:
        self.seconds, self.asked, self.error = seconds, 0, None
        self.before: Callable[[], object] = lambda: None

    def grant(self) -> Grant:
        self.asked += 1
        self.before()
        if self.error is not None:
            raise self.error
        return Grant({"number": self.asked}, None if self.seconds is None else clock.now() + self.seconds)


def settled(renewal: Renewal) -> Renewal:
    """Wait for the thread that asks, if there is one."""
    with renewal._busy:
        return renewal


@pytest.mark.parametrize(("seconds", "due"), [(3600.0, 3300.0), (900.0, 675.0), (60.0, 45.0), (2.0, 1.5)])
def test_renewed_shortly_before_the_end(seconds: float, due: float) -> None:
    source = Source(seconds)
    renewal = Renewal(source)
    with clock.replaced(VirtualClock(1_000_000.0)) as _:
        time_now = clock._clocks[-1]
        assert renewal.grant().values["number"] == 1
        time_now.advance(due - 0.01)  # type: ignore[attr-defined]
        assert renewal.grant().values["number"] == 1
        assert settled(renewal).grant().values["number"] == 1
        time_now.advance(0.02)  # type: ignore[attr-defined]
        assert renewal.grant().values["number"] == 1  # nobody waits
        assert settled(renewal).grant().values["number"] == 2


def test_a_clock_that_is_ahead_does_not_make_every_request_ask(caplog: pytest.LogCaptureFixture) -> None:
    source = Source(-120.0)
    renewal = Renewal(source)
    with clock.replaced(VirtualClock(1_000_000.0)):
        for _ in range(10):
            renewal.grant()
            clock.sleep(1.0)
    assert source.asked == 1
    assert "expired 120 seconds ago by the clock of this machine" in caplog.text


def test_what_does_not_run_out_is_asked_for_once() -> None:
    source = Source(None)
    renewal = Renewal(source)
    with clock.replaced(VirtualClock(1_000_000.0)):
        assert {renewal.grant().values["number"] for _ in range(5)} == {1}
        clock.sleep(1e6)
        assert renewal.grant().values["number"] == 1


def test_many_threads_ask_once_and_go_on_with_what_is_valid() -> None:
    source = Source(60.0)
    renewal = Renewal(source)
    virtual = VirtualClock(1_000_000.0)
    with clock.replaced(virtual):
        renewal.grant()
        virtual.advance(50.0)
        entered, leave = threading.Event(), threading.Event()
        source.before = lambda: (entered.set(), leave.wait(PATIENCE))
        # While one thread asks, nobody waits.
        assert [renewal.grant().values["number"] for _ in range(20)] == [1] * 20
        assert entered.wait(PATIENCE)
        assert [renewal.grant().values["number"] for _ in range(20)] == [1] * 20
        leave.set()
        assert settled(renewal).grant().values["number"] == 2
        virtual.advance(61.0)
        entered.clear()
        leave.clear()
        found: list[object] = []
        threads = [
            threading.Thread(target=lambda: found.append(renewal.grant().values["number"])) for _ in range(16)
        ]
        for thread in threads:
            thread.start()
        assert entered.wait(PATIENCE)
        time.sleep(0.05)
        assert not found  # nothing is valid: all wait
        leave.set()
        for thread in threads:
            thread.join()
        assert found == [3] * 16
    assert source.asked == 3


def test_a_renewal_that_fails_is_no_failure_while_the_present_ones_are_valid(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = Source(60.0)
    renewal = Renewal(source)
    virtual = VirtualClock(1_000_000.0)
    with clock.replaced(virtual):
        renewal.grant()
        source.error = StorageUnavailableError("the service sleeps")
        virtual.advance(46.0)
        assert [settled(renewal).grant().values["number"] for _ in range(3)] == [1] * 3
        settled(renewal)
        assert source.asked == 2  # not with every request
        assert "the service sleeps" in caplog.text
        virtual.advance(6.0)
        renewal.grant()
        settled(renewal)
        assert source.asked == 3
        virtual.advance(20.0)
        with pytest.raises(StorageUnavailableError, match="sleeps"):
            renewal.grant()
        source.error = None
        assert renewal.grant().values["number"] == 5


def test_rejected_ones_are_replaced_at_once_and_only_once() -> None:
    source = Source()
    renewal = Renewal(source)
    first = renewal.grant()
    assert renewal.renew(first)
    assert renewal.grant().values["number"] == 2
    # The others of the same crowd were rejected with the same credentials: they get the new ones.
    assert renewal.renew(first)
    assert source.asked == 2
    constant = Renewal(lambda: Grant({"aws_access_key_id": "same"}), "constant")
    assert not constant.renew(constant.grant())


def test_a_forked_child_does_not_wait_for_a_lock_of_its_parent() -> None:
    source = Source(60.0)
    renewal = Renewal(source)
    virtual = VirtualClock(1_000_000.0)
    with clock.replaced(virtual):
        renewal.grant()
        virtual.advance(100.0)
        entered, leave = threading.Event(), threading.Event()
        source.before = lambda: (entered.set(), leave.wait(PATIENCE)) if os.getpid() == parent else None
        parent = os.getpid()
        slow = threading.Thread(target=renewal.grant)
        slow.start()
        assert entered.wait(PATIENCE)
        child = os.fork()
        if child == 0:
            os._exit(0 if renewal.grant().values["number"] == 3 else 1)
        deadline = time.monotonic() + PATIENCE
        pid, status = 0, 0
        while not pid and time.monotonic() < deadline:
            pid, status = os.waitpid(child, os.WNOHANG)
            time.sleep(0.01)
        leave.set()
        slow.join()
        if not pid:
            os.kill(child, 9)
            os.waitpid(child, 0)
        assert pid == child
        assert os.waitstatus_to_exitcode(status) == 0


def test_a_role_is_assumed_with_all_that_belongs_to_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with cloud() as server:
        server.external_id = "canary-external"
        creds = {
            **EXPLICIT,
            "role_arn": ROLE,
            "external_id": "canary-external",
            "role_session_name": "nightly",
            "duration_seconds": 1800,
            "sts_endpoint_url": server.endpoint,
            "endpoint_url": "http://store.example",
        }
        access = resolve("s3", "bucket", creds)
        assert access.name == f"role {ROLE} through creds"
        assert access.provider is not None
        handed = access.provider()
        assert handed["access_key_id"] == "ASIA000001"
        assert handed["token"].startswith("canary-token-1")
        assert handed["expires_at"].timestamp() < time.time() + 61
        [(headers, form)] = server.calls("AssumeRole")
        assert f"Credential={ACCESS_KEY}/" in headers["authorization"]
        wanted = {"RoleArn": ROLE, "RoleSessionName": "nightly", "ExternalId": "canary-external"}
        assert wanted | {"DurationSeconds": "1800"} == {k: form[k] for k in (*wanted, "DurationSeconds")}
        with pytest.raises(CredentialsRejectedError, match="AccessDenied") as caught:
            resolve("s3", "bucket", {**creds, "external_id": "canary-other"})
        assert "canary" not in str(caught.value)
    assert "canary" not in caplog.text
    assert not [record for record in caplog.records if record.name.startswith(("botocore", "urllib3"))]


def test_the_same_credentials_are_asked_for_once_however_many_stores_use_them() -> None:
    from lakebed.storage.credentials import kept

    with cloud() as server:
        creds = kept({**EXPLICIT, "role_arn": ROLE, "sts_endpoint_url": server.endpoint})
        for bucket in ("a", "b", "c"):
            resolve("s3", bucket, creds)
        assert server.granted == 1


def test_a_token_service_that_is_down_is_another_error_than_one_that_refuses() -> None:
    with cloud() as server:
        creds = {**EXPLICIT, "role_arn": ROLE, "sts_endpoint_url": server.endpoint}
        server.fails_with = 403
        with pytest.raises(CredentialsRejectedError):
            resolve("s3", "bucket", creds)
    with pytest.raises(StorageUnavailableError, match="try again later"):
        resolve("s3", "bucket", {**creds, "sts_endpoint_url": "http://127.0.0.1:9"})


def _in_child(endpoint: str, found: multiprocessing.Queue[str]) -> None:
    access = resolve("s3", "b", {**EXPLICIT, "role_arn": ROLE, "sts_endpoint_url": endpoint})
    assert access.provider is not None
    found.put(access.provider()["access_key_id"])


def test_every_process_asks_for_itself() -> None:
    context = multiprocessing.get_context("fork")
    with cloud() as server:
        _in_parent = resolve("s3", "b", {**EXPLICIT, "role_arn": ROLE, "sts_endpoint_url": server.endpoint})
        found = context.Queue()
        child = context.Process(target=_in_child, args=(server.endpoint, found))
        child.start()
        assert found.get(timeout=PATIENCE) == "ASIA000002"
        child.join()
        found.close()
        found.join_thread()


def test_a_source_of_grants_that_name_a_role() -> None:
    """What a provider of named credentials grants goes through the chain as if the user had given it."""
    with cloud() as server:

        class Vault:
            name = "vault"
            asked = 0

            def grant(self) -> Grant:
                self.asked += 1
                return Grant({**EXPLICIT, "role_arn": ROLE, "sts_endpoint_url": server.endpoint})

        vault = Vault()
        access = resolve("s3", "bucket", vault)
        assert access.provider is not None
        assert access.provider()["access_key_id"] == "ASIA000001"
        assert access.name == "vault"
        asked = vault.asked
        assert access.renew()
        assert vault.asked == asked + 1
        assert access.provider()["access_key_id"] == "ASIA000002"


def test_a_source_that_breaks_shows_nothing_of_what_it_knows() -> None:
    class Broken:
        name = "vault"

        def grant(self) -> Grant:
            raise KeyError("canary")

    with pytest.raises(
        MissingCredsError, match="vault gives no credentials: it failed with KeyError"
    ) as caught:
        resolve("s3", "bucket", Broken())
    shown = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    assert "canary" not in "".join(shown.format())


def test_durations_that_nobody_grants() -> None:
    with pytest.raises(InvalidInputError, match="900 to 43200"):
        resolve("s3", "b", {**EXPLICIT, "role_arn": ROLE, "duration_seconds": 10})
