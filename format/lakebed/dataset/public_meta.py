"""``ds.meta`` and ``tensor.meta``: stored metadata, read-only, in the types of the 3.x API."""

from __future__ import annotations

from typing import Any

from lakebed.documents.dataset_meta import DatasetMeta
from lakebed.documents.tensor_meta import TensorMeta


class PublicMeta:
    """The members of a metadata document as attributes; lists in the file are lists here.

    Examples
    --------
    >>> PublicMeta(TensorMeta(length=2, min_shape=(1, 2), max_shape=(3, 2), extra={"class_names": []})).max_shape
    [3, 2]
    """

    __slots__ = ("_document",)

    def __init__(self, document: TensorMeta | DatasetMeta) -> None:
        self._document = document

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_document":
            raise AttributeError(name)
        document = self._document
        if isinstance(document, TensorMeta) and name in document.extra and not hasattr(type(document), name):
            return document.extra[name]
        try:
            value = getattr(document, name)
        except AttributeError as error:
            from lakebed.runtime.absent import explained

            raise AttributeError(explained("meta", name) or str(error)) from None
        return list(value) if isinstance(value, tuple) else value

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PublicMeta):
            return self._document == other._document
        return self._document == other

    def __hash__(self) -> int:
        return hash(type(self._document))

    def __repr__(self) -> str:
        return repr(self._document)
