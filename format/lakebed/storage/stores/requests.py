"""Requests to a bucket by the clients of this process; rejected credentials are renewed."""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from lakebed import config
from lakebed.errors import (
    CredentialsRejectedError,
    LakebedError,
    StoragePermissionError,
    StorageUnavailableError,
)
from lakebed.runtime import clock, process_hooks
from lakebed.storage.credentials import kept
from lakebed.storage.deadline import remaining, told, within
from lakebed.storage.secret import hidden
from lakebed.storage.stores.clients import BucketClient, bucket_client, client_retry_seconds
from lakebed.storage.stores.error_mapping import FailedRequest
from lakebed.storage.stores.obstore_client import client
from lakebed.storage.stores.traffic import Traffic

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakebed.storage.credentials import Creds

T = TypeVar("T")

# First and longest pause between two attempts of a read, in seconds.
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0

_mutex = threading.Lock()
# Servers that have answered a request of this process.
_answering: set[str] = set()
# Clients that were replaced, but that other threads may still use.
_in_use: list[BucketClient] = []


class Requests:
    """Requests to one bucket.

    Parameters
    ----------
    scheme, bucket, creds
        As for `ObjectStorage`.
    tail
        Path and query of a web server's folder.
    shown
        Address for messages.
    """

    def __init__(self, scheme: str, bucket: str, creds: Creds | None, tail: str, shown: str) -> None:
        self._scheme, self._bucket, self._tail, self._shown = scheme, bucket, tail, shown
        self.creds = kept(creds)
        self._client: BucketClient | None = None
        self._traffic: tuple[int, Traffic] | None = None

    def client(self) -> BucketClient:
        """Return the clients of this process."""
        found = self._client
        if found is not None and found.pid == os.getpid():
            return found
        made = {} if self.creds is None else self.creds.made
        new = made.get(self._shared_as)
        if new is None or new.pid != os.getpid():
            new = bucket_client(self._scheme, self._bucket, self.creds, self._tail)
        with _mutex:
            if self._client is None or self._client.pid != os.getpid():
                other = made.get(self._shared_as)
                self._client = new if other is None or other.pid != os.getpid() else other
                made[self._shared_as] = self._client
            return self._client

    @property
    def _shared_as(self) -> tuple[str, ...]:
        """Key under which all holders of the same credentials share the clients of this bucket."""
        return ("clients", self._scheme, self._bucket, self._tail)

    def _forget(self, found: BucketClient) -> None:
        """Make new clients for the next request."""
        with _mutex:
            self._client = None if self._client is found else self._client
            if self.creds is not None and self.creds.made.get(self._shared_as) is found:
                del self.creds.made[self._shared_as]

    def use(self, creds: Creds) -> None:
        """Make the next requests with other credentials."""
        with _mutex:
            self.creds = kept(creds)
            if self._client is not None:
                _in_use.append(self._client)
            self._client = None

    @property
    def traffic(self) -> Traffic:
        """Read requests of this process."""
        found = self._traffic
        if found is None or found[0] != os.getpid():
            found = self._traffic = os.getpid(), Traffic()
        return found[1]

    def read(self, doing: str, key: str, ask: Callable[[Any, Any], T]) -> T:
        """Make a read request as soon as the limit allows; see `ask`.

        Temporary failures are retried after growing pauses: for ``config.RETRY_SECONDS`` if the server has ever
        answered, else for `client_retry_seconds`; never beyond the caller's deadline.
        """
        return within(lambda: self._read(doing, key, ask), doing, lambda: self._where(key))

    def _where(self, key: str) -> str:
        endpoint = "" if self._client is None else hidden(self._client.endpoint)
        server = "" if endpoint in ("", self._shown) else f" at {endpoint}"
        return f"{key!r} in {self._shown}{server}" if key else f"{self._shown}{server}"

    def _read(self, doing: str, key: str, ask: Callable[[Any, Any], T]) -> T:
        began = clock.monotonic()
        traffic, number = self.traffic, 0

        def counted(obs: Any, store: Any) -> T:
            with traffic.request() as asked:
                try:
                    result = ask(obs, store)
                except (obs.exceptions.BaseError, OSError) as error:
                    asked.is_refused = FailedRequest(error).is_refusal
                    raise
                asked.nbytes = _nbytes(result)
                return result

        while True:
            try:
                return self._ask(doing, key, counted, "reads")
            except StorageUnavailableError as error:
                is_known = self._server(self.client()) in _answering
                patience = config.RETRY_SECONDS if is_known else client_retry_seconds()
                if self.client().access.failure() is not None or clock.monotonic() - began >= patience:
                    raise
                pause = min(_LONGEST_PAUSE, _SHORTEST_PAUSE * 2**number) * clock.chance().uniform(1.0, 2.0)
                if (left := remaining()) is not None and left <= pause:
                    clock.sleep(left)
                    raise StorageUnavailableError(
                        f"{error}; {hidden(self._server(self.client()))} was asked repeatedly within {told()}"
                    ) from error
            traffic.retried()
            clock.sleep(pause)
            number += 1

    def ask(
        self, doing: str, key: str, ask: Callable[[Any, Any], T], *, slow: bool = False, once: bool = False
    ) -> T:
        """Make a request; failures become errors of this package.

        Rejected credentials are renewed, once.

        Parameters
        ----------
        doing, key
            Action and object, for messages.
        ask
            Takes the client's module and the store.
        slow
            Whether the request carries much data.
        once
            Whether the request must not be repeated if its answer is lost or incomplete. The client itself repeats only
            requests that were not answered at all, or have an etag, and not for long.
        """
        client = "slow" if slow else "quick"
        return within(lambda: self._ask(doing, key, ask, client, once=once), doing, lambda: self._where(key))

    def _ask(self, doing: str, key: str, ask: Callable[[Any, Any], T], kind: str, *, once: bool = False) -> T:
        """Make a request with a client of a kind; the caller repeats requests of the kind "reads"."""
        deadline = clock.monotonic() + config.RETRY_SECONDS
        is_renewed = False
        while True:
            found, obs = self.client(), client()
            try:
                result = ask(obs, getattr(found, kind))
            except LakebedError:
                raise
            except (obs.exceptions.BaseError, OSError) as error:
                answer = FailedRequest(error)
                denied = found.access.failure()
                failure = denied or answer.explained(doing, key, self._shown, obs)
            else:
                _answering.add(self._server(found))
                return result
            if answer.has_begun:
                _answering.add(self._server(found))
            is_suspect = isinstance(failure, CredentialsRejectedError) or (
                isinstance(failure, StoragePermissionError) and found.access.may_have_ended
            )
            # A server that has never answered probably does not exist, or its address is wrong, so do not try again.
            may_pass = (
                denied is None
                and kind != "reads"
                and isinstance(failure, StorageUnavailableError)
                and (bool(answer.status) or not once)
                and self._server(found) in _answering
            )
            if is_suspect and not is_renewed and found.access.renew():
                is_renewed = True
                self._forget(found)
            elif may_pass and clock.monotonic() < deadline and remaining() != 0:
                clock.sleep(clock.chance().uniform(0.05, 0.5))
            else:
                raise failure

    def _server(self, found: BucketClient) -> str:
        return found.endpoint or f"{self._scheme}://{self._bucket}"


def _nbytes(result: Any) -> int:
    """Return the number of bytes in an answer."""
    if isinstance(result, int):
        return result
    if isinstance(result, list):
        return sum(map(len, result))
    return len(result) if isinstance(result, memoryview) else len(getattr(result, "data", b""))


process_hooks.new_lock_after_fork(sys.modules[__name__], "_mutex")
