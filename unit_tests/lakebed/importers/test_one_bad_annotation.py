"""Spoiled annotations cost themselves or a value, and are told; damaged files end in a report or an error of ours."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from unit_tests.lakebed.importers import test_cvat, test_labelme, test_open_images, test_voc, test_yolo
from unit_tests.lakebed.importers.hostile import check_hostile
from unit_tests.lakebed.importers.spoiled import FORMATS, failures

MAKERS: dict[str, Callable[[Path], object]] = {
    "cvat": test_cvat.make_all,
    "labelme": test_labelme.pets,
    "open_images": test_open_images.pets,
    "voc": test_voc.pets,
    "yolo": test_yolo.make_all,
}
SUFFIXES = {"cvat": (".xml",), "open_images": (".csv", ".json")}


@pytest.mark.parametrize("name", FORMATS)
def test_one_bad_annotation_costs_itself_and_nothing_else(tmp_path: Path, name: str) -> None:
    assert not failures(FORMATS[name], tmp_path / "set", step=11)


@pytest.mark.soak
@pytest.mark.parametrize("name", FORMATS)
def test_an_annotation_that_is_bad_in_any_way(tmp_path: Path, name: str) -> None:
    assert not failures(FORMATS[name], tmp_path / "set")


@pytest.mark.parametrize("name", MAKERS)
def test_damaged_sources_end_in_a_report_or_an_error_of_ours(tmp_path: Path, name: str) -> None:
    check_hostile(name, MAKERS[name], tmp_path, 10, suffixes=SUFFIXES.get(name))


@pytest.mark.soak
@pytest.mark.parametrize("name", MAKERS)
def test_many_damaged_sources(tmp_path: Path, name: str) -> None:
    check_hostile(name, MAKERS[name], tmp_path, 500, seed=1)
