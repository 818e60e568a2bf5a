"""Damaged and hostile sources of all formats: errors or counted rows, no crash, no hang, no file outside the root."""

from __future__ import annotations

from pathlib import Path

import pytest

from unit_tests.lakebed.importers.families import FAMILIES
from unit_tests.lakebed.importers.hostile import check_hostile


@pytest.mark.parametrize("name", FAMILIES)
def test_damage_ends_in_a_report_or_an_error(name: str, tmp_path: Path) -> None:
    one = FAMILIES[name]
    check_hostile(one.format, one.make, tmp_path, 10, suffixes=one.suffixes, **one.options)


@pytest.mark.soak
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", FAMILIES)
def test_five_hundred_damaged_sources(name: str, seed: int, tmp_path: Path) -> None:
    one = FAMILIES[name]
    check_hostile(one.format, one.make, tmp_path, 500, seed=seed, suffixes=one.suffixes, **one.options)
