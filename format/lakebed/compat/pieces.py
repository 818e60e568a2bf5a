"""Small functions and objects of Deep Lake 3.x that scripts import and that lakebed itself does not need."""

from __future__ import annotations

import importlib.util
import logging
import re
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import lakebed
from lakebed.compat import constants

if TYPE_CHECKING:
    from collections.abc import Callable

VERSION = "3.9.52"
"""Version that scripts see: the release with this API."""

CONSTANTS: dict[str, Any] = {**constants.CONSTANTS, **constants.COMPRESSIONS, "VERSION": VERSION}

logger = logging.getLogger("deeplake")


class _Config(dict[str, Any]):
    """``deeplake.config``: a dictionary as in 3.x, whose attributes are those of ``lakebed.config``."""

    def __missing__(self, key: str) -> Any:
        raise KeyError(
            f"deeplake.config[{key!r}]: lakebed takes no configuration of botocore; set lakebed.config.REQUESTS, "
            "STALL_SECONDS and RETRY_SECONDS instead"
        )

    def __setitem__(self, key: str, value: Any) -> None:
        self.__missing__(key)

    def __getattr__(self, name: str) -> Any:
        return getattr(lakebed.config, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(lakebed.config, name, value)


config = _Config()


dataset = SimpleNamespace(
    init=lakebed.dataset,
    **{
        name: getattr(lakebed, name)
        for name in (
            "exists empty load rename delete like copy deepcopy connect ingest_coco ingest_yolo ingest_classification "
            "ingest_kaggle ingest_dataframe ingest_huggingface export_yolo"
        ).split()
    },
)
"""The functions of lakebed under the name of the class ``deeplake.api.dataset.dataset``."""


def DeeplakeRandom() -> Any:  # noqa: N802 - the name of 3.x
    """Return the module with the seed of the process."""
    return lakebed.random


def dataloader(ds: lakebed.Dataset, *args: Any, **kwargs: Any) -> Any:
    """Return ``ds.dataloader()``."""
    return ds.dataloader(*args, **kwargs)


def dataset_to_pytorch(ds: lakebed.Dataset, *args: Any, **kwargs: Any) -> Any:
    """Return ``ds.pytorch()``."""
    return ds.pytorch(*args, **kwargs)


def query(ds: Any, query_string: str) -> Any:
    """Return ``ds.query(query_string)``."""
    return ds.query(query_string)


def sample_by(ds: Any, *args: Any, **kwargs: Any) -> Any:
    """Return ``ds.sample_by()``."""
    return ds.sample_by(*args, **kwargs)


def version_compare(one: str, other: str) -> int:
    """Compare two versions: -1, 0 or 1, as the first is older, the same or newer."""
    left, right = ([int(part) for part in re.findall(r"\d+", text)] for text in (one, other))
    return (left > right) - (left < right)


def pytorch_installed() -> bool:
    """Return whether PyTorch can be imported."""
    return importlib.util.find_spec("torch") is not None


def tensorflow_installed() -> bool:
    """Return whether TensorFlow can be imported."""
    return importlib.util.find_spec("tensorflow") is not None


def tfds_installed() -> bool:
    """Return whether TensorFlow Datasets can be imported."""
    return importlib.util.find_spec("tensorflow_datasets") is not None


def convert_pathlib_to_string_if_needed(path: Any) -> str:
    """Return a path as text."""
    return str(path)


def is_remote_path(path: str) -> bool:
    """Return whether an address leads to a store behind a network."""
    return "://" in path and not path.startswith(("file://", "mem://"))


def not_reported(*args: Any, **kwargs: Any) -> None:
    """Do nothing: lakebed sends no telemetry."""


def _recorded(*_: Any, **__: Any) -> Callable[[Any], Any]:
    return lambda function: function


reporter = SimpleNamespace(
    feature_report=not_reported,
    error_report=not_reported,
    system_report=not_reported,
    publish=not_reported,
    tags=[],
    record_call=_recorded,
)
