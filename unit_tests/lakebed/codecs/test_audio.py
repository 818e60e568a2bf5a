"""Sounds (format.md 5.3, 7)."""

from __future__ import annotations

import numpy as np
import pytest

from lakebed import limits
from lakebed.codecs.audio import Audio
from lakebed.errors import FormatError, LimitError, SampleCompressionError
from unit_tests.lakebed.codecs.films import samples_of, sound, tone, wav

SELECTIONS = [
    slice(5, 9), slice(1000, 3000, 7), slice(None, None, -1), slice(-10, None), slice(3000, 1000, -13), slice(9, 9),
]  # fmt: skip
FILES = {
    "wav, one channel": ("wav", lambda: wav(tone(1))),
    "wav, two channels": ("wav", lambda: wav(tone(2))),
    "wav, six channels": ("wav", lambda: wav(tone(6))),
    "wav, 24 bits": ("wav", lambda: sound("wav", "pcm_s24le")),
    "wav, floats": ("wav", lambda: sound("wav", "pcm_f32le")),
    "wav, bytes": ("wav", lambda: sound("wav", "pcm_u8", 1)),
    "flac, one channel": ("flac", lambda: sound("flac", "flac", 1)),
    "flac, two channels": ("flac", lambda: sound("flac", "flac")),
    "mp3, one channel": ("mp3", lambda: sound("mp3", "mp3", 1)),
    "mp3, two channels": ("mp3", lambda: sound("mp3", "mp3")),
}


@pytest.mark.parametrize("kind", FILES)
def test_decoding(kind: str) -> None:
    """Shape (samples, channels) float32, also where the decoder interleaves channels (3.9.52 fails on those)."""
    name, make = FILES[kind]
    data = make()
    expected = samples_of(data)
    found = Audio(name).decode(data)
    assert found.dtype == np.float32
    assert np.array_equal(found, expected)
    facts = Audio(name).facts(data)
    assert (facts.shape, facts.dtype) == (expected.shape, "float32")
    for selection in SELECTIONS:
        assert np.array_equal(Audio(name).part(data, selection), expected[selection]), selection
    for number in (0, 100, -1):
        assert np.array_equal(Audio(name).part(data, number), expected[number])


def test_values_are_those_of_the_file() -> None:
    """Integers are not scaled to -1 ... 1."""
    values = tone(2)
    assert np.array_equal(Audio("wav").decode(wav(values)), values.astype(np.float32))
    assert np.array_equal(Audio("flac").decode(sound("flac", "flac")), values.astype(np.float32))


def test_padding_of_an_mp3_encoder_is_cut_off() -> None:
    """The samples are those that went in, not whole packets."""
    assert Audio("mp3").facts(sound("mp3", "mp3", samples=5000)).shape == (5000, 2)


def test_decoding_into_wider_floats() -> None:
    """Audio tensors are float64: an array of that dtype is filled directly."""
    data = wav(tone(2))
    out = np.empty((5000, 2))
    assert Audio("wav").decode(data, out) is out
    assert np.array_equal(out, tone(2))


def test_metadata() -> None:
    """Rates, channels and format, as the header says."""
    assert Audio("wav").metadata(wav(tone(2))) == {
        "duration": 5000, "time_base": 1 / 8000, "sample_rate": 8000, "frame_size": 0, "nchannels": 2,
        "sample_format": "s16",
    }  # fmt: skip


def test_what_is_no_sound() -> None:
    """Other bytes are format errors; arrays cannot be encoded."""
    with pytest.raises(FormatError):
        Audio("wav").decode(b"RIFF")
    with pytest.raises(FormatError):
        Audio("mp3").facts(b"\xff\xfb" + bytes(100))
    with pytest.raises(IndexError):
        Audio("wav").part(wav(tone(1)), 5000)
    with pytest.raises(SampleCompressionError):
        Audio("mp3").encode(np.zeros((4, 1)))


@pytest.mark.parametrize(
    ("name", "value"), [("MAX_AUDIO_CHANNELS", 1), ("MAX_MEDIA_SECONDS", 0.5), ("MAX_SAMPLE_BYTES", 39_999)]
)
def test_limits(name: str, value: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Channels, seconds and bytes are compared before decoding."""
    monkeypatch.setattr(limits, name, value)
    with pytest.raises(LimitError) as caught:
        Audio("wav").decode(wav(tone(2)))
    assert caught.value.limit == name
