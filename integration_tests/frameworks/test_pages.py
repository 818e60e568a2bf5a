"""The snippets of docs/training.md run, those of each framework in a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.frameworks

PAGE = Path(__file__).parents[2] / "docs" / "training.md"
BLOCK = re.compile(r"^```python ?(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = BLOCK.findall(PAGE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("framework", sorted({name for name, _ in BLOCKS if name}))
def test_snippets(framework: str, tmp_path: Path) -> None:
    snippets = "\n".join(text for name, text in BLOCKS if name in ("", framework))
    done = subprocess.run(
        [sys.executable, "-c", snippets],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
