"""Workers on a Ray cluster: a task of a transform is a task of Ray, which runs wherever the cluster has room for it.

The job goes into Ray's object store once; each process of Ray that is given a task of it makes a worker, and keeps it
for the next one. Parts go from there straight into the dataset's storage; what comes back is metadata. Ray's own
retries are off: what is done again, and how often, is decided here, by what was lost.
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
from lakebed.storage.base import Storage, traits_of
from lakebed.transforms.executors import Executor, Told
from lakebed.transforms.processes import answer, pickled_error, pickled_job
from lakebed.transforms.work import Failure, Job, Outcome, Task, Worker

_TOLD_SECONDS = 0.2  # how often the caller is told how far it is
_MOST_DEATHS = 2  # of processes that do the same task: its items are to blame then
_MOST_LOSSES = 10  # of nodes that do the same task
_PAUSE_SECONDS = 0.5  # before a task of a lost node is begun again, so that the cluster knows that it is lost
_CANCEL_SECONDS = 10.0  # that cancelled tasks have to be gone
_PROBE_SECONDS = 120.0  # that a node has to start a process and to look at the dataset


# -- in the processes of the cluster -----------------------------------------------------------------------------

_kept: tuple[str, Worker] | None = None
"""The worker of the job that this process works for, and the job's key."""


def _done(key: str, job: bytes, task: bytes) -> bytes:
    """Do a task in a process of Ray; return its outcome, or the error that it ended with, pickled."""
    global _kept  # noqa: PLW0603 - a process of Ray does one task at a time
    if _kept is None or _kept[0] != key:
        _kept = None
        try:
            _kept = key, Worker(pickle.loads(job), lambda _: None)  # noqa: S301 - of the driver
        except Exception as error:  # noqa: BLE001 - raised there
            return pickled_error(error)
    return answer(_kept[1], task)


def _seen(places: Sequence[bytes]) -> list[str | None]:
    """Say for each pickled place why it cannot be opened in this process; None if it can."""
    found: list[str | None] = []
    for place in places:
        try:
            pickle.loads(place)  # noqa: S301 - of the driver
        except Exception as error:  # noqa: BLE001 - told there
            found.append(f"{type(error).__name__}: {error}")
        else:
            found.append(None)
    return found


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
            "Ray is needed for this and is not installed: pip install ray, or, in a checkout, pip install '.[ray]'"
        ) from error


def connect() -> Any:
    """Return the package ``ray``, connected to a cluster: the one in use, that of RAY_ADDRESS, one of this machine.

    Where there is none, Ray is started here, without a dashboard and without reports of usage.

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
    os.environ[name] = "0"  # whatever the user's settings: nobody asked for Ray's reports here
    try:
        ray.init(include_dashboard=False, logging_level=logging.ERROR)
    finally:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before
    return ray


def cluster(job: Job, count: int) -> Executor:
    """Return an executor on the Ray cluster that is in use, or that is found or started.

    Raises
    ------
    ModuleNotInstalledException
        If Ray is not installed here, or lakebed not there.
    InvalidInputError
        If the function or its arguments cannot be sent to another process.
    InvalidInputDataError, InvalidOutputDatasetError
        If input or output lie on a disk that some node of the cluster does not have.
    """
    ray_module()
    data = pickled_job(job, secrets=False)  # Ray's object store is no place for them
    ray = connect()
    _check_shared(ray, job)
    return OnCluster(ray, data, count)


def _check_shared(ray: Any, job: Job) -> None:
    """Ask a process on each node whether it can open what lies on a disk.

    Nodes that join later are not asked; a target that is opened there looks for itself.
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
    """Return why pickled places cannot be opened, for each node that does work, but for this one.

    Parameters
    ----------
    places
        Targets, tables and others that open a storage when they are unpickled.

    Returns
    -------
    dict
        Address and id of a node -> an entry for each place: the reason, or None if it can be opened there.
    """
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    is_client = ray.util.client.ray.is_connected()  # this process is no part of the cluster then
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
            raise _not_importable(error) from error
        except ray.exceptions.RayError as error:
            if not isinstance(error, ray.exceptions.GetTimeoutError):
                continue  # the node is gone
            found[name] = [f"it has not answered for {_PROBE_SECONDS:.0f} seconds"] * len(places)
    return found


def _not_importable(error: BaseException) -> BaseException:
    """Return what to raise for an error of a task of Ray: `_done` itself raises none."""
    text = str(error)
    if "ModuleNotFoundError" not in text and "ImportError" not in text:
        return error
    return ModuleNotInstalledException(
        "the processes of the Ray cluster cannot import lakebed, or what it needs: install it on each node, or let Ray "
        f"install it (runtime_env of ray.init). The last line of their error: {text.strip().splitlines()[-1]}"
    )


@dataclass(slots=True, eq=False)
class _Running:
    """A task that Ray was given."""

    task: Task
    data: bytes
    answer: Any
    outcome: Outcome | None = None
    deaths: int = 0
    losses: int = 0


class OnCluster(Executor):
    """Does tasks as tasks of Ray, a few at a time; they wait there until a node is free."""

    def __init__(self, ray: Any, job: bytes, count: int) -> None:
        self.workers = count
        self._ray = ray
        self._key = uuid.uuid4().hex
        self._job = ray.put(job)
        self._do = ray.remote(max_retries=0)(_done)
        self._running: list[_Running] = []  # of all calls of `run`: one may be begun while another waits

    def run(self, tasks: Iterator[Task], told: Told | None = None) -> Iterator[Outcome]:
        running: deque[_Running] = deque()
        is_more = True
        while True:
            self._collect(running)
            while is_more and len(_open(running)) < self.workers:
                if len(running) >= 4 * self.workers + 4:
                    break  # the first of them takes long: the others wait for it
                task = next(tasks, None)
                if task is None:
                    is_more = False
                    break
                # As bytes: arrays that Ray unpickles itself cannot be written to, and functions may do that.
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
        """Take the outcomes of tasks that ended; begin those again that were lost."""
        waiting = _open(running)
        if not waiting:
            return
        ready, _ = self._ray.wait(waiting, num_returns=len(waiting), timeout=0, fetch_local=False)
        ended = set(ready)
        for entry in running:
            if entry.outcome is None and entry.answer in ended:
                entry.outcome = self._outcome(entry)

    def _outcome(self, entry: _Running) -> Outcome | None:
        """Return what became of a task that ended; None if it was begun again."""
        errors = self._ray.exceptions
        try:
            found = pickle.loads(self._ray.get(entry.answer))  # noqa: S301 - of a process of this cluster
        except (errors.WorkerCrashedError, errors.OutOfMemoryError) as error:
            entry.deaths += 1
            if entry.deaths >= _MOST_DEATHS:
                return _failed(entry.task, f"{entry.deaths} processes of the Ray cluster that did", error)
        except (errors.NodeDiedError, errors.ObjectLostError) as error:
            entry.losses += 1
            if entry.losses >= _MOST_LOSSES:
                return _failed(entry.task, f"{entry.losses} nodes of the Ray cluster that did", error)
            time.sleep(_PAUSE_SECONDS)
        except errors.RayTaskError as error:
            raise _not_importable(error) from error
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
        with contextlib.suppress(self._ray.exceptions.RayError):  # of a cluster that is gone
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
        f"{who} items {task.start} to {task.stop - 1} ended ({first}). The memory of a node that runs out, or a "
        "library that the function calls, ends them: see the logs of Ray"
    )
    return Outcome(task, failure=Failure(task.start, None, died))
