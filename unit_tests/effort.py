"""How much the tests try: what LAKEBED_TESTS=quick, standard (where it is not set) and soak mean, all in one place.

The standard level is `make test`: always the same examples and faults, so that it passes or fails by the change that is
tested. The quick level is `make check`, with fewer of them; the soak level is `make soak`, with many more and others
each time: what it drew is printed, and LAKEBED_SEED repeats it.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass
from enum import StrEnum

PATIENCE = 300.0
"""Seconds that tests wait for what must come: a hang is told in the end, and a busy machine breaks nothing."""


class Level(StrEnum):
    """How long the tests may take: a minute or two, minutes, a day."""

    QUICK = "quick"
    STANDARD = "standard"
    SOAK = "soak"


@dataclass(frozen=True)
class Effort:
    """What one level tries."""

    examples: float
    """Examples of a property test: a multiple of what its module asks for."""
    mutations: float
    """Damaged files for each decoder: a multiple of what it gets in the suite, by its speed."""
    fuzz_seconds: float
    """CPU seconds for each decoder and each kind of dataset at most."""
    flipped_bytes: int
    """Bytes of one file that are changed where each of them is told."""
    dataset_mutations: int
    """Times that files of one dataset are damaged."""
    programs: int
    """Everyday programs."""
    covering: float
    """Share of the programs of crossings that cover all pairs, the first ones: 0.6 of them cover nine pairs of ten."""
    crossings: int
    """Programs of crossings that are drawn, beside those."""
    fresh_programs: int
    """The same in interpreters of their own; the first 45 have every level of every factor."""
    machine_runs: int
    """Runs of the state machine with each configuration."""
    machine_steps: int
    """Steps of one of them at most."""
    faults: int
    """Calls of a storage that fail, with each configuration."""
    faults_afar: int
    """The same for a storage that is far away."""
    transform_faults: int
    """Calls of a storage that fail in a transform, with each kind of it."""
    flaky_runs: int
    """Runs through a storage that fails at random."""
    interrupted_lines: int
    """Lines of each operation that are interrupted."""
    kills: int
    """Writing processes that are killed."""
    sync_kills: int
    """Syncs that are killed."""
    store_kills: int
    """Writing processes that are killed, on each object store."""
    store_faults: int
    """Requests to each object store that fail."""
    store_operations: int
    """Random operations on a dataset in each object store."""
    cache_seconds: float
    """How long processes that share a cache are killed."""
    race_seconds: float
    """How long writers and readers compete for one dataset."""
    power_cuts: int
    """Moments at which the power is cut."""


QUICK = Effort(
    examples=0.1,
    mutations=0.02,
    fuzz_seconds=0.5,
    flipped_bytes=3,
    dataset_mutations=1,
    programs=60,
    covering=0.25,
    crossings=30,
    fresh_programs=20,
    machine_runs=5,
    machine_steps=20,
    faults=10,
    faults_afar=6,
    transform_faults=1,
    flaky_runs=1,
    interrupted_lines=1,
    kills=8,
    sync_kills=6,
    store_kills=3,
    store_faults=3,
    store_operations=8,
    cache_seconds=2,
    race_seconds=1,
    power_cuts=7,
)
STANDARD = Effort(
    examples=0.25,
    mutations=0.03,
    fuzz_seconds=2,
    flipped_bytes=4,
    dataset_mutations=1,
    programs=60,
    covering=0.6,
    crossings=30,
    fresh_programs=45,
    machine_runs=9,
    machine_steps=30,
    faults=15,
    faults_afar=9,
    transform_faults=2,
    flaky_runs=2,
    interrupted_lines=1,
    kills=8,
    sync_kills=6,
    store_kills=3,
    store_faults=6,
    store_operations=10,
    cache_seconds=1,
    race_seconds=1,
    power_cuts=7,
)
SOAK = Effort(
    examples=20,
    mutations=500,
    fuzz_seconds=600,
    flipped_bytes=1_000,
    dataset_mutations=20_000,
    programs=50_000,
    covering=1,
    crossings=100_000,
    fresh_programs=5_000,
    machine_runs=2_000,
    machine_steps=50,
    faults=10**9,
    faults_afar=10**9,
    transform_faults=100,
    flaky_runs=200,
    interrupted_lines=450,
    kills=2_000,
    sync_kills=80,
    store_kills=200,
    store_faults=250,
    store_operations=400,
    cache_seconds=300,
    race_seconds=600,
    power_cuts=3_000,
)

LEVEL = Level(os.environ.get("LAKEBED_TESTS") or Level.STANDARD)
EFFORT = {Level.QUICK: QUICK, Level.STANDARD: STANDARD, Level.SOAK: SOAK}[LEVEL]
IS_SOAK = LEVEL is Level.SOAK


# In the environment, so that all processes that run tests have the same.
_SEED = int(
    os.environ.setdefault("LAKEBED_SEED", str(random.SystemRandom().randrange(1 << 32) if IS_SOAK else 1))
)


def examples(count: int, soak: int | None = None) -> int:
    """Return how many examples a property test tries that would be well served by ``count`` of them."""
    return soak if IS_SOAK and soak is not None else max(2, round(count * EFFORT.examples))


def seed() -> int:
    """Return the seed of a test that draws: always the same, but in a soak; LAKEBED_SEED says another.

    Tests print it: ``record_property("proof", f"... LAKEBED_SEED={seed}")``.
    """
    return _SEED


def set_up_property_tests() -> None:
    """Let Hypothesis draw the same examples each time, but in a soak."""
    from hypothesis import settings  # programs that tests start read this module in environments without it
    from hypothesis.internal.conjecture import providers

    # Hypothesis also draws constants of the modules that are loaded: it parses hundreds of them for that, in each
    # process, and the examples depend on what earlier tests have imported.
    vars(providers)["_get_local_constants"] = lambda: vars(providers).get("_local_constants")

    settings.register_profile(
        "lakebed",
        deadline=None,
        max_examples=examples(100),
        database=None,
        derandomize=not IS_SOAK,
        print_blob=IS_SOAK,
    )
    settings.load_profile("lakebed")
