"""Class names that a change adds are told, once, as 3.9.52 does."""

from __future__ import annotations

import io
import sys

import numpy as np
import pytest

import lakebed
from lakebed.errors import SampleAppendError, UnusualSampleWarning


@pytest.fixture
def ds(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> lakebed.Dataset:
    """Labels, some in sequences and some in a group."""
    monkeypatch.setattr(lakebed.config, "TELL_NEW_CLASSES", True)
    ds = lakebed.empty("mem://new-classes", overwrite=True)
    ds.create_tensor("lab", htype="class_label", class_names=["cat", "dog"])
    ds.create_tensor("g/lab", htype="class_label")
    ds.create_tensor("s", htype="sequence[class_label]")
    ds.create_tensor("text", htype="text")
    capsys.readouterr()
    return ds


def test_every_way_to_add_a_class_tells_it(ds: lakebed.Dataset, capsys: pytest.CaptureFixture[str]) -> None:
    """Samples, columns, rows, sequences and replacements; a class that is there is told no more."""
    told = "'{}' added to {}.info.class_names at index {}\n"

    def said(*lines: tuple[str, str, int]) -> bool:
        return capsys.readouterr().out == "".join(told.format(*line) for line in lines)

    ds.lab.append("girafe")
    assert said(("girafe", "lab", 2))
    ds.lab.append("girafe")
    ds.lab.append("cat")
    with pytest.warns(UnusualSampleWarning, match="label 7"):
        ds.lab.append(7)
    ds.lab.extend(["dog", "cat"])
    ds.lab.extend(np.array([0, 1], np.uint32))
    ds.text.extend(["girafe"] * 8)
    assert said()
    ds.lab.extend(["emu", "cat", "emu", "fox"])
    ds.text.extend(["x"] * 4)
    assert said(("emu", "lab", 3), ("fox", "lab", 4))
    ds["g/lab"].extend(["only"] * len(ds.lab))
    ds.s.extend([["p", "q"]] * len(ds.lab))
    assert said(("only", "g/lab", 0), ("p", "s", 0), ("q", "s", 1))
    ds.append({"lab": "gnu", "g/lab": "only", "s": ["r"], "text": ""})
    assert said(("gnu", "lab", 5), ("r", "s", 2))
    ds.extend({"lab": ["hen", "cat"], "g/lab": ["only", "more"], "s": [["p"], []], "text": ["", ""]})
    assert said(("hen", "lab", 6), ("more", "g/lab", 1))
    ds.extend({"lab": ["ibis"], "g/lab": ["more"], "s": [["p"]], "text": [""]}, ignore_errors=True)
    ds.lab[0] = "jay"
    ds.update_rows([1], {"lab": ["kea"]})
    assert said(("ibis", "lab", 7), ("jay", "lab", 8), ("kea", "lab", 9))


def test_a_change_that_fails_tells_nothing(ds: lakebed.Dataset, capsys: pytest.CaptureFixture[str]) -> None:
    """The class is not there either."""
    with pytest.raises(SampleAppendError):
        ds.extend({"lab": ["girafe"], "g/lab": [1.5], "s": [[]], "text": [""]})
    assert capsys.readouterr().out == ""
    assert ds.lab.info.class_names == ["cat", "dog"]


def test_a_name_leaves_the_terminal_alone(ds: lakebed.Dataset, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever is in it."""
    ds.lab.append("a\x9b31m\n")
    assert capsys.readouterr().out == "'a\\x9b31m\\n' added to lab.info.class_names at index 2\n"


def test_nobody_is_told_who_does_not_want_it(
    ds: lakebed.Dataset, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the setting; and a closed standard output harms nothing."""
    monkeypatch.setattr(lakebed.config, "TELL_NEW_CLASSES", False)
    ds.lab.append("girafe")
    assert capsys.readouterr().out == ""
    monkeypatch.setattr(lakebed.config, "TELL_NEW_CLASSES", True)
    gone = io.StringIO()
    gone.close()
    monkeypatch.setattr(sys, "stdout", gone)
    ds.lab.append("emu")
    assert ds.lab.info.class_names[2:] == ["girafe", "emu"]
