"""Checked access to the fields of the form.

A `Section` is one object of the configuration. It knows its path, so that every error names the field as a user sees
it: `streams[2].columns[0].htype`. Null, the empty string and the empty list count as not given, because forms send them
for untouched fields. A section also records the fields that were read, so that `finish` can refuse all others: a
misspelt setting must not be ignored.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from destination_deeplake.failures import ConfigError

_MOST_CHOICES = 40
_LONGEST_NAME = 60


def json_type(value: object) -> str:
    """Return the JSON name of a value's type, with its article."""
    names = {str: "a string", bool: "a boolean", list: "an array", dict: "an object", type(None): "null"}
    return names.get(type(value), "a number")


class Section:
    """One object of the configuration.

    Parameters
    ----------
    values : mapping
        The object.
    where : str
        Path of the object in the configuration; "" for the whole.
    """

    def __init__(self, values: Mapping[str, Any], where: str = "") -> None:
        self._values = values
        self._asked: dict[str, None] = {}
        self.where = where

    def __contains__(self, key: str) -> bool:
        self._asked[key] = None
        return self._values.get(key) not in (None, "", [], {})

    def has(self, key: str) -> bool:
        """Tell whether a field is present, whatever its value."""
        return key in self._values

    def value(self, key: str) -> object:
        """Return the unchecked value of a field, None if it is missing."""
        self._asked[key] = None
        return self._values.get(key)

    def path(self, key: str) -> str:
        """Return the full name of a field."""
        return f"{self.where}.{key}" if self.where else key

    def error(self, key: str, problem: str) -> ConfigError:
        """Return the error for a field; `problem` must quote no secret."""
        return ConfigError(f"{self.path(key)}: {problem}")

    def finish(self, also: Collection[str] = ()) -> None:
        """Refuse fields that were not read; to be called after all known fields were read.

        Parameters
        ----------
        also : collection of str
            Further known fields.

        Raises
        ------
        ConfigError
            If there is an unknown field; the message has the most similar known name, and no value.
        """
        asked = list(self._asked)
        for key in self._values:
            if key not in asked and key not in also and key in self:
                raise self.error(
                    key[:_LONGEST_NAME], f"is not a field of the configuration; {_instead(key, asked, also)}."
                )

    def text(self, key: str) -> str | None:
        """Return a text without surrounding blanks, None if it is not given."""
        if key not in self:
            return None
        value = self._values[key]
        if not isinstance(value, str):
            raise self.error(key, f"must be a string, not {json_type(value)}.")
        return value.strip() or None

    def required(self, key: str, why: str) -> str:
        """Return a required text; `why` ends the sentence of the error."""
        found = self.text(key)
        if found is None:
            raise self.error(key, f"is missing; {why}.")
        return found

    def choice(self, key: str, allowed: Collection[str]) -> str | None:
        """Return a text that is one of `allowed`."""
        found = self.text(key)
        if found is not None and found not in allowed:
            raise self.error(key, f"{found!r} is not possible; write {one_of(allowed)}.")
        return found

    def flag(self, key: str) -> bool | None:
        """Return true or false, None if it is not given."""
        value = self.value(key)
        if value is None or value == "":
            return None
        if not isinstance(value, bool):
            raise self.error(key, f"must be true or false, not {json_type(value)}.")
        return value

    def whole(self, key: str, low: int, high: int) -> int | None:
        """Return a whole number from `low` to `high`, None if it is not given."""
        if key not in self:
            return None
        return self._whole(key, self._values[key], low, high)

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of different texts, none of them empty; () if it is not given."""
        found: list[str] = []
        for position, value in enumerate(self._list(key)):
            entry = f"{key}[{position}]"
            if not isinstance(value, str):
                raise self.error(entry, f"must be a string, not {json_type(value)}.")
            if not value:
                raise self.error(entry, "is empty; write a name, or remove the entry.")
            if value in found:
                raise self.error(entry, f"{value!r} is there twice; remove one.")
            found.append(value)
        return tuple(found)

    def wholes(self, key: str, low: int, high: int) -> tuple[int, ...]:
        """Return a list of whole numbers from `low` to `high`; () if it is not given."""
        return tuple(
            self._whole(f"{key}[{position}]", value, low, high)
            for position, value in enumerate(self._list(key))
        )

    def section(self, key: str) -> "Section | None":
        """Return an object, None if it is not given."""
        if key not in self:
            return None
        value = self._values[key]
        if not isinstance(value, Mapping):
            raise self.error(key, f"must be an object, not {json_type(value)}.")
        return Section(value, self.path(key))

    def sections(self, key: str) -> Iterator["Section"]:
        """Yield the objects of a list."""
        for position, value in enumerate(self._list(key)):
            entry = f"{key}[{position}]"
            if not isinstance(value, Mapping):
                raise self.error(entry, f"must be an object, not {json_type(value)}.")
            yield Section(value, self.path(entry))

    def _list(self, key: str) -> list[Any]:
        if key not in self:
            return []
        value = self._values[key]
        if not isinstance(value, list):
            raise self.error(key, f"must be an array, not {json_type(value)}.")
        return value

    def _whole(self, key: str, value: object, low: int, high: int) -> int:
        # Some forms write whole numbers as 3.0.
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            what = "a fraction" if isinstance(value, float) else json_type(value)
            raise self.error(key, f"must be a whole number, not {what}.")
        if not low <= value <= high:
            raise self.error(key, f"{value} is out of range; write a number from {low} to {high}.")
        return value


def _instead(key: str, asked: Collection[str], also: Collection[str]) -> str:
    """Return the advice for a field that does not exist."""
    import difflib

    plain = {name.replace("_", ""): name for name in (*also, *asked)}
    near = difflib.get_close_matches(key.lower().replace("_", "").replace("-", ""), plain, n=1, cutoff=0.7)
    if near:
        return f"did you mean {plain[near[0]]}? Correct it, or remove it"
    return f"remove it, or write {one_of(asked)}"


def one_of(names: Collection[str]) -> str:
    """Return names as a choice: `a, b or c`."""
    *most, last = list(names)[:_MOST_CHOICES]
    return f"{', '.join(most)} or {last}" if most else last
