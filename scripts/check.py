"""Check what was changed, in two minutes: style, types, the tests that mirror it, and a fast core of all tests.

Changed is what differs from where the branch left main, committed or not. The tests of `package/room/module.py` are
`unit_tests/package/room/test_module.py`, or those of the folder where there is no such file.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent

MIRRORED = {
    "format/lakebed": "unit_tests/lakebed",
    "destination_deeplake": "unit_tests/destination_deeplake",
    "format/ext/lakebed": "unit_tests/lakebed",
    "ext/destination_deeplake": "unit_tests/destination_deeplake",
    "scripts": "unit_tests/scripts",
    "unit_tests": "unit_tests",
}
"""Where the tests of a folder are."""

CORE = (
    "unit_tests/lakebed/documents",
    "unit_tests/lakebed/chunks",
    "unit_tests/lakebed/htypes",
    "unit_tests/lakebed/dataset/test_ordinary.py",
    "unit_tests/lakebed/dataset/test_dataset.py",
    "unit_tests/lakebed/dataset/test_tensor.py",
    "unit_tests/lakebed/versions/test_publish.py",
    "unit_tests/destination_deeplake/test_catalog.py",
    "unit_tests/destination_deeplake/test_columns.py",
    "unit_tests/destination_deeplake/test_airbyte_types.py",
    "unit_tests/destination_deeplake/test_sync.py",
    "unit_tests/destination_deeplake/stream/test_writer.py",
)
"""Tests that are always run: where a mistake made elsewhere shows first."""

MOST = 40
"""Test files of changed modules at most: whoever changes more is told to run `make test`."""

BASES = ("@{upstream}", "origin/main", "main")
"""What a branch may have left, the first that there is."""


def mirror(changed: str, exists: Callable[[str], bool]) -> str | None:
    """Return the tests of a file: a test file, else the nearest folder of tests, None where there are none.

    Parameters
    ----------
    changed
        Path below the root of the repository.
    exists
        Whether there is a file or a folder at such a path.
    """
    path = PurePosixPath(changed)
    source = next((folder for folder in MIRRORED if path.is_relative_to(folder)), None)
    if source is None:
        is_test = path.parts[0] == "integration_tests" and path.name.startswith("test_")
        return changed if is_test and exists(changed) else None
    folder = MIRRORED[source] / path.relative_to(source).parent
    if source == "unit_tests" and path.name.startswith("test_"):
        return changed if exists(changed) else None
    own = str(folder / f"test_{path.stem.strip('_')}.py")
    if exists(own):
        return own
    return next((str(place) for place in (folder, *folder.parents) if exists(str(place))), None)


def files_of(tests: Iterable[str], root: Path) -> Iterator[str]:
    """Spell folders out as their own test files: not those of folders in them, which mirror other modules."""
    for name in tests:
        path = root / name
        found = sorted(path.glob("test_*.py")) if path.is_dir() else [path]
        yield from (file.relative_to(root).as_posix() for file in found)


def plan(changed: Iterable[str], root: Path) -> list[str]:
    """Return what to run of the tests, those of the changed files first.

    Raises
    ------
    ValueError
        If the changed files have more tests than this command is made for.
    """
    tests = dict.fromkeys(mirror(name, lambda name: (root / name).exists()) for name in changed)
    files = dict.fromkeys(files_of((name for name in tests if name is not None), root))
    if len(files) > MOST:
        raise ValueError(
            f"{len(files)} test files mirror what was changed; `make test` is the command for that"
        )
    return [*files, *(name for name in CORE if name not in files)]


def changed_files(root: Path) -> list[str]:
    """Return what differs from where the branch left main: commits, the work tree, and files that git does not know."""
    base = next((found for name in BASES if (found := _git(root, "merge-base", "HEAD", name))), ["HEAD"])
    return sorted(
        {
            *_git(root, "diff", "--name-only", "--diff-filter=d", base[0]),
            *_git(root, "ls-files", "--others", "--exclude-standard"),
        }
    )


def _git(root: Path, *arguments: str) -> list[str]:
    """Return the lines that git prints; none where it fails, as it does for a branch that is not there."""
    return subprocess.run(
        ["git", *arguments],
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=False,
    ).stdout.splitlines()


def main() -> int:
    """Run everything, also what comes after a failure; return the worst status."""
    changed = changed_files(ROOT)
    sources = [name for name in changed if name.endswith((".py", ".pyi"))]
    try:
        tests = plan(changed, ROOT)
    except ValueError as error:
        print(f"make check: {error}; the core alone is run")
        tests = list(CORE)
    print(f"{len(changed)} changed files; tests of them, and the core:")
    print("".join(f"  {name}\n" for name in tests), flush=True)
    commands = [["mypy"], ["pytest", "-q", "-n", "auto", "--dist", "worksteal", *tests]]
    if sources:
        commands[:0] = [["ruff", "check", *sources], ["ruff", "format", "--check", *sources]]
    environment = {"LAKEBED_TESTS": "quick", **os.environ}
    worst = 0
    for command in commands:
        print("$", shlex.join(command[:6]), "..." if len(command) > 6 else "", flush=True)
        status = subprocess.run(
            [sys.executable, "-m", *command], cwd=ROOT, env=environment, check=False
        ).returncode
        worst = max(worst, abs(status))
    return worst


if __name__ == "__main__":
    sys.exit(main())
