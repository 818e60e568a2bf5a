r"""The streams of the form: rules that match streams, and their combination for one stream.

All rules whose patterns match a stream apply. A later rule overrides an earlier one in each setting and column;
excluded columns add up.

In patterns of names, `*` is any text, `?` any character, `\*` and `\?` are the characters themselves.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeVar

from destination_deeplake.choices import NO_CHOICES, ColumnChoice, Compression, StreamChoices
from destination_deeplake.config.columns import column_choice
from destination_deeplake.config.values import Section

T = TypeVar("T")

_MOST_MEGABYTES = 256
_PARTS = re.compile(r"\\[*?\\]|[*?]|[^*?\\]+|\\", re.DOTALL)


@dataclass(frozen=True, slots=True)
class StreamRule:
    """Fields of the form for the streams of one pattern; None for empty fields.

    Attributes
    ----------
    where : str
        Path of the rule in the configuration, for messages.
    name, namespace : str or None
        Patterns. None matches every name; as namespace, it also matches streams without a namespace.
    include, exclude, flatten, exact_numbers, chunk_bytes, compression, columns
        As in `StreamChoices`.
    """

    where: str
    name: str
    namespace: str | None = None
    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    flatten: bool | None = None
    exact_numbers: bool | None = None
    chunk_bytes: int | None = None
    compression: Compression | None = None
    columns: Mapping[str, ColumnChoice] = field(default_factory=dict)

    def matches(self, namespace: str | None, name: str) -> bool:
        """Tell whether the rule matches a stream."""
        return matches(self.name, name) and (
            self.namespace is None or matches(self.namespace, namespace or "")
        )

    def mentions(self) -> Iterator[str]:
        """Yield the columns that the rule names."""
        yield from (*(self.include or ()), *self.exclude, *self.columns)


def stream_rules(form: Section) -> tuple[StreamRule, ...]:
    """Read `streams`.

    Raises
    ------
    ConfigError
        If a value is invalid, or two values contradict each other.
    """
    return tuple(_rule(section) for section in form.sections("streams"))


def choices_for(
    rules: Sequence[StreamRule],
    namespace: str | None,
    name: str,
    compression: Compression = Compression.AUTO,
) -> StreamChoices:
    """Return the choices of the rules for a stream; ``compression`` is the default."""
    found = [rule for rule in rules if rule.matches(namespace, name)]
    if not found:
        return NO_CHOICES if compression is NO_CHOICES.compression else StreamChoices(compression=compression)
    columns: dict[str, ColumnChoice] = {}
    for rule in found:
        columns |= rule.columns
    named = {column for rule in found if not is_open(rule.name) for column in rule.mentions()}
    return StreamChoices(
        include=_last([rule.include for rule in found], None),
        exclude=tuple(dict.fromkeys(column for rule in found for column in rule.exclude)),
        flatten=_last([rule.flatten for rule in found], default=False),
        exact_numbers=_last([rule.exact_numbers for rule in found], default=False),
        chunk_bytes=_last([rule.chunk_bytes for rule in found], None),
        compression=_last([rule.compression for rule in found], compression),
        columns=columns,
        loose=frozenset(column for rule in found for column in rule.mentions()) - named,
    )


def _last(values: Sequence[T | None], default: T) -> T:
    """Return the last value that is not None."""
    return next((value for value in reversed(values) if value is not None), default)


def _rule(form: Section) -> StreamRule:
    name = form.required("name", "write the name of a stream, or a pattern such as public_*")
    compression = form.choice("chunk_compression", list(Compression))
    megabytes = form.whole("chunk_size_mb", 1, _MOST_MEGABYTES)
    rule = StreamRule(
        where=form.where,
        name=name,
        namespace=form.text("namespace"),
        include=form.texts("include") or None,
        exclude=form.texts("exclude"),
        flatten=form.flag("flatten"),
        exact_numbers=form.flag("exact_numbers"),
        chunk_bytes=None if megabytes is None else megabytes * 1_000_000,
        compression=None if compression is None else Compression(compression),
        columns=_columns(form),
    )
    form.finish()
    for position, column in enumerate(rule.exclude):
        if rule.include is not None and column in rule.include:
            raise form.error(
                f"exclude[{position}]", f"{column!r} is in include, too; remove it from one of the two."
            )
    return rule


def _columns(form: Section) -> dict[str, ColumnChoice]:
    include, exclude = form.texts("include"), form.texts("exclude")
    found: dict[str, ColumnChoice] = {}
    tensors: dict[str, str] = {}
    for section in form.sections("columns"):
        choice = column_choice(section)
        column = choice.column
        if column in found:
            raise section.error("column", f"{column!r} is there twice; merge the two entries.")
        if exclude and _covers(exclude, column):
            raise section.error("column", f"{column!r} is among exclude; remove it there, or this entry.")
        if include and not (_covers(include, column) or any(_covers((column,), name) for name in include)):
            raise section.error(
                "column", f"{column!r} is not among include; add it there, or remove this entry."
            )
        if choice.tensor is not None:
            other = _clash(choice.tensor, tensors)
            if other is not None:
                raise section.error(
                    "tensor",
                    f"{choice.tensor!r} clashes with the tensor of column {other!r}: names must differ by more than "
                    "upper and lower case, and none may be a group of another; choose another one.",
                )
            tensors[choice.tensor] = column
        found[column] = choice
    return found


def _covers(names: Sequence[str], column: str) -> bool:
    """Tell whether the names include a column, or an object around it."""
    return any(column == name or column.startswith(f"{name}.") for name in names)


def _clash(tensor: str, others: Mapping[str, str]) -> str | None:
    """Return a column whose tensor would clash with this one."""
    mine = tensor.casefold()
    for other, column in others.items():
        its = other.casefold()
        if mine == its or mine.startswith(f"{its}/") or its.startswith(f"{mine}/"):
            return column
    return None


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile("".join(_translated(part) for part in _PARTS.findall(pattern)), re.DOTALL)


def _translated(part: str) -> str:
    if part == "*":
        return ".*"
    if part == "?":
        return "."
    return re.escape(part[1:] if part[0] == "\\" and len(part) > 1 else part)


def matches(pattern: str, name: str) -> bool:
    r"""Tell whether a pattern matches a whole name; upper and lower case differ.

    Examples
    --------
    >>> matches("public_*", "public_users"), matches("a?", "a"), matches(r"a\*", "a*")
    (True, False, True)
    """
    return _compiled(pattern).fullmatch(name) is not None


def is_open(pattern: str) -> bool:
    r"""Tell whether a pattern may match several names.

    Examples
    --------
    >>> is_open("public_*"), is_open(r"a\*")
    (True, False)
    """
    return any(part in ("*", "?") for part in _PARTS.findall(pattern))
