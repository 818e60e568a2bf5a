"""Lay the datasets of other tests on an object store: a pytest plugin.

    LAKEBED_STORE='{"urls": ["s3://bucket/prefix"], "creds": {...}, "environment": {...}}' \
        python -m pytest -p integration_tests.stores.elsewhere unit_tests/lakebed/dataset

Local paths and ``mem://`` names, and what tests make with ``new_memory()``, become folders of their own on the store,
new ones for each test. What is about local files themselves is left out; ``LOCAL_ONLY`` says why.
"""

from __future__ import annotations

import json
import os
import random
import re
import uuid
from typing import Any

import pytest
from hypothesis import is_hypothesis_test, settings

from lakebed.storage import url
from lakebed.storage.base import Storage
from lakebed.storage.url import Location, open_storage
from lakebed.versions.locks import lock_files
from unit_tests.lakebed import datasets

LOCAL_ONLY: dict[str, str] = {
    # Another proof of the same on stores; these copy a dataset for each of hundreds of faults.
    "test_crash_states": "replays thousands of recorded states, file by file",
    "session/test_requests": "counts the requests to a store of its own: see test_requests and test_counts here",
    "versions/test_crash": "copies the dataset for every call: test_faults does so for a sample",
    "merging/test_merge_crash": "copies the dataset for every call: test_faults does so for a sample",
    # A local writer knows who reads; on a store time alone counts, by the store's own clock.
    r"test_collect\.py::test_(a_writer_keeps|a_reader|an_error_of_deletion|a_crash|opening_looks)": "see test_garbage",
    r"test_collect\.py::test_(writers_of_one|what_left_lately|leftovers|a_sweep_removes)": "see test_garbage",
    "test_collect_beside": "other processes open the path: see test_garbage",
    # Other processes open the path.
    "test_addresses_everywhere": "another process opens the path",
    "test_leases.py::test_(the_thread|a_stopped|loading_says|a_killed)": "another process opens the path",
    "test_writers.py::test_(another_process|a_writer_goes_on)": "another process opens the path",
    "test_finalizer.*what_waits_at_the_exit": "another process opens the path; test_races does so on stores",
    r"test_taking_in\.py::test_(reading_own|the_end_of|a_forked_child|a_child_may)": "another process opens the path",
    # Files are read, changed or counted in the dataset's folder, or in the memory of a named storage.
    "test_branches_with_a_slash_can_be_opened": "a path is told from a branch by looking at the folder",
    "test_addresses.*test_a_lost_history_is_made_again": "removes a file of the folder",
    "test_what_is_done_to_all_versions_takes": "looks into the folder",
    "test_a_deepcopy_that_is_cut_off_is_no_dataset": "makes the local storage fail",
    r"test_copy\.py::test_delete\b": "looks into the memory of a named storage",
    "session/test_credentials": "reads linked_creds.json in the folder: see test_named_credentials",
    "TestAddresses::test_(other_files|delete_checks|a_damaged_version_file)": "puts files into the folder",
    "test_memory_datasets_live": "is about memory",
    r"test_ordinary\.py::test_(every_dataset_in|there_is_no_dataset_in)_memory": "is about memory",
    r"test_ordinary\.py::test_a_dataset_that_somebody_deletes": "removes the folder",
    r"test_ordinary\.py::test_a_dataset_is_made_anew_where_its_folder": "removes the folder",
    r"test_finalizer\.py::test_a_deleted_dataset_is_logged": "removes the folder",
    r"dataset/test_mistakes.*(holds other files|Other files are there|It is a file)": "finds local files of its folder",
    r"test_table\.py::test_memory_stays_here": "is about memory",
    r"test_threads\.py::test_a_name_in_memory": "is about memory",
    r"test_threads\.py::test_a_caller_that_holds": "asks the publishing thread for the address of a memory",
    r"test_parts\.py::test_memory_is_for_threads_only": "is about memory",
    r"test_parts\.py::test_a_writer_that_is_given_up_removes": "looks into the folder",
    r"test_parts\.py::test_a_target_opens_only": "copies and moves the folder",
    r"test_parts\.py::test_(processes_write|a_killed_worker)": "another process opens the path",
    "test_interrupts": "interrupts thousands of operations, line by line, or another process that opens the path",
    "test_columns.*leaves_the_cache_of_the_system_alone": "is about local disks",
    "test_golden_versions": "the folders are those of Deep Lake 3.9.52",
    "test_publishes_leave_few_files": "counts the files of a folder",
    "writing/test_early_chunks": "is about files of a folder that have no name yet; a store gets whole objects",
    "test_layouts_kept.*test_verify_compares": "looks into the folder",
    "test_opening.*copies_and_builds_on_others": "a store is given what a local dataset copies within one publish",
    "test_publish.*everything_named_is_durable": "what a store has acknowledged is durable: nothing is synced",
    "encode/test_links.*nobody_looks_at_unverified": "reads files of the folder",
    "test_media.*stored_files_that_are_damaged": "damages a file of the folder",
    r"test_repair\.py::test_(reset_repairs|opening_tells)": "damages files of the folder",
    r"test_tags\.py::test_(damage_to|verify_notices|a_new_dataset_has)": "damages files of the folder",
    r"test_views\.py::test_(attributes_of|paths_print|memory_can_not)": "is about the names of memory and of paths",
    r"test_views\.py::test_pickling": "another process knows no credentials but those of its environment",
    # A store copies within itself without reading, many objects at once: see test_copying.
    r"test_deepcopy\.py::test_(what_has_arrived|damage_|one_version_cut_off)": "damage is not seen, and order not kept",
    r"copying/test_backup\.py": "looks into folders, or backs up for every call: see test_backups",
    r"test_pack\.py::test_(there_and|damage_makes|an_error_on|from_a_shell)": "looks into the folder: see test_packed",
    r"test_deepcopy\.py::test_(another_call|a_finished_copy)": "expects the address of a memory",
    r"test_deepcopy\.py::test_(a_place_under_two_names|what_3_9_52_wrote)": "is about local folders",
}
"""Pattern of test ids -> why these can not lie on an object store."""

KNOWN_HERE_ONLY: dict[str, str] = {
    r"test_table\.py::test_(a_pickled|another_process|unpublished_rows|a_table_stays)": "opens the address elsewhere",
    r"test_change\.py::test_a_view_by_other_names_goes": "opens the address elsewhere",
    r"test_one_row\.py::test_pickles_as_the_tensor": "opens the address elsewhere",
    r"test_table\.py::test_(a_commit_is_read|a_version_that_is_gone|secrets_stay)": "opens the address elsewhere",
}
"""The same for stores whose credentials have no names in the environment: a token for an endpoint, of Google's."""

_EXAMPLES = 10
_SEEDS = 2


class Elsewhere:
    """Gives every path and name a folder on the store."""

    def __init__(self, roots: list[str], creds: dict[str, Any]) -> None:
        self._roots, self._creds = roots, creds
        self._root, self._test = "", ""

    def begin(self) -> None:
        """Forget all that tests before this one have made."""
        self._root, self._test = random.choice(self._roots), uuid.uuid4().hex[:12]

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
    config.addinivalue_line("filterwarnings", "ignore::lakebed.errors.WeakStoreWarning")
    told = json.loads(os.environ["LAKEBED_STORE"])
    os.environ.update(told["environment"])  # for tests that open a dataset again by its address
    elsewhere = Elsewhere(told["urls"], told["creds"])
    config.stash[_KEY] = elsewhere
    vars(url).update(LocalStorage=elsewhere.at, open_memory=elsewhere.at)
    vars(datasets).update(new_memory=elsewhere.fresh)
    lock_files.CONFIRM_SECONDS = 0.0  # nobody else writes there, and a pause would move the clocks of tests


_KEY = pytest.StashKey[Elsewhere]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what is about local files, and try few of the examples of property tests."""
    told = json.loads(os.environ["LAKEBED_STORE"])
    is_google = any(address.startswith("gs://") for address in told["urls"])
    left_out = {**LOCAL_ONLY, **(KNOWN_HERE_ONLY if is_google else {})}
    for item in items:
        if is_hypothesis_test(test := getattr(item, "obj", None)):
            _try_few(getattr(test, "__func__", test))
        if getattr(getattr(item, "callspec", None), "params", {}).get("seed", 0) >= _SEEDS:
            item.add_marker(pytest.mark.skip(reason="as many seeds as tell whether the store is to blame"))
        for pattern, reason in left_out.items():
            if re.search(pattern, item.nodeid):
                item.add_marker(pytest.mark.skip(reason=reason))


def _try_few(test: Any) -> None:
    """Let a property test try few examples: each is many requests, and what they vary is no matter of the store."""
    given = test._hypothesis_internal_use_settings
    test._hypothesis_internal_use_settings = settings(given, max_examples=min(_EXAMPLES, given.max_examples))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Begin with an empty store."""
    item.config.stash[_KEY].begin()
