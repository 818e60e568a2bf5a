"""Plans for the streams of a configured catalog.

Unknown keys are ignored, and optional keys may be absent or null, so that catalogs of older and newer platforms work.
Values that decide what happens to data are never guessed.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from destination_deeplake.choices import NO_CHOICES, StreamChoices
from destination_deeplake.config import read_json_object
from destination_deeplake.failures import ConfigError
from destination_deeplake.namespaces import NO_MAPPING, NamespaceMapping, read_mapping

StreamKey = tuple[str | None, str]
"""(namespace, name) of a stream in messages; None for no namespace."""

Path = tuple[str, ...]
"""A property of a record, as the keys that lead to it."""

Choose = Callable[[str | None, str], StreamChoices]
"""Returns the user's choices for a stream, by (namespace, name) of its dataset."""


class WriteMode(StrEnum):
    """Treatment of the existing rows of a dataset."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    DEDUP = "append_dedup"


_SYNC_MODES = ("full_refresh", "incremental")
"""Modes in which a source reads a stream. Both have the same effect here; an unknown mode may not, so it is refused."""


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """Plan for one stream.

    Attributes
    ----------
    namespace : str or None
        Namespace of the dataset, as users see it; None for no or an empty namespace.
    name : str
        Name of the dataset.
    json_schema : mapping
        JSON schema of the records.
    mode : WriteMode
        Treatment of existing rows, as configured.
    generation_id, minimum_generation_id, sync_id : int or None
        Numbers of the platform; None if the runner has none.
    primary_key : tuple of paths
        Properties that identify a row: as configured, else as the source defines them; not empty for DEDUP.
    cursor : path
        Property whose greater value marks the newer row: as configured, else the source's default; empty if neither
        names a property.
    include_files : bool
        Whether records come with files.
    choices : StreamChoices
        The user's choices for the stream.
    source_key : (namespace, name) or None
        Name of the stream in messages, if a mapping gives its dataset another name; else None.
    """

    namespace: str | None
    name: str
    mode: WriteMode
    json_schema: Mapping[str, Any] = field(default_factory=dict)
    generation_id: int | None = None
    minimum_generation_id: int | None = None
    sync_id: int | None = None
    primary_key: tuple[Path, ...] = ()
    cursor: Path = ()
    include_files: bool = False
    choices: StreamChoices = NO_CHOICES
    source_key: StreamKey | None = None

    @property
    def key(self) -> StreamKey:
        """(namespace, name) in messages: of records, states and statuses."""
        return self.source_key or self.dataset_key

    @property
    def dataset_key(self) -> StreamKey:
        """(namespace, name) of the dataset."""
        return self.namespace, self.name

    @property
    def field_order(self) -> list[str]:
        """Properties in the order in which records without names have their values: by UTF-16, as Java sorts texts."""
        properties = self.json_schema.get("properties")
        names = properties if isinstance(properties, Mapping) else ()
        return sorted(names, key=lambda name: name.encode("utf-16-be", "surrogatepass"))

    @property
    def oldest_wanted(self) -> int:
        """Rows of generations below this one are removed by the sync; 0 keeps all."""
        return (self.minimum_generation_id or 0) if self.generation_id else 0

    @property
    def truncates(self) -> bool:
        """True if rows of all older generations are to be removed."""
        return self.oldest_wanted > 0 and self.minimum_generation_id == self.generation_id

    def __str__(self) -> str:
        return full_name(self.namespace, self.name)


def full_name(namespace: str | None, name: str) -> str:
    """Return `namespace.name`."""
    return f"{namespace}.{name}" if namespace else name


def no_choices(_namespace: str | None, _name: str) -> StreamChoices:
    """Return no choices, for any stream."""
    return NO_CHOICES


def read_catalog(path: str, choose: Choose = no_choices) -> list[StreamPlan]:
    """Read a configured catalog file; streams are renamed by the mapping that the environment names.

    Raises
    ------
    ConfigError
        If a file cannot be read, or if `plans` refuses the catalog.
    """
    return plans(read_json_object(path, "catalog"), choose, read_mapping(os.environ))


def plans(
    catalog: Mapping[str, Any], choose: Choose = no_choices, mapping: NamespaceMapping = NO_MAPPING
) -> list[StreamPlan]:
    """Return the plan of every stream, in the order of the catalog.

    Parameters
    ----------
    catalog : mapping
        A configured catalog of the protocol.
    choose : callable
        The user's choices for each stream.
    mapping : NamespaceMapping
        Names of the datasets of the streams.

    Raises
    ------
    ConfigError
        If the catalog violates the protocol, names a stream twice, has an unknown mode, deduplication without a key or
        a generation below the minimum, or if two streams would have one dataset.
    """
    streams = catalog.get("streams")
    if not isinstance(streams, list):
        raise ConfigError("The catalog has no list of streams under `streams`.")
    result: dict[StreamKey, StreamPlan] = {}
    named: dict[StreamKey, StreamPlan] = {}
    for position, entry in enumerate(streams):
        plan = _plan(entry, position, choose, mapping)
        if plan.key in result:
            raise ConfigError(
                f"The catalog names the stream {full_name(*plan.key)!r} twice; keep one of them."
            )
        other = named.setdefault(plan.dataset_key, plan)
        if other is not plan:
            raise ConfigError(
                f"The namespace mapping gives the streams {full_name(*other.key)!r} and {full_name(*plan.key)!r} one "
                f"dataset, {str(plan)!r}; choose another namespace in the connection, such as one with "
                "${SOURCE_NAMESPACE}, or leave one of the streams out."
            )
        result[plan.key] = plan
    return list(result.values())


def _plan(entry: object, position: int, choose: Choose, mapping: NamespaceMapping) -> StreamPlan:
    where = f"Stream {position} of the catalog"
    if not isinstance(entry, dict) or not isinstance(entry.get("stream"), dict):
        raise ConfigError(f"{where} has no object under `stream`.")
    stream = entry["stream"]
    name, namespace = stream.get("name"), stream.get("namespace")
    if not isinstance(name, str):
        raise ConfigError(f"{where} has no name.")
    if namespace is not None and not isinstance(namespace, str):
        raise ConfigError(f"{where} ({name!r}) has a namespace that is not a string.")
    schema = stream.get("json_schema")
    if (reads := entry.get("sync_mode")) is not None and reads not in _SYNC_MODES:
        raise ConfigError(
            f"The stream {name!r} has the sync_mode {reads!r}; choose full_refresh or incremental."
        )
    mode = _mode(entry.get("destination_sync_mode"), name)
    primary_key = _key(entry.get("primary_key")) or _key(stream.get("source_defined_primary_key"))
    if mode is WriteMode.DEDUP and not primary_key:
        raise ConfigError(
            f"The stream {name!r} is to be deduplicated but has no primary key; choose one in the connection, or "
            "the sync mode append."
        )
    key = namespace or None, name
    dataset_key = mapping.map(*key)
    plan = StreamPlan(
        *dataset_key,
        mode=mode,
        json_schema=schema if isinstance(schema, dict) else {},
        generation_id=_integer(entry, "generation_id", name),
        minimum_generation_id=_integer(entry, "minimum_generation_id", name),
        sync_id=_integer(entry, "sync_id", name),
        primary_key=primary_key,
        cursor=_path(entry.get("cursor_field")) or _path(stream.get("default_cursor_field")),
        include_files=entry.get("include_files") is True,
        choices=choose(*dataset_key),
        source_key=None if dataset_key == key else key,
    )
    if plan.generation_id is not None and plan.oldest_wanted > plan.generation_id:
        raise ConfigError(
            f"The stream {name!r} has the generation_id {plan.generation_id} but a minimum_generation_id of "
            f"{plan.minimum_generation_id}; the minimum must not exceed the generation, because its own rows "
            "would be removed."
        )
    return plan


def _mode(value: object, name: str) -> WriteMode:
    try:
        return WriteMode(value)  # type: ignore[arg-type]
    except ValueError:
        raise ConfigError(
            f"The stream {name!r} has the destination_sync_mode {value!r}; choose append, overwrite or append_dedup."
        ) from None


def _key(value: object) -> tuple[Path, ...]:
    """Return the paths of a primary key, each a list or a single name; empty without a key."""
    paths = [_path(part) for part in value] if isinstance(value, list) else []
    return tuple(dict.fromkeys(path for path in paths if path))


def _path(value: object) -> Path:
    """Return a path; empty if the value is not a path."""
    parts = [value] if isinstance(value, str) else value
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        return ()
    return tuple(parts)


def _integer(entry: Mapping[str, Any], key: str, name: str) -> int | None:
    value = entry.get(key)
    if value is None:
        return None
    # Some runners write JSON numbers as 3.0.
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ConfigError(f"The stream {name!r} has a {key} that is not an integer.")
