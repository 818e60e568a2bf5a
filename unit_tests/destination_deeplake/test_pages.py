"""The documentation that comes with the connector."""

import fnmatch
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from destination_deeplake.pages import contents, pages
from unit_tests.effort import PATIENCE

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
RUN = [sys.executable, "-c", "from destination_deeplake.run import run; run()"]


def said(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*RUN, *arguments], capture_output=True, text=True, timeout=PATIENCE, check=False)


def test_every_page_that_users_need_can_be_read_without_a_network() -> None:
    found = said("--docs")
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout == contents()
    for name in ("airbyte", "troubleshooting", "configuration", "htypes/image"):
        assert f"\n{name} " in found.stdout
    assert said("--docs", "troubleshooting").stdout == (ROOT / "docs/troubleshooting.md").read_text()


def test_a_page_that_is_not_there_is_a_wrong_command_line() -> None:
    found = said("--docs", "../README")
    assert (found.returncode, found.stdout) == (2, "")
    assert "there is no page '../README'; --docs alone lists them" in found.stderr


def test_an_installation_and_the_image_have_the_pages_of_the_checkout() -> None:
    kept = PROJECT["tool"]["setuptools"]["data-files"]
    patterns = [pattern for of_folder in kept.values() for pattern in of_folder]
    for name, path in pages().items():
        relative = path.relative_to(ROOT).as_posix()
        assert any(fnmatch.fnmatch(relative, pattern) for pattern in patterns), relative
        folder = f"share/doc/destination-deeplake/{name}".rpartition("/")[0]
        assert folder in kept
    assert "COPY docs docs" in (ROOT / "Dockerfile").read_text()
    assert "!docs" in (ROOT / ".dockerignore").read_text().splitlines()
