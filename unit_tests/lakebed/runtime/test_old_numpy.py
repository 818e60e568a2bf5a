"""NumPy 1 with a pyarrow that needs NumPy 2 is told at the import, with the pairs that go together."""

from __future__ import annotations

import pytest

from lakebed.runtime import old_numpy


@pytest.mark.parametrize(
    ("pyarrow", "fits"), [("19.0.1", True), ("25.0.1", True), ("26.0.1", False), ("30.1", False)]
)
def test_pairs(pyarrow: str, fits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(old_numpy, "version", lambda name: {"pyarrow": pyarrow}[name])
    if fits:
        old_numpy.check_pyarrow("1.26.4")
        return
    with pytest.raises(
        ImportError, match=f"pyarrow {pyarrow} needs NumPy 2, and this is NumPy 1.26.4: pip install"
    ):
        old_numpy.check_pyarrow("1.26.4")
