"""Connection configuration: the values that a user gave in the form, checked and typed.

The form itself is `spec.json`. No JSON-schema validator is used: loading one takes longer than all other work of
`spec`, and its messages do not tell what to change.

    configuration   the whole: `DestinationConfig`
    place           location of the datasets
    credentials     credentials for this location
    streams         the streams that a choice is for, and how several choices combine
    columns         one column of a stream
    values          reading one field: its type, its bounds, its name in messages
    files           reading the files that the platform hands over
"""

from destination_deeplake.config.configuration import (
    Deletes,
    DestinationConfig,
    Rejected,
    WithoutStatus,
    read_config,
)
from destination_deeplake.config.files import read_json_object
from destination_deeplake.config.place import Place

__all__ = [
    "Deletes",
    "DestinationConfig",
    "Place",
    "Rejected",
    "WithoutStatus",
    "read_config",
    "read_json_object",
]
