"""What whoever installs from source is told, and what the image is built from."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from setuptools import Distribution
from setuptools.errors import PlatformError

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(("folder", "name"), [("format", "lakebed"), (".", "destination-deeplake")])
@pytest.mark.parametrize("compiler", ["cc-of-nobody", None])
def test_a_missing_compiler_is_called_by_its_name(
    tmp_path: Path, compiler: str | None, folder: str, name: str
) -> None:
    """Before anything is built, with the command that installs one."""
    environment = {**os.environ, "PATH": str(tmp_path)}
    environment.pop("CC", None)
    if compiler is not None:
        environment["CC"] = compiler
    result = subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", "-b", tmp_path / "built", "-t", tmp_path / "made"],
        cwd=ROOT / folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    last = result.stderr.strip().splitlines()[-1]
    assert f"{name} needs a C compiler, or the wheel: there is no" in last
    assert "apt install gcc" in last
    assert last.endswith("or correct CC") == (compiler is not None)
    assert not list(tmp_path.iterdir())


def test_windows_is_told_that_it_has_to_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    build = runpy.run_path(str(ROOT / "format/setup.py"))["BuildExt"](Distribution({"name": "lakebed"}))
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(PlatformError, match="lakebed does not run on Windows yet: install it in WSL"):
        build.build_extensions()


def test_a_missing_core_is_told_with_the_command_that_builds_it(tmp_path: Path) -> None:
    (tmp_path / "lakebed").mkdir()
    shutil.copy(ROOT / "format/lakebed/__init__.py", tmp_path / "lakebed")
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import lakebed"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=False
    )
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: the compiled core of lakebed is missing")
    assert "pip install -e ./format (in a checkout) or pip install --force-reinstall lakebed" in last


def test_the_image_is_sent_all_that_it_copies() -> None:
    """`.dockerignore` leaves out everything but what it names; what the Dockerfile copies must be among it."""
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().split() if line.startswith("!")}
    copied: set[str] = set()
    for line in (ROOT / "Dockerfile").read_text().splitlines():
        if line.startswith("COPY ") and "--from" not in line:
            copied.update(line.split()[1:-1])
    assert "setup.py" in copied
    assert [name for name in copied if not any(f"{name}/".startswith(f"{one}/") for one in allowed)] == []
    assert all((ROOT / name).exists() for name in allowed)
