"""The examples in docstrings run and print what they say."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from types import ModuleType

import pytest

import lakebed

SHIPPED_TESTS = "lakebed.testing"
FRAMEWORKS = (  # not installed here
    *(f"lakebed.loaders.frameworks.{name}" for name in ("device", "torch", "tensorflow", "jax")),
    "lakebed.ray",
    "lakebed.dask",
    "lakebed.spark",
)


def modules() -> list[str]:
    """Every module of the library."""
    found = [m.name for m in pkgutil.walk_packages(lakebed.__path__, "lakebed.")]
    return [
        "lakebed",
        *(name for name in found if not name.startswith((SHIPPED_TESTS, "lakebed.native.", *FRAMEWORKS))),
    ]


def examples(module: ModuleType) -> list[doctest.DocTest]:
    """The examples of a module that are not skipped."""
    found = doctest.DocTestFinder(exclude_empty=True).find(module)
    return [test for test in found if any(doctest.SKIP not in e.options for e in test.examples)]


@pytest.mark.parametrize("name", modules())
def test_examples_of_a_module(name: str) -> None:
    """Each example of each public docstring is true."""
    module = importlib.import_module(name)
    runner = doctest.DocTestRunner()
    for test in examples(module):
        report: list[str] = []
        runner.run(test, out=report.append)
        assert not report, "".join(report)


def test_the_examples_that_readers_see_first_are_there() -> None:
    """The package, Dataset and Strings each show how they are used."""
    for name in ("lakebed", "lakebed.dataset.dataset", "lakebed.reading.columns.strings"):
        assert examples(importlib.import_module(name)), name


def test_every_public_name_exists() -> None:
    """`__all__` names what is there, and the 3.x exception names are importable from the package."""
    for name in lakebed.__all__:
        assert hasattr(lakebed, name)
    for name in (
        "DatasetHandlerError",
        "LockedException",
        "CheckoutError",
        "SampleAppendError",
        "ReadOnlyModeError",
    ):
        assert getattr(lakebed, name) is getattr(lakebed.errors, name)


def test_the_kinds_of_files_are_told_by_htype() -> None:
    """Each compression that is a kind of file belongs to an htype, and a tensor of that htype takes it."""
    kinds = frozenset().union(*lakebed.file_kinds.values())
    assert kinds == {name for name in lakebed.compressions if name not in (None, "lz4")}
    assert lakebed.file_kinds["nifti"] == {"nii", "nii.gz"}
    ds = lakebed.empty("mem://kinds")
    for name, found in lakebed.file_kinds.items():
        for kind in sorted(found):
            ds.create_tensor(
                f"{name.replace('.', '_')}_{kind.replace('.', '_')}", htype=name, sample_compression=kind
            )
