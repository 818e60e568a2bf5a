"""``ds.info`` and ``tensor.info``: a dictionary that is stored with the dataset and versioned like data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from types import TracebackType
from typing import Any, Self

from lakebed.documents import info as info_document
from lakebed.errors import InfoError, LakebedError


class Info(MutableMapping[str, Any]):
    """A view of stored info; every change goes through ``write``.

    Examples
    --------
    >>> ds.info["source"] = "camera 7"      # doctest: +SKIP
    >>> ds.info.source                      # doctest: +SKIP
    'camera 7'
    """

    def __init__(
        self, read: Callable[[], Mapping[str, Any]], write: Callable[[Mapping[str, Any]], None]
    ) -> None:
        object.__setattr__(self, "_read", read)
        object.__setattr__(self, "_write", write)

    def _store(self, info: Mapping[str, Any]) -> None:
        try:
            info_document.to_bytes(info)
        except LakebedError as error:
            raise InfoError(f"info takes JSON values, arrays and bytes: {error}") from error
        self._write(info)

    def __getitem__(self, key: str) -> Any:
        return self._read()[key]

    def __setitem__(self, key: str, value: Any) -> None:
        if not isinstance(key, str):
            raise InfoError(f"keys of info are strings, not {type(key).__name__}")
        self._store({**self._read(), key: value})

    def __delitem__(self, key: str) -> None:
        rest = dict(self._read())
        del rest[key]
        self._store(rest)

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
        self._store({**self._read(), **dict(*args, **kwargs)})

    def replace_with(self, info: Mapping[str, Any]) -> None:
        """Replace everything."""
        if not isinstance(info, Mapping):
            raise TypeError(f"info must be a dictionary, not {type(info).__name__}")
        self._store(dict(info))

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
