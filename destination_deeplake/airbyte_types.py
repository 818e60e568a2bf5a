"""Columns and tensors for the JSON schema of a stream and the user's choices.

    property                                              kind          tensor              logical type
    string, and string with an unknown format             TEXT          text
    ... and an airbyte_type of a timestamp or time        as it says
    integer; number with airbyte_type integer             INT64         generic int64
    number                                                FLOAT64       generic float64
    boolean                                               BOOL          generic bool
    string, date-time (with zone is the default)          TIMESTAMP_TZ  generic int64    timestamp[us, tz=UTC]
    ... airbyte_type timestamp_without_timezone           TIMESTAMP     generic int64       timestamp[us]
    string, date                                          DATE          generic int32       date32[day]
    string, time (with zone is the default)               TIME_TZ       generic int64       time64[us]
    ... airbyte_type time_without_timezone                TIME          generic int64       time64[us]
    object, array, union, anything unknown                JSON          json

`["null", T]` is T; so is a oneOf, anyOf or allOf whose branches have one kind, apart from null. The old `$ref:
WellKnownTypes.json#/definitions/...` of protocol version 1 is known by its name.

Choices override this for columns (`chosen`), leave out columns, or flatten objects: `address` with the properties
`city` and `zip` becomes the tensors `address/city` and `address/zip`.

Source: Airbyte protocol, "supported data types"; `JsonSchemaToAirbyteType` of the bulk CDK.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from destination_deeplake.choices import NO_CHOICES, StreamChoices
from destination_deeplake.chosen import chosen
from destination_deeplake.columns import MAX_PATH, Column, Kind
from destination_deeplake.failures import ConfigError
from destination_deeplake.naming import tensor_names
from destination_deeplake.tensors import TensorType

Path = tuple[str, ...]
"""The properties that lead to a value."""


@dataclass(frozen=True, slots=True)
class StreamColumn:
    """A column of a stream, by schema and choices.

    Attributes
    ----------
    column : Column
        Parsing of its values from records.
    type : TensorType
        Storage of its values.
    place : tuple of str
        Preferred name of the tensor: its groups, then its own name.
    renamed : bool
        Whether the user chose the place.
    """

    column: Column
    type: TensorType
    place: Path
    renamed: bool = False

    @property
    def field(self) -> str:
        """The name of the column: its path, joined by dots."""
        return self.column.field

    @property
    def kind(self) -> Kind:
        """Meaning of its values."""
        return self.column.kind


_WELL_KNOWN = {
    "String": Kind.TEXT,
    "BinaryData": Kind.TEXT,
    "Date": Kind.DATE,
    "TimestampWithTimezone": Kind.TIMESTAMP_TZ,
    "TimestampWithoutTimezone": Kind.TIMESTAMP,
    "TimeWithTimezone": Kind.TIME_TZ,
    "TimeWithoutTimezone": Kind.TIME,
    "Number": Kind.FLOAT64,
    "Integer": Kind.INT64,
    "Boolean": Kind.BOOL,
}

_SAID = {
    "timestamp_with_timezone": Kind.TIMESTAMP_TZ,
    "timestamp_without_timezone": Kind.TIMESTAMP,
    "time_with_timezone": Kind.TIME_TZ,
    "time_without_timezone": Kind.TIME,
}
"""Kinds of strings by `airbyte_type`, for strings without a valid format, because sources misspell `date-time`."""

_SIMPLE = {"integer": Kind.INT64, "int": Kind.INT64, "boolean": Kind.BOOL, "bool": Kind.BOOL}


def columns(
    json_schema: Mapping[str, Any],
    choices: StreamChoices = NO_CHOICES,
    keys: Sequence[Path] = (),
    cursor: Path = (),
) -> list[StreamColumn]:
    """Return the columns of a stream, in the order of its schema.

    Parameters
    ----------
    json_schema : mapping
        Schema of the records.
    choices : StreamChoices
        The user's choices for the stream. With ``flatten``, objects with declared properties become groups of tensors;
        an object whose columns would have the names of other columns stays one column.
    keys : sequence of paths
        Paths, such as those of the primary key, whose columns are always kept, and are separate columns even in
        objects.
    cursor : path
        Path of the cursor, kept like the keys. Its values are never stored as digits in text, because texts and numbers
        have different orders. Empty without a cursor.

    Raises
    ------
    ConfigError
        If the choices for a column contradict each other, the cursor would be stored as digits in text, or a chosen
        tensor is that of another column.
    """
    properties = _properties(json_schema)
    keys = [*keys, cursor] if cursor else keys
    found: dict[str, StreamColumn] = {}

    def put(path: Path, schema: object, place: Path) -> None:
        field = ".".join(path)
        choice = choices.columns.get(field)
        kind = kind_of(schema)
        if choices.exact_numbers and choice is None and path != cursor and kind in (Kind.INT64, Kind.FLOAT64):
            kind = Kind.EXACT
        column, of_type = chosen(path, kind, choice)
        is_number = kind in (Kind.INT64, Kind.FLOAT64)
        if path == cursor and (
            column.kind is Kind.EXACT or (is_number and column.kind in (Kind.TEXT, Kind.JSON))
        ):
            raise ConfigError(
                f"Column {field!r} of the configuration: the cursor cannot be digits as text, which have another order "
                "than numbers; choose another decoding or htype for it."
            )
        wish = tuple(choice.tensor.strip("/").split("/")) if choice is not None and choice.tensor else None
        found[field] = StreamColumn(column, of_type, wish or place, renamed=wish is not None)

    kept = {".".join(path) for path in keys}
    for name, schema in properties.items():
        leaves = list(_leaves((name,), schema, choices)) if choices.flatten else [((name,), schema)]
        fields = [".".join(path) for path, _ in leaves]
        others = (found.keys() | properties.keys()) - {name}
        if len(set(fields)) < len(fields) or not others.isdisjoint(fields):
            leaves, fields = [((name,), schema)], [name]
        for field, (path, inner) in zip(fields, leaves, strict=True):
            if field in kept or _is_wanted(field, choices):
                put(path, inner, path)
    for path in (*keys, *_nested_choices(properties, choices)):
        field = ".".join(path)
        if field not in found:
            # Do not put this tensor into a group: it could get the name of the tensor that holds the whole object.
            put(path, _at(properties, path), (field,))
    _check_places(found.values())
    return list(found.values())


def _check_places(columns: Collection[StreamColumn]) -> None:
    """Refuse a tensor that the user chose for one column if another column has it by default.

    Raises
    ------
    ConfigError
        If there is such a tensor; the message names both columns.
    """
    wishes = {"/".join(column.place).casefold(): column for column in columns if column.renamed}
    for column in columns if wishes else ():
        if column.renamed:
            continue
        own = tensor_names({column.field: column.place}, {})[column.field].casefold()
        for wish, renamed in wishes.items():
            if f"{wish}/".startswith(f"{own}/") or f"{own}/".startswith(f"{wish}/"):
                raise ConfigError(
                    f"Column {renamed.field!r} of the configuration: the tensor {'/'.join(renamed.place)!r} is "
                    f"that of the source's column {column.field!r}; choose another tensor for one of the two "
                    "columns."
                )


def unheard(json_schema: Mapping[str, Any], choices: StreamChoices) -> list[str]:
    """Return the columns that the choices name but the source does not have."""
    properties = _properties(json_schema)
    names = dict.fromkeys([*(choices.include or ()), *choices.exclude, *choices.columns])
    return [name for name in names if name not in choices.loose and _resolved(properties, name) is None]


def _is_wanted(field: str, choices: StreamChoices) -> bool:
    """Tell whether a column is kept: neither the column nor an object around it was left out."""
    parts = field.split(".")
    names = {".".join(parts[:end]) for end in range(1, len(parts) + 1)}
    return not names & set(choices.exclude) and (
        choices.include is None or bool(names & set(choices.include))
    )


def _leaves(path: Path, schema: object, choices: StreamChoices) -> Iterator[tuple[Path, object]]:
    """Yield the paths of the columns of flattened objects."""
    inner = _members(schema)
    if not inner or len(path) == MAX_PATH or ".".join(path) in choices.columns:
        yield path, schema
        return
    for name, child in inner.items():
        yield from _leaves((*path, name), child, choices)


def _members(schema: object) -> Mapping[str, object]:
    """Return the declared properties of a schema that allows only objects and null."""
    if not isinstance(schema, Mapping):
        return {}
    declared = schema.get("type")
    names = declared if isinstance(declared, list) else [declared]
    return _properties(schema) if set(map(str, names)) - {"null"} == {"object"} else {}


def _nested_choices(properties: Mapping[str, object], choices: StreamChoices) -> Iterator[Path]:
    """Yield the paths into objects that the user named as columns."""
    for name in (*choices.columns, *(choices.include or ())):
        path = _resolved(properties, name)
        if path is not None and len(path) > 1 and _is_wanted(name, choices):
            yield path


def _resolved(properties: Mapping[str, object], name: str) -> Path | None:
    """Return the path of a name with dots; a property of exactly that name has priority."""
    if name in properties:
        return (name,)
    for head, schema in properties.items():
        if name.startswith(head + "."):
            rest = _resolved(_members(schema), name[len(head) + 1 :])
            if rest is not None:
                return (head, *rest)
    return None


def _at(properties: Mapping[str, object], path: Path) -> object:
    """Return the schema of the value at a path; None if it is not declared."""
    schema = properties.get(path[0])
    for name in path[1:]:
        schema = _members(schema).get(name)
    return schema


def _properties(json_schema: Mapping[str, Any]) -> Mapping[str, object]:
    properties = json_schema.get("properties")
    return properties if isinstance(properties, Mapping) else {}


def kind_of(schema: object) -> Kind:
    """Return the kind of a property; JSON if no other kind fits.

    Examples
    --------
    >>> kind_of({"type": ["null", "string"], "format": "date-time"}).name
    'TIMESTAMP_TZ'
    """
    kinds = _kinds(schema, depth=0)
    return kinds.pop() if len(kinds) == 1 else Kind.JSON


def _kinds(schema: object, depth: int) -> set[Kind]:
    """Return the kinds that a value may have, apart from null."""
    if not isinstance(schema, Mapping) or depth > 16:
        return {Kind.JSON}
    if isinstance(reference := schema.get("$ref"), str):
        document, _, name = reference.rpartition("#/definitions/")
        return {_WELL_KNOWN.get(name, Kind.JSON) if document.endswith("WellKnownTypes.json") else Kind.JSON}
    declared = schema.get("type")
    if declared is None:
        for word in ("oneOf", "anyOf", "allOf"):
            if isinstance(options := schema.get(word), Sequence) and not isinstance(options, str):
                return _union(options, depth)
        return {Kind.JSON}
    names = declared if isinstance(declared, list) else [declared]
    return {_typed(name, schema) for name in names if name != "null"}


def _union(options: Sequence[object], depth: int) -> set[Kind]:
    found: set[Kind] = set()
    for option in options:
        found |= _kinds(option, depth + 1)
    return found


def _typed(name: object, schema: Mapping[str, Any]) -> Kind:
    airbyte_type = schema.get("airbyte_type")
    if name == "string":
        return _string(schema.get("format"), airbyte_type)
    if name == "number":
        return Kind.INT64 if airbyte_type == "integer" else Kind.FLOAT64
    return _SIMPLE.get(name, Kind.JSON) if isinstance(name, str) else Kind.JSON


def _string(form: object, airbyte_type: object) -> Kind:
    if form == "date":
        return Kind.DATE
    if form == "date-time":
        return Kind.TIMESTAMP if airbyte_type == "timestamp_without_timezone" else Kind.TIMESTAMP_TZ
    if form == "time":
        return Kind.TIME if airbyte_type == "time_without_timezone" else Kind.TIME_TZ
    return _SAID.get(airbyte_type, Kind.TEXT) if isinstance(airbyte_type, str) else Kind.TEXT
