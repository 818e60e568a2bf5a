"""Workers on a Ray cluster."""

from __future__ import annotations

from lakebed.errors import ModuleNotInstalledException
from lakebed.transforms.executors import Executor
from lakebed.transforms.work import Job


def cluster(job: Job, count: int) -> Executor:
    """Return an executor on a Ray cluster.

    Raises
    ------
    ModuleNotInstalledException
        This release has no such workers yet.
    """
    raise ModuleNotInstalledException(
        f'scheduler="ray" is not part of this release ({count} workers, {len(job.stages)} functions); '
        'use scheduler="processed"'
    )
