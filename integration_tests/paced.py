"""The connector's write loop with a publish every few kilobytes: paced.py BYTES AT_ONCE CONFIG CATALOG < messages.

64 MB between publishes would let a kill test see a handful of them; this makes dozens out of a small input. Datasets of
up to AT_ONCE bytes take newer rows of known keys as they come; with 0 those wait, as in large datasets.
"""

from __future__ import annotations

import sys
from dataclasses import replace

from destination_deeplake.catalog import read_catalog
from destination_deeplake.config import read_config
from destination_deeplake.messages import Output
from destination_deeplake.sync import Pace
from destination_deeplake.write import write
from lakebed.upserts import store


def main() -> None:
    """Run one sync."""
    publish_bytes, at_once, config, catalog = sys.argv[1:]
    store.BUDGET = replace(store.BUDGET, at_once=int(at_once))
    pace = Pace(publish_bytes=int(publish_bytes))
    sys.exit(write(read_config(config), read_catalog(catalog), 0, Output(1), pace))


if __name__ == "__main__":
    main()
