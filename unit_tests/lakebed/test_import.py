"""A program that only imports the library pays for nothing that it does not use."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import lakebed

# Features are loaded when they are called, and so are writing, stores, providers of credentials and links.
MOST_MODULES = 139
MOST_MODULES_OF_A_READ = 139
LATER = (
    *("lakebed.cli", "lakebed.copying", "lakebed.credentials", "lakebed.history", "lakebed.maintenance"),
    *("lakebed.merging", "lakebed.storage.auth", "lakebed.storage.cache", "lakebed.storage.objects"),
    *("lakebed.links", "lakebed.loaders", "lakebed.reading.remote", "lakebed.writing.draft.draft"),
    *("lakebed.writing.encode", "lakebed.versions.publish", "lakebed.versions.locks.leases"),
)
# Packages and modules of the standard library that take a millisecond or more, or start threads or OpenSSL.
NEVER = (
    *("pyarrow", "PIL", "simplejpeg", "obstore", "botocore", "tqdm", "click", "cloudpickle", "lz4"),
    *("asyncio", "concurrent.futures", "hashlib", "http", "importlib.metadata", "logging", "multiprocessing"),
    *("secrets", "shutil", "socket", "ssl", "subprocess", "tempfile", "uuid"),
)

RECORD = """
import atexit, gc, json, os, sys, threading
found = []
def recorded(name, register):
    def wrapper(*args, **kwargs):
        found.append([name, sys._getframe(1).f_globals.get("__name__", "")])
        return register(*args, **kwargs)
    return wrapper
os.register_at_fork = recorded("fork", os.register_at_fork)
atexit.register = recorded("atexit", atexit.register)
callbacks = len(gc.callbacks)
import numpy
known = set(sys.modules)
import lakebed
{code}
print(json.dumps({{
    "hooks": [name for name, module in found if module.startswith("lakebed")],
    "collections": len(gc.callbacks) - callbacks,
    "threads": threading.active_count(),
    "modules": sorted(name for name in sys.modules if name == "lakebed" or name.startswith("lakebed.")),
    "heavy": sorted(set({never!r}) & set(sys.modules) - known),
}}))
"""


def recorded(code: str = "") -> dict[str, list[str]]:
    """What a fresh process has registered and loaded."""
    script = RECORD.format(code=textwrap.dedent(code), never=NEVER)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120
    )
    found: dict[str, list[str]] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_importing_starts_nothing_and_loads_no_feature() -> None:
    found = recorded("assert lakebed.Dataset and lakebed.load")

    assert found["hooks"] == []
    assert found["collections"] == 0
    assert found["threads"] == 1
    assert len(found["modules"]) <= MOST_MODULES
    assert [name for name in found["modules"] if name.startswith(LATER)] == []
    assert found["heavy"] == []


def test_a_first_read_loads_no_more(tmp_path: Path) -> None:
    """Neither PyArrow nor what only writers need."""
    ds = lakebed.empty(tmp_path / "ds")
    ds.create_tensor("x", dtype="float32")
    ds.x.extend(np.ones((200, 3), np.float32))
    ds.commit()
    read = f"""
    ds = lakebed.load({str(tmp_path / "ds")!r})
    assert ds.x[0].numpy().shape == (3,)
    assert ds.x[:100].numpy().sum() == 300
    """

    found = recorded(read)

    assert len(found["modules"]) <= MOST_MODULES_OF_A_READ
    assert [name for name in found["modules"] if name.startswith(LATER)] == []
    assert found["heavy"] == []


def test_a_first_write_loads_little_more(tmp_path: Path) -> None:
    """Neither what logs, nor what servers, threads and buckets need."""
    written = f"""
    with lakebed.empty({str(tmp_path / "ds")!r}) as ds:
        ds.create_tensor("x", dtype="uint8")
        ds.append({{"x": numpy.zeros((300, 300), numpy.uint8)}})
        ds.extend({{"x": numpy.zeros((3, 300, 300), numpy.uint8)}})
    """

    found = recorded(written)

    assert [
        name for name in found["modules"] if name.startswith(("lakebed.reading.remote", "lakebed.query"))
    ] == []
    assert found["heavy"] == ["uuid"]  # the number of this machine is in lock files


@pytest.mark.parametrize("name", sorted(lakebed._LATER))
def test_names_that_are_loaded_later_are_there(name: str) -> None:
    """Also the second time, when they are as any other name."""
    found = getattr(lakebed, name)

    assert vars(lakebed)[name] is found
    assert found.__module__.startswith("lakebed.")


def test_everyday_work_loads_neither_repair_nor_copies_nor_merge() -> None:
    """Writing, reading, commits and branches go without the modules of rare tasks."""
    code = """
    ds = lakebed.empty("mem://x")
    ds.create_tensor("n")
    ds.n.extend([1, 2])
    ds.commit("one")
    ds.checkout("side", create=True)
    ds = lakebed.load("mem://x", read_only=False)
    ds.n.append(3)
    ds.n[0] = 4
    assert ds.n.numpy().ravel().tolist() == [4, 2, 3]
    """
    rare = ("lakebed.copying", "lakebed.maintenance", "lakebed.merging")

    assert [name for name in recorded(code)["modules"] if name.startswith(rare)] == []


@pytest.mark.parametrize(
    "code",
    [
        "lakebed.empty('mem://x')",
        "from lakebed.storage.memory import MemoryStorage; MemoryStorage()",
        "from lakebed.storage.local import LocalStorage; LocalStorage('.')",
    ],
    ids=["dataset", "memory", "folder"],
)
def test_opening_something_registers_the_hooks_once(code: str) -> None:
    once, twice = recorded(code), recorded(f"{code}\n{code}")

    assert {"fork", "atexit"} == set(once["hooks"])
    assert once["hooks"] == twice["hooks"]
    assert once["collections"] == twice["collections"] == 1


def test_modules_that_are_loaded_later_register_theirs_too() -> None:
    code = """
    lakebed.empty("mem://x")
    before = len(found)
    import lakebed.storage.objects, lakebed.links.connections
    assert len(found) > before
    """

    recorded(code)
