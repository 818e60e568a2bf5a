"""Rows of a machine-learning table through a real sync, read back as a training loop would: in batches of samples."""

from __future__ import annotations

import base64
import http.server
import io
import json
import os
import struct
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

import lakebed
from destination_deeplake.catalog import StreamPlan, WriteMode
from destination_deeplake.choices import ColumnChoice, Decoding, StreamChoices
from destination_deeplake.config import Place
from destination_deeplake.failures import ConfigError, FailureType, describe
from destination_deeplake.lake import Lake
from destination_deeplake.stream import transfers
from destination_deeplake.stream.transfers import StagedFileError
from destination_deeplake.stream.writer import open_stream
from destination_deeplake.wire import Wire
from integration_tests.connector import Connection, write_json
from unit_tests.effort import PATIENCE

Json = Any


def pixels(seed: int, height: int = 16) -> NDArray[np.uint8]:
    """A smooth picture, so that JPEG keeps it about as it is."""
    y, x = np.mgrid[:height, :24]
    return np.stack([(x * 7 + seed * 30) % 256, y * 9, np.full_like(x, seed * 20)], axis=2).astype(np.uint8)


def file_of(array: NDArray[Any], form: str) -> bytes:
    file = io.BytesIO()
    Image.fromarray(array).save(file, form)
    return file.getvalue()


def decoded(content: bytes) -> NDArray[Any]:
    return np.asarray(Image.open(io.BytesIO(content)))


def base64_of(content: bytes) -> str:
    return base64.b64encode(content).decode()


def sync(
    root: Path, a_plan: StreamPlan, *records: Mapping[str, Json], publish_every: int = 0
) -> lakebed.Dataset:
    """Sync records and open what came of it."""
    writer = open_stream(Lake(Place(str(root))), a_plan)
    wire = Wire({writer.plan.key: writer.table})
    for number, record in enumerate(records, 1):
        line = {
            "type": "RECORD",
            "record": {"stream": a_plan.name, "emitted_at": time.time_ns() // 1000, **record},
        }
        list(wire.feed(json.dumps(line).encode() + b"\n"))
        if publish_every and number % publish_every == 0:
            writer.publish()
    writer.publish()
    writer.finish()
    writer.commit("done")
    return lakebed.load(str(root / a_plan.name), read_only=True)


def changes(dataset: lakebed.Dataset) -> list[list[str]]:
    """Return the fields of each row that did not fit."""
    metas = dataset.read_columns(0, len(dataset), ["_airbyte_meta"])["_airbyte_meta"].to_pylist()
    return [[change["field"] for change in json.loads(meta)["changes"]] for meta in metas]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[bytes]]]:
    """A web server with pictures, and what they hold."""
    folder = tmp_path_factory.mktemp("web")
    contents = [file_of(pixels(n), "PNG" if n % 2 else "JPEG") for n in range(6)]
    for number, content in enumerate(contents):
        (folder / f"{number}.img").write_bytes(content)

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args, directory=str(folder))

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as found:
        thread = threading.Thread(target=found.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{found.server_port}", contents
        found.shutdown()
        thread.join()


SCHEMA = {
    "properties": {
        "id": {"type": "integer"},
        "photo": {"type": ["null", "string"]},
        "scan": {"type": ["null", "string"]},
        "web": {"type": ["null", "string"]},
        "vector": {"type": ["null", "array"]},
        "grid": {"type": ["null", "array"]},
        "label": {"type": ["null", "string"]},
        "text": {"type": ["null", "string"]},
        "score": {"type": ["null", "number"]},
        "age": {"type": ["null", "integer"]},
        "price": {"type": ["null", "number"]},
        "blob": {"type": ["null", "string"]},
        "address": {
            "type": ["null", "object"],
            "properties": {
                "city": {"type": "string"},
                "geo": {"type": "object", "properties": {"lat": {"type": "number"}}},
            },
        },
        "secret": {"type": "string"},
    }
}
CHOICES = StreamChoices(
    exclude=("secret",),
    flatten=True,
    chunk_bytes=1_000_000,
    columns={
        choice.column: choice
        for choice in (
            ColumnChoice("photo", tensor="images/photo", htype="image"),
            ColumnChoice("scan", htype="image", sample_compression="png"),
            ColumnChoice("web", decoding=Decoding.URL, creds_key="WEB"),
            ColumnChoice("vector", htype="embedding", shape=(4,)),
            ColumnChoice("grid", decoding=Decoding.NUMBERS, shape=(2, 3), dtype="int16"),
            ColumnChoice("label", htype="class_label", class_names=("cat",)),
            ColumnChoice("score", dtype="float32", nulls_as_nan=True),
            ColumnChoice("age", dtype="uint8"),
            ColumnChoice("price", decoding=Decoding.EXACT),
            ColumnChoice("blob", decoding=Decoding.BASE64),
        )
    },
)
JPEGS = [file_of(pixels(n, 16 + n), "JPEG") for n in range(6)]
LABELS = ["dog", "cat", None, "dog", "eel", "cat"]
VECTORS = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)


def rows(address: str) -> list[dict[str, Json]]:
    found: list[dict[str, Json]] = [
        {
            "id": n,
            "photo": base64_of(JPEGS[n]),
            "scan": base64_of(JPEGS[n]),
            "web": f"{address}/{n}.img",
            "vector": VECTORS[n].tolist(),
            "grid": [[n, 1, 2], [3, 4, 5]],
            "label": LABELS[n],
            "text": f"text {n} \u00e9",
            "score": n / 2,
            "age": n,
            "price": f"{n}.10",
            "blob": base64_of(bytes([n] * n)),
            "address": {"city": f"city {n}", "geo": {"lat": n / 4}},
            "secret": "hush",
        }
        for n in range(6)
    ]
    # Row 3 fits nowhere, row 4 has nothing.
    found[3] |= {"photo": base64_of(JPEGS[3][:-40]), "scan": base64_of(b"no picture"), "web": "/etc/passwd"}
    found[3] |= {
        "vector": [1, 2],
        "grid": [[1e9, 0, 0], [0, 0, 0]],
        "age": 256,
        "score": 1e300,
        "blob": "no base64!",
    }
    found[4] |= dict.fromkeys(
        ("photo", "scan", "web", "vector", "grid", "text", "score", "age", "price", "blob", "address")
    )
    return found


def form(choices: StreamChoices, stream: str) -> dict[str, Json]:
    """Return the choices as the form of the configuration has them."""
    entries = [
        {name: value for name, value in asdict(choice).items() if value not in (None, ())}
        for choice in choices.columns.values()
    ]
    return {
        "name": stream,
        "exclude": list(choices.exclude),
        "flatten": choices.flatten,
        "chunk_size_mb": (choices.chunk_bytes or 0) // 1_000_000,
        "columns": entries,
    }


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory, server: tuple[str, list[bytes]]) -> lakebed.Dataset:
    """The table after a sync by the connector's own process, from its configuration to its acknowledged state."""
    connection = Connection.make(tmp_path_factory.mktemp("lake"))
    config = {
        "destination_path": str(connection.lake),
        "streams": [form(CHOICES, "samples")],
        "rejected_records": "keep",
    }
    write_json(connection.folder / "config.json", config)
    stream = {"name": "samples", "json_schema": SCHEMA, "supported_sync_modes": ["full_refresh"]}
    configured = {"stream": stream, "sync_mode": "full_refresh", "destination_sync_mode": "append"}
    messages: list[Json] = [
        {"type": "RECORD", "record": {"stream": "samples", "emitted_at": 1, "data": row}}
        for row in rows(server[0])
    ]
    state = {"type": "STREAM", "stream": {"stream_descriptor": {"name": "samples"}, "stream_state": {"n": 6}}}
    messages.append({"type": "STATE", "state": state})
    lines = b"".join(json.dumps(message).encode() + b"\n" for message in messages)
    outcome = connection.sync({"streams": [configured]}, lines).succeeded()
    assert [
        message["state"]["destinationStats"]["recordCount"]
        for message in outcome.messages
        if message["type"] == "STATE"
    ] == [6]
    assert not any(b"hush" in line or b"etc/passwd" in line for line in outcome.output)
    return lakebed.load(str(connection.lake / "samples"), read_only=True)


def test_values_that_did_not_fit_are_kept_as_dead_letters(table: lakebed.Dataset) -> None:
    """Whether the reader refused them or their tensor did."""
    letters = lakebed.load(str(Path(table.path).parent / "_airbyte_dead_letters"), read_only=True)
    columns = letters.read_columns(0, len(letters), ["field", "text", "bytes", "raw_id"])
    found = {name: column.to_pylist() for name, column in columns.items()}
    texts = dict(zip(found["field"], found["text"], strict=True))
    assert sorted(texts) == ["age", "blob", "grid", "photo", "scan", "score", "vector", "web"]
    assert json.loads(texts["web"]) == "/etc/passwd"
    assert json.loads(texts["age"]) == 256
    assert json.loads(texts["photo"]) == base64_of(JPEGS[3][:-40])
    assert json.loads(texts["blob"]) == "no base64!"
    assert found["bytes"] == [len(text.encode()) for text in found["text"]]
    assert set(found["raw_id"]) == {table["_airbyte_raw_id"][3].text()}


GOOD = (0, 1, 2, 5)


def test_tensors_are_what_was_chosen(table: lakebed.Dataset) -> None:
    found = {name: tensor.htype for name, tensor in table.tensors.items() if not name.startswith("_airbyte")}
    assert found == {
        "id": "generic",
        "images/photo": "image",
        "scan": "image",
        "web": "link[image]",
        "vector": "embedding",
        "grid": "generic",
        "label": "class_label",
        "text": "text",
        "score": "generic",
        "age": "generic",
        "price": "text",
        "blob": "generic",
        "address/city": "text",
        "address/geo/lat": "generic",
    }
    assert table["images/photo"].meta.sample_compression == "jpeg"
    assert table["scan"].meta.sample_compression == "png"
    assert table["id"].meta.max_chunk_size == CHOICES.chunk_bytes
    assert {name: str(table[name].dtype) for name in ("grid", "score", "age", "blob")} == {
        "grid": "int16",
        "score": "float32",
        "age": "uint8",
        "blob": "uint8",
    }


def test_a_batch_of_decoded_samples_equals_the_originals(
    table: lakebed.Dataset, server: tuple[str, list[bytes]]
) -> None:
    lakebed.allow_links("127.0.0.1")
    table.populate_creds("WEB", {"headers": {}})
    [batch] = table.batches(6)
    for n in GOOD:
        assert np.array_equal(batch["images/photo"][n], decoded(JPEGS[n]))
        assert np.array_equal(batch["scan"][n], decoded(JPEGS[n]))
        assert np.array_equal(table["web"][n].numpy(), decoded(server[1][n]))
        assert np.array_equal(batch["vector"][n], VECTORS[n])
        assert np.asarray(batch["grid"][n]).tolist() == [[n, 1, 2], [3, 4, 5]]
        assert np.asarray(batch["blob"][n]).tolist() == [n] * n
        assert table["web"][n].creds_key() == "WEB"
    names = table["label"].info["class_names"]
    assert names == ["cat", "dog", "eel"]
    columns = table.read_columns(
        0, 6, ["id", "label", "text", "age", "price", "address/city", "address/geo/lat"]
    )
    found = {name: column.to_pylist() for name, column in columns.items()}
    assert found["id"] == list(range(6))
    assert [None if i is None else names[i] for i in found["label"]] == LABELS
    assert found["text"] == [None if n == 4 else f"text {n} \u00e9" for n in range(6)]
    assert found["age"] == [0, 1, 2, None, None, 5]
    assert found["price"] == [None if n == 4 else f"{n}.10" for n in range(6)]
    assert found["address/city"] == [None if n == 4 else f"city {n}" for n in range(6)]
    assert found["address/geo/lat"] == [None if n == 4 else n / 4 for n in range(6)]
    assert np.array_equal(np.ravel(table["score"].numpy()), [0, 0.5, 1, np.nan, np.nan, 2.5], equal_nan=True)


def test_a_file_of_the_compression_of_its_tensor_is_stored_byte_for_byte(table: lakebed.Dataset) -> None:
    for n in GOOD:
        assert table["images/photo"][n].tobytes() == JPEGS[n]


def test_what_does_not_fit_is_null_and_named_and_the_row_stays(table: lakebed.Dataset) -> None:
    found = changes(table)
    assert [row for row, fields in enumerate(found) if fields] == [3]
    assert sorted(found[3]) == ["age", "blob", "grid", "photo", "scan", "score", "vector", "web"]
    for name in ("images/photo", "scan", "vector", "grid", "blob"):
        assert [sample.size == 0 for sample in table[name].numpy(aslist=True)][1:5] == [
            False,
            False,
            True,
            True,
        ]
    assert [path[0] for path in table["web"].path()][3:5] == ["", ""]


@pytest.mark.interop
def test_deep_lake_reads_the_same_samples(table: lakebed.Dataset) -> None:
    """3.9.52 decodes the same pictures, vectors, labels and addresses."""
    program = """if True:
        import deeplake, json, sys
        ds = deeplake.load(sys.argv[1], read_only=True, verbose=False)
        found = {name: [s.tolist() for s in ds[name].numpy(aslist=True)] for name in sys.argv[2:]}
        found["web"] = [path[0] if len(path) else "" for path in ds["web"].path()]
        found["names"] = ds["label"].info.class_names
        print(json.dumps(found))
    """
    python = Path(__file__).parent.parent / ".cache/venvs/deeplake3/bin/python"
    names = ["images/photo", "scan", "vector", "grid", "label", "blob", "age", "address/geo/lat"]
    done = subprocess.run(
        [python, "-c", program, str(table.path), *names],
        check=True,
        capture_output=True,
        timeout=PATIENCE,
        env=os.environ | {"BUGGER_OFF": "true"},
    )
    theirs = json.loads(done.stdout.splitlines()[-1])
    ours = {name: [sample.tolist() for sample in table[name].numpy(aslist=True)] for name in names}
    ours |= {"web": [path[0] for path in table["web"].path()], "names": table["label"].info["class_names"]}
    assert theirs == ours


def test_what_was_left_out_is_nowhere(table: lakebed.Dataset) -> None:
    assert "secret" not in table.tensors
    assert not any(b"hush" in file.read_bytes() for file in Path(table.path).rglob("*") if file.is_file())


# -- files that come with records --------------------------------------------------------------------------------------

WAV = b"RIFF" + struct.pack(
    "<I4s4sIHHIIHH4sI", 52, b"WAVE", b"fmt ", 16, 1, 1, 8000, 16000, 2, 16, b"data", 16
)
WAV += bytes(range(16))


def file_plan(mode: WriteMode = WriteMode.APPEND) -> StreamPlan:
    return StreamPlan(None, "files", mode, {"properties": {"name": {"type": "string"}}}, include_files=True)


def staged(folder: Path, name: str, content: bytes, **more: Json) -> dict[str, Json]:
    path = folder / name
    path.write_bytes(content)
    reference = {
        "staging_file_url": str(path),
        "source_file_relative_path": f"in/{name}",
        "file_size_bytes": len(content),
    }
    return {"data": {"name": name}, "file_reference": reference | more}


def test_staged_files_become_samples_of_their_kind(tmp_path: Path) -> None:
    contents = {
        "a.jpg": JPEGS[0],
        "b.bin": JPEGS[1],
        "c.png": file_of(pixels(2), "PNG"),
        "d.wav": WAV,
        "e.txt": b"#define nothing",
        "f.jpg": JPEGS[5][:-40],
        "empty": b"",
    }
    records = [staged(tmp_path, name, content) for name, content in contents.items()]
    dataset = sync(tmp_path / "lake", file_plan(), *records, {"data": {"name": "none"}}, publish_every=2)
    kinds = [dataset[f"file/{n}"] for n in ("image", "image", "image_png", "audio", "bytes", "bytes")]
    for row, (tensor, content) in enumerate(zip(kinds, contents.values(), strict=False)):
        assert tensor[row].tobytes() == content
    assert sum(tensor.numpy(aslist=True)[7].size for tensor in kinds) == 0
    columns = dataset.read_columns(0, 8, ["file/name", "file/size", "file/type"])
    assert columns["file/name"].to_pylist() == [*(f"in/{name}" for name in contents), None]
    assert columns["file/size"].to_pylist() == [*map(len, contents.values()), None]
    assert columns["file/type"].to_pylist() == [
        "image/jpeg",
        "image/jpeg",
        "image/png",
        "audio/wav",
        *["application/octet-stream"] * 3,
        None,
    ]
    assert all((tmp_path / name).read_bytes() == content for name, content in contents.items())
    again = sync(tmp_path / "lake", file_plan(), staged(tmp_path, "g.png", contents["c.png"]))
    assert again["file/image_png"][8].tobytes() == contents["c.png"]
    assert set(again.tensors) == set(dataset.tensors)


def test_files_go_into_the_dataset_part_by_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfers, "PART_BYTES", 1000)
    contents = [os.urandom(size) for size in (300, 300, 900, 5000, 10, 10, 0, 999)]
    records = [staged(tmp_path, f"{n}.bin", content) for n, content in enumerate(contents)]
    dataset = sync(tmp_path / "lake", file_plan(), *records)
    assert [sample.tobytes() for sample in dataset["file/bytes"].numpy(aslist=True)] == contents
    names = dataset.read_columns(0, 8, ["name"])["name"].to_pylist()
    assert names == [f"{n}.bin" for n in range(8)]


def test_a_file_larger_than_a_sample_is_left_out_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfers, "MOST_BYTES", 100)
    records = [staged(tmp_path, "small", bytes(100)), staged(tmp_path, "large", bytes(101))]
    dataset = sync(tmp_path / "lake", file_plan(), *records)
    assert [sample.size for sample in dataset["file/bytes"].numpy(aslist=True)] == [100, 0]
    assert changes(dataset) == [[], ["file"]]
    assert dataset.read_columns(0, 2, ["file/size"])["file/size"].to_pylist() == [100, 101]


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"file_size_bytes": 4}, "has 3 bytes, not 4"),
        ({"staging_file_url": "/nowhere/at/all"}, "does not exist"),
        ({"staging_file_url": "relative"}, "no absolute path"),
        ({"staging_file_url": "/dev/null"}, "is not a file"),
    ],
)
def test_a_file_that_is_not_as_promised_ends_the_sync_and_may_be_tried_again(
    tmp_path: Path, more: dict[str, Json], says: str
) -> None:
    with pytest.raises(StagedFileError, match=says) as caught:
        sync(tmp_path / "lake", file_plan(), staged(tmp_path, "a", b"abc", **more))
    failure = describe(caught.value)
    assert failure.failure_type is FailureType.TRANSIENT
    assert "at/all" not in failure.message


def test_only_the_staging_folder_is_read_where_it_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "staging"
    folder.mkdir()
    monkeypatch.setenv(transfers.STAGING_VARIABLE, str(folder))
    url = f"file://{folder}/a%20b"
    sync(tmp_path / "lake", file_plan(), staged(folder, "a b", b"abc", staging_file_url=url))
    (folder / "link").symlink_to(tmp_path / "secret")
    outside = staged(tmp_path, "secret", b"abc", staging_file_url=str(folder / "link"))
    with pytest.raises(ConfigError, match="outside of the staging folder"):
        sync(tmp_path / "lake", file_plan(), outside)


# -- rows by key -------------------------------------------------------------------------------------------------------


def test_newer_rows_of_a_key_bring_newer_samples(tmp_path: Path) -> None:
    """Pictures, links, labels, vectors and staged files of updated rows take the place of the older ones."""
    schema = {
        "properties": {
            "id": {"type": "integer"},
            "photo": {"type": "string"},
            "web": {"type": "string"},
            "label": {"type": "string"},
            "vector": {"type": "array"},
        }
    }
    choices = {name: choice for name, choice in CHOICES.columns.items() if name in schema["properties"]}
    keyed = StreamPlan(
        None,
        "keyed",
        WriteMode.DEDUP,
        schema,
        primary_key=(("id",),),
        choices=StreamChoices(columns=choices),
        include_files=True,
    )

    def record(key: int, version: int) -> dict[str, Json]:
        n = key + version
        row = {"id": key, "photo": base64_of(JPEGS[n]), "web": f"https://e.org/{n}", "label": f"label {n}"}
        found = staged(tmp_path, f"{key}-{version}", JPEGS[n] if version else b"bytes")
        return found | {"data": row | {"vector": VECTORS[n].tolist()}}

    sync(tmp_path / "lake", keyed, *(record(key, 0) for key in range(4)))
    dataset = sync(tmp_path / "lake", keyed, record(1, 2), record(4, 1), record(2, 3), publish_every=1)
    now = {0: 0, 1: 3, 2: 5, 3: 3, 4: 5}
    ids = dataset.read_columns(0, len(dataset), ["id"])["id"].to_pylist()
    assert sorted(ids) == sorted(now)
    for row, key in enumerate(ids):
        n, is_new = now[key], key in (1, 2, 4)
        assert dataset["images/photo"][row].tobytes() == JPEGS[n]
        assert dataset["web"].path()[row][0] == f"https://e.org/{n}"
        assert dataset["label"].info["class_names"][int(dataset["label"][row].numpy()[0])] == f"label {n}"
        assert np.array_equal(dataset["vector"][row].numpy(), VECTORS[n])
        file, other = ("file/image", "file/bytes") if is_new else ("file/bytes", "file/image")
        assert dataset[file][row].tobytes() == (JPEGS[n] if is_new else b"bytes")
        assert dataset[other][row].numpy().size == 0
