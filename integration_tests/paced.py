"""The connector's write loop with a publish every few kilobytes: paced.py BYTES CONFIG CATALOG < messages.

64 MB between publishes would let a kill test see a handful of them; this makes dozens out of a small input.
"""

from __future__ import annotations

import sys

from destination_deeplake import sync
from destination_deeplake.catalog import read_catalog
from destination_deeplake.config import read_config
from destination_deeplake.messages import Output


def main() -> None:
    """Run one sync."""
    publish_bytes, config, catalog = sys.argv[1:]
    pace = sync.Pace(publish_bytes=int(publish_bytes))
    sys.exit(sync.write(read_config(config), read_catalog(catalog), 0, Output(1), pace))


if __name__ == "__main__":
    main()
