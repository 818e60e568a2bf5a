"""Clients of obstore for a bucket."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from lakebed import config
from lakebed.errors import InvalidInputError
from lakebed.runtime import process_hooks
from lakebed.storage.auth.resolve import resolve
from lakebed.storage.stores.obstore_client import client
from lakebed.storage.stores.traffic import GROWTH

if TYPE_CHECKING:
    from lakebed.storage.auth.client import Access
    from lakebed.storage.credentials import Creds

_CONNECT_SECONDS = 5.0

# Seconds after which the client gives up, so that this library decides whether to try again.
_CLIENT_RETRY_SECONDS = 10.0
_FOREVER = timedelta(days=7)
_RETRIES = 1000  # never reached, because the timeout comes first

# All clients of this process, including unused ones that are not garbage-collected yet.
_clients: WeakSet[BucketClient] = WeakSet()
# Clients that a parent process made. They are never freed, because that could wait for threads that do not exist in
# this process.
_left_alone: list[BucketClient] = []


@dataclass(slots=True, weakref_slot=True, eq=False)
class BucketClient:
    """Clients of one bucket in this process.

    Parameters
    ----------
    access
        Source of the credentials.
    reads
        Client for reads, which fail after ``config.STALL_SECONDS`` of silence. It repeats no request, so that
        refusals of the store are counted.
    quick
        Client for other answers that begin soon; it repeats requests after silence. It deletes one object by one plain
        request, which every store understands.
    slow
        Client for large uploads, whose answer begins when all data has arrived. It deletes many objects by one request.
    """

    access: Access
    reads: Any
    quick: Any
    slow: Any
    pid: int = field(default_factory=os.getpid)

    def __post_init__(self) -> None:
        _clients.add(self)

    @property
    def endpoint(self) -> str:
        """Address of the server; empty for the cloud's own."""
        settings = self.access.config
        return str(settings.get("endpoint") or settings.get("base_url") or "")


def client_retry_seconds() -> float:
    """Return how many seconds to retry a server that has never answered and probably does not exist."""
    return min(_CLIENT_RETRY_SECONDS, config.RETRY_SECONDS)


def bucket_client(scheme: str, bucket: str, creds: Creds | None, tail: str = "") -> BucketClient:
    """Return the clients of a bucket without sending a request.

    Parameters
    ----------
    tail
        Path and query of a web server's folder.
    """
    access = resolve(scheme, bucket, creds)
    one_by_one = {"disable_bulk_delete": True} if scheme == "s3" else {}
    patience = {"read_timeout": timedelta(seconds=config.STALL_SECONDS), "timeout": _FOREVER}
    return BucketClient(
        access,
        _store(scheme, bucket + tail, access, patience, {}, retries=0),
        _store(scheme, bucket + tail, access, patience, one_by_one),
        _store(scheme, bucket + tail, access, {"timeout": timedelta(seconds=config.REQUEST_SECONDS)}, {}),
    )


def _store(
    scheme: str,
    bucket: str,
    access: Access,
    patience: dict[str, Any],
    settings: dict[str, Any],
    retries: int = _RETRIES,
) -> Any:
    stores = client().store
    options: dict[str, Any] = {
        "connect_timeout": timedelta(seconds=_CONNECT_SECONDS),
        "pool_max_idle_per_host": str(GROWTH * config.REQUESTS),
        **patience,
        **access.client_options,
    }
    # Pauses grow from a tenth of a second, with jitter, so that clients that were refused together do not return
    # together.
    retry = {
        "max_retries": retries,
        "retry_timeout": timedelta(seconds=client_retry_seconds()),
        "backoff": {"init_backoff": timedelta(seconds=0.1), "max_backoff": timedelta(seconds=5), "base": 2},
    }
    common: dict[str, Any] = {"client_options": options, "retry_config": retry}
    kinds = {"s3": stores.S3Store, "gs": stores.GCSStore, "az": stores.AzureStore}
    if access.provider is not None:
        common["credential_provider"] = access.provider
    try:
        if scheme not in kinds:
            return stores.HTTPStore(f"{scheme}://{bucket}", **common)
        return kinds[scheme](bucket, config={**access.config, **settings}, **common)
    except (client().exceptions.BaseError, ValueError, TypeError, OSError) as error:
        kind = type(error).__name__
    # Leave out the text of the error, because it may quote secrets.
    raise InvalidInputError(
        f"{scheme}://{bucket.partition('?')[0]} cannot be opened like this ({kind}): check the address, endpoint_url, "
        f"the region and the form of the credentials, which come from {access.name or 'nowhere'}"
    )


def _after_fork() -> None:
    """Hold all clients of the parent, so that this process never frees one."""
    _left_alone.extend(_clients)
    _clients.clear()


process_hooks.after_fork(_after_fork)
