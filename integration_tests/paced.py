"""The connector's write loop with a publish every few kilobytes, as a worker of a `Nursery`.

64 MB between publishes would let a kill test see a handful of them; this makes dozens out of a small input. Datasets of
up to so many bytes take newer rows of known keys as they come; with 0 those wait, as in large datasets.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from destination_deeplake.catalog import read_catalog
from destination_deeplake.config import read_config
from destination_deeplake.messages import Output
from destination_deeplake.sync import Pace
from destination_deeplake.write import write
from lakebed.upserts import store


def work(arguments: Sequence[Any], _: Callable[[str], None]) -> None:
    """Run one sync with two files as its input and output.

    Raises
    ------
    SystemExit
        If it fails.
    """
    publish_bytes, at_once, config, catalog, environ, given, answers = arguments
    os.dup2(os.open(given, os.O_RDONLY), 0)
    os.dup2(os.open(answers, os.O_WRONLY), 1)
    os.environ.update(environ)
    store.BUDGET = replace(store.BUDGET, at_once=at_once)
    status = write(
        read_config(config), read_catalog(catalog), 0, Output(1), Pace(publish_bytes=publish_bytes)
    )
    if status:
        raise SystemExit(status)
