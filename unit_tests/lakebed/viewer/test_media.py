"""Films and sounds: by ranges, of which no more than that is read, and by tickets."""

from __future__ import annotations

import base64
import io
import wave
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import lakebed
from lakebed.viewer.media import ranged
from unit_tests.lakebed.codecs.films import film
from unit_tests.lakebed.viewer.contract import Types
from unit_tests.lakebed.viewer.served import Served

SIZE = 3_000_044
NAME = "far/a sound"


def tone(seconds: float, rate: int = 8000) -> bytes:
    """Return a WAV file."""
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        times = np.arange(int(seconds * rate)) / rate
        file.writeframes((16000 * np.sin(2 * np.pi * 1000 * times)).astype("<i2").tobytes())
    return out.getvalue()


@pytest.fixture(scope="module")
def long() -> bytes:
    return tone(SIZE / 16000)[:SIZE]


@pytest.fixture(scope="module")
def sounds(tmp_path_factory: pytest.TempPathFactory, long: bytes) -> Iterator[Served]:
    path = tmp_path_factory.mktemp("media") / "sounds"
    ds = lakebed.empty(path)
    ds.create_tensor(NAME, htype="audio", sample_compression="wav")
    for content in (tone(0.1), long, tone(0.2)):
        ds[NAME].append(lakebed.read(content))
    ds.close()
    server = Served(path)
    yield server
    server.close()


def test_ranges_of_a_file(sounds: Served, long: bytes) -> None:
    """206 with the bytes that are asked for, no more than a piece; 416 for what is none of them; else all of it."""
    whole = sounds.get(0, "media", NAME, 1)
    assert (whole.status, whole.headers["content-type"], whole.headers["accept-ranges"]) == (
        200,
        "audio/wav",
        "bytes",
    )
    assert whole.body == long
    for asked, start, stop in (
        ("0-9", 0, 10),
        ("5-5", 5, 6),
        ("-7", SIZE - 7, SIZE),
        (f"{SIZE - 3}-", SIZE - 3, SIZE),
    ):
        part = sounds.get(0, "media", NAME, 1, headers={"Range": f"bytes={asked}"})
        assert (part.status, part.body) == (206, long[start:stop])
        assert part.headers["content-range"] == f"bytes {start}-{stop - 1}/{SIZE}"
    part = sounds.get(0, "media", NAME, 1, headers={"Range": "bytes=1000-"})
    assert (part.status, part.body) == (206, long[1000 : 1000 + (1 << 20)])
    for asked in (f"{SIZE}-", "9-3", "-", "x-y", "-0", f"{10**17}-"):
        none = sounds.get(0, "media", NAME, 1, headers={"Range": f"bytes={asked}"})
        assert (none.status, none.headers["content-range"]) == (416, f"bytes */{SIZE}")
        assert none.kind == "range"
    several = sounds.get(0, "media", NAME, 1, headers={"Range": "bytes=0-1,5-6"})
    assert (several.status, len(several.body)) == (200, SIZE)


def test_a_part_of_a_file_reads_no_more(tmp_path: Path) -> None:
    """Of a large chunk, the part and what checksums need."""
    ds = lakebed.empty(tmp_path / "ds")
    ds.create_tensor("sound", htype="audio", sample_compression="wav")
    content = tone(1500)
    ds.sound.append(lakebed.read(content))
    ds.flush()
    reader = lakebed.load(tmp_path / "ds", read_only=True)._session.reader("sound", "sound")
    read: list[int] = []
    piece = reader.source.piece
    reader.source.piece = lambda *args: (read.append(args[2]), piece(*args))[1]
    part, size = reader.stored_part(0, 20_000_000, 20_001_000)
    assert (bytes(part), size) == (content[20_000_000:20_001_000], len(content))
    assert sum(read) < 10_000
    assert bytes(reader.stored_part(0, len(content) + 5, len(content) + 9)[0]) == b""


def test_how_fast_a_film_is_comes_with_its_ticket(tmp_path: Path, sounds: Served) -> None:
    """As the file says it; of a sound, and of what is no file of either, nothing."""
    ds = lakebed.empty(tmp_path / "ds")
    with ds:
        ds.create_tensor("film", htype="video", sample_compression="mp4")
        ds.create_tensor("note", htype="text")
        ds.append({"film": lakebed.read(film("mp4", rate=5)), "note": "five a second"})
    server = Served(tmp_path / "ds")
    assert server.get(0, "media", "film", 0, "ticket").json["rate"] == 5
    assert server.get(0, "media", "note", 0, "ticket").kind == "invalid"
    server.close()
    assert sounds.get(0, "media", NAME, 1, "ticket").json["rate"] is None


def test_a_ticket_opens_one_sample(sounds: Served) -> None:
    """Without the token; and nothing else than that."""
    told = sounds.get(0, "media", NAME, 1, "ticket")
    ticket = told.json["ticket"]
    path = "/v1/0/media/far%2Fa%20sound/1"
    part = sounds.raw(f"{path}?ticket={ticket}", headers={"Range": "bytes=0-3"})
    assert (part.status, part.body) == (206, b"RIFF")
    for other in (
        f"/v1/0/media/far%2Fa%20sound/2?ticket={ticket}",
        f"{path}?ticket={ticket}&at=main",
        f"{path}?ticket={ticket[:-1]}",
        f"{path}/ticket?ticket={ticket}", f"/v1/0/sound/far%2Fa%20sound/1?ticket={ticket}", f"/v1/lake?ticket={ticket}",
        f"{path}?ticket={ticket}&ticket={ticket}", path,
    ):  # fmt: skip
        assert sounds.raw(other).status == 401


def test_what_a_sound_looks_like(sounds: Served) -> None:
    """Peaks reach as far as the sound does, and the spectrogram is bright at its pitch."""
    found = sounds.get(0, "sound", NAME, 2).json
    assert Types().faults(found, "Sound") == []
    assert (found["rate"], found["channels"], found["seconds"]) == (8000, 1, 0.2)
    peaks = np.array(found["peaks"])
    assert peaks.max() == pytest.approx(16000 / 32768, abs=0.01)
    picture = found["spectrogram"]
    pixels = np.frombuffer(base64.b64decode(picture["data"]), np.uint8).reshape(
        picture["height"], picture["width"]
    )
    assert pixels.mean(axis=1).argmax() == pytest.approx(32, abs=1)  # 1,000 of 4,000 Hz


def test_names_with_commas(sounds: Served) -> None:
    """A comma in the name of a column is written with a backslash before it."""
    answer = sounds.post(0, "query", text='SELECT ROW_NUMBER() AS "a,b"').json
    rows = sounds.get(0, "rows", q=answer["q"], tensors="a\\,b").json
    assert rows["cells"] == {"a,b": [{"v": 0}, {"v": 1}, {"v": 2}]}
    assert sounds.get(0, "rows", q=answer["q"], tensors="a,b").status == 404


@pytest.mark.parametrize("header", ["items=0-1", "bytes=0-1,3-4", "bytes", "", None])
def test_ranges_that_are_not_for_us(header: str | None) -> None:
    if header == "bytes":
        with pytest.raises(IndexError):
            ranged(header, 10)
    else:
        assert ranged(header, 10) is None
