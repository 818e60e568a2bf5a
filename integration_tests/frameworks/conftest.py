"""One dataset for all frameworks."""

from __future__ import annotations

import pytest

import lakebed
from integration_tests.frameworks import lake


@pytest.fixture(scope="session")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return lake.make(tmp_path_factory.mktemp("frameworks") / "ds")


@pytest.fixture
def ds(path: str) -> lakebed.Dataset:
    return lakebed.load(path, read_only=True)
