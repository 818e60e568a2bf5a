"""Servers that run for a whole test session: those that start in seconds always, the others with ``-m stores``."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Callable, Iterator

import pytest

from integration_tests.stores import servers
from integration_tests.stores.servers import Server
from lakebed.storage.base import Storage
from lakebed.storage.url import Location, open_storage

_STARTS = {
    "moto": servers.moto,
    "ceph": servers.ceph,
    "azurite": servers.azurite,
    "gcs": servers.gcs,
    "rclone": servers.rclone,
}
_ALL = [name if name == "moto" else pytest.param(name, marks=pytest.mark.stores) for name in _STARTS]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let tests on every store not stumble over the warning that one of them gives, to whoever comes first."""
    for item in items:
        if {"store", "fresh_store"}.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.filterwarnings("ignore::lakebed.errors.WeakStoreWarning"))


@pytest.fixture(scope="session")
def running_stores(request: pytest.FixtureRequest) -> Iterator[Callable[[str], Server]]:
    """Start a server when the first test asks for it; all end with the session."""
    with contextlib.ExitStack() as stack:
        started: dict[str, Server] = {}

        def get(name: str) -> Server:
            if name == "moto":
                started[name] = request.getfixturevalue("moto")
            if name not in started:
                started[name] = stack.enter_context(_STARTS[name]())
            return started[name]

        yield get


@pytest.fixture(scope="session", params=_ALL)
def store(request: pytest.FixtureRequest, running_stores: Callable[[str], Server]) -> Server:
    """Return one store after the other: moto always, all others with ``-m stores``."""
    return running_stores(request.param)


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.stores) for name in _STARTS])
def fresh_store(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Start one store after the other, anew for every test: some are slower the more they hold."""
    with _STARTS[request.param]() as server:
        yield server


@pytest.fixture
def place(store: Server) -> Callable[[], Storage]:
    """Make empty storages on the store, each with an address of its own."""

    def make() -> Storage:
        scheme, _, path = store.url(f"place-{uuid.uuid4().hex[:8]}").partition("://")
        return open_storage(Location(scheme, path, None, store.creds))

    return make


@pytest.fixture
def bare(store: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """Return a store whose credentials are nowhere in the environment."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "AZURE_", "GOOGLE_"))]:
        monkeypatch.delenv(name)
    return store


@pytest.fixture
def ambient(bare: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """Return a store whose credentials are in the environment, where every process finds them."""
    for name, value in bare.environment.items():
        monkeypatch.setenv(name, value)
    return bare
