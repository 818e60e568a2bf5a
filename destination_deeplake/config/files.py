"""Files that the platform hands over."""

import json
from pathlib import Path
from typing import Any

from destination_deeplake.config.values import json_type
from destination_deeplake.failures import ConfigError


def read_json_object(path: str, what: str) -> dict[str, Any]:
    """Read a file that holds one JSON object; `what` names it in errors.

    Raises
    ------
    ConfigError
        If the file cannot be read or holds something else. The content is not quoted, because it may hold secrets.
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
        raise ConfigError(f"The {what} file {path} must hold a JSON object, not {json_type(value)}.")
    return value
