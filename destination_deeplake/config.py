"""Connection configuration: specification, and the values that a user gave, checked.

The checks are written by hand rather than left to a JSON-schema validator: loading one costs more than the
rest of `spec`, and its messages do not say what to change.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from destination_deeplake.failures import ConfigError

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


@dataclass(frozen=True, slots=True)
class DestinationConfig:
    """Validated configuration.

    Attributes
    ----------
    destination_path : Path
        Absolute folder that holds the datasets; it need not exist.
    """

    destination_path: Path

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> "DestinationConfig":
        """Check the values of a configuration; fields that nobody knows are left alone.

        Raises
        ------
        ConfigError
            Names the field, and says what to change.
        """
        if "destination_path" not in values:
            raise ConfigError(
                "The configuration has no destination_path; set it to the folder for the datasets."
            )
        value = values["destination_path"]
        if not isinstance(value, str):
            raise ConfigError(f"destination_path must be a string, not {_json_type(value)}.")
        return cls(_local_path(value))


def specification() -> dict[str, Any]:
    """Return the connector specification (`spec.json`)."""
    spec: dict[str, Any] = json.loads(Path(__file__).with_name("spec.json").read_bytes())
    return spec


def read_config(path: str) -> DestinationConfig:
    """Read and check a configuration file.

    Raises
    ------
    ConfigError
        If the file cannot be read, is no JSON object or holds a wrong value.
    """
    return DestinationConfig.from_mapping(read_json_object(path, "configuration"))


def read_json_object(path: str, what: str) -> dict[str, Any]:
    """Read a file that holds one JSON object; `what` names it in errors.

    Raises
    ------
    ConfigError
        If it cannot be read or holds something else. The content is not quoted: it may hold secrets.
    """
    try:
        value = json.loads(Path(path).read_bytes())
    except OSError as error:
        raise ConfigError(f"Cannot read the {what} file {path}: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        where = (
            f" (line {error.lineno}, column {error.colno})" if isinstance(error, json.JSONDecodeError) else ""
        )
        raise ConfigError(f"The {what} file {path} is not valid JSON{where}.") from None
    if not isinstance(value, dict):
        raise ConfigError(f"The {what} file {path} must hold a JSON object, not {_json_type(value)}.")
    return value


def _local_path(value: str) -> Path:
    text = value.strip()
    if not text:
        raise ConfigError("destination_path is empty; set it to the folder for the datasets.")
    if "\0" in text:
        raise ConfigError("destination_path holds a NUL character; no folder can have that name.")
    if text.lower().startswith("file://"):
        parts = urlsplit(text)
        if parts.netloc not in ("", "localhost"):
            raise ConfigError(
                f"destination_path names the host {parts.netloc!r}; "
                "for a folder on this machine, write file:/// with three slashes."
            )
        text = unquote(text[len("file://") + len(parts.netloc) :])
    elif found := _SCHEME.match(text):
        raise ConfigError(
            f"destination_path starts with {found[0]}: this version writes to local folders only, "
            "object stores come later. Use an absolute path or file://."
        )
    path = Path(text)
    if not path.is_absolute():
        raise ConfigError(
            "destination_path must be an absolute path, it depends on the current folder otherwise; "
            f"write for example {Path('/local') / path}."
        )
    return path


def _json_type(value: object) -> str:
    names = {str: "a string", bool: "a boolean", list: "an array", dict: "an object", type(None): "null"}
    return names.get(type(value), "a number")
