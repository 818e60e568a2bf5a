"""Interface of the samples of a tensor that are stored in another tensor, perhaps by copying their stored bytes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakebed.documents.tensor_meta import TensorMeta
    from lakebed.versions.state import TensorState
    from lakebed.writing.encode.encoded import Column


class TensorSamples(ABC):
    """Samples of one tensor as values for another tensor, which may copy their stored bytes without decoding."""

    @property
    @abstractmethod
    def is_single(self) -> bool:
        """True if this is one sample, so that arrays have no axis of samples."""

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
        """True if only empty samples were ever stored, so that the tensor has no dtype."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def numpy(self) -> Any:
        """Read as an array, shape (samples, ...); a single sample has its own shape."""

    @abstractmethod
    def recorded_values(self) -> Iterator[Any]:
        """Yield the samples: None for nulls; for empty samples an empty array of the tensor's dtype."""

    @abstractmethod
    def links(self) -> Iterator[Any]:
        """Yield the links themselves, not the data to which they refer; for sequences, lists of links."""

    @abstractmethod
    def creds_names(self) -> Callable[[int], str | None]:
        """Return the function that maps a code of credentials in this dataset to the name of the credentials."""

    @abstractmethod
    def fits_stored(self, meta: TensorMeta) -> bool:
        """Return whether another tensor would store the samples as the same bytes."""

    @abstractmethod
    def stored(self, target: TensorState) -> Iterator[Column]:
        """Yield the samples as columns for a tensor for which :meth:`fits_stored` is true."""
