"""Run everyday programs under Deep Lake 3.9.52, and write down where it does something else than plain Python.

    perform.py FOLDER FIRST COUNT OUT

OUT gets a line of JSON for each program: its seed and, where it failed, the step, the htypes, the error and all steps.
Run by the interpreter of that environment, with the root of the repository on its path.
"""

from __future__ import annotations

import json
import shutil
import sys
import traceback
import warnings
from pathlib import Path

import deeplake

from unit_tests.proofs.everyday.program import Failure, Program


def attempt(place: Path, seed: int) -> dict[str, object]:
    """Run one program."""
    try:
        Program(deeplake, str(place), seed, ways=4).run()
    except Failure as failure:
        error = f"{type(failure.error).__name__}: {_chain(failure.error)}"
        return {
            "seed": seed,
            "step": failure.step,
            "family": failure.program.family,
            "error": error,
            "steps": failure.program.log,
        }
    return {"seed": seed}


def _chain(error: BaseException | None) -> str:
    """The messages of an error and of what caused it."""
    found: list[str] = []
    while error is not None and len(found) < 4:
        found.append(str(error)[:300])
        error = error.__cause__ or error.__context__
    return " <- ".join(found)


def main(folder: str, first: str, count: str, out: str) -> None:
    """Run programs one after the other."""
    warnings.simplefilter("ignore")
    with Path(out).open("w") as file:
        for seed in range(int(first), int(first) + int(count)):
            place = Path(folder) / str(seed)
            file.write(json.dumps(attempt(place, seed)) + "\n")
            file.flush()
            shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Exception:
        traceback.print_exc()
        raise
