"""Every decoder under mutated input: our errors and nothing else, within a second and little memory.

How often the golden corpus is damaged is what each target says, fewer times where a call takes a millisecond, by the
level of effort; or LAKEBED_FUZZ_MUTATIONS times, within LAKEBED_FUZZ_SECONDS of CPU per decoder. LAKEBED_FUZZ_FIRST
starts at another mutation, to go on where an earlier run stopped.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from unit_tests.effort import EFFORT, IS_SOAK
from unit_tests.lakebed.fuzz import chunks, codecs, documents
from unit_tests.lakebed.fuzz.harness import Target, run

MUTATIONS = os.environ.get("LAKEBED_FUZZ_MUTATIONS")
FIRST = int(os.environ.get("LAKEBED_FUZZ_FIRST", "0"))
SECONDS = float(os.environ.get("LAKEBED_FUZZ_SECONDS", EFFORT.fuzz_seconds))

pytestmark = pytest.mark.filterwarnings("ignore")  # image libraries warn of what they then refuse

GROUPS = {"documents": documents, "chunks": chunks, "codecs": codecs}
NAMES = [(group, name) for group, module in GROUPS.items() for name in module.NAMES]


@pytest.fixture(scope="session")
def targets(golden: Path) -> dict[str, Target]:
    """Every target with its corpus, by name."""
    return {target.name: target for module in GROUPS.values() for target in module.targets(golden)}


def test_names_are_those_of_the_targets(targets: dict[str, Target]) -> None:
    """No decoder is left out."""
    assert sorted(targets) == sorted(name for _, name in NAMES)
    assert all(target.cases for target in targets.values())


@pytest.mark.parametrize("name", [name for _, name in NAMES])
def test_sound_files_are_read(targets: dict[str, Target], name: str) -> None:
    """The corpus itself is taken, so that damage to it gets past the first check."""
    for case in targets[name].cases:
        targets[name].read(case)


@pytest.mark.parametrize("name", [name for _, name in NAMES])
def test_damage_is_an_error_of_ours(
    targets: dict[str, Target], name: str, record_property: Callable[[str, object], None]
) -> None:
    """Some mutations are refused, and some get through to what lies behind the first check."""
    count = int(MUTATIONS or max(30, EFFORT.mutations * targets[name].suite))
    report = run(targets[name], count, FIRST, SECONDS, traced=4 if IS_SOAK else 8)
    if IS_SOAK:
        record_property("proof", f"{name}: mutations from {FIRST:,}: {report}")
    assert 0 < report.accepted < report.calls
