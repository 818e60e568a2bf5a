"""``ds.info`` and ``tensor.info``: dictionaries stored with the dataset and versioned with its data."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from types import TracebackType
from typing import Any, Self

from lakebed.errors import InfoError
from lakebed.session.held_infos import Live, stored_form

Edit = Callable[[Mapping[str, Any]], Mapping[str, Any]]


class Info(MutableMapping[str, Any]):
    """A view of stored info.

    Keys are strings. Numbers, booleans and None become the keys that JSON gives them.

    Every change is a function that edits the info; ``change`` applies this function once it holds the writer's lock.

    Parameters
    ----------
    read
        Returns the stored info.
    change
        Applies an edit to the stored info, and stores the result.
    live
        Values that were returned to callers, who may change them in place; shared by all views of one info.
    summary
        Prints the summary of the dataset or tensor: ``ds.info()``, as in pandas.

    Examples
    --------
    >>> ds.info["source"] = "camera 7"      # doctest: +SKIP
    >>> ds.info.source                      # doctest: +SKIP
    'camera 7'
    """

    def __init__(
        self,
        read: Callable[[], Mapping[str, Any]],
        change: Callable[[Edit], None],
        live: Live,
        summary: Callable[[], None],
    ) -> None:
        object.__setattr__(self, "_read", read)
        object.__setattr__(self, "_change", change)
        object.__setattr__(self, "_held", live)
        object.__setattr__(self, "_summary", summary)

    def __call__(self) -> None:
        """Print htypes, shapes and dtypes, as ``summary`` does."""
        self._summary()

    @property
    def _live(self) -> dict[str, Any]:
        values: dict[str, Any] = self._held.of(self._read())
        return values

    def _edit(self, edit: Edit) -> None:
        new: Mapping[str, Any] = {}

        def checked(info: Mapping[str, Any]) -> Mapping[str, Any]:
            nonlocal new
            new = stored_form(edit(self._held.of(info)))
            return new

        self._change(checked)
        self._held.rebase(new)

    def __getitem__(self, key: Any) -> Any:
        return self._live[key if isinstance(key, str) else _written(key, KeyError)]

    def __setitem__(self, key: Any, value: Any) -> None:
        name = _written(key)
        self._edit(lambda info: {**info, name: value})

    def __delitem__(self, key: Any) -> None:
        name = _written(key, KeyError)

        def without(info: Mapping[str, Any]) -> Mapping[str, Any]:
            rest = dict(info)
            del rest[name]
            return rest

        self._edit(without)

    def __iter__(self) -> Iterator[str]:
        return iter(self._live)

    def __len__(self) -> int:
        return len(self._live)

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            from lakebed.runtime.absent import explained

            raise AttributeError(explained("Info", name) or f"info has no key {name!r}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def pop(self, key: str, default: Any = None) -> Any:
        """Remove a key and return its value; return the default if the key does not exist."""
        if key not in self:
            return default
        value = self[key]
        del self[key]
        return value

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Set several keys in one change."""
        new = _with_names(dict(*args, **kwargs))
        self._edit(lambda info: {**info, **new})

    def replace_with(self, info: Mapping[str, Any]) -> None:
        """Replace all keys and values."""
        if not isinstance(info, Mapping):
            raise TypeError(f"info must be a dictionary, not {type(info).__name__}")
        new = _with_names(info)
        self._edit(lambda _: new)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def __eq__(self, other: object) -> bool:
        return self._live == _with_names(other) if isinstance(other, Mapping) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # mutable, like dict

    def __repr__(self) -> str:
        return repr(self._live)


def _written(key: Any, error: type[Exception] = InfoError) -> str:
    """Return a key as the string to which JSON converts it."""
    if isinstance(key, str):
        return key
    if not isinstance(key, bool | int | float | None):
        raise error(f"keys of info are strings or numbers, not {type(key).__name__}")
    return json.dumps(key)


def _with_names(info: Mapping[Any, Any]) -> dict[str, Any]:
    return {_written(key): value for key, value in info.items()}
