"""Lay the datasets of other tests on an object store: a pytest plugin.

    LAKEBED_STORE='{"url": "s3://bucket/prefix", "creds": {...}, "environment": {...}}' \
        python -m pytest -p integration_tests.stores.elsewhere unit_tests/lakebed/dataset

Local paths and ``mem://`` names, and what tests make with ``new_memory()``, become folders of their own on the store,
new ones for each test. What is about local files themselves is left out; ``LOCAL_ONLY`` says why.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from typing import Any

import pytest

from lakebed.storage import url
from lakebed.storage.base import Storage
from lakebed.storage.url import Location, open_storage
from unit_tests.lakebed import datasets

LOCAL_ONLY: dict[str, str] = {
    "test_crash_states": "replays thousands of recorded states, file by file",
    "test_addresses_everywhere": "another process opens the path",
    "test_branches_with_a_slash_can_be_opened": "a path is told from a branch by looking at the folder",
    "test_a_lost_history_is_made_again": "removes a file of the folder",
    "test_a_deepcopy_that_is_cut_off_is_no_dataset": "makes the local storage fail",
    r"test_copying.*::test_delete\b": "looks into the memory of a named storage",
}
"""Pattern of test ids -> why these can not lie on an object store."""


class Elsewhere:
    """Gives every path and name a folder on the store."""

    def __init__(self, root: str, creds: dict[str, Any]) -> None:
        self._root, self._creds = root.rstrip("/"), creds
        self._test = ""

    def begin(self) -> None:
        """Forget all that tests before this one have made."""
        self._test = uuid.uuid4().hex[:12]

    def at(self, name: str) -> Storage:
        """Return the storage that stands for a path or name."""
        scheme, _, rest = self._root.partition("://")
        path = re.sub(r"[^A-Za-z0-9_./=@-]", "_", os.fspath(name)).strip("/")
        return open_storage(Location(scheme, f"{rest}/{self._test}/{path}", None, self._creds))

    def fresh(self) -> Storage:
        """Return a storage of which nobody else knows."""
        return self.at(f"fresh-{uuid.uuid4().hex[:12]}")


def pytest_configure(config: pytest.Config) -> None:
    """Put the store in the place of files and memory."""
    told = json.loads(os.environ["LAKEBED_STORE"])
    os.environ.update(told["environment"])  # for tests that open a dataset again by its address
    elsewhere = Elsewhere(told["url"], told["creds"])
    config.stash[_KEY] = elsewhere
    vars(url).update(LocalStorage=elsewhere.at, open_memory=elsewhere.at)
    vars(datasets).update(new_memory=elsewhere.fresh)


_KEY = pytest.StashKey[Elsewhere]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what is about local files."""
    for item in items:
        for pattern, reason in LOCAL_ONLY.items():
            if re.search(pattern, item.nodeid):
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Begin with an empty store."""
    item.config.stash[_KEY].begin()
