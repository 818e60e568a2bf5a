"""What the Dockerfile's build stage does besides installing: image.py requirements | slim PREFIX | verify SOURCE.

requirements
    Print what `format/pyproject.toml` says the library depends on, with its extra `formats`.
slim PREFIX
    Delete from an environment what no path of the connector loads.
verify SOURCE
    Fail unless every compiled module of the project in SOURCE is there, as machine code, the connector starts, and its
    pages are there.
"""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
import tomllib
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

SERVICES = ("s3", "s3control", "secretsmanager", "ssm", "sso", "sso-oidc", "sts")
"""Services of AWS whose descriptions botocore needs: buckets, named secrets, and the ways to get in."""

UNUSED = (
    "pyarrow/include",
    "pyarrow/src",
    "pyarrow/tests",
    "pyarrow/*flight*",
    "pyarrow/_s3fs*",
    "pyarrow/libarrow_s3*",
    "pyarrow/*_tests*",
    "numpy/**/tests",
    "h5py/tests",
    "numcodecs/tests",
    "numpy/_core/include",
    "**/*.pxd",
    "**/*.pyx",
)
"""Headers, sources, tests, and parts of Arrow that nobody here imports, relative to the folder of packages."""

WITH_SYMBOLS = ("adbc_driver_manager", "lz4", "numcodecs", "PIL", "pyarrow", "pycocotools", "xxhash", "yaml")
"""Packages whose wheels come with symbols for debuggers and linkers, often most of what they take."""

IMPORTED = (
    "lakebed",
    "botocore.session",
    "obstore",
    "destination_deeplake.run",
    "destination_deeplake.write",
)
IMPORTED_ON_DEMAND = (
    *("yaml", "h5py", "zarr", "numcodecs.blosc", "numcodecs.zstd", "pycocotools.mask"),
    *("google_crc32c", "lmdb", "google.protobuf", "adbc_driver_postgresql.dbapi", "adbc_driver_sqlite.dbapi"),
)


def project(folder: Path) -> dict[str, Any]:
    """Parsed `pyproject.toml` of a folder."""
    with (folder / "pyproject.toml").open("rb") as file:
        return tomllib.load(file)


def packages(prefix: Path) -> Path:
    """Folder of an environment's packages."""
    (found,) = prefix.glob("lib/python*/site-packages")
    return found


def slim(prefix: Path) -> None:
    """Delete what is not needed, and say how much that was."""
    folder, freed = packages(prefix), 0
    services = (path for path in (folder / "botocore/data").iterdir() if path.is_dir())
    unused = [path for path in services if path.name not in SERVICES]
    for pattern in UNUSED:
        unused += folder.glob(pattern)
    for path in dict.fromkeys(unused):
        if path.is_dir():
            freed += sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
            shutil.rmtree(path)
        elif path.exists():
            freed += path.stat().st_size
            path.unlink()
    for name in WITH_SYMBOLS:
        for path in (folder / name).rglob("*.so*"):
            freed += path.stat().st_size
            subprocess.run(["strip", "--strip-unneeded", path], check=True)
            freed -= path.stat().st_size
    print(f"{freed / 1e6:.0f} MB deleted")


def verify(source: Path) -> None:
    """Import the compiled modules, and what syncs, imports and exports import.

    Raises
    ------
    SystemExit
        If a module is not compiled.
    ImportError
        If one is missing.
    """
    projects = (project(source), project(source / "format"))
    modules = [entry["name"] for found in projects for entry in found["tool"]["setuptools"]["ext-modules"]]
    for name in modules:
        file = str(importlib.import_module(name).__file__)
        if not file.endswith(tuple(EXTENSION_SUFFIXES)):
            sys.exit(f"{name} is not compiled: {file}")
    if not importlib.import_module("destination_deeplake.pages").pages():
        sys.exit("the pages of the documentation are missing")
    for name in IMPORTED + IMPORTED_ON_DEMAND:
        importlib.import_module(name)
    print(f"{len(modules)} compiled modules: {', '.join(modules)}")


def main() -> None:
    """Run one command."""
    command, *arguments = sys.argv[1:]
    if command == "requirements":
        told = project(Path("format"))["project"]
        extras = told["optional-dependencies"]
        (formats,) = extras["formats"]  # lakebed[coco,hdf5,...]
        wanted = [extras[name] for name in formats.partition("[")[2].rstrip("]").split(",")]
        print("\n".join(sum(wanted, told["dependencies"])))
    elif command == "slim":
        slim(Path(arguments[0]))
    elif command == "verify":
        verify(Path(arguments[0]))
    else:
        sys.exit(f"unknown command {command}")


if __name__ == "__main__":
    main()
