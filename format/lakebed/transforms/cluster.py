"""Workers on a Ray cluster: each task of a transform is a task of Ray, which runs on any node that is free.

The job is put into Ray's object store once; each process of Ray creates a worker for its first task, and keeps it.
Parts are written directly into the dataset's storage; only metadata is sent back. Ray's own retries are switched off:
this module decides which lost tasks are repeated, and how often.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import pickle
import time
import uuid
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import cloudpickle

from lakebed.errors import (
    InvalidInputDataError,
    InvalidOutputDatasetError,
    ModuleNotInstalledException,
    TransformError,
    WorkerDied,
)
from lakebed.runtime.failures import outcome
from lakebed.storage.base import Storage, traits_of
from lakebed.transforms.executors import Executor, Told
from lakebed.transforms.processes import answer, guarded, pickled_job
from lakebed.transforms.work import Failure, Job, Outcome, Task, Worker

_TOLD_SECONDS = 0.2  # seconds between reports of progress
_MOST_DEATHS = 2  # a task fails when this many processes have died while they ran it
_MOST_LOSSES = 10  # a task fails when it has lost this many nodes
# Seconds to wait before the task of a lost node is restarted, so that the cluster notices the loss first.
_PAUSE_SECONDS = 0.5
_CANCEL_SECONDS = 10.0  # seconds that cancelled tasks have to end
_PROBE_SECONDS = 120.0  # seconds that a node has to start a process and to open the dataset


# -- in the processes of the cluster -----------------------------------------------------------------------------

_kept: tuple[str, Worker] | None = None
"""Worker of this process's current job, and the key of the job."""


def _done(key: str, job: bytes, task: bytes) -> bytes:
    """Do a task in a process of Ray; return its outcome or its error, pickled."""
    return guarded(_answer, key, job, task)


def _answer(key: str, job: bytes, task: bytes) -> bytes:
    global _kept  # noqa: PLW0603 - a process of Ray does one task at a time
    if _kept is None or _kept[0] != key:
        _kept = None
        _kept = key, Worker(pickle.loads(job), lambda _: None)  # noqa: S301 - from the driver
    return answer(_kept[1], task)


def _seen(places: Sequence[bytes]) -> list[str | None]:
    """Return for each pickled object the reason why it cannot open its storage in this process; None if it can."""
    errors = [outcome(pickle.loads, place, kind=Exception).error for place in places]
    return [None if error is None else f"{type(error).__name__}: {error}" for error in errors]


# -- in the driver -----------------------------------------------------------------------------------------------


def ray_module() -> Any:
    """Return the package ``ray``.

    Raises
    ------
    ModuleNotInstalledException
        If it is not installed.
    """
    try:
        return importlib.import_module("ray")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "ray":
            raise
        raise ModuleNotInstalledException(
            "Ray is needed for this and is not installed: pip install 'lakebed[ray]'"
        ) from error


def connect() -> Any:
    """Return the package ``ray``, connected to a cluster: the current one, that of RAY_ADDRESS, or one on this machine.

    If none exists, Ray is started here, without a dashboard and without usage reports.

    Raises
    ------
    ModuleNotInstalledException
        If Ray is not installed.
    """
    ray = ray_module()
    if ray.is_initialized():
        return ray
    name = "RAY_USAGE_STATS_ENABLED"
    before = os.environ.get(name)
    os.environ[name] = "0"  # switch off Ray's usage reports, whatever the settings of the user
    try:
        ray.init(include_dashboard=False, logging_level=logging.ERROR)
    finally:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before
    return ray


def cluster(job: Job, count: int) -> Executor:
    """Return an executor on a Ray cluster; see :func:`connect` for the choice of the cluster.

    Raises
    ------
    ModuleNotInstalledException
        If Ray is not installed here, or lakebed is not installed on the cluster.
    InvalidInputError
        If the function or its arguments cannot be sent to another process.
    InvalidInputDataError, InvalidOutputDatasetError
        If input or output are on a disk that some node of the cluster cannot read.
    """
    ray_module()
    data = pickled_job(job, secrets=False)  # secrets must not reach Ray's object store
    ray = connect()
    _check_shared(ray, job)
    return OnCluster(ray, data, count)


def _check_shared(ray: Any, job: Job) -> None:
    """Check on each node that a process there can open the input and output that are on disks.

    Nodes that join later are not checked here; the target itself checks the disk when it is opened on such a node.
    """
    places: list[tuple[type[TransformError], str, bytes]] = []
    if job.target is not None and _is_on_disk(job.target.storage):
        places.append((InvalidOutputDatasetError, job.target.storage.url, cloudpickle.dumps(job.target)))
    source = job.source.storage
    if source is not None and _is_on_disk(source):
        places.append((InvalidInputDataError, source.url, cloudpickle.dumps(job.source)))
    if not places:
        return
    reasons = asked_nodes(ray, [data for *_, data in places])
    for (error, url, _), found in zip(places, zip(*reasons.values(), strict=True), strict=False):
        missing = {node: reason for node, reason in zip(reasons, found, strict=True) if reason is not None}
        if missing:
            node, reason = next(iter(missing.items()))
            raise error(
                f"{url} lies on a disk that {len(missing)} of {len(reasons)} other nodes of the Ray cluster cannot "
                f"read, node {node} among them ({reason}). Use a path that all nodes share, or an object store; "
                'or scheduler="processed", on this machine alone'
            )


def _is_on_disk(storage: Storage) -> bool:
    return bool(traits_of(storage).folder)


def asked_nodes(ray: Any, places: Sequence[bytes]) -> dict[str, list[str | None]]:
    """Return, for each other node that runs tasks, the reasons why it cannot open pickled places.

    Parameters
    ----------
    places
        Objects that open a storage when they are unpickled, such as targets and tables.

    Returns
    -------
    dict
        Address and id of a node -> an entry for each place: the reason, or None if the place can be opened there.
    """
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    is_client = ray.util.client.ray.is_connected()  # a client is outside of the cluster
    here = None if is_client else ray.get_runtime_context().get_node_id()
    look = ray.remote(num_cpus=0, max_retries=1)(_seen)
    asked = {}
    for node in ray.nodes():
        if node["Alive"] and node["NodeID"] != here and node["Resources"].get("CPU"):
            where = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            name = f"{node['NodeManagerAddress']} ({node['NodeID'][:8]})"
            asked[name] = look.options(scheduling_strategy=where).remote(places)
    found: dict[str, list[str | None]] = {}
    for name, answered in asked.items():
        try:
            found[name] = ray.get(answered, timeout=_PROBE_SECONDS)
        except ray.exceptions.RayTaskError as error:
            raise not_importable(error) from error
        except ray.exceptions.RayError as error:
            if not isinstance(error, ray.exceptions.GetTimeoutError):
                continue  # the node is lost
            found[name] = [f"it has not answered for {_PROBE_SECONDS:.0f} seconds"] * len(places)
    return found


def not_importable(error: BaseException) -> BaseException:
    """Return the error to raise for a failed task of Ray: `_done` raises no error, so the task could not be started."""
    text = str(error)
    if "ModuleNotFoundError" not in text and "ImportError" not in text:
        return error
    return ModuleNotInstalledException(
        "the processes of the Ray cluster cannot import lakebed, or what it needs: install it on each node, or let Ray "
        f"install it (runtime_env of ray.init). The last line of their error: {text.strip().splitlines()[-1]}"
    )


@dataclass(slots=True, eq=False)
class _Running:
    """A task in Ray."""

    task: Task
    data: bytes
    answer: Any
    outcome: Outcome | None = None
    deaths: int = 0
    losses: int = 0


class OnCluster(Executor):
    """An executor that runs a few tasks at a time as tasks of Ray, which wait in Ray until a node is free."""

    def __init__(self, ray: Any, job: bytes, count: int) -> None:
        self.workers = count
        self._ray = ray
        self._key = uuid.uuid4().hex
        self._job = ray.put(job)
        self._do = ray.remote(max_retries=0)(_done)
        # Tasks of all calls of `run`, because a call may start while another one waits.
        self._running: list[_Running] = []

    def run(self, tasks: Iterator[Task], told: Told | None = None) -> Iterator[Outcome]:
        running: deque[_Running] = deque()
        while True:
            self._collect(running)
            while len(_open(running)) < self.workers and len(running) < self.most:
                task = next(tasks, None)
                if task is None:
                    break
                # Pass the task as bytes: Ray would make its arrays read-only, but functions may write to them.
                data: bytes = cloudpickle.dumps(task, protocol=5)
                entry = _Running(task, data, self._begun(data))
                running.append(entry)
                self._running.append(entry)
            if not running:
                return
            found = running[0].outcome
            if found is not None:
                self._running.remove(running.popleft())
                yield found
                continue
            self._ray.wait(_open(running), timeout=_TOLD_SECONDS, fetch_local=False)
            if told is not None:
                told()

    def _begun(self, data: bytes) -> Any:
        return self._do.remote(self._key, self._job, data)

    def _collect(self, running: Iterable[_Running]) -> None:
        """Store the outcomes of tasks that ended; restart tasks that were lost."""
        waiting = _open(running)
        if not waiting:
            return
        ready, _ = self._ray.wait(waiting, num_returns=len(waiting), timeout=0, fetch_local=False)
        ended = set(ready)
        for entry in running:
            if entry.outcome is None and entry.answer in ended:
                entry.outcome = self._outcome(entry)

    def _outcome(self, entry: _Running) -> Outcome | None:
        """Return the outcome of a task that ended; None if it was restarted."""
        errors = self._ray.exceptions
        try:
            found = pickle.loads(self._ray.get(entry.answer))  # noqa: S301 - from a process of this cluster
        except (errors.WorkerCrashedError, errors.OutOfMemoryError) as error:
            entry.deaths += 1
            if entry.deaths >= _MOST_DEATHS:
                return _failed(
                    entry.task, f"{entry.deaths} processes of the Ray cluster that processed", error
                )
        except (errors.NodeDiedError, errors.ObjectLostError) as error:
            entry.losses += 1
            if entry.losses >= _MOST_LOSSES:
                return _failed(entry.task, f"{entry.losses} nodes of the Ray cluster that processed", error)
            time.sleep(_PAUSE_SECONDS)
        except errors.RayTaskError as error:
            raise not_importable(error) from error
        else:
            if not isinstance(found, Outcome):
                raise found
            found.task = entry.task
            return found
        entry.answer = self._begun(entry.data)
        return None

    def items_done(self) -> int:
        return sum(entry.task.stop - entry.task.start for entry in self._running if entry.outcome is not None)

    def close(self) -> None:
        open_yet = _open(self._running)
        self._running.clear()
        with contextlib.suppress(self._ray.exceptions.RayError):  # the cluster may be gone
            for answered in open_yet:
                self._ray.cancel(answered, force=True)
            if open_yet:
                self._ray.wait(
                    open_yet, num_returns=len(open_yet), timeout=_CANCEL_SECONDS, fetch_local=False
                )
        self._job = None


def _open(running: Iterable[_Running]) -> list[Any]:
    return [entry.answer for entry in running if entry.outcome is None]


def _failed(task: Task, who: str, error: BaseException) -> Outcome:
    first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    died = WorkerDied(
        f"{who} items {task.start} to {task.stop - 1} ended ({first}). Usually a node ran out of memory, or a "
        "library that the function calls crashed: see the logs of Ray"
    )
    return Outcome(task, failure=Failure(task.start, None, died))
