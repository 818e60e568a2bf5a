"""Videos (format.md 5.3, 7): what is decoded, and how little of it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from lakebed import limits
from lakebed.codecs import video
from lakebed.codecs.registry import file_codec, sniff
from lakebed.codecs.video import Video
from lakebed.errors import FormatError, LimitError, SampleCompressionError, SampleDecompressionError
from unit_tests.effort import PATIENCE
from unit_tests.lakebed.codecs.films import SIZE, film, frames_of, seconds, trimmed

CONTAINERS = ["mp4", "mkv", "avi"]
KINDS = [("mpeg4", 0), ("mpeg4", 2), ("libx264", 2)]
SELECTIONS = [
    slice(0, 3), slice(1, 4), slice(14, 18), slice(3, 20, 4), slice(27, None), slice(None, None, -5),
    slice(None, None, -1), slice(25, 5, -7), slice(5, 5), slice(-4, -1), slice(0, 100, 29),
]  # fmt: skip


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize(("codec", "b_frames"), KINDS)
def test_every_frame_is_decoded_in_order(container: str, codec: str, b_frames: int) -> None:
    """The first and the last frame are there, also where the decoder delays (3.9.52 loses the first ones)."""
    data = film(container, codec, b_frames=b_frames)
    expected = frames_of(data)
    assert expected.shape == (30, *SIZE, 3)
    found = Video(container).decode(data)
    assert np.array_equal(found, expected)
    facts = Video(container).facts(data)
    assert (facts.shape, facts.dtype) == (found.shape, "uint8")


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize(("codec", "b_frames"), KINDS)
def test_parts_equal_the_whole(container: str, codec: str, b_frames: int) -> None:
    """Frames decoded from a key frame are those that a full decode gives."""
    data = film(container, codec, b_frames=b_frames)
    whole = frames_of(data)
    for selection in SELECTIONS:
        assert np.array_equal(Video(container).part(data, selection), whole[selection]), selection
    for number in (0, 1, 11, 12, 13, 29, -1, -30):
        assert np.array_equal(Video(container).part(data, number), whole[number]), number


FORKED = """
import os, sys, threading
from lakebed.codecs.video import Video

data, done, end = sys.stdin.buffer.read(), threading.Event(), threading.Event()

def work():
    Video("mp4").decode(data)
    done.set()
    end.wait()

thread = threading.Thread(target=work)
thread.start()
done.wait()
child = os.fork()
if not child:
    os._exit(0)
os.waitpid(child, 0)
end.set()
"""


def test_a_process_that_decoded_in_a_thread_can_fork() -> None:
    """The child frees what belongs to the thread, which has no other threads any more."""
    program = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKED]
    subprocess.run(program, input=film("mp4", "libx264"), timeout=PATIENCE, check=True)


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of frames that came out of decoders, one entry per run of one."""
    counts: list[int] = []
    frames = video.FrameReader._frames

    def counted(self: video.FrameReader, start: int) -> Iterator[object]:
        counts.append(0)
        for frame in frames(self, start):
            counts[-1] += 1
            yield frame

    monkeypatch.setattr(video.FrameReader, "_frames", counted)
    return counts


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize(
    ("selection", "most"),
    [(0, [1]), (29, [6]), (slice(24, 27), [3]), (slice(2, 26, 23), [3, 2]), (slice(25, 0, -24), [2, 2])],
)
def test_no_more_is_decoded_than_needed(
    container: str, selection: int | slice, most: list[int], decoded: list[int]
) -> None:
    """Decoding starts at the last of the key frames 0, 12, 24 before a wanted frame, and ends with it."""
    Video(container).part(film(container), selection)
    assert decoded == most


def test_a_full_decode_is_one_run(decoded: list[int]) -> None:
    """Key frames in between do not interrupt it."""
    Video("mp4").decode(film("mp4"))
    assert decoded == [30]


@pytest.mark.parametrize("container", CONTAINERS)
def test_facts_metadata_and_timestamps_decode_nothing(container: str, decoded: list[int]) -> None:
    """The container tells them."""
    data, codec = film(container), Video(container)
    assert codec.facts(data).shape == (30, *SIZE, 3)
    assert codec.metadata(data)["fps"] == 5.0
    times = codec.timestamps(data)
    assert times.dtype == np.float32
    assert seconds(times, [n / 5 for n in range(30)])
    assert seconds(codec.timestamps(data, slice(20, 2, -6)), [4.0, 2.8, 1.6])
    assert codec.timestamps(data, 7) == np.float32(1.4)
    assert decoded == []


def test_metadata_has_the_units_of_the_container() -> None:
    """Duration counts in units of timebase; mkv tells no stream duration, so microseconds of the whole file."""
    assert Video("mp4").metadata(film("mp4", frames=6)) == {
        "duration": 12288,
        "fps": 5.0,
        "timebase": 1 / 10240,
    }
    assert Video("mkv").metadata(film("mkv", frames=6)) == {"duration": 1200000, "fps": 5.0, "timebase": 1e-6}
    assert Video("avi").metadata(film("avi", frames=6)) == {"duration": 6, "fps": 5.0, "timebase": 0.2}


def test_a_container_that_lies_about_its_frames_is_counted() -> None:
    """The frame count in an mp4's or avi's header does not matter."""
    data = film("avi", frames=6)
    at = data.index(b"strh") + 8 + 32
    assert int.from_bytes(data[at : at + 4], "little") == 6
    lie = data[:at] + (1000).to_bytes(4, "little") + data[at + 4 :]
    assert Video("avi").facts(lie).shape[0] == 6
    assert np.array_equal(Video("avi").decode(lie), frames_of(data))


def test_the_bytes_decide_not_the_name() -> None:
    """An mp4 file in a tensor of mkv files reads."""
    data = film("mp4", frames=3)
    assert np.array_equal(Video("mkv").decode(data), frames_of(data))


@pytest.mark.parametrize("atom", [b"wide", b"free", b"skip"])
def test_a_quicktime_file_may_begin_with_a_small_atom(atom: bytes) -> None:
    whole = film("mov")
    data = whole[:4] + atom + whole[8:]  # in the place of the brand, which is optional in QuickTime
    assert sniff(data) == "mp4"
    np.testing.assert_array_equal(file_codec("mp4").decode(data), frames_of(whole))


def test_decoding_into_an_array() -> None:
    """A fitting array is filled; one of another shape is left alone."""
    data = film("mp4", frames=3)
    out = np.empty((3, *SIZE, 3), dtype=np.uint8)
    assert Video("mp4").decode(data, out) is out
    assert np.array_equal(out, frames_of(data))
    assert Video("mp4").decode(data, np.empty((2, *SIZE, 3), dtype=np.uint8)).shape[0] == 3


def test_a_frame_that_is_not_there() -> None:
    """An index beyond the end is an IndexError, as for arrays."""
    with pytest.raises(IndexError, match="30"):
        Video("mp4").part(film("mp4"), 30)
    with pytest.raises(IndexError):
        Video("mp4").timestamps(film("mp4"), -31)


def test_what_is_no_video() -> None:
    """Other bytes, sounds and truncated files are format errors that say so."""
    with pytest.raises(FormatError, match="not in the format mp4"):
        Video("mp4").facts(b"\x89PNG\r\n\x1a\n" + bytes(50))
    with pytest.raises(FormatError):
        Video("mp4").facts(b"")
    with pytest.raises(SampleDecompressionError):
        Video("mp4").decode(film("mp4")[:300])


def test_missing_frames_are_an_error_not_black_pictures() -> None:
    """A file whose last packets do not decode is damaged."""
    data = bytearray(film("mp4", "libx264", frames=12, gop=1))
    first = data.index(b"mdat") + 4
    end = data.index(b"moov") - 4
    data[first + (end - first) // 2 : end] = bytes(end - first - (end - first) // 2)
    with pytest.raises(SampleDecompressionError):
        Video("mp4").decode(bytes(data))


def test_limits_come_before_decoding(monkeypatch: pytest.MonkeyPatch, decoded: list[int]) -> None:
    """Pixels of a frame, frames, and bytes of the result are compared before anything is decoded."""
    data = film("mp4")
    for name, value in [("MAX_IMAGE_PIXELS", 700), ("MAX_MEDIA_FRAMES", 29), ("MAX_SAMPLE_BYTES", 60_000)]:
        with monkeypatch.context() as patch:
            patch.setattr(limits, name, value)
            with pytest.raises(LimitError) as caught:
                Video("mp4").decode(data)
            assert caught.value.limit == name
    monkeypatch.setattr(limits, "MAX_SAMPLE_BYTES", 60_000)
    assert Video("mp4").part(data, slice(5, 8)).shape[0] == 3
    assert len(decoded) == 1


def test_arrays_cannot_be_encoded() -> None:
    """The registry offers video codecs; they refuse arrays and say what to do."""
    codec = file_codec("mkv")
    assert codec is not None
    assert not codec.can_encode
    with pytest.raises(SampleCompressionError, match=r"lakebed\.read"):
        codec.encode(np.zeros((2, 4, 4, 3), np.uint8))


@pytest.mark.parametrize(("codec", "b_frames"), KINDS)
def test_frames_that_an_edit_list_hides_are_none(codec: str, b_frames: int) -> None:
    """A trimmed mp4 keeps the frames from the key frame on that its first shown frame depends on, and hides them."""
    data = trimmed(film("mp4", codec, b_frames=b_frames))
    expected = frames_of(data)
    assert len(expected) == 25
    assert Video("mp4").facts(data).shape == expected.shape
    assert np.array_equal(Video("mp4").decode(data), expected)
    assert np.array_equal(Video("mp4").part(data, slice(2, 20, 3)), expected[2:20:3])
    assert seconds(Video("mp4").timestamps(data), [n / 5 for n in range(25)])
