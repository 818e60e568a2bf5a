"""Memory use of a sync."""

import lakebed

_KEPT_BYTES = 32 * 1024 * 1024
"""Maximum size in bytes of the chunk cache, and of the read-ahead in a bucket, of each open dataset."""


def keep_little() -> None:
    """Limit the caches of open datasets, of which a sync has hundreds.

    Also bypass the system's cache, because a sync writes everything once, and reads little of it again.
    """
    lakebed.config.OS_CACHE = False
    lakebed.config.CACHE_BYTES = min(lakebed.config.CACHE_BYTES, _KEPT_BYTES)
    lakebed.config.AHEAD_BYTES = min(lakebed.config.AHEAD_BYTES, _KEPT_BYTES)
