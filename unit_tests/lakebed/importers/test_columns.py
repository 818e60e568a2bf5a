"""Files that columns of tables name are opened below the folder of the table only."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from lakebed.errors import IngestionError
from unit_tests.lakebed.importers.sources import imported


@pytest.mark.parametrize("link", [False, True])
def test_paths_that_lead_out_of_the_folder_are_refused(link: bool, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    for path in (root / "in.png", tmp_path / "out.png"):
        Image.fromarray(np.zeros((4, 5, 3), np.uint8)).save(path)
    (root / "symbolic.png").symlink_to(tmp_path / "out.png")
    outside = ["../out.png", str(tmp_path / "out.png"), f"file://{tmp_path}/out.png", "symbolic.png"]
    for name in outside:
        (root / "t.csv").write_text(f"photo\n{name}\n")
        with pytest.raises(IngestionError, match="is not below"):
            imported("csv", root / "t.csv", media={"photo": "image"}, link=link)
    (root / "t.csv").write_text(f"photo\nin.png\n{root}/in.png\n")
    report = imported("csv", root / "t.csv", media={"photo": "image"}, link=link)
    assert report.dataset.photo.numpy().shape == (2, 4, 5, 3)
