"""Schema of a dataset in one version: `dataset_meta.json` (format.md 2).

member            meaning                                           if missing
version           writer version                                    3.9.52
tensors           keys of all tensors, in creation order            the keys in tensor_names
tensor_names      name -> key                                       each tensor is named like its key
hidden_tensors    keys of hidden tensors                           none
groups            paths of groups                                   none
default_index     index that is applied on opening                  everything
allow_delete      whether the dataset may be deleted                true
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakebed import limits
from lakebed.documents import fields, json_style
from lakebed.documents.indexes.version_prefix import FORMAT_VERSION
from lakebed.errors import FormatError

_WHAT = "dataset_meta.json"
EVERYTHING: tuple[Any, ...] = ({"start": None, "step": None, "stop": None},)


@dataclass(frozen=True, slots=True)
class DatasetMeta:
    """Tensors by key and by name, and groups; other members are dropped, as by 3.9.52."""

    version: str = FORMAT_VERSION
    tensors: tuple[str, ...] = ()
    tensor_names: Mapping[str, str] = field(default_factory=dict)
    hidden_tensors: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    default_index: tuple[Any, ...] = EVERYTHING
    allow_delete: bool = True
    raw: bytes | None = field(default=None, init=False, compare=False, repr=False)
    """The serialised document, once it has been written."""

    @classmethod
    def from_bytes(cls, data: bytes) -> DatasetMeta:
        """Parse `dataset_meta.json`.

        Raises
        ------
        FormatError
            If the file is damaged, or a tensor key could lead out of the dataset's folder.
        LimitError
            If the file has more tensors or groups than this process allows.
        """
        doc = json_style.load_object(data, _WHAT)
        names = fields.mapping(doc, "tensor_names", _WHAT)
        for key in names.values():
            if not isinstance(key, str):
                raise FormatError(f"{_WHAT}: tensor_names holds {key!r:.60}, not text")
            fields.checked_key(key, _WHAT)
        tensors = fields.texts(doc, "tensors", _WHAT) if "tensors" in doc else tuple(names.values())
        limits.check("MAX_TENSORS", max(len(tensors), len(names)), f"{_WHAT}: tensors")
        for key in tensors:
            fields.checked_key(key, _WHAT)
        index = doc.get("default_index")
        if index is not None and not isinstance(index, list):
            raise FormatError(f"{_WHAT}: default_index is {index!r:.60}, not a list")
        groups = fields.texts(doc, "groups", _WHAT)
        limits.check("MAX_GROUPS", len(groups), f"{_WHAT}: groups")
        return cls(
            version=fields.text(doc, "version", _WHAT, FORMAT_VERSION),
            tensors=tuple(dict.fromkeys(tensors)),
            tensor_names=names or {key: key for key in tensors},
            hidden_tensors=fields.texts(doc, "hidden_tensors", _WHAT),
            groups=groups,
            default_index=EVERYTHING if index is None else tuple(index),
            **fields.optional(doc, bool, ("allow_delete",), _WHAT),
        )

    def to_bytes(self) -> bytes:
        """Write `dataset_meta.json`."""
        if self.raw is None:
            doc = {
                "allow_delete": self.allow_delete,
                "default_index": list(self.default_index),
                "groups": list(self.groups),
                "hidden_tensors": list(self.hidden_tensors),
                "tensor_names": dict(self.tensor_names),
                "tensors": list(self.tensors),
                "version": self.version,
            }
            object.__setattr__(self, "raw", json_style.dump_meta(doc))
        return self.raw or b""
