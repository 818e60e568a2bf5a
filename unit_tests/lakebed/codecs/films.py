"""Small videos and sounds, made by FFmpeg when a test asks for them."""

from __future__ import annotations

import functools
import io
import math
import wave

import av
import numpy as np
from numpy.typing import NDArray

SIZE = (24, 32)


@functools.cache
def film(
    container: str, codec: str = "mpeg4", *, frames: int = 30, gop: int = 12, b_frames: int = 0, rate: int = 5
) -> bytes:
    """A video whose frame number ``i`` is a gradient of its own."""
    target = io.BytesIO()
    with av.open(target, "w", format={"mkv": "matroska"}.get(container, container)) as out:
        stream = out.add_stream(codec, rate=rate)
        stream.height, stream.width = SIZE
        stream.pix_fmt = "yuv420p"
        stream.codec_context.gop_size = gop
        stream.codec_context.max_b_frames = b_frames
        for number in range(frames):
            picture = np.full((*SIZE, 3), number * 8 % 256, dtype=np.uint8)
            picture[:, :, 1] = np.arange(SIZE[1], dtype=np.uint8) * 4
            for packet in stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")):
                out.mux(packet)
        for packet in stream.encode():
            out.mux(packet)
    return target.getvalue()


def trimmed(data: bytes) -> bytes:
    """The mp4 file without its first second, cut by an edit list as a lossless cutter does it."""
    target = io.BytesIO()
    with av.open(io.BytesIO(data)) as source, av.open(target, "w", format="mp4") as out:
        stream = source.streams.video[0]
        copy = out.add_stream_from_template(stream)
        second = int(1 / stream.time_base)
        for packet in source.demux(stream):
            if packet.dts is not None:
                packet.pts -= second
                packet.dts -= second
                packet.stream = copy
                out.mux(packet)
    return target.getvalue()


def frames_of(data: bytes) -> NDArray[np.uint8]:
    """All frames as PyAV decodes them from the first to the last."""
    with av.open(io.BytesIO(data)) as container:
        return np.stack([frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)])


def tone(channels: int, samples: int = 5000) -> NDArray[np.int16]:
    """Sines, another one per channel: int16, shape (samples, channels)."""
    time = np.arange(samples)
    return np.stack([np.sin(time / (9 + k)) * 9000 for k in range(channels)], axis=1).astype(np.int16)


def wav(values: NDArray[np.int16], rate: int = 8000) -> bytes:
    """A 16-bit wav file, made without FFmpeg."""
    target = io.BytesIO()
    with wave.open(target, "wb") as out:
        out.setnchannels(values.shape[1])
        out.setsampwidth(2)
        out.setframerate(rate)
        out.writeframes(values.astype("<i2").tobytes())
    return target.getvalue()


@functools.cache
def sound(container: str, codec: str, channels: int = 2, samples: int = 5000, rate: int = 44100) -> bytes:
    """A sound file of :func:`tone`, encoded by FFmpeg."""
    layout = {1: "mono", 2: "stereo", 6: "5.1"}[channels]
    target = io.BytesIO()
    with av.open(target, "w", format=container) as out:
        stream = out.add_stream(codec, rate=rate)
        stream.codec_context.layout = layout
        frame = av.AudioFrame.from_ndarray(
            tone(channels, samples).reshape(1, -1), format="s16", layout=layout
        )
        frame.sample_rate = rate
        resampler = av.AudioResampler(format=stream.codec_context.format, layout=layout, rate=rate)
        for piece in [*resampler.resample(frame), *resampler.resample(None)]:
            for packet in stream.encode(piece):
                out.mux(packet)
        for packet in stream.encode():
            out.mux(packet)
    return target.getvalue()


def samples_of(data: bytes) -> NDArray[np.float32]:
    """All samples as PyAV decodes them, shape (samples, channels), whatever the decoder's layout."""
    parts = []
    with av.open(io.BytesIO(data)) as container:
        stream = container.streams.audio[0]
        for frame in container.decode(stream):
            values = frame.to_ndarray()
            parts.append(values.T if frame.format.is_planar else values.reshape(-1, frame.layout.nb_channels))
    return np.concatenate(parts).astype(np.float32)


def seconds(values: NDArray[np.float32], expected: list[float]) -> bool:
    """Whether times agree to a microsecond."""
    return len(values) == len(expected) and all(
        math.isclose(a, b, abs_tol=1e-6) for a, b in zip(values, expected, strict=True)
    )
