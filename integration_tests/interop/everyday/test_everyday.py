"""The programs of unit_tests/proofs/everyday under Deep Lake 3.9.52: where it differs is known, with a reason."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from integration_tests.interop.datasets.harness import INTERPRETERS, NOWHERE, ROOT
from integration_tests.interop.parity.known import read

KNOWN = tuple(read(Path(__file__).with_name("known.txt").read_text()))
FIRST = int(os.environ.get("LAKEBED_INTEROP_SEED", "0"))
PROGRAMS = int(os.environ.get("LAKEBED_INTEROP_EVERYDAY", "2000"))
"""The first seed, and how many programs one process of 3.9.52 runs."""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, str]]:
    """What came of each program under 3.9.52."""
    home = tmp_path_factory.mktemp("everyday")
    around = {**os.environ, "BUGGER_OFF": "true", "https_proxy": NOWHERE, "HTTPS_PROXY": NOWHERE}
    around["PYTHONPATH"] = str(ROOT)
    words = [
        INTERPRETERS["deeplake"],
        Path(__file__).with_name("perform.py"),
        home,
        FIRST,
        PROGRAMS,
        home / "out",
    ]
    done = subprocess.run([str(word) for word in words], env=around, capture_output=True, check=False)
    assert done.returncode == 0, f"3.9.52 died: {done.stderr.decode()[-2000:]}"
    return [json.loads(line) for line in (home / "out").read_text().splitlines()]


@pytest.mark.interop
@pytest.mark.timeout(3600)
def test_programs_differ_only_where_it_is_known(
    results: list[dict[str, str]], record_property: Callable[[str, object], None]
) -> None:
    differing = [result for result in results if "step" in result]
    record_property("proof", f"{len(results):,} everyday programs under 3.9.52, {len(differing)} differ")
    wrong = [
        result for result in differing if not any(_covers(known.case, known.line, result) for known in KNOWN)
    ]
    assert len(results) == PROGRAMS
    assert not wrong, f"{len(wrong)} differences\n" + "\n".join(map(str, wrong))


@pytest.mark.interop
@pytest.mark.skipif(PROGRAMS < 2000, reason="too few programs to meet all of them")
def test_every_known_difference_is_still_there(results: list[dict[str, str]]) -> None:
    gone = [
        (known.case, known.line)
        for known in KNOWN
        if not any("step" in result and _covers(known.case, known.line, result) for result in results)
    ]
    assert not gone


def _covers(step: str, error: str, result: dict[str, str]) -> bool:
    return fnmatchcase(result["step"], step) and (error == "*" or error in result["error"])
