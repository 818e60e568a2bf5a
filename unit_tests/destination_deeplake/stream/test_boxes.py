"""Arrays of any number of rows: the boxes of pictures, of which some have none."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakebed
from destination_deeplake.catalog import StreamPlan, WriteMode
from destination_deeplake.choices import ColumnChoice, Decoding, StreamChoices
from unit_tests.destination_deeplake.stream.test_writer import sync

SCHEMA = {"properties": {"id": {"type": "integer"}, "box": {"type": "array"}}}
BOX = [1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize("mode", [WriteMode.APPEND, WriteMode.DEDUP])
@pytest.mark.parametrize("chosen", [{"htype": "bbox"}, {"decoding": Decoding.NUMBERS}], ids=str)
def test_pictures_without_boxes_are_joined_with_others(
    tmp_path: Path, chosen: dict[str, Any], mode: WriteMode
) -> None:
    """No boxes are an array of shape (0, 4), from the first record on; a null is another thing."""
    choices = StreamChoices(columns={"box": ColumnChoice("box", shape=(0, 4), **chosen)})
    plan = StreamPlan(None, "users", mode, SCHEMA, primary_key=(("id",),), choices=choices)
    sync(tmp_path, plan, {"id": 1, "box": []}, {"id": 2, "box": [BOX, BOX]})
    sync(tmp_path, plan, {"id": 3, "box": []}, {"id": 4, "box": [BOX]})
    boxes = lakebed.load(tmp_path / "users").box
    assert [sample.numpy().shape for sample in boxes] == [(0, 4), (2, 4), (0, 4), (1, 4)]
    assert np.concatenate(boxes.numpy(aslist=True)).tolist() == [BOX] * 3
    sync(tmp_path, plan, {"id": 5, "box": None})
    boxes = lakebed.load(tmp_path / "users").box
    assert boxes.null_mask().tolist() == [False] * 4 + [True]
    assert boxes.to_arrow().to_pylist() == [[], [BOX, BOX], [], [BOX], None]
