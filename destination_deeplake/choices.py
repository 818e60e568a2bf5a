"""The user's choices for streams and columns as typed values; `config` reads them from the form."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

FORMATS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(
        ("image", "image.rgb", "image.gray"),
        frozenset("bmp dib eps gif ico im jpeg jpeg2000 msp mpo pcx png ppm sgi tga tiff webp xbm".split()),
    ),
    "video": frozenset(("mp4", "mkv", "avi")),
    "audio": frozenset(("mp3", "flac", "wav")),
    "dicom": frozenset(("dcm",)),
    "nifti": frozenset(("nii", "nii.gz")),
    "point_cloud": frozenset(("las",)),
    "mesh": frozenset(("ply", "stl")),
}
"""Htype of files -> compressions of such files. A copy of `lakebed.file_kinds`, to print the specification without
importing the library, and without kinds of images that cannot be encoded."""

DELETION_DAYS = 30
"""Number of days for which hard deletions are remembered."""


class Decoding(StrEnum):
    """Encoding of a column's values, as far as the source's schema does not define it."""

    BASE64 = "base64"
    """A string that holds the base64 of a file or of plain bytes."""
    URL = "url"
    """A string with the address of a file, which is linked (`link[...]`)."""
    NUMBERS = "numbers"
    """An array of numbers of one shape: an embedding, a vector, a matrix."""
    EXACT = "exact"
    """A number of any size, kept as the digits that the source wrote."""


class Compression(StrEnum):
    """New tensors whose chunks are compressed by LZ4; existing tensors are not changed."""

    AUTO = "auto"
    """Texts, JSON and the columns of the connector; not numbers, so that readers can map them into memory."""
    LZ4 = "lz4"
    """All columns whose samples are not compressed."""
    NONE = "none"
    """No columns."""


@dataclass(frozen=True, slots=True)
class ColumnChoice:
    """Choices for one column; None follows the schema of the source.

    Attributes
    ----------
    column : str
        Property of the records; the parts of a nested property are joined by dots.
    tensor : str or None
        Name of the tensor, groups separated by `/`.
    htype, dtype, sample_compression, chunk_compression : str or None
        As in `Dataset.create_tensor`; the htype without `link[...]`, which `decoding` adds. The chunk compression
        "none" exempts a column from the compression of its stream.
    class_names : tuple of str
        Initial names of class labels; new names are appended.
    shape : tuple of int or None
        For arrays of numbers, the shape that every sample must have.
    decoding : Decoding or None
        Encoding of the values.
    creds_key : str or None
        Name of the credentials that read linked files.
    nulls_as_nan : bool or None
        Whether nulls of a floating-point column are stored as NaN instead of as absent samples.
    """

    column: str
    tensor: str | None = None
    htype: str | None = None
    dtype: str | None = None
    sample_compression: str | None = None
    chunk_compression: str | None = None
    class_names: tuple[str, ...] = ()
    shape: tuple[int, ...] | None = None
    decoding: Decoding | None = None
    creds_key: str | None = None
    nulls_as_nan: bool | None = None


@dataclass(frozen=True, slots=True)
class StreamChoices:
    """Choices for one stream.

    Attributes
    ----------
    include : tuple of str or None
        The only columns to keep; None keeps all. Keys and cursors are always kept.
    exclude : tuple of str
        Columns to leave out.
    flatten : bool
        Whether objects with declared properties become groups of tensors, instead of one json tensor.
    exact_numbers : bool
        Whether integers and decimals are kept as the source's digits (`Decoding.EXACT`) in all columns without choices.
    chunk_bytes : int or None
        Largest chunk of a tensor (`max_chunk_size`).
    compression : Compression
        The columns that are compressed, among the columns without a choice of their own.
    columns : mapping of str to ColumnChoice
        By `ColumnChoice.column`.
    loose : set of str
        Columns that a rule for several streams names, so that no warning is due if one stream lacks them.
    """

    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    flatten: bool = False
    exact_numbers: bool = False
    chunk_bytes: int | None = None
    compression: Compression = Compression.AUTO
    columns: Mapping[str, ColumnChoice] = field(default_factory=dict)
    loose: frozenset[str] = frozenset()

    @property
    def leaves_out(self) -> bool:
        """True if columns of the source are left out."""
        return self.include is not None or bool(self.exclude)


NO_CHOICES = StreamChoices()
