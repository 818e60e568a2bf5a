"""A machine that knows no credentials: tests neither find those of whoever runs them nor ask his keyring."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.backends.fail import Keyring
from keyring.errors import PasswordDeleteError

from lakebed.credentials.named import forget


class InMemory(KeyringBackend):
    """A keyring in memory."""

    priority = 0.1  # type: ignore[assignment]

    def __init__(self) -> None:
        self.held: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.held.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.held[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        if self.held.pop((service, username), None) is None:
            raise PasswordDeleteError


@contextmanager
def nobody_knows(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Let ``place`` be the owner's file, and the keyring one that holds nothing."""
    monkeypatch.setenv("LAKEBED_CREDS_FILE", str(place))
    with keeping(Keyring()):
        forget()
        yield place
        forget()


@contextmanager
def keeping(ring: KeyringBackend) -> Iterator[None]:
    """Use another keyring for a while."""
    before = keyring.get_keyring()
    keyring.set_keyring(ring)
    try:
        yield
    finally:
        keyring.set_keyring(before)
