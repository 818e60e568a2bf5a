"""Texts at random: the parser and what finds names end each with a query or an error of queries, soon."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lakebed.query.functions.function import forget
from unit_tests import effort
from unit_tests.lakebed.query import adapter, fuzz


@pytest.fixture(scope="module")
def made() -> Iterator[dict[str, Any]]:
    yield adapter.load()
    forget("double_it")
    forget("add_em")


def test_texts_are_read_or_refused() -> None:
    accepted, _ = fuzz.tried(fuzz.Texts(effort.seed()), 4000, fuzz.read)
    assert accepted > 200


def test_texts_are_bound_or_refused(made: dict[str, Any]) -> None:
    given = fuzz.sources(made)
    accepted, _ = fuzz.tried(fuzz.Texts(effort.seed() + 1), 1500, lambda text: fuzz.bound(text, given))
    assert accepted > 20


def test_texts_are_answered_or_refused(made: dict[str, Any]) -> None:
    given = fuzz.sources(made)
    accepted, _ = fuzz.tried(fuzz.Texts(effort.seed() + 2), 1500, lambda text: fuzz.answered(text, given))
    assert accepted > 20


@pytest.mark.soak
def test_ten_million_texts() -> None:
    """8 million are read, 1.8 million are bound, 200,000 are answered."""
    fuzz.main(10_000_000, effort.seed())
