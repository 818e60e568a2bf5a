"""The compiled functions refuse arguments that do not fit together, and none is left out of the fuzzing."""

from __future__ import annotations

import pkgutil
from importlib import import_module

import pytest

import lakebed.native
from unit_tests.effort import IS_SOAK
from unit_tests.lakebed.fuzz import native

HEADERS = {
    "jpeg_header",
    "png_header",
    "jpeg_headers",
    "png_headers",
    "packed_jpeg_headers",
    "packed_png_headers",
}
# What takes whatever it is given.
ACCEPTING = ("shape_rows", "position_rows", "gather_arrays", "resident", "slow_bytes")
# What takes no bytes of a dataset.
TRUSTED = {"fsync_all", "sync_disk", "make_folders", "reserve", "bind"}

CALLS = 200_000 if IS_SOAK else 2_000


@pytest.mark.parametrize("name", native.CALLS)
def test_contradicting_arguments(name: str) -> None:
    """Nothing but the documented errors, and no crash."""
    accepted = sum(native.call(name, number) for number in range(CALLS))
    assert accepted > 0
    assert accepted < CALLS or name in ACCEPTING


def test_every_function_is_fuzzed() -> None:
    """A new compiled function needs a target."""
    modules = [
        import_module(f"lakebed.native.{found.name}")
        for found in pkgutil.iter_modules(lakebed.native.__path__)
        if found.name != "keys"  # `test_keys` has their targets
    ]
    offered = {
        name
        for module in modules
        for name, value in vars(module).items()
        if "function" in type(value).__name__ and name[0] != "_"
    }
    assert offered - HEADERS - TRUSTED == set(native.CALLS) - {"image headers"}
    assert offered >= HEADERS
