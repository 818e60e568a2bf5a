"""What messages and pages tell users to install is there to install."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from lakebed.codecs import registry

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]


def test_every_extra_that_is_named_exists() -> None:
    """In messages of the library and the connector, and on all pages; nobody is sent to a release."""
    files = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    files += [path for folder in ("format", "destination_deeplake") for path in (ROOT / folder).rglob("*.py")]
    named = {
        name.strip()
        for path in files
        for group in re.findall(r"'\.\[([^\]{}]+)\]'", path.read_text())
        for name in group.split(",")
    }
    assert "airbyte" in named
    assert not [path for path in files if re.search(r"pip install \S*destination-deeplake", path.read_text())]
    assert named <= set(EXTRAS)
    assert {extra for *_, extra in registry._FILE_CODECS.values() if extra is not None} <= set(EXTRAS)


def test_the_extra_that_is_named_brings_what_is_missing() -> None:
    """Installing it ends the error."""
    missing = {"dcm": "pydicom", "nii.gz": "nibabel", "mp4": "av", "wav": "av", "las": "laspy"}
    program = f"""
import sys
sys.modules.update(dict.fromkeys({sorted(set(missing.values()))}))  # as if they were not installed
from lakebed import errors
from lakebed.codecs.registry import file_codec
for kind in {list(missing)}:
    try:
        file_codec(kind)
    except errors.ModuleNotInstalledException as error:
        sys.stdout.write(f"{{error}}\\n")
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    told = run.stdout.splitlines()
    assert len(told) == len(missing)
    for line, (kind, package) in zip(told, missing.items(), strict=True):
        found = re.fullmatch(
            f"compression '{kind}' needs the package '{package}': pip install {package}.*'\\.\\[(.+)\\]'",
            line,
        )
        assert found is not None, line
        assert package in {re.split(r"[^A-Za-z0-9-]", requirement)[0] for requirement in EXTRAS[found[1]]}
