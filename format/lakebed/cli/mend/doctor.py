"""``lakebed doctor``: installed packages, and whether an address can be reached, written, and relied on."""

from __future__ import annotations

import os
import platform
import statistics
import sys
import time
import uuid
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import click

import lakebed
from lakebed import config
from lakebed.cli.commands import command
from lakebed.cli.output import say, say_json, say_lines
from lakebed.codecs import regions
from lakebed.errors import LakebedError
from lakebed.native import chunks as native
from lakebed.storage.base import Storage, is_bucket, is_conditional, traits_of, without_cache
from lakebed.storage.guarantees import TABLE, file_system, guarantees_of
from lakebed.storage.url import open_storage, parse

_PACKAGES = ("numpy", "pyarrow", "pillow", "simplejpeg", "obstore", "botocore", "fsspec", "keyring", "av")
_TREE = "version_control_info.json"
_ROUNDS = 5


@command
@click.argument("url", required=False)
@click.option("--creds-key", help="Name of the credentials to use.")
@click.option("--read-only", is_flag=True, help="Write nothing to URL, not even for a moment.")
def doctor(url: str | None, creds_key: str | None, read_only: bool, as_json: bool) -> None:
    """List installed packages, and check whether URL can be reached and relied on. Exit status 1: it cannot be reached.

    For example: lakebed doctor s3://my-lake/photos
    """
    found: dict[str, Any] = {"installed": installed()}
    if url is not None:
        found["place"] = examined(url, creds_key, read_only=read_only)
    if as_json:
        say_json(found)
    else:
        _print(found)
    if found.get("place", {}).get("problem"):
        sys.exit(1)


def installed() -> dict[str, str]:
    """Return versions of packages, and facts about the compiled core."""
    result = {
        "lakebed": lakebed.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}, {config.THREADS} cores",
        "core": f"compiled ({os.path.basename(str(native.__file__))})",  # noqa: PTH119
        "fsync": "on" if config.FSYNC else "off (LAKEBED_FSYNC=0): a power cut may lose what was published",
    }
    path, problem = regions.library()
    result["regions"] = (
        f"of JPEG files, decoded by {path}" if path else f"decoded with the whole file: {problem}"
    )
    for name in _PACKAGES:
        try:
            result[name] = version(name)
        except PackageNotFoundError:
            result[name] = "not installed"
    return result


def examined(url: str, creds_key: str | None, *, read_only: bool) -> dict[str, Any]:
    """Return facts about an address, and its guarantees; an error is stored under ``problem``."""
    location = parse(url, existing=True, creds={"creds_key": creds_key} if creds_key else None)
    result: dict[str, Any] = {"address": location.shown}
    try:
        storage = open_storage(location)
        _examine(without_cache(storage), result, read_only=read_only)
    except LakebedError as error:
        result["problem"] = str(error)
        result["kind of problem"] = type(error).__name__
    return result


def _examine(storage: Storage, result: dict[str, Any], *, read_only: bool) -> None:
    conditional = True
    traits = traits_of(storage)
    if traits.folder:
        result["file system"] = file_system(traits.folder) or "unknown"
    if is_bucket(storage):
        result["server"] = storage.endpoint or "the cloud's own"
        result["let in by"] = storage.authenticated_by
    result["dataset"] = "yes" if storage.stat(_TREE) is not None else "none here"
    result["milliseconds for a small read"] = _median(lambda: storage.stat(_TREE))
    if read_only or _is_absent(storage) or traits.read_only:
        result["writing"] = "not tried"
    else:
        result["milliseconds for a small write"] = _writes(storage)
        result["writing"] = "works"
        conditional = is_conditional(storage)
        result["conditional writes"] = "enforced" if conditional else "NOT enforced"
    row = guarantees_of(storage, conditional=conditional)
    result["guarantees"] = {name: getattr(row, name) for name in ("place", "publish", "writers", "crash")}


def _is_absent(storage: Storage) -> bool:
    folder = traits_of(storage).folder
    return bool(folder) and not os.path.isdir(folder)  # noqa: PTH112


def _writes(storage: Storage) -> float:
    key = f"lakebed-doctor-{uuid.uuid4().hex}"
    try:
        return _median(lambda: storage.put(key, b"doctor"))
    finally:
        storage.delete(key)


def _median(call: Callable[[], object]) -> float:
    times = []
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        call()
        times.append((time.perf_counter() - began) * 1000)
    return round(statistics.median(times), 2)


def _print(found: dict[str, Any]) -> None:
    for name, value in found["installed"].items():
        say(f"{name:12} {value}")
    place = found.get("place")
    if place is None:
        say_lines("\nWhat a dataset can count on, by where it lies:\n")
        for row in TABLE:
            say_lines(
                f"{row.place}\n    publish  {row.publish}\n    writers  {row.writers}\n    crash    {row.crash}"
            )
        return
    say()
    for name, value in place.items():
        if isinstance(value, dict):
            say(f"{name}:")
            for part, text in value.items():
                say(f"    {part:8} {text}")
        else:
            say(f"{name}: {value}")
