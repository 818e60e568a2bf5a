"""Every decoder under mutated input: our errors and nothing else, within a second and little memory.

The suite damages the golden corpus up to 10,000 times per decoder (half of what each target says, which is fewer
where a call takes a millisecond); `make soak` a million times, or LAKEBED_FUZZ_MUTATIONS, within LAKEBED_FUZZ_SECONDS
of CPU per decoder. LAKEBED_FUZZ_FIRST starts at another mutation, to go on where an earlier run stopped.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from unit_tests.lakebed.fuzz import chunks, codecs, documents
from unit_tests.lakebed.fuzz.harness import Target, run

MUTATIONS = int(os.environ.get("LAKEBED_FUZZ_MUTATIONS", "1000000"))
FIRST = int(os.environ.get("LAKEBED_FUZZ_FIRST", "0"))
SECONDS = float(os.environ.get("LAKEBED_FUZZ_SECONDS", "600"))

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
def test_damage_is_an_error_of_ours(targets: dict[str, Target], name: str) -> None:
    """Some mutations are refused, and some get through to what lies behind the first check."""
    report = run(targets[name], targets[name].suite // 2)
    assert 0 < report.accepted < report.calls


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", [name for _, name in NAMES])
def test_a_million_mutations(
    targets: dict[str, Target], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same, for as long as there is time."""
    report = run(targets[name], MUTATIONS, FIRST, SECONDS, traced=4)
    with capsys.disabled():
        sys.stdout.write(
            f"\n{name}: {report.calls:,} mutations from {FIRST:,}, {report.accepted:,} accepted, "
            f"slowest {1000 * report.slowest:.1f} ms, at most {report.largest:,} bytes"
        )
