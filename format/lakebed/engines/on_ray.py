"""Queries on a Ray cluster: the tasks of a split query run on all nodes, and this process merges their answers.

Tasks of lost nodes are sent again. Only row numbers, computed columns, keys and partial aggregates go to this process.
"""

from __future__ import annotations

import pickle
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import cloudpickle

from lakebed.errors import QueryError
from lakebed.query.engine.sources import Sources
from lakebed.query.engine.split import Job, Part, Split
from lakebed.query.functions.spaces import Ways
from lakebed.query.language.parameters import Given, values_of
from lakebed.query.language.parser import parse
from lakebed.query.relations.relation import Relation
from lakebed.query.values.limits import Limits, Watch
from lakebed.transforms.cluster import connect, not_importable
from lakebed.transforms.processes import guarded

_TASKS_OF_A_CPU = 4
"""Tasks for each CPU of the cluster, so that fast nodes take more of them."""

_TASK_BYTES = 1 << 28
"""Largest size of the values that a task reads, in bytes."""

_SENT_TO_A_CPU = 2
"""Tasks that are sent at once for each CPU, so that one waits while another runs."""

_MOST_LOSSES = 10
"""Number of nodes or processes that may be lost during one task before the query fails."""

_PAUSE_SECONDS = 0.5
"""Seconds before a lost task is sent again, so that the cluster notices the loss of a node first."""

_LOOK_SECONDS = 0.2
"""Seconds between two checks of the clock."""


def answer(text: str, sources: Sources, parameters: Given, limits: Limits, ways: Ways) -> Relation:
    """Answer a query on a Ray cluster.

    Raises
    ------
    QueryError
        If the query does not fit the data, cannot be split, or a limit is reached.
    MemoryDatasetCanNotBePickledError
        If the dataset is in the memory of this process.
    ModuleNotInstalledException
        If Ray is not installed here, or lakebed is not installed on the cluster.
    """
    query = parse(text)
    watch = Watch(limits)
    split = Split(text, query, sources, values_of(text, query, parameters), watch, ways, "ray")
    ray = connect()
    cpus = max(1, int(ray.cluster_resources().get("CPU", 1)))
    job = ray.put(cloudpickle.dumps(split.job(), protocol=5))
    do = partial(ray.remote(max_retries=0)(_done).remote, uuid.uuid4().hex, job)
    tasks = iter(split.runs(cpus * _TASKS_OF_A_CPU, _TASK_BYTES))
    return split.merged(_collected(ray, do, tasks, split, watch, cpus * _SENT_TO_A_CPU))


_kept: tuple[str, Job] | None = None
"""Current query of this process of Ray, whose dataset is open, and its key."""


def _done(key: str, job: bytes, start: int, stop: int) -> bytes:
    """Answer a task in a process of Ray; return its part or its error, pickled."""
    return guarded(_answer, key, job, start, stop)


def _answer(key: str, job: bytes, start: int, stop: int) -> bytes:
    global _kept  # noqa: PLW0603 - a process of Ray does one task at a time
    if _kept is None or _kept[0] != key:
        _kept = None
        _kept = key, pickle.loads(job)  # noqa: S301 - from the driver
    found: bytes = cloudpickle.dumps(_kept[1].answer(start, stop), protocol=5)
    return found


Run = tuple[int, int]
"""First row of a task, and the row behind its last one."""


@dataclass(slots=True, eq=False)
class _Sent:
    """A task that was sent to the cluster."""

    run: Run
    answer: Any
    part: Part | Exception | None = None
    losses: int = 0


def _collected(
    ray: Any, do: Callable[[int, int], Any], tasks: Iterator[Run], split: Split, watch: Watch, most: int
) -> list[Part]:
    """Return the parts in order, without those behind the rows that LIMIT leaves; send at most `most` tasks at once.

    The error of a task is raised in its turn, so that rows behind those that LIMIT leaves cannot fail the query.

    Sent tasks are not cancelled after an error: they are short, and Ray may end this process if it cancels a task that
    is about to end ("Tried to complete task that was not pending").
    """
    sent: deque[_Sent] = deque()
    parts: list[Part] = []
    while not _is_enough(split, parts):
        while len(sent) < most and (task := next(tasks, None)) is not None:
            sent.append(_Sent(task, do(*task)))
        if not sent:
            break
        running = [each for each in sent if each.part is None]
        ray.wait([each.answer for each in running], timeout=_LOOK_SECONDS)
        watch.tick()
        for each in running:
            if not ray.wait([each.answer], timeout=0)[0]:
                continue
            each.part = _part(ray, each)
            if each.part is None:
                each.answer = do(*each.run)
        while sent and (part := sent[0].part) is not None and not _is_enough(split, parts):
            if isinstance(part, Exception):
                raise part
            parts.append(part)
            sent.popleft()
    return parts


def _is_enough(split: Split, parts: list[Part]) -> bool:
    return bool(parts) and split.is_enough(sum(len(part.rows) for part in parts))


def _part(ray: Any, sent: _Sent) -> Part | Exception | None:
    """Return the answer or the error of a task that ended; None if it was lost and has to be sent again."""
    errors = ray.exceptions
    try:
        found: Part | Exception = pickle.loads(ray.get(sent.answer))  # noqa: S301 - from a process of this cluster
    except errors.RayTaskError as error:
        raise not_importable(error) from error
    except (
        errors.WorkerCrashedError,
        errors.OutOfMemoryError,
        errors.NodeDiedError,
        errors.ObjectLostError,
    ) as error:
        sent.losses += 1
        if sent.losses == _MOST_LOSSES:
            message = (
                f"{_MOST_LOSSES} processes of the Ray cluster were lost during one task: see the logs of Ray"
            )
            raise QueryError(message, kind="runtime") from error
        time.sleep(_PAUSE_SECONDS)
        return None
    return found
