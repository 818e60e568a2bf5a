"""What messages and pages tell users to install is there to install."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from lakebed.codecs import registry

ROOT = Path(__file__).parents[2]
PROJECTS: dict[str, dict[str, Any]] = {
    name: tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
    for name, folder in (("lakebed", "format"), ("destination-deeplake", "."))
}
EXTRAS: dict[str, list[str]] = PROJECTS["lakebed"]["optional-dependencies"]


def test_every_extra_that_is_named_exists() -> None:
    """In messages of the library and the connector, on all pages, and in the extras of both."""
    files = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    files += [
        path
        for folder in ("format/lakebed", "destination_deeplake")
        for path in (ROOT / folder).rglob("*.py")
    ]
    texts = [path.read_text() for path in files] + [str(PROJECTS)]
    for name, pattern in (("lakebed", r"lakebed"), ("destination-deeplake", r"(?:'\.|destination-deeplake)")):
        groups = [group for text in texts for group in re.findall(pattern + r"\[([^\]{}'()]+)\]'", text)]
        named = {extra.strip() for group in groups for extra in group.split(",")}
        assert named
        assert named <= set(PROJECTS[name]["optional-dependencies"])
    assert {extra for *_, extra in registry._FILE_CODECS.values() if extra is not None} <= set(EXTRAS)


def test_the_front_pages_need_no_package_but_those_that_are_required(tmp_path: Path) -> None:
    """A user types what follows `pip install lakebed`: nothing in it may need another package."""
    optional = ["pandas", "polars", "duckdb", "torch", "starlette", "uvicorn", "usearch", "av", "yaml"]
    for page in ("README.md", "format/README.md"):
        snippets = re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)
        assert snippets
        blocked = f"import sys; sys.modules.update(dict.fromkeys({optional}))\n"
        command = [sys.executable, "-c", blocked + "\n".join(snippets)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{page}: {done.stderr}"


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
            f"compression '{kind}' needs the package '{package}': pip install 'lakebed\\[(.+)\\]'",
            line,
        )
        assert found is not None, line
        assert package in {re.split(r"[^A-Za-z0-9-]", requirement)[0] for requirement in EXTRAS[found[1]]}
