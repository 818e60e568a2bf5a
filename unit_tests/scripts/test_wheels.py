"""`make wheels` leaves in its folder what it has built, and what others have."""

from __future__ import annotations

from pathlib import Path

from scripts import wheels


def test_what_earlier_runs_built_is_removed(tmp_path: Path) -> None:
    built = [
        "lakebed-0.0.9-cp311-cp311-linux_x86_64.whl",
        "lakebed-0.0.9.tar.gz",
        "destination_deeplake-0.0.9.tar.gz",
    ]
    others = ["lakebed_extra-1.0.tar.gz", "image.cdx.json", "registry"]
    for name in built + others:
        (tmp_path / name).touch()
    wheels.remove_built(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(others)
