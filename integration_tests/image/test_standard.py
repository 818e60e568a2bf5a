"""The part of Airbyte's standard tests that runs in the image."""

from __future__ import annotations

from pathlib import Path

import pytest
from docker.models.images import Image

from integration_tests.image.conftest import NAME
from integration_tests.standard.runs import standard_tests

pytestmark = pytest.mark.image


def test_airbytes_image_tests_pass(address: str, image: Image, tmp_path: Path) -> None:
    """Only the comparison with a published version is left out: there is none."""
    outcomes = standard_tests(
        tmp_path, "image_tests", f"--connector-image={NAME}", variables={"DOCKER_HOST": address}
    )
    assert not [f"{name} {outcome}" for name, outcome in outcomes.items() if outcome.startswith("failed")]
    assert sum(outcome == "passed" for outcome in outcomes.values()) >= 2
