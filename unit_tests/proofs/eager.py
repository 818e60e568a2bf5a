"""Settings by which checkpoints, collections and copies of files happen at every turn, not once in hours."""

from __future__ import annotations

import pytest

from lakebed import config
from lakebed.versions import publish

CONFIGURATIONS = ("as configured", "eager")


def configure(monkeypatch: pytest.MonkeyPatch, configuration: str, *, checkpoints: bool = True) -> None:
    """Change the settings if they are to be eager."""
    if configuration == "eager":
        if checkpoints:
            monkeypatch.setattr(config, "CHECKPOINT_CHUNKS", 2)
        monkeypatch.setattr(config, "GRACE_SECONDS", 0.0)
        monkeypatch.setattr(config, "KEEP_HEADS", 1)
        monkeypatch.setattr(publish, "COPY_BYTES", 100)
