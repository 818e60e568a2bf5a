"""Spoiled annotations cost themselves or a value, and are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from unit_tests.lakebed.importers.spoiled import FORMATS, failures


@pytest.mark.parametrize("name", FORMATS)
def test_one_bad_annotation_costs_itself_and_nothing_else(tmp_path: Path, name: str) -> None:
    assert not failures(FORMATS[name], tmp_path / "set", step=29)


@pytest.mark.soak
@pytest.mark.parametrize("name", FORMATS)
def test_an_annotation_that_is_bad_in_any_way(tmp_path: Path, name: str) -> None:
    assert not failures(FORMATS[name], tmp_path / "set")
