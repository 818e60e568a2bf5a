"""The facades stay readable: one mixin for each chapter of the API, side by side."""

from __future__ import annotations

import pytest

import lakebed
from lakebed.dataset.base import DatasetBase, TensorBase

MOST_METHODS = 25
CHAPTERS = [*lakebed.Dataset.__bases__, *lakebed.Tensor.__bases__]


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.__name__)
def test_a_chapter_is_small_and_stands_on_no_other(chapter: type) -> None:
    public = [name for name in vars(chapter) if not name.startswith("_")]
    below = {base for base in chapter.__mro__[1:] if base.__module__.startswith("lakebed.dataset")}

    assert len(public) <= MOST_METHODS
    assert below <= {DatasetBase, TensorBase}


@pytest.mark.parametrize("facade", [lakebed.Dataset, lakebed.Tensor])
def test_no_two_chapters_define_the_same_name(facade: type) -> None:
    names = [name for base in facade.__bases__ for name in vars(base) if not name.startswith("__")]
    double = sorted({name for name in names if names.count(name) > 1} - {"_abc_impl"})

    # What a chapter needs of the object that it is part of is abstract where it is used.
    assert set(double) <= {"numpy", "is_sequence", "is_single", "is_link", "goes_inside", "holds_nothing"} | {
        "assign",
        "recorded_values",
        "links",
        "creds_names",
        "fits_stored",
        "stored",
    }
