"""docs/configuration.md says what spec.json says, and its examples are configurations."""

import json
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from destination_deeplake.config import DestinationConfig
from destination_deeplake.messages import specification

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```json\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_reference_is_up_to_date() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "configuration_page.py"), "--check"]
    done = subprocess.run(command, check=False)
    assert done.returncode == 0, "run scripts/configuration_page.py"


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_passes_the_form_and_the_code(example: str) -> None:
    values = json.loads(example)
    jsonschema.validate(values, specification()["connectionSpecification"])
    DestinationConfig.from_mapping(values)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 5
