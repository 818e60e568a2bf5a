"""Configured catalog -> one plan per stream.

Read leniently: unknown keys are ignored, optional ones may be absent or null, so that catalogs of platforms
older and newer than this connector work. What would change what happens to data is never guessed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from destination_deeplake.config import read_json_object
from destination_deeplake.failures import ConfigError

StreamKey = tuple[str | None, str]
"""(namespace, name) of a stream; the namespace is None when there is none."""


class WriteMode(StrEnum):
    """What a sync does with the rows that are there already."""

    APPEND = "append"
    OVERWRITE = "overwrite"


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """How one stream is to be written.

    Attributes
    ----------
    namespace : str or None
        None also for the empty namespace.
    name : str
        Name of the stream.
    json_schema : mapping
        JSON schema of the records.
    mode : WriteMode
        As configured.
    generation_id, minimum_generation_id, sync_id : int or None
        As the platform counts them; None where the runner has no such notion.
    """

    namespace: str | None
    name: str
    mode: WriteMode
    json_schema: Mapping[str, Any] = field(default_factory=dict)
    generation_id: int | None = None
    minimum_generation_id: int | None = None
    sync_id: int | None = None

    @property
    def key(self) -> StreamKey:
        """(namespace, name)."""
        return self.namespace, self.name

    @property
    def truncates(self) -> bool:
        """Whether rows of older generations must go: an append that asks for no generation but its own."""
        generation = self.generation_id
        return bool(generation) and self.minimum_generation_id == generation

    def __str__(self) -> str:
        return f"{self.namespace}.{self.name}" if self.namespace else self.name


def read_catalog(path: str) -> list[StreamPlan]:
    """Read a configured catalog file.

    Raises
    ------
    ConfigError
        If the file cannot be read, or as `plans`.
    """
    return plans(read_json_object(path, "catalog"))


def plans(catalog: Mapping[str, Any]) -> list[StreamPlan]:
    """Return the plan of every stream, in the order of the catalog.

    Raises
    ------
    ConfigError
        If the catalog has not the shape of the protocol, names a stream twice or asks for a mode we do not
        have.
    """
    streams = catalog.get("streams")
    if not isinstance(streams, list):
        raise ConfigError("The catalog has no list of streams under `streams`.")
    result: dict[StreamKey, StreamPlan] = {}
    for position, entry in enumerate(streams):
        plan = _plan(entry, position)
        if plan.key in result:
            raise ConfigError(f"The catalog names the stream {str(plan)!r} twice; keep one of them.")
        result[plan.key] = plan
    return list(result.values())


def _plan(entry: object, position: int) -> StreamPlan:
    where = f"Stream {position} of the catalog"
    if not isinstance(entry, dict) or not isinstance(entry.get("stream"), dict):
        raise ConfigError(f"{where} has no object under `stream`.")
    stream = entry["stream"]
    name, namespace = stream.get("name"), stream.get("namespace")
    if not isinstance(name, str):
        raise ConfigError(f"{where} has no name.")
    if namespace is not None and not isinstance(namespace, str):
        raise ConfigError(f"{where} ({name!r}) has a namespace that is no string.")
    schema = stream.get("json_schema")
    return StreamPlan(
        namespace=namespace or None,
        name=name,
        mode=_mode(entry.get("destination_sync_mode"), name),
        json_schema=schema if isinstance(schema, dict) else {},
        generation_id=_integer(entry, "generation_id", name),
        minimum_generation_id=_integer(entry, "minimum_generation_id", name),
        sync_id=_integer(entry, "sync_id", name),
    )


def _mode(value: object, name: str) -> WriteMode:
    if isinstance(value, str) and value in (WriteMode.APPEND, WriteMode.OVERWRITE):
        return WriteMode(value)
    if value == "append_dedup":
        raise ConfigError(
            f"The stream {name!r} asks for append_dedup, which this version does not have yet; "
            "choose append or overwrite."
        )
    raise ConfigError(
        f"The stream {name!r} has the destination_sync_mode {value!r}; choose append or overwrite."
    )


def _integer(entry: Mapping[str, Any], key: str, name: str) -> int | None:
    value = entry.get(key)
    if value is None:
        return None
    # Some runners write JSON numbers as 3.0.
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ConfigError(f"The stream {name!r} has a {key} that is no integer.")
