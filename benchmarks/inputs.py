"""Message files to replay: narrow user records of source-faker, and wide ones made of several users each."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CACHE = Path(os.environ.get("LAKEBED_BENCH", ROOT / ".cache/bench")).resolve()
"""Where inputs lie and stores are written to. ext4 without a journal, as some virtual machines have it, passes over
inodes that were deleted within the last minutes, one by one: who makes files after others were deleted pays for it.
"""
FAKER = ROOT / ".cache/venvs/faker/bin/source-faker"
USERS_IN_A_WIDE_RECORD = 11
STATE_EVERY = 1000


@dataclass(frozen=True)
class Input:
    """A file of messages of one stream, with its catalog beside."""

    name: str
    messages: Path
    catalog: Path
    records: int

    @property
    def size(self) -> int:
        return self.messages.stat().st_size


def configured(stream: dict[str, Any]) -> dict[str, Any]:
    """Catalog of one appended stream."""
    mode = {"sync_mode": "full_refresh", "destination_sync_mode": "append"}
    return {"streams": [{"stream": stream, **mode}]}


def narrow(records: int) -> Input:
    """User records of about 600 bytes, from source-faker; made once.

    Kept is what a platform would pass on to a destination: records and states.
    """
    made = Input("narrow", CACHE / f"users-{records}.jsonl", CACHE / "users-catalog.json", records)
    if made.messages.exists():
        return made
    print(f"recording {records:,} users of source-faker, once", flush=True)
    CACHE.mkdir(parents=True, exist_ok=True)
    config = CACHE / "faker.json"
    settings = {"count": records, "seed": 1, "parallelism": 1, "records_per_slice": STATE_EVERY}
    config.write_text(json.dumps(settings))
    found = subprocess.run([FAKER, "discover", "--config", config], stdout=subprocess.PIPE, check=True)
    catalogs = [json.loads(line) for line in found.stdout.splitlines() if b'"CATALOG"' in line]
    (users,) = [stream for stream in catalogs[0]["catalog"]["streams"] if stream["name"] == "users"]
    made.catalog.write_text(json.dumps(configured(users)))
    partial = made.messages.with_suffix(".partial")
    command: list[str | Path] = [FAKER, "read", "--config", config, "--catalog", made.catalog]
    with partial.open("wb") as out, subprocess.Popen(command, stdout=subprocess.PIPE) as source:
        assert source.stdout is not None
        out.writelines(
            line for line in source.stdout if line.startswith((b'{"type":"RECORD"', b'{"type":"STATE"'))
        )
    assert source.returncode == 0
    partial.rename(made.messages)
    return made


def wide(source: Input, records: int) -> Input:
    """Records of about 190 columns and 6 kB, each made of several users; made once."""
    made = Input("wide", CACHE / f"wide-{records}.jsonl", CACHE / "wide-catalog.json", records)
    if made.messages.exists():
        return made
    print(f"making {records:,} wide records of them, once", flush=True)
    stream = json.loads(source.catalog.read_text())["streams"][0]["stream"]
    properties = stream["json_schema"]["properties"]
    numbered = {f"{key}_{n}": kind for n in range(USERS_IN_A_WIDE_RECORD) for key, kind in properties.items()}
    columns = {"id": {"type": "integer"}, **numbered}
    described = {"name": "wide", "supported_sync_modes": ["full_refresh"]}
    made.catalog.write_text(json.dumps(configured({**described, "json_schema": {"properties": columns}})))
    partial = made.messages.with_suffix(".partial")
    with partial.open("w", encoding="utf-8") as out:
        users = _users(source)
        for number in range(records):
            data: dict[str, Any] = {"id": number}
            for n, user in enumerate(islice(users, USERS_IN_A_WIDE_RECORD)):
                data |= {f"{key}_{n}": value for key, value in user.items()}
            record = {"stream": "wide", "data": data, "emitted_at": 1_700_000_000_000 + number}
            out.write(_line({"type": "RECORD", "record": record}))
            if number % STATE_EVERY == STATE_EVERY - 1:
                inner = {"stream_descriptor": {"name": "wide"}, "stream_state": {"id": number}}
                out.write(_line({"type": "STATE", "state": {"type": "STREAM", "stream": inner}}))
    partial.rename(made.messages)
    return made


def beginning(whole: Input, records: int) -> Input:
    """The first records of an input, for the slope between a small and a large run."""
    made = Input(f"{whole.name} beginning", whole.messages.with_suffix(f".{records}"), whole.catalog, records)
    if not made.messages.exists():
        count = 0
        with whole.messages.open("rb") as lines, made.messages.open("wb") as out:
            for line in lines:
                count += b'"RECORD"' in line[:20]
                if count > records:
                    break
                out.write(line)
    return made


def _users(source: Input) -> Iterator[dict[str, Any]]:
    """Users without end: the file from the start again when it is used up."""
    while True:
        with source.messages.open("rb") as lines:
            yield from (json.loads(line)["record"]["data"] for line in lines if b'"RECORD"' in line[:20])


def _line(message: dict[str, Any]) -> str:
    return json.dumps(message, separators=(",", ":"), ensure_ascii=False) + "\n"
