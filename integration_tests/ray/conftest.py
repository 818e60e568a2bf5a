"""Two nodes for all tests of a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from integration_tests.ray.nodes import Nodes


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    """A cluster of two nodes, which this process is connected to; a test may add nodes, and kill those."""
    ray = pytest.importorskip("ray")
    try:
        started = Nodes().__enter__()
    except RuntimeError as error:
        pytest.skip(f"Ray cannot start here: {error}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "disabled")
        patch.setenv("RAY_ADDRESS", started.address)
        try:
            started.add()
            yield started
        finally:
            ray.shutdown()
            started.__exit__()
