"""Printed forms, character for character those of 3.9.52."""

from __future__ import annotations

import numpy as np
import pytest

import lakebed

TABLE = """
             tensor                 htype         shape       dtype  compression
            -------                -------       -------     -------  ------- 
               a                   generic       (3, 1)       int64    None   
              text                  text         (3, 1)        str     None   
            g/ragged               generic    (3, 1:3, 2:4)  float64   None   
              json                  json         (3, 1)        str     None   
             labels              class_label     (3, 1)      uint32    None   
 a_very_long_tensor_name_indeed    generic     (3, 10, 20)    uint8     lz4   
              list                  list        (3, 0:2)       str     None   
             empty                  None          (0,)        None     None   
"""  # noqa: W291


@pytest.fixture
def ds() -> lakebed.Dataset:
    """The dataset that 3.9.52 printed."""
    ds = lakebed.empty("mem://printing", overwrite=True)
    ds.create_tensor("a", dtype="int64")
    ds.create_tensor("text", htype="text")
    ds.create_tensor("g/ragged")
    ds.create_tensor("json", htype="json", chunk_compression="lz4")
    ds.create_tensor("labels", htype="class_label", class_names=["x", "y"])
    ds.create_tensor("a_very_long_tensor_name_indeed", sample_compression="lz4", dtype="uint8")
    ds.create_tensor("list", htype="list")
    ds.create_tensor("empty")
    ds.extend(
        {
            "a": [1, 2, 3],
            "text": ["a", "b", "c"],
            "g/ragged": [np.zeros((1, 2)), np.zeros((3, 4)), np.zeros((2, 2))],
            "json": [{}, {}, {}],
            "labels": ["x", "y", "z"],
            "a_very_long_tensor_name_indeed": np.zeros((3, 10, 20), dtype="uint8"),
            "list": [[1], [1, 2], []],
        },
        skip_ok=True,
    )
    return ds


def test_summary_of_a_dataset(ds: lakebed.Dataset, capsys: pytest.CaptureFixture[str]) -> None:
    """Columns are centred, headings do not widen them."""
    ds.summary()
    assert capsys.readouterr().out == str(ds) + "\n" + TABLE


def test_summary_of_views_groups_and_tensors(ds: lakebed.Dataset, capsys: pytest.CaptureFixture[str]) -> None:
    """A view shows the shapes of its rows, a group its own names, a tensor no name."""
    ds[0:2].summary()
    table = TABLE.replace("(3, 0:2)", "(2, 1:2)").replace("(3,", "(2,")
    assert capsys.readouterr().out == str(ds[0:2]) + "\n" + table
    ds["g"].summary()
    assert capsys.readouterr().out == (
        "Dataset(path='mem://printing', group_index='g', tensors=['ragged'])\n\n"
        " tensor    htype       shape       dtype  compression\n"
        " -------  -------     -------     -------  ------- \n"
        " ragged   generic  (3, 1:3, 2:4)  float64   None   \n"
    )
    ds.a[0].summary()
    assert capsys.readouterr().out == (
        "Tensor(key='a', index=Index([0]))\n\n"
        "  htype    shape    dtype  compression\n"
        " -------  -------  -------  ------- \n"
        " generic  (1, 1)    int64    None   \n"
    )


def test_summary_without_tensors(capsys: pytest.CaptureFixture[str]) -> None:
    """Only the headings are left."""
    lakebed.empty("mem://printing-nothing").summary()
    assert capsys.readouterr().out == (
        "Dataset(path='mem://printing-nothing', tensors=[])\n\n"
        " tensor    htype    shape    dtype  compression\n"
        " -------  -------  -------  -------  ------- \n"
    )


def test_summary_of_large_views_must_be_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """Shapes of a selection are found by reading, so 10,000 rows need `force`."""
    ds = lakebed.empty("mem://printing-large")
    ds.create_tensor("a")
    ds.extend({"a": np.zeros((10_001, 2))})
    with pytest.raises(ValueError, match="force"):
        ds[1:].summary()
    ds[1:].summary(force=True)
    assert "(10000, 2)" in capsys.readouterr().out
    ds[2:].summary()


def test_str(ds: lakebed.Dataset) -> None:
    """Path, mode, index, group and tensors, in the order of 3.x."""
    path = "path='mem://printing'"
    assert str(ds[["a", "text"]]) == f"Dataset({path}, tensors=['a', 'text'])"
    assert str(ds["g"][0:2]) == (
        f"Dataset({path}, index=Index([slice(0, 2, None)]), group_index='g', tensors=['ragged'])"
    )
    assert str(ds[[0, 1]][["a"]]) == f"Dataset({path}, index=Index([(0, 1)]), tensors=['a'])"
    assert str(ds.a) == "Tensor(key='a')"
    assert str(ds["g"].ragged[[1, 2]]) == "Tensor(key='g/ragged', index=Index([(1, 2)]))"
    assert str(ds.a[0][0:1]) == "Tensor(key='a', index=Index([0, slice(0, 1, None)]))"
    reader = lakebed.load("mem://printing", read_only=True)
    assert str(reader[["a"]]) == f"Dataset({path}, read_only=True, tensors=['a'])"
