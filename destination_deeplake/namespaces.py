"""Mapping of namespaces and names of streams to namespaces and names of datasets, as set in the connection.

Usually the platform renames streams in the catalog and in all messages, and the destination sees only the new names. If
a source writes to the destination directly, catalog and messages have the source's names, and the platform passes the
mapping as a JSON file, whose path is in NAMESPACE_MAPPING_CONFIG_PATH.

    namespaceDefinitionType   source: the namespace stays; destination: none; customformat: `namespaceFormat`
    namespaceFormat           text in which ${SOURCE_NAMESPACE} stands for the source's namespace, "" where it has none
    streamPrefix              prefix of each name

A blank namespace or prefix counts as none. Messages are never renamed: states and statuses keep the source's names.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from destination_deeplake.config import read_json_object
from destination_deeplake.failures import ConfigError

_VARIABLE = "NAMESPACE_MAPPING_CONFIG_PATH"
_SOURCE_NAMESPACE = "${SOURCE_NAMESPACE}"


class NamespaceDefinition(StrEnum):
    """Origin of the namespace of a dataset."""

    SOURCE = "source"
    DESTINATION = "destination"
    CUSTOM_FORMAT = "customformat"


@dataclass(frozen=True, slots=True)
class NamespaceMapping:
    """A mapping of names; by default, none is changed.

    Attributes
    ----------
    definition : NamespaceDefinition
        Origin of the namespace.
    format : str
        Template of the namespace, for CUSTOM_FORMAT.
    prefix : str
        Prefix of the name.
    """

    definition: NamespaceDefinition = NamespaceDefinition.SOURCE
    format: str = ""
    prefix: str = ""

    def map(self, namespace: str | None, name: str) -> tuple[str | None, str]:
        """Return namespace and name of the dataset of a stream.

        Examples
        --------
        >>> mapping = NamespaceMapping(NamespaceDefinition.CUSTOM_FORMAT, "raw_${SOURCE_NAMESPACE}", "shop_")
        >>> mapping.map("public", "users")
        ('raw_public', 'shop_users')
        """
        if self.definition is NamespaceDefinition.DESTINATION:
            namespace = None
        elif self.definition is NamespaceDefinition.CUSTOM_FORMAT:
            source = namespace if namespace and namespace.strip() else ""
            namespace = self.format.replace(_SOURCE_NAMESPACE, source)
            if not namespace.strip():
                namespace = None
        return namespace, f"{self.prefix}{name}" if self.prefix.strip() else name


NO_MAPPING = NamespaceMapping()


def read_mapping(environ: Mapping[str, str]) -> NamespaceMapping:
    """Return the mapping in the file that the environment names; without a file, names stay.

    Raises
    ------
    ConfigError
        If the file cannot be read, or does not define the origin of namespaces.
    """
    path = environ.get(_VARIABLE)
    if not path:
        return NO_MAPPING
    values = read_json_object(path, _VARIABLE)
    definition = values.get("namespaceDefinitionType")
    try:
        # Writers of the file use either the value (customformat) or the name (CUSTOM_FORMAT).
        known = NamespaceDefinition(str(definition).lower().replace("_", ""))
    except ValueError:
        raise ConfigError(
            f"The {_VARIABLE} file {path} has the namespaceDefinitionType {definition!r}; write "
            f"{', '.join(NamespaceDefinition)}."
        ) from None
    return NamespaceMapping(
        known, _text(values, "namespaceFormat", path), _text(values, "streamPrefix", path)
    )


def _text(values: Mapping[str, Any], key: str, path: str) -> str:
    value = values.get(key)
    if value is not None and not isinstance(value, str):
        raise ConfigError(f"The {_VARIABLE} file {path} has a {key} that is not text.")
    return value or ""
