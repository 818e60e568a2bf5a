"""Values on their way into samples: what is copied, what is stored as it is, what is cut into tiles."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from lakebed.codecs.registry import byte_codec, file_codec
from lakebed.codecs.sample import Sample
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.errors import (
    InvalidInputError,
    SampleAppendError,
    SampleCompressionError,
    TensorDtypeMismatchError,
    TensorInvalidSampleShapeError,
)
from lakebed.htypes.partial import tiled
from lakebed.links.link import link, link_tiled
from lakebed.links.read import read
from lakebed.writing.encode.column import encode_column, encode_one, flattened
from lakebed.writing.encode.encoded import Column, Encoded
from lakebed.writing.encode.links import Linking
from unit_tests.effort import examples

COLOURS = np.arange(180, dtype="u1").reshape(3, 4, 5, 3)
FEEDS = {"_x_info": {"extend": "extend_info"}, "_x_shape": {"extend": "extend_shape"}}


def encode(values: Any, info: dict[str, Any] | None = None, **meta: Any) -> Column:
    return encode_column(values, TensorMeta(**meta), info or {}, "x")


def only(column: Column) -> Encoded:
    (part,) = column.parts
    return part


def png(array: np.ndarray[Any, Any]) -> bytes:
    out = io.BytesIO()
    Image.fromarray(array).save(out, "PNG")
    return out.getvalue()


def cause(error: pytest.ExceptionInfo[SampleAppendError]) -> BaseException | None:
    return error.value.__cause__


# -- files -------------------------------------------------------------------------------------------------------------


def test_files_of_the_tensors_own_kind_are_stored_as_they_are() -> None:
    """Not a byte changes, and what the header says is recorded."""
    data = png(COLOURS[0])
    part = only(encode([read(data), None, read(data)], htype="image", sample_compression="png", links=FEEDS))
    assert bytes(part.block.joined()) == data + data
    assert part.block.shape_array(3).tolist() == [[4, 5, 3], [0, 0, 0], [4, 5, 3]]
    expected = {"exif": {}, "shape": [4, 5, 3], "format": "png", "modified": False}
    assert part.infos is not None
    assert [dict(i) for i in part.infos] == [expected, {}, expected]
    assert (part.meta.dtype, part.meta.typestr) == ("uint8", "|u1")


def test_images_of_another_kind_are_encoded_anew(golden: Path) -> None:
    """Their description stays that of the file they came from."""
    file = read(golden / "_files" / "gray.jpg")
    part = only(encode([file], htype="image", sample_compression="png", links=FEEDS))
    assert bytes(part.block.joined())[:4] == b"\x89PNG"
    assert part.block.shape_array(3).tolist() == [[16, 24, 1]]
    assert part.infos is not None
    assert (part.infos[0]["format"], tuple(part.infos[0]["shape"])) == ("jpeg", (16, 24))
    assert part.infos[0]["filename"].endswith("gray.jpg")


@pytest.mark.parametrize("htype", ["image.rgb", "image.gray"])
def test_files_are_stored_as_they_are_only_in_the_right_colours(htype: str) -> None:
    """A grey file in a colour tensor is converted, and the other way round."""
    grey, colour = png(COLOURS[0, :, :, 0]), png(COLOURS[0])
    right, wrong = (grey, colour) if htype == "image.gray" else (colour, grey)
    part = only(encode([read(right), read(wrong)], htype=htype, dtype="uint8", sample_compression="png"))
    at = part.block.offsets().tolist()
    data = bytes(part.block.joined())
    assert data[: at[1]] == right
    assert data[at[1] :] != wrong
    assert {tuple(s) for s in part.block.shape_array(3).tolist()} == {
        (4, 5, 1 if htype == "image.gray" else 3)
    }


def test_decoded_files_go_into_plain_tensors() -> None:
    """Without a file compression a Sample is the array in it."""
    part = only(encode([read(png(COLOURS[0]))], htype="image", links=FEEDS))
    assert bytes(part.block.joined()) == COLOURS[0].tobytes()
    assert part.infos is not None
    assert part.infos[0]["format"] == "png"


def test_what_can_not_be_stored_as_such_a_file_says_so(golden: Path) -> None:
    """Arrays are no sound, sounds are no images, and a text is neither."""
    sound = {"htype": "audio", "dtype": "float64", "sample_compression": "wav"}
    with pytest.raises(SampleAppendError, match="read") as error:
        encode([np.zeros((20, 2))], **sound)
    assert isinstance(cause(error), SampleCompressionError)
    for name, meta in (("a.flac", sound), ("a.wav", {"sample_compression": "png"})):
        with pytest.raises(SampleAppendError, match="Recompression") as error:
            encode([read(golden / "_files" / name)], **meta)
        assert isinstance(cause(error), InvalidInputError)
    with pytest.raises(SampleAppendError) as error:
        encode(["text"], htype="image", sample_compression="png")
    assert isinstance(cause(error), TensorDtypeMismatchError)


def test_pillow_images_and_tensors_of_other_libraries_are_arrays() -> None:
    """Whatever offers ``__array__``, also when it must be detached first."""

    class Torch:
        requires_grad = True

        def detach(self) -> Torch:
            self.requires_grad = False
            return self

        def cpu(self) -> Torch:
            return self

        def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
            assert not self.requires_grad
            return np.array([1.5, 2.5], "f4")

    assert bytes(only(encode([Torch()])).block.joined()) == np.array([1.5, 2.5], "f4").tobytes()
    part = only(encode([Image.fromarray(COLOURS[0])], htype="image", chunk_compression="png"))
    assert bytes(part.block.joined()) == COLOURS[0].tobytes()


# -- arrays ------------------------------------------------------------------------------------------------------------


def test_large_arrays_stay_where_they_are() -> None:
    """They are borrowed, so that whoever keeps them must copy them; small ones are copied at once."""
    large = [np.zeros((200, 200, 3), "u1"), np.ones((100, 300, 3), "u1"), None]
    part = only(encode(large, htype="image"))
    assert not part.owned
    large[0][:] = 7  # type: ignore[index]  # the first is an array
    assert bytes(part.block.joined())[:1] == b"\7"
    small = [np.zeros((2, 3), "u1"), np.ones((1, 3), "u1")]
    part = only(encode(small))
    small[0][:] = 7
    assert bytes(part.block.joined()) == b"\0" * 6 + b"\1" * 3


def test_a_ragged_list_is_gathered_whatever_the_layout() -> None:
    """Views, other byte orders and mixtures give the same bytes as C-contiguous arrays."""
    base = np.arange(24, dtype="<i4").reshape(4, 6)
    forms = [base[:, ::2], np.asfortranarray(base), base.astype(">i4"), base.tolist(), None, base[:0]]
    part = only(encode(forms, dtype="int32"))
    expected = [np.ascontiguousarray(base[:, ::2]), base, base, base]
    assert bytes(part.block.joined()) == b"".join(a.astype("<i4").tobytes() for a in expected)
    assert part.block.shape_array(2).tolist() == [[4, 3], [4, 6], [4, 6], [4, 6], [0, 0], [0, 6]]


def test_arrays_of_any_width_fit_where_their_values_do() -> None:
    """300 is too much for uint8. But pixels keep their dtype: what 200 means depends on it, as in 3.9.52."""
    rows = [np.array([3, 4]), np.array([5])]
    for setting in ({"dtype": "int32"}, {"htype": "class_label", "dtype": "uint32"}, {"dtype": "float32"}):
        part = only(encode(rows, **setting))
        assert bytes(part.block.joined()) == np.array([3, 4, 5], setting["dtype"]).tobytes()
    for refused in ({"dtype": "uint8"}, {"htype": "class_label", "dtype": "uint32"}):
        with pytest.raises(SampleAppendError, match="does not fit"):
            encode([np.array([1, 300, -1])], **refused)
    assert only(encode([3, 255], dtype="uint8")).meta.dtype == "uint8"
    for sample in (np.full((4, 4, 3), 200), np.ones((4, 4, 3))):
        with pytest.raises(SampleAppendError, match="expected to be 'uint8'") as error:
            encode([sample], htype="image", dtype="uint8")
        assert isinstance(cause(error), TensorDtypeMismatchError)


def test_ranks_must_agree() -> None:
    """Within a call and with what is there; image tensors pad grey images."""
    with pytest.raises(SampleAppendError, match="expected to be 2") as error:
        encode([np.zeros((2, 2)), np.zeros(3)])
    assert isinstance(cause(error), TensorInvalidSampleShapeError)
    with pytest.raises(SampleAppendError):
        encode(np.zeros((2, 3)), max_shape=(4, 4), min_shape=(4, 4))
    part = only(encode([np.zeros((4, 5), "u1"), COLOURS[0]], htype="image"))
    assert part.block.shape_array(3).tolist() == [[4, 5, 1], [4, 5, 3]]


def test_images_that_a_chunk_could_not_hold_are_refused_at_once() -> None:
    """Not when the chunk is packed, which may be many rows later."""
    for wrong in (np.zeros((4, 5)), np.zeros((4, 5, 7), "u1"), np.zeros(5, "u1")):
        with pytest.raises(SampleAppendError) as error:
            encode([wrong], htype="image", chunk_compression="png")
        assert isinstance(cause(error), SampleCompressionError)


def test_labels_may_be_mixed_with_names() -> None:
    """New names get the next indices, wherever they are."""
    rows = [0, "b", None, ["a", "c"], np.array(["b"])]
    part = only(encode(rows, {"class_names": ["a"]}, htype="class_label", dtype="uint32"))
    assert np.frombuffer(part.block.joined(), "<u4").tolist() == [0, 1, 0, 2, 1]
    assert part.info == {"class_names": ["a", "b", "c"]}


def test_a_dtype_without_htype_means_numbers() -> None:
    """Text and dicts are refused; without a dtype they settle the htype."""
    for value in ("x", {"a": 1}):
        with pytest.raises(SampleAppendError):
            encode_one(value, TensorMeta(dtype="int64"), {}, "x")
    assert encode_one("x", TensorMeta(), {}, "x").parts[0].meta.htype == "text"
    documents: list[Any] = [{"a": 1}, [None, 1], [{"a": 1}], 2**70, np.array([None, 1], dtype=object)]
    for value in documents:
        assert encode_one(value, TensorMeta(), {}, "x").parts[0].meta.htype == "json"
    for value in (5, [1, 2], [[1], [2]], 2**63, np.arange(3), [True]):
        assert encode_one(value, TensorMeta(), {}, "x").parts[0].meta.htype == "generic"


# -- tiles -------------------------------------------------------------------------------------------------------------


def reassembled(part: Encoded, dtype: str, decode: Any) -> np.ndarray[Any, Any]:
    """Put the tiles of a sample back together."""
    assert part.tiled is not None
    shape, tile = part.tiled.sample_shape, part.tiled.tile_shape
    whole = np.zeros(shape, dtype)
    corners = np.ndindex(*[-(-extent // step) for extent, step in zip(shape, tile, strict=True)])
    for corner, (extents, data) in zip(corners, part.tiled.tiles(), strict=True):
        at = tuple(slice(c * t, c * t + e) for c, t, e in zip(corner, tile, extents, strict=True))
        whole[at] = decode(data).reshape(extents) if len(data) else 0
    return whole


def from_lz4(data: bytes) -> Any:
    codec = byte_codec("lz4")
    assert codec is not None
    return np.frombuffer(codec.decode(data, 10**6), "u1")


def from_png(data: bytes) -> Any:
    codec = file_codec("png")
    assert codec is not None
    return codec.decode(data)


TILED: dict[str, tuple[dict[str, Any], Any]] = {
    "raw": ({"htype": "generic"}, lambda data: np.frombuffer(data, "u1")),
    "lz4": ({"sample_compression": "lz4"}, from_lz4),
    "chunk lz4": ({"chunk_compression": "lz4"}, from_lz4),
    "png": ({"htype": "image", "sample_compression": "png"}, from_png),
    "chunk png": ({"htype": "image", "chunk_compression": "png"}, from_png),
}


@pytest.mark.parametrize("kind", TILED)
@settings(max_examples=examples(15))
@given(st.tuples(st.integers(20, 90), st.integers(20, 90)), st.integers(100, 3000))
def test_tiles_make_up_the_sample(kind: str, extents: tuple[int, int], threshold: int) -> None:
    """In C order, cropped at the borders, each compressed as the tensor asks."""
    meta, decode = TILED[kind]
    array = np.random.default_rng(0).integers(0, 256, (*extents, 3), dtype="u1")
    part = only(encode([array], **meta, tiling_threshold=threshold))
    if part.tiled is None:
        assert array.nbytes <= 2 * threshold
        return
    assert part.block.count == 1
    assert part.block.nbytes == 0
    assert part.block.shapes == array.shape
    assert np.array_equal(reassembled(part, "u1", decode), array)


def test_only_large_samples_are_tiled() -> None:
    """Each becomes a part of its own, and what lies between stays together."""
    small, large = np.zeros((5, 5), "u1"), np.ones((70, 90), "u1")
    column = encode([small, large, None, small, large, large], tiling_threshold=2000)
    assert [(p.block.count, p.tiled is not None) for p in column.parts] == [
        (1, False), (1, True), (2, False), (1, True), (1, True),
    ]  # fmt: skip
    assert column.flat_count == 6
    assert len(encode(np.ones((3, 70, 90), "u1"), tiling_threshold=2000).parts) == 3
    assert only(encode([large], tiling_threshold=-1)).tiled is None


def test_a_vector_that_can_not_be_cut_is_stored_whole() -> None:
    """3.9.52 fails on it: the only axis of other htypes than generic is never cut."""
    assert (
        only(encode([np.zeros(9000, "f4")], htype="embedding", dtype="float32", tiling_threshold=2000)).tiled
        is None
    )
    assert only(encode([np.zeros(9000, "f4")], tiling_threshold=2000)).tiled is not None


def test_promised_samples_are_tiles_without_data() -> None:
    """They read as zeros until they are assigned to."""
    column = encode([tiled((40, 50), (16, 16)), np.zeros((3, 3), "u1")], htype="generic", dtype="uint8")
    first, second = column.parts
    assert first.tiled is not None
    tiles = list(first.tiled.tiles())
    assert [shape for shape, _ in tiles][-1] == (8, 2)
    assert {bytes(data) for _, data in tiles} == {b""}
    assert (len(tiles), second.block.count) == (12, 1)
    part = only(encode([tiled((4000, 5000), dtype="f4")], htype="image", sample_compression="png"))
    assert part.tiled is not None
    assert (part.tiled.sample_shape, part.meta.dtype) == ((4000, 5000, 1), "float32")


# -- sequences ---------------------------------------------------------------------------------------------------------


@settings(max_examples=examples(60))
@given(st.lists(st.none() | st.lists(st.integers(0, 9), max_size=4), max_size=5))
def test_sequences_are_flattened(rows: list[list[int] | None]) -> None:
    """None is an empty sequence; the items keep their order."""
    items, counts = flattened(rows)
    assert list(items) == [item for row in rows for item in row or []]
    assert counts.tolist() == [len(row or []) for row in rows]
    assert counts.dtype == np.int64


def test_sequences_of_arrays_are_put_together_at_once() -> None:
    """Stacked, or ragged in their length only."""
    whole, counts = flattened(np.arange(24).reshape(2, 3, 4))
    assert isinstance(whole, np.ndarray)
    assert (whole.shape, counts.tolist()) == ((6, 4), [3, 3])
    whole, counts = flattened([np.zeros((2, 4)), np.ones((1, 4))])
    assert isinstance(whole, np.ndarray)
    assert (whole.shape, counts.tolist()) == ((3, 4), [2, 1])
    for wrong in (["abc"], [5], [{"a": 1}], np.arange(3), [Sample(array=np.arange(3))]):
        with pytest.raises(TensorDtypeMismatchError):
            flattened(wrong)


# -- links and pyramids ------------------------------------------------------------------------------------------------


def test_links_record_what_they_lead_to(golden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The address is stored as given; shape, dtype and description come from the file."""
    monkeypatch.chdir(golden)
    meta = {"htype": "image", "is_link": True, "sample_compression": "png", "links": FEEDS}
    part = only(encode([link("_files/a.png"), None, link("_files/gray.jpg")], **meta))
    assert bytes(part.block.joined()) == b"_files/a.png_files/gray.jpg"
    assert part.shapes is not None
    assert [tuple(s) for s in part.shapes] == [(17, 23, 3), (), (16, 24, 1)]
    assert part.infos is not None
    assert [i.get("format") for i in part.infos] == ["png", None, "jpeg"]
    assert part.meta.dtype == "uint8"
    assert part.creds is not None
    assert part.creds.tolist() == [0, 0, 0]
    for wrong in (
        "_files/a.png",
        5,
        COLOURS[0],
        link("_files/none.png"),
        link("_files/a.png", creds_key="K"),
    ):
        with pytest.raises(SampleAppendError):
            encode([wrong], **meta)

    class Names:
        def code(self, key: str | None) -> int:
            return [None, "J", "K"].index(key)

        def by_name(self, key: str | None, url: str) -> None:
            raise AssertionError

        by_code = by_name  # type: ignore[assignment]

    keyed = encode_column(
        [link("_files/a.png", creds_key="K")], TensorMeta(**meta, verify=False), {}, "x", Linking(Names())
    )
    assert only(keyed).creds is not None
    assert only(keyed).creds.tolist() == [2]  # type: ignore[union-attr]


def test_links_side_by_side_are_one_tiled_sample(golden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As large as all its files together."""
    monkeypatch.chdir(golden)
    grid = link_tiled([["_files/t0.png", "_files/t1.png"]])
    part = only(encode([grid], htype="image", is_link=True, sample_compression="png", links=FEEDS))
    assert part.tiled is not None
    assert (part.tiled.sample_shape, part.tiled.tile_shape) == ((20, 60, 3), (20, 30, 3))
    assert part.block.nbytes > 0


def test_pixels_are_there_for_pyramids() -> None:
    """Whatever the sample came as; nothing is decoded unless it is asked for."""
    links = {"_x_downsampled_2": {"extend": "extend_downsample"}}
    rows: list[Any] = [COLOURS[0], read(png(COLOURS[1])), None]
    for meta in ({"sample_compression": "png"}, {}, {"chunk_compression": "png"}):
        part = only(encode(rows, htype="image", links=links, **meta))
        assert part.pixels is not None
        assert np.array_equal(part.pixels(0), COLOURS[0])
        assert np.array_equal(part.pixels(1), COLOURS[1])
        assert part.pixels(2).size == 0
    part = only(encode(COLOURS, htype="image", links=links))
    assert part.pixels is not None
    assert np.array_equal(part.pixels(2), COLOURS[2])
