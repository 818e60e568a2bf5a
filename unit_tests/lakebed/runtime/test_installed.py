"""Entry points of installed packages, and NumPy 1 with a pyarrow that needs NumPy 2."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakebed.runtime import installed


def _install(site: Path, name: str) -> None:
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[lakebed.trial]\n{name} = {name}:find\n[other]\nx = y\n")


def test_what_is_installed_meanwhile_is_there_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def names() -> list[str]:
        return [entry.name for entry in installed.entry_points("lakebed.trial")]

    assert names() == []
    _install(tmp_path / "first", "one")
    monkeypatch.syspath_prepend(str(tmp_path / "first"))
    assert names() == ["one"]
    _install(tmp_path / "first", "two")
    assert sorted(names()) == ["one", "two"]
    monkeypatch.syspath_prepend(str(tmp_path / "missing"))
    assert sorted(names()) == ["one", "two"]


def test_packages_are_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    before = installed.entry_points("lakebed.trial")

    def search(group: str) -> None:
        raise AssertionError(group)

    monkeypatch.setattr(installed, "_found", search)
    assert installed.entry_points("lakebed.trial") is before


@pytest.mark.parametrize(
    ("pyarrow", "fits"), [("19.0.1", True), ("25.0.1", True), ("26.0.1", False), ("30.1", False)]
)
def test_pairs_of_numpy_and_pyarrow(pyarrow: str, fits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "version", lambda name: {"pyarrow": pyarrow}[name])
    if fits:
        installed.check_pyarrow("1.26.4")
        return
    with pytest.raises(
        ImportError, match=f"pyarrow {pyarrow} needs NumPy 2, and this is NumPy 1.26.4: pip install"
    ):
        installed.check_pyarrow("1.26.4")
