"""Fixtures of tests that follow links."""

from __future__ import annotations

import pytest

from lakebed import config
from lakebed.links import policy as policies


@pytest.fixture
def nothing_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is allowed, remembered or configured but by the test itself."""
    monkeypatch.setattr(config, "LINK_ROOTS", ())
    monkeypatch.setattr(config, "LINK_HOSTS", ())
    monkeypatch.setattr(policies, "_MEMORY", policies._Memory())
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
