"""Samples of a tensor as what they are for another one: values that may be taken over as they are stored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakebed.documents.tensor_meta import TensorMeta
    from lakebed.versions.state import TensorState
    from lakebed.writing.encode.encoded import Column


class StoredSamples(ABC):
    """Samples of a tensor, as values for another: they may come as they are stored, without being decoded."""

    @property
    @abstractmethod
    def is_single(self) -> bool:
        """True if this is one sample, without the sample axis."""

    @property
    @abstractmethod
    def is_link(self) -> bool:
        """True if samples are links to files elsewhere."""

    @property
    @abstractmethod
    def goes_inside(self) -> bool:
        """True if parts of samples are selected, or items of sequences."""

    @property
    @abstractmethod
    def holds_nothing(self) -> bool:
        """True if nothing but empty samples was ever stored, so that there is no dtype to read them with."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def numpy(self) -> Any:
        """Read as an array: shape (samples, ...), or that of the sample for a single one."""

    @abstractmethod
    def recorded_values(self) -> Iterator[Any]:
        """Yield the samples; None where a null is on record, and an array with its dtype for an empty sample."""

    @abstractmethod
    def links(self) -> Iterator[Any]:
        """Yield links as links, not what they lead to: lists of them for sequences."""

    @abstractmethod
    def creds_names(self) -> Callable[[int], str | None]:
        """Return what tells the name of credentials by its code in this dataset."""

    @abstractmethod
    def fits_stored(self, meta: TensorMeta) -> bool:
        """Return whether the stored bytes of the samples are what another tensor would store for them."""

    @abstractmethod
    def stored(self, target: TensorState) -> Iterator[Column]:
        """Yield the samples as columns for a tensor that :meth:`fits_stored`."""
