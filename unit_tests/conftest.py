"""What the unit tests share: the datasets that Deep Lake 3.9.52 wrote."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import pytest

GOLDEN = Path(__file__).parent / "data" / "golden-3.9.52.tar.xz"


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the golden datasets and of what 3.9.52 read back from them; do not write into it."""
    folder = tmp_path_factory.mktemp("golden")
    with tarfile.open(GOLDEN) as archive:
        # Ours: to look at each name takes as long as to write. Python before 3.11.4 has no filters.
        trusted: Any = {"filter": "fully_trusted"} if hasattr(tarfile, "fully_trusted_filter") else {}
        archive.extractall(folder, **trusted)
    return folder / "golden"
