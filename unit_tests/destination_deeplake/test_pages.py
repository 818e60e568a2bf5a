"""The documentation that comes with the connector."""

import fnmatch
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from destination_deeplake.pages import contents, pages
from unit_tests.effort import PATIENCE

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
RUN = [sys.executable, "-m", "destination_deeplake"]
SHELL = f"""
set -e
pip() {{ :; }}
source-faker() {{ cat messages.jsonl; }}
destination-deeplake() {{ {sys.executable} -m destination_deeplake "$@"; }}
lakebed() {{ {sys.executable} -m lakebed "$@"; }}
"""
"""Stand-ins for the commands of an installation and for a source."""


def said(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*RUN, *arguments], capture_output=True, text=True, timeout=PATIENCE, check=False)


def test_every_page_that_users_need_can_be_read_without_a_network() -> None:
    found = said("--docs")
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout == contents()
    for name in ("airbyte", "troubleshooting", "configuration", "htypes/image"):
        assert f"\n{name} " in found.stdout
    assert said("--docs", "troubleshooting").stdout == (ROOT / "docs/troubleshooting.md").read_text()


@pytest.mark.parametrize("page", ["README.md", "destination_deeplake/README.md"])
def test_the_commands_of_a_front_page_run_one_after_the_other(page: str, tmp_path: Path) -> None:
    blocks = re.findall(
        r"^```(?:console|sh)\n(.*?)^```$", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL
    )
    (commands,) = (re.sub(r"^\$ ", "", block, flags=re.MULTILINE) for block in blocks if "--config" in block)
    stream = {"name": "users", "json_schema": {"type": "object", "properties": {"id": {"type": "integer"}}}}
    catalog = {
        "streams": [{"stream": stream, "sync_mode": "full_refresh", "destination_sync_mode": "append"}]
    }
    (tmp_path / "catalog.json").write_text(json.dumps(catalog))
    record = {"type": "RECORD", "record": {"stream": "users", "emitted_at": 0, "data": {"id": 7}}}
    (tmp_path / "messages.jsonl").write_text(json.dumps(record))
    program = SHELL + commands.replace("/data/lake", f"{tmp_path}/lake")
    done = subprocess.run(
        ["bash", "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert '"SUCCEEDED"' in done.stdout
    assert re.match(r"users +users +append +1 ", done.stdout.splitlines()[-1])


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
