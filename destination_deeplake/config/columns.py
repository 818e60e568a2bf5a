"""One column of a stream in the form: possible choices, and how they combine.

    decoding   htypes                                   dtype     compression        besides
    (none)     text, json                               -         lz4
    (none)     class_label                              -         lz4                class_names
    (none)     generic                                  any       lz4                nulls_as_nan for fractions
    (none)     image ... mesh                           -         of files           base64, or a file of the source
    exact      text                                     -         lz4
    numbers    generic, embedding, bbox ...             numbers   lz4                shape, nulls_as_nan for fractions
    base64     image ... mesh; generic (plain bytes)    -         of files; lz4
    url        image ... mesh, stored as link[...]      -         of files           creds_key

An htype of arrays implies `numbers`, class_names imply `class_label`, a shape implies `numbers`, `link[image]` implies
`url` and, with `url`, no htype means `image`. Whether the schema of the source allows a choice is checked later, when
the schema is known.
"""

from collections.abc import Mapping

from destination_deeplake.choices import FORMATS as FILES
from destination_deeplake.choices import ColumnChoice, Decoding
from destination_deeplake.config.values import Section, one_of
from destination_deeplake.naming import tensor_names

ARRAYS = ("embedding", "bbox", "bbox.3d", "intrinsics", "keypoints_coco", "point")
"""Htypes whose values are always arrays of numbers."""

HTYPES = ("generic", "text", "json", "class_label", *ARRAYS, *FILES)

_FRACTIONS = ("float16", "float32", "float64")
_NUMBERS = (*_FRACTIONS, *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)))
DTYPES = (*_NUMBERS, "bool")

SAMPLE_COMPRESSIONS = ("lz4", *sorted(frozenset().union(*FILES.values())))
CHUNK_COMPRESSIONS = ("lz4", "none")
_ALIASES = {"jpg": "jpeg", "tif": "tiff", "jp2": "jpeg2000"}

_LARGEST = 1_000_000_000

_OF_DECODING: Mapping[Decoding, tuple[str, ...]] = {
    Decoding.EXACT: ("text",),
    Decoding.NUMBERS: ("generic", *ARRAYS),
    Decoding.BASE64: (*FILES, "generic"),
    Decoding.URL: tuple(htype for htype in FILES if not htype.startswith("image.")),
}


def column_choice(form: Section) -> ColumnChoice:
    """Read the form's entry for one column.

    Raises
    ------
    ConfigError
        If a value is invalid, or two values contradict each other.
    """
    column = form.required("column", "write the name of the property, parts of a nested one joined by dots")
    htype, decoding = _htype(form)
    dtype = form.choice("dtype", DTYPES)
    shape = form.wholes("shape", 0, _LARGEST) or None
    class_names = form.texts("class_names")
    if htype is None and class_names and decoding is None:
        htype = "class_label"
    if decoding is None and (htype in ARRAYS or (shape and htype in (None, "generic"))):
        decoding = Decoding.NUMBERS
    if decoding is Decoding.URL and htype is None:
        htype = "image"
    choice = ColumnChoice(
        column=column,
        tensor=_tensor(form, column),
        htype=htype,
        dtype=dtype,
        sample_compression=_compression(form, "sample_compression", SAMPLE_COMPRESSIONS),
        chunk_compression=_compression(form, "chunk_compression", CHUNK_COMPRESSIONS),
        class_names=class_names,
        shape=shape,
        decoding=decoding,
        creds_key=form.text("creds_key"),
        nulls_as_nan=form.flag("nulls_as_nan"),
    )
    form.finish()
    _check_types(form, choice)
    _check_compression(form, choice)
    _check_rest(form, choice)
    return choice


def _htype(form: Section) -> tuple[str | None, Decoding | None]:
    """Return htype and decoding; `link[image]` implies both."""
    written = form.choice("decoding", [decoding.value for decoding in Decoding])
    decoding = None if written is None else Decoding(written)
    htype = form.text("htype")
    if htype is not None and htype.startswith("link[") and htype.endswith("]"):
        if decoding not in (None, Decoding.URL):
            raise form.error(
                "decoding", f"{decoding} does not go with {htype}; write url, or leave it empty."
            )
        htype, decoding = htype.removeprefix("link[").removesuffix("]"), Decoding.URL
    if htype is not None and htype not in HTYPES:
        raise form.error("htype", f"{htype!r} is not an htype of a column; write {one_of(HTYPES)}.")
    return htype, decoding


def _tensor(form: Section, column: str) -> str | None:
    """Return the name of the tensor, which must be valid in the format."""
    name = form.text("tensor")
    if name is None:
        return None
    parts = tuple(name.split("/"))
    if not all(parts):
        raise form.error("tensor", f"{name!r} has an empty part; write for example group/name.")
    if tensor_names({column: parts}, {})[column] != name:
        raise form.error(
            "tensor",
            f"{name!r} cannot be the name of a tensor, because the format uses it or one of its characters; "
            "choose another one.",
        )
    return name


def _compression(form: Section, key: str, allowed: tuple[str, ...]) -> str | None:
    written = form.text(key)
    if written in _ALIASES:
        return _ALIASES[written]
    return form.choice(key, allowed)


def _check_types(form: Section, choice: ColumnChoice) -> None:
    decoding, htype, dtype = choice.decoding, choice.htype, choice.dtype
    if decoding is not None:
        allowed = _OF_DECODING[decoding]
        if htype is not None and htype not in allowed:
            raise form.error(
                "htype",
                f"{htype} does not go with decoding {decoding}; write {one_of(allowed)}, or leave it empty.",
            )
        if dtype is not None and decoding is not Decoding.NUMBERS:
            kept = {
                Decoding.EXACT: "digits are kept as text",
                Decoding.BASE64: "bytes and files have a dtype of their own",
                Decoding.URL: "linked files have a dtype of their own",
            }[decoding]
            raise form.error(
                "dtype", f"{dtype} does not go with decoding {decoding}: {kept}; leave it empty."
            )
        if dtype == "bool":
            raise form.error("dtype", f"arrays of numbers cannot be bool; write {one_of(_NUMBERS)}.")
    elif dtype is not None and htype not in (None, "generic"):
        raise form.error("dtype", f"{dtype} does not go with htype {htype}; leave one of them empty.")


def _check_compression(form: Section, choice: ColumnChoice) -> None:
    sample, chunk = choice.sample_compression, choice.chunk_compression
    if chunk == "none":
        chunk = None
    if sample and chunk:
        raise form.error("chunk_compression", "does not go with sample_compression; leave one of them empty.")
    htype = choice.htype or "generic"
    if htype in FILES:
        if chunk:
            raise form.error(
                "chunk_compression",
                f"does not go with htype {htype}, whose samples are files; leave it empty.",
            )
        if sample is not None and sample not in FILES[htype]:
            raise form.error(
                "sample_compression",
                f"{sample} does not go with htype {htype}; write {one_of(sorted(FILES[htype]))}.",
            )
    elif sample not in (None, "lz4"):
        raise form.error("sample_compression", f"{sample} is for files, not for htype {htype}; write lz4.")


def _check_rest(form: Section, choice: ColumnChoice) -> None:
    decoding, htype = choice.decoding, choice.htype
    if choice.class_names and htype != "class_label":
        raise form.error("class_names", f"go with htype class_label, not with {htype or decoding}.")
    if choice.shape and decoding is not Decoding.NUMBERS:
        raise form.error("shape", f"is for arrays of numbers, not for {htype or decoding}; leave it empty.")
    if choice.shape and 0 in choice.shape[len(choice.shape) > 1 :]:
        raise form.error(
            "shape",
            "must have sizes of at least 1; only the first of several sizes may be 0, which stands for any size.",
        )
    if choice.shape and choice.shape[0] == 0 and choice.nulls_as_nan:
        raise form.error(
            "nulls_as_nan",
            "needs values of one size; write the first size of the shape, or leave nulls_as_nan off.",
        )
    if choice.creds_key and decoding is not Decoding.URL:
        raise form.error("creds_key", "is for linked files; write url into decoding, or leave it empty.")
    if choice.nulls_as_nan:
        is_fraction = choice.dtype in (None, *_FRACTIONS)
        if (
            not is_fraction
            or htype not in (None, "generic", *ARRAYS)
            or decoding not in (None, Decoding.NUMBERS)
        ):
            raise form.error(
                "nulls_as_nan", f"is for numbers with fractions, not for {choice.dtype or htype or decoding}."
            )
