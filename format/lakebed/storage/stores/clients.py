"""From the address of a bucket to the obstore clients that speak to it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from lakebed import config
from lakebed.errors import InvalidInputError, UnsupportedUrlError
from lakebed.runtime import process_hooks
from lakebed.storage.auth.resolve import resolve
from lakebed.storage.stores.concurrency import GROWTH
from lakebed.storage.stores.obstore_client import client

if TYPE_CHECKING:
    from lakebed.storage.auth.client import Access
    from lakebed.storage.credentials import Creds

_CONNECT_SECONDS = 5.0

# Seconds after which the client gives up, and asks us whether to go on.
_CLIENT_RETRY_SECONDS = 10.0
_FOREVER = timedelta(days=7)
_RETRIES = 1000  # it is the time that ends them


# All clients of this process, those among them that are garbage and not collected yet.
_clients: WeakSet[BucketClient] = WeakSet()
# Clients of a parent process: to free them here could wait for threads that are not here.
_left_alone: list[BucketClient] = []


@dataclass(slots=True, weakref_slot=True, eq=False)
class BucketClient:
    """Clients of one bucket in this process, and what let them in.

    Parameters
    ----------
    access
        Who gave the credentials.
    reads
        For reading: what is silent for ``config.STALL_SECONDS`` fails. It repeats nothing by itself, so that it is seen
        how often a store refuses.
    quick
        For other answers that begin soon: what is silent is asked again. Deletes one object by one plain request, which
        every store understands.
    slow
        For requests that carry much, whose answer begins when all of it has arrived. Deletes many objects by one
        request.
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
        """Address of the server if it is not that of the cloud, else empty."""
        settings = self.access.config
        return str(settings.get("endpoint") or settings.get("base_url") or "")


def client_retry_seconds() -> float:
    """Return for how long a server that has never answered is asked: it is probably not there."""
    return min(_CLIENT_RETRY_SECONDS, config.RETRY_SECONDS)


def bucket_client(scheme: str, bucket: str, creds: Creds | None, tail: str = "") -> BucketClient:
    """Return the clients of a bucket; no request is sent to it yet.

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
        connect_as(scheme, bucket + tail, access, patience, {}, repeats=False),
        connect_as(scheme, bucket + tail, access, patience, one_by_one),
        connect_as(scheme, bucket + tail, access, {"timeout": timedelta(seconds=config.REQUEST_SECONDS)}, {}),
    )


def connect_as(
    scheme: str,
    bucket: str,
    access: Access,
    patience: dict[str, Any],
    settings: dict[str, Any],
    *,
    repeats: bool = True,
) -> Any:
    """Return an obstore store for a bucket into which there is a way already; with `repeats` it repeats what fails."""
    stores = client().store
    options: dict[str, Any] = {
        "connect_timeout": timedelta(seconds=_CONNECT_SECONDS),
        "pool_max_idle_per_host": str(GROWTH * config.REQUESTS),
        **patience,
        **access.client_options,
    }
    # Pauses grow, by chance, from a tenth of a second; many who were refused at once do not come back at once.
    retry = {
        "max_retries": _RETRIES if repeats else 0,
        "retry_timeout": timedelta(seconds=client_retry_seconds()),
        "backoff": {"init_backoff": timedelta(seconds=0.1), "max_backoff": timedelta(seconds=5), "base": 2},
    }
    common: dict[str, Any] = {"client_options": options, "retry_config": retry}
    kinds = {"s3": stores.S3Store, "gs": stores.GCSStore, "az": stores.AzureStore}
    is_web = scheme in ("http", "https")
    if scheme not in kinds and not is_web:
        raise UnsupportedUrlError(f"no client for {scheme}:// addresses")
    if access.provider is not None:
        common["credential_provider"] = access.provider
    try:
        if is_web:
            return stores.HTTPStore(f"{scheme}://{bucket}", **common)
        return kinds[scheme](bucket, config={**access.config, **settings}, **common)
    except (client().exceptions.BaseError, ValueError, TypeError, OSError) as error:
        kind = type(error).__name__
    # Its text may hold what it did not understand, secrets among it.
    raise InvalidInputError(
        f"{scheme}://{bucket.partition('?')[0]} can not be opened like this ({kind}): check the address, endpoint_url, "
        f"the region and the form of the credentials, which come from {access.name or 'nowhere'}"
    )


def _after_fork() -> None:
    """Hold all clients of the parent, so that neither this process nor its garbage collector frees one."""
    _left_alone.extend(_clients)
    _clients.clear()


process_hooks.after_fork(_after_fork)
