"""Namespaces and names of streams -> those of their datasets, as the connection has them.

Most of the time the platform renames streams in the catalog and in all messages, and the destination sees the new names
only. Where a source writes to the destination without the platform in between, catalog and messages have the source's
names, and the platform hands over how to rename them: a JSON file that NAMESPACE_MAPPING_CONFIG_PATH names.

    namespaceDefinitionType   source: the namespace stays; destination: none; customformat: `namespaceFormat`
    namespaceFormat           text in which ${SOURCE_NAMESPACE} stands for the source's namespace, "" where it has none
    streamPrefix              what comes before each name

A blank namespace is none, a blank prefix too. Messages are never renamed: states and statuses keep the source's names.
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
    """Renaming of streams; without values, none.

    Attributes
    ----------
    definition : NamespaceDefinition
        Where the namespace comes from.
    format : str
        The namespace, where the definition is CUSTOM_FORMAT.
    prefix : str
        What comes before the name.
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
    """Return the mapping of the file that the environment names; one that renames nothing without such a file.

    Raises
    ------
    ConfigError
        If the file cannot be read, or does not say where namespaces come from.
    """
    path = environ.get(_VARIABLE)
    if not path:
        return NO_MAPPING
    values = read_json_object(path, _VARIABLE)
    definition = values.get("namespaceDefinitionType")
    try:
        # Spelt as a value (customformat) or as the name of one (CUSTOM_FORMAT), whoever writes the file.
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
        raise ConfigError(f"The {_VARIABLE} file {path} has a {key} that is no text.")
    return value or ""
