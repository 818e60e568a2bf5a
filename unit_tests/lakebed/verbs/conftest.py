"""Datasets that verbs are asked of."""

from __future__ import annotations

import itertools

import pytest

import lakebed
from unit_tests.lakebed.verbs.rows import ROWS

NUMBER = itertools.count()


@pytest.fixture
def ds() -> lakebed.Dataset:
    """Twenty rows of texts, numbers, labels and vectors, some of them missing."""
    ds = lakebed.empty(f"mem://verbs-{next(NUMBER)}")
    ds.create_tensor("name", htype="text")
    ds.create_tensor("age", dtype="int64")
    ds.create_tensor("score", dtype="float64")
    ds.create_tensor("kind", htype="class_label", class_names=["cat", "dog", "emu"])
    ds.create_tensor("vec", htype="embedding", dtype="float32")
    ds.extend(ROWS)
    return ds
