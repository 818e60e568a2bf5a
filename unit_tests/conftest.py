"""What the unit tests share: the datasets that Deep Lake 3.9.52 wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from unit_tests.once import extracted

GOLDEN = Path(__file__).parent / "data" / "golden-3.9.52.tar.xz"


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the golden datasets and of what 3.9.52 read back from them; do not write into it."""
    return extracted(tmp_path_factory, GOLDEN) / "golden"
