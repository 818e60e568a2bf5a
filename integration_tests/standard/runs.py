"""Start Airbyte's standard tests in a process of its own, and read what came of each."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SUITE = Path(__file__).with_name("suite.py")


def standard_tests(
    folder: Path, marked: str, *options: str, variables: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Run those that a marker expression chooses; name of each -> "passed", "skipped: why" or "failed: why".

    Parameters
    ----------
    folder
        Where the report may be written.
    marked
        Such as ``not image_tests``.
    options
        Further arguments for pytest, such as ``--connector-image=NAME``.
    variables
        Further environment variables.
    """
    report = folder / "report.xml"
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "pytest",
        "-c",
        os.devnull,
        "--rootdir",
        ROOT,
        "-p",
        "no:cacheprovider",
    ]
    command += [
        "-p",
        "no:randomly",
        "-p",
        "airbyte_cdk.test.standard_tests.pytest_hooks",
        "-q",
        "-m",
        marked,
        f"--junit-xml={report}",
        *options,
        SUITE,
    ]
    done = subprocess.run(
        command,
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, **(variables or {})},
        check=False,
    )
    assert report.exists(), done.stdout[-3000:] + done.stderr[-3000:]
    return {case.attrib["name"]: _outcome(case) for case in ET.parse(report).iter("testcase")}


def _outcome(case: ET.Element) -> str:
    for kind, word in (("failure", "failed"), ("error", "failed"), ("skipped", "skipped")):
        if (found := case.find(kind)) is not None:
            return f"{word}: {found.attrib.get('message', '')} {found.text or ''}"
    return "passed"
