"""Write what a pull request to Airbyte's repository adds: `python scripts/registry.py OUT`; see registry/README.md."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = "docs/integrations/destinations/deeplake.md"
COPIED = {
    "metadata.yaml": "metadata.yaml",
    "icon.svg": "icon.svg",
    "acceptance-test-config.yml": "acceptance-test-config.yml",
    "destination_deeplake/spec.json": "integration_tests/spec.json",
    "integration_tests/config.json": "integration_tests/config.json",
    "integration_tests/invalid_config.json": "integration_tests/invalid_config.json",
    "registry/pyproject.toml": "pyproject.toml",
    "registry/main.py": "main.py",
    "registry/connector.md": "README.md",
}
"""File of this repository -> its name in the connector's folder."""

THEIRS = {
    "dockerRepository: destination": "dockerRepository: airbyte/destination",
    "connector_image: destination": "connector_image: airbyte/destination",
    "spec_path: destination_deeplake/": "spec_path: integration_tests/",
}
"""Our names and places -> Airbyte's, in files of YAML."""


def write(out: Path) -> Path:
    """Write all files, laid out like Airbyte's repository; return the connector's folder."""
    folder = out / "airbyte-integrations/connectors/destination-deeplake"
    for source, name in COPIED.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / source, folder / name)
    for path in folder.glob("*.y*ml"):
        text = path.read_text(encoding="utf-8")
        for ours, theirs in THEIRS.items():
            text = text.replace(ours, theirs)
        path.write_text(text, encoding="utf-8")
    (out / PAGE).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(ROOT / PAGE, out / PAGE)
    return folder


if __name__ == "__main__":
    print(write(Path(sys.argv[1])))
