"""``ds.info`` and ``tensor.info``: a dictionary that is stored with the dataset and versioned like data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from copy import deepcopy
from types import TracebackType
from typing import Any, Self

from lakebed.documents import info as info_document
from lakebed.errors import InfoError, LakebedError

Edit = Callable[[Mapping[str, Any]], Mapping[str, Any]]


class Info(MutableMapping[str, Any]):
    """A view of stored info.

    Every change is an edit that ``change`` applies to the info as it is once the writer's lock is held.

    Examples
    --------
    >>> ds.info["source"] = "camera 7"      # doctest: +SKIP
    >>> ds.info.source                      # doctest: +SKIP
    'camera 7'
    """

    def __init__(self, read: Callable[[], Mapping[str, Any]], change: Callable[[Edit], None]) -> None:
        object.__setattr__(self, "_read", read)
        object.__setattr__(self, "_change", change)

    def _edit(self, edit: Edit) -> None:
        def checked(info: Mapping[str, Any]) -> Mapping[str, Any]:
            try:
                # What is kept is what a later reader will see, not objects that the caller may go on changing.
                return info_document.from_bytes(info_document.to_bytes(edit(info)))
            except LakebedError as error:
                raise InfoError(f"info takes JSON values, arrays and bytes: {error}") from error

        self._change(checked)

    def __getitem__(self, key: str) -> Any:
        return deepcopy(self._read()[key])

    def __setitem__(self, key: str, value: Any) -> None:
        if not isinstance(key, str):
            raise InfoError(f"keys of info are strings, not {type(key).__name__}")
        self._edit(lambda info: {**info, key: value})

    def __delitem__(self, key: str) -> None:
        def without(info: Mapping[str, Any]) -> Mapping[str, Any]:
            rest = dict(info)
            del rest[key]
            return rest

        self._edit(without)

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"info has no key {name!r}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Set several keys in one change."""
        new = dict(*args, **kwargs)
        self._edit(lambda info: {**info, **new})

    def replace_with(self, info: Mapping[str, Any]) -> None:
        """Replace everything."""
        if not isinstance(info, Mapping):
            raise TypeError(f"info must be a dictionary, not {type(info).__name__}")
        new = dict(info)
        self._edit(lambda _: new)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def __eq__(self, other: object) -> bool:
        return dict(self._read()) == other if isinstance(other, Mapping) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # mutable, like dict

    def __repr__(self) -> str:
        return repr(dict(self._read()))
