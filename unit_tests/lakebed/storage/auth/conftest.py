"""An environment with no credentials in it, as tests of where they come from need."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lakebed.storage.auth import aws_chain

_PREFIXES = ("AWS_", "GOOGLE_", "AZURE_", "GCE_", "CLOUDSDK_", "STORAGE_EMULATOR", "IDENTITY_", "MSI_")


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Forget everything that this machine knows about clouds; returns the home folder."""
    for name in list(os.environ):
        if name.startswith(_PREFIXES):
            monkeypatch.delenv(name)
    home = tmp_path / "home"
    (home / ".aws").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    # Nothing listens at port 9: no metadata but that of a test.
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:9/")
    monkeypatch.setenv("GCE_METADATA_HOST", "127.0.0.1:9")
    monkeypatch.setattr("lakebed.storage.auth.azure._METADATA_HOST", "127.0.0.1:9")
    monkeypatch.setattr(aws_chain, "_shared", {})
    return home
