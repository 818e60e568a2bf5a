"""A notebook whose user interrupts its cells: a real Jupyter kernel, Ctrl-C at random moments."""

from __future__ import annotations

import queue
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import lakebed
from lakebed.maintenance.verify import verify
from lakebed.storage.local import LocalStorage
from unit_tests.effort import seed

jupyter_client = pytest.importorskip("jupyter_client", reason="needs `pip install ipykernel`")
pytest.importorskip("ipykernel", reason="needs `pip install ipykernel`")

INTERRUPTS = 60
SEED = seed()

# `states`: the numbers of the rows before the operation that runs, and after it. Whatever ends the operation, the
# dataset holds one of the two.
SETUP = """
import random
import numpy as np
import lakebed

ds = lakebed.load({path!r})
chance = random.Random({seed})
states = [], []
number = 0

def values(n):
    return {{"n": n, "text": f"row {{n}}", "image": np.full((3, 3 + n % 2, 3), n % 250, np.uint8)}}

def columns(ns):
    rows = [values(n) for n in ns]
    return {{name: [row[name] for row in rows] for name in rows[0]}}

def new(count):
    global number
    number += count
    return list(range(number - count, number))

def step(after, operation, *arguments, **more):
    global states
    states = states[1], after
    operation(*arguments, **more)

def append():
    (n,) = new(1)
    step([*states[1], n], ds.append, values(n))

def extend(count):
    ns = new(count)
    step([*states[1], *ns], ds.extend, columns(ns))

def update():
    if states[1]:
        at, (n,) = chance.randrange(len(states[1])), new(1)
        step([*states[1][:at], n, *states[1][at + 1 :]], ds[at].update, values(n))

def pop():
    if len(states[1]) > 20:
        at = chance.randrange(len(states[1]))
        step([*states[1][:at], *states[1][at + 1 :]], ds.pop, at)

def same(operation, *arguments, **more):
    step(states[1], operation, *arguments, **more)

def check():
    global states
    assert {{len(tensor) for tensor in ds.tensors.values()}} == {{len(ds)}}
    found = ds.n.numpy(aslist=True)
    found = [int(n[0]) for n in found]
    assert found in states, (found, *states)
    assert ds.text.text() == [f"row {{n}}" for n in found]
    assert [image[0, 0, 0] for image in ds.image.numpy(aslist=True)] == [n % 250 for n in found]
    states = found, found
    print("rows", *found)
"""

CELLS = {
    "append": """
while True:
    append()
""",
    "append in a with block": """
with ds:
    while True:
        append()
""",
    "append and look": """
while True:
    append()
    ds.text[-1].text(), ds.n.shape, ds
""",
    "extend": """
while True:
    extend(200)
    for _ in range(250):
        pop()
""",
    "flush": """
while True:
    append()
    same(ds.flush)
""",
    "commit": """
while True:
    append()
    same(ds.commit, "more")
""",
    "update": """
while True:
    update()
    if chance.random() < 0.1:
        append()
""",
    "pop": """
while True:
    pop()
    append()
    append()
""",
    "all": """
while True:
    chance.choice([append, update, pop, lambda: same(ds.flush), lambda: same(ds.commit, "all", allow_empty=True)])()
""",
}


class Notebook:
    """A running kernel, and the client that sends it cells."""

    def __init__(self, manager: Any, client: Any) -> None:
        self._manager = manager
        self._client = client
        self.repeated = 0

    def run(self, cell: str) -> str:
        """Run a cell to its end; return what it prints."""
        reply, printed = self._finish(self._client.execute(cell), 60)
        assert reply["status"] == "ok", "\n".join(reply["traceback"])
        return printed

    def interrupt(self, cell: str, after: float) -> None:
        """Start a cell that does not end, and interrupt it some seconds after the kernel has begun with it."""
        number = self._client.execute(cell)
        while not self._is(self._client.get_iopub_msg(timeout=60), number, "execute_input"):
            pass
        time.sleep(after)
        reply = None
        while reply is None:
            self._manager.interrupt_kernel()
            try:
                reply, _ = self._finish(number, 10)
            except TimeoutError:  # Python drops an exception that is raised in a destructor or a callback
                self.repeated += 1
                assert self.repeated < 3, "the kernel takes no interrupts"
        assert (reply["status"], reply["ename"]) == ("error", "KeyboardInterrupt"), "\n".join(
            reply["traceback"]
        )

    @staticmethod
    def _is(message: Any, number: str, kind: str) -> bool:
        about: str | None = message["parent_header"].get("msg_id")
        return bool(message["msg_type"] == kind) and about == number

    def _finish(self, number: str, seconds: float) -> tuple[Any, str]:
        """Wait for the end of a cell; return the kernel's reply, and what the cell has printed."""
        ends = time.monotonic() + seconds
        reply: Any = {}
        while reply.get("parent_header", {}).get("msg_id") != number:
            reply = self._next(self._client.get_shell_msg, ends)
        printed = ""
        while True:
            message = self._next(self._client.get_iopub_msg, ends)
            if self._is(message, number, "stream"):
                printed += message["content"]["text"]
            if self._is(message, number, "status") and message["content"]["execution_state"] == "idle":
                return reply["content"], printed

    @staticmethod
    def _next(get: Callable[..., Any], ends: float) -> Any:
        try:
            return get(timeout=max(ends - time.monotonic(), 0.01))
        except queue.Empty:
            raise TimeoutError from None


@pytest.fixture
def notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Notebook]:
    """A kernel of its own, with folders of its own."""
    for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    manager = jupyter_client.KernelManager()
    manager.start_kernel()
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        yield Notebook(manager, client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.filterwarnings("default")
def test_a_notebook_goes_on_after_every_interrupt(
    tmp_path: Path, notebook: Notebook, record_property: Callable[[str, object], None]
) -> None:
    """Each interrupt leaves whole rows, those before or after the operation; the dataset goes on."""
    path = tmp_path / "ds"
    ds = lakebed.empty(path)
    ds.create_tensor("n", dtype="int64")
    ds.create_tensor("text", htype="text")
    ds.create_tensor("image", htype="image", sample_compression="png")
    ds.close()
    notebook.run(SETUP.format(path=str(path), seed=SEED))
    chance = random.Random(SEED)
    names = [*CELLS] * (INTERRUPTS // len(CELLS) + 1)
    chance.shuffle(names)
    done: Counter[str] = Counter()
    for name in names[:INTERRUPTS]:
        notebook.interrupt(CELLS[name], chance.uniform(0, 0.4))
        done[name] += 1
        printed = notebook.run("check()\nappend()\nextend(3)\ncheck()").split("rows ")[-1]
        if done.total() % 10 == 0:
            notebook.run("ds.flush()")
            assert _read(path) == [int(n) for n in printed.split()]
    printed = notebook.run("ds.commit('end')\nds.close()\nds = lakebed.load(ds.path)\ncheck()").split(
        "rows "
    )[-1]
    assert _read(path) == [int(n) for n in printed.split()]
    found = verify(LocalStorage(str(path)), deep=True)
    assert found.is_sound, [str(damage) for damage in found.damage]
    counts = ", ".join(f"{count} {name}" for name, count in sorted(done.items()))
    record_property("proof", f"{done.total()} interrupts of a Jupyter kernel ({counts}), seed {SEED}")


def _read(path: Path) -> list[int]:
    """Open the dataset anew, check that what is in a row belongs together, and return the numbers of the rows."""
    ds = lakebed.load(path, read_only=True)
    found: list[int] = [int(n[0]) for n in ds.n.numpy(aslist=True)]
    assert {len(tensor) for tensor in ds.tensors.values()} == {len(found)}
    assert ds.text.text() == [f"row {n}" for n in found]
    assert [image[0, 0, 0] for image in ds.image.numpy(aslist=True)] == [n % 250 for n in found]
    return found
