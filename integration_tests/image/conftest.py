"""Fixtures: the engine, the image that `make image` built, and a connector with a folder of its own for each test."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
from docker.models.images import Image

from integration_tests.image.containers import Connector

ROOT = Path(__file__).resolve().parent.parent.parent
NAME = os.environ.get("IMAGE", "destination-deeplake:dev")


@pytest.fixture(scope="session")
def address() -> str:
    """Return the address of the engine of DOCKER_HOST, of the usual socket, or of `scripts/docker.sh start`."""
    found = subprocess.run([ROOT / "scripts/docker.sh", "find"], capture_output=True, text=True, check=False)
    if found.returncode:
        pytest.skip(found.stderr.strip())
    return found.stdout.strip()


@pytest.fixture(scope="session")
def engine(address: str) -> Iterator[docker.DockerClient]:
    """Return a client of the engine."""
    client = docker.DockerClient(base_url=address, timeout=180)
    yield client
    client.close()


@pytest.fixture(scope="session")
def image(engine: docker.DockerClient) -> Image:
    """Return the image."""
    try:
        return engine.images.get(NAME)
    except docker.errors.ImageNotFound:
        pytest.skip(f"there is no image {NAME}; `make image` builds it")


@pytest.fixture
def connector(engine: docker.DockerClient, image: Image, tmp_path: Path) -> Connector:
    """Return the image with a lake that is empty."""
    for folder in [tmp_path, *tmp_path.parents][:3]:
        folder.chmod(folder.stat().st_mode | 0o111)  # the engine's containers must get through
    return Connector(engine, NAME, tmp_path)
