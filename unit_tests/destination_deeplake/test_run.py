"""The connector as a process: command line, messages, signals, broken pipes."""

import fcntl
import json
import os
import resource
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any

import pytest

import lakebed
from destination_deeplake import __version__, command_line
from destination_deeplake.messages import specification
from destination_deeplake.run import _ordinary as command_line_of_run
from unit_tests.effort import PATIENCE

RUN = [sys.executable, "-m", "destination_deeplake"]
SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """Configuration and catalog files for one stream in `tmp_path`/lake."""
    contents = {
        "config": {"destination_path": str(tmp_path / "lake")},
        "catalog": {
            "streams": [
                {
                    "stream": {"name": "users", "json_schema": SCHEMA},
                    "destination_sync_mode": "append",
                    "sync_id": 5,
                }
            ]
        },
    }
    for name, content in contents.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return {name: str(tmp_path / f"{name}.json") for name in contents}


def write_command(files: dict[str, str]) -> list[str]:
    return [*RUN, "write", "--config", files["config"], "--catalog", files["catalog"]]


def record(number: int) -> bytes:
    message = {"type": "RECORD", "record": {"stream": "users", "data": {"id": number}, "emitted_at": 1}}
    return json.dumps(message).encode() + b"\n"


def state(number: int) -> bytes:
    descriptor = {"stream_descriptor": {"name": "users"}}
    return (
        json.dumps(
            {"type": "STATE", "state": {"type": "STREAM", "stream": descriptor, "id": number}}
        ).encode()
        + b"\n"
    )


def run(command: list[str], stdin: bytes = b"") -> tuple[int, list[dict[str, Any]], str]:
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=PATIENCE, check=False)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr.decode()


def log_lines(messages: list[dict[str, Any]]) -> list[str]:
    return [message["log"]["message"] for message in messages if message["type"] == "LOG"]


def ids(files: dict[str, str]) -> list[int]:
    path = Path(files["config"]).parent / "lake" / "users"
    return [int(number) for number in lakebed.load(str(path), read_only=True)["id"].numpy().reshape(-1)]


def unread(pipe: int) -> int:
    """Return the number of bytes that nobody has read yet."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


def commit_message(files: dict[str, str]) -> str:
    path = Path(files["config"]).parent / "lake" / "users"
    return str(lakebed.load(str(path), read_only=True).commits[0]["message"])


def test_spec_prints_the_specification_and_imports_nothing_heavy() -> None:
    code = "import sys; from destination_deeplake.run import main; main(['spec']); print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=PATIENCE, check=True)
    spec, modules = done.stdout.splitlines()
    assert json.loads(spec) == {"type": "SPEC", "spec": specification()}
    assert not {name.split(".")[0] for name in eval(modules)} & {"airbyte_cdk", "pyarrow", "numpy", "lakebed"}


def test_write_does_not_need_the_cdk(files: dict[str, str]) -> None:
    code = "import sys; sys.modules['airbyte_cdk'] = None; from destination_deeplake.run import run; run()"
    command = [sys.executable, "-c", code, *write_command(files)[3:]]
    status, messages, _ = run(command, record(1) + state(1))
    assert status == 0
    assert [message["type"] for message in messages if message["type"] != "LOG"] == ["STATE"]


def test_a_sync_writes_acknowledges_and_reports(files: dict[str, str]) -> None:
    status, messages, stderr = run(write_command(files), record(1) + record(2) + state(7))
    assert (status, stderr) == (0, "")
    assert [message["state"]["id"] for message in messages if message["type"] == "STATE"] == [7]
    assert "Wrote 2 records of 1 streams" in messages[-1]["log"]["message"]
    assert messages[-1]["log"]["message"].endswith("By stream: users 2.")
    assert [log["log"]["level"] for log in messages if log["type"] == "LOG"] == ["INFO"] * 5
    assert ids(files) == [1, 2]
    assert commit_message(files).splitlines() == [
        "Airbyte sync 5, complete: users 2 records",
        "states 1, after 2 records",
    ]


def test_a_bad_line_is_a_system_error_with_its_number_and_no_content(files: dict[str, str]) -> None:
    status, messages, stderr = run(
        write_command(files), record(1) + state(7) + b'{"secret": }\n' + record(2) + state(8)
    )
    assert status == 1
    assert [message["state"]["id"] for message in messages if message["type"] == "STATE"] == [7]
    error = messages[-1]["trace"]["error"]
    assert error["failure_type"] == "system_error"
    assert "Line 3 of the input" in error["message"]
    assert "secret" not in json.dumps(messages) + stderr
    assert ids(files) == [1]
    assert "incomplete" in commit_message(files)


def test_a_wrong_catalog_is_a_config_error(files: dict[str, str]) -> None:
    Path(files["catalog"]).write_text("{}", encoding="utf-8")
    status, messages, _ = run(write_command(files))
    assert status == 1
    error = messages[-1]["trace"]["error"]
    assert (error["failure_type"], error["message"]) == (
        "config_error",
        "The catalog has no list of streams under `streams`.",
    )


def test_a_wrong_command_line_ends_with_status_2() -> None:
    for arguments in ([], ["discover"], ["write", "--config", "x"]):
        status, messages, stderr = run([*RUN, *arguments])
        assert (status, messages) == (2, [])
        assert "usage" in stderr


def test_sigterm_publishes_acknowledges_and_commits_what_came(files: dict[str, str]) -> None:
    with subprocess.Popen(write_command(files), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(state(6))
        process.stdin.flush()
        assert next(found for found in map(json.loads, process.stdout) if found["type"] == "STATE")
        process.stdin.write(record(1) + state(7) + record(2) + b'{"half of a line')
        process.stdin.flush()
        while unread(process.stdin.fileno()):
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        messages = [json.loads(line) for line in process.stdout.read().splitlines()]
        assert process.wait(PATIENCE) == 143
    assert "Stopped by SIGTERM; writing the records received so far." in log_lines(messages)
    assert [message["state"]["id"] for message in messages if message["type"] == "STATE"] == [7]
    assert ids(files) == [1, 2]
    assert "incomplete" in commit_message(files)


def test_a_platform_that_hangs_up_does_not_cost_rows(files: dict[str, str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with subprocess.Popen(
        write_command(files), stdin=subprocess.PIPE, stdout=writer, stderr=subprocess.PIPE
    ) as process:
        os.close(writer)
        _, stderr = process.communicate(record(1) + state(7), timeout=PATIENCE)
    assert process.returncode == 1
    assert b"Standard output has no reader any more" in stderr
    assert ids(files) == [1]


def test_check_leaves_no_trace(files: dict[str, str]) -> None:
    status, messages, _ = run([*RUN, "check", "--config", files["config"]])
    assert (status, messages) == (
        0,
        [{"type": "CONNECTION_STATUS", "connectionStatus": {"status": "SUCCEEDED"}}],
    )
    assert not (Path(files["config"]).parent / "lake").exists()


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("lake", "must be an absolute path"),
        ("ftp://bucket", "destination_path: datasets cannot be written to ftp://"),
        ("{folder}/config.json/lake", "is a file, not a folder"),
        ("/proc/lake", "destination_path /proc/lake cannot be used"),
    ],
)
def test_check_says_what_to_change(files: dict[str, str], value: str, words: str) -> None:
    config = Path(files["config"])
    config.write_text(json.dumps({"destination_path": value.format(folder=config.parent)}), encoding="utf-8")
    status, messages, _ = run([*RUN, "check", "--config", str(config)])
    assert status == 0
    [message] = messages
    assert message["connectionStatus"]["status"] == "FAILED"
    assert words in message["connectionStatus"]["message"]


def test_a_misspelt_setting_fails_check_and_write_before_anything_is_stored(files: dict[str, str]) -> None:
    config = Path(files["config"])
    lake = config.parent / "lake"
    rule = {"name": "users", "excludes": ["id"]}
    config.write_text(json.dumps({"destination_path": str(lake), "streams": [rule]}), encoding="utf-8")
    status, [checked], _ = run([*RUN, "check", "--config", str(config)])
    assert (status, checked["connectionStatus"]["status"]) == (0, "FAILED")
    assert "did you mean exclude?" in checked["connectionStatus"]["message"]
    status, messages, _ = run(write_command(files), record(1) + state(1))
    assert (status, messages[-1]["trace"]["error"]["failure_type"]) == (1, "config_error")
    assert not [message for message in messages if message["type"] == "STATE"]
    assert not lake.exists()


def test_what_others_are_to_read_is_no_warning(files: dict[str, str]) -> None:
    """Logs, estimates and statuses come with every healthy sync."""
    estimate = {"type": "TRACE", "trace": {"type": "ESTIMATE", "emitted_at": 1, "estimate": {}}}
    others = [{"type": "LOG", "log": {"level": "INFO", "message": "fetched"}}, estimate, {"type": "NEW_KIND"}]
    given = b"".join(json.dumps(message).encode() + b"\n" for message in others) + record(1) + state(1)
    status, messages, stderr = run(write_command(files), given)
    assert (status, stderr) == (0, "")
    assert {message["log"]["level"] for message in messages if message["type"] == "LOG"} == {"INFO"}
    _, messages, _ = run([*write_command(files), "--debug"], given)
    text = "3 messages were for others: 1 LOG messages, 1 NEW_KIND messages, 1 TRACE ESTIMATE messages."
    assert text in log_lines(messages)


def test_a_user_reads_sentences_and_no_python(files: dict[str, str]) -> None:
    """Neither in the log nor in the trace nor on standard error; only a defect of ours has a stack trace."""
    Path(files["catalog"]).write_text("{}", encoding="utf-8")
    _, messages, stderr = run(write_command(files))
    assert stderr == ""
    assert "stack_trace" not in messages[-1]["trace"]["error"]
    assert not [text for text in log_lines(messages) if "File " in text or "\n" in text]


def test_a_publish_that_failed_is_not_tried_again_while_the_process_ends(files: dict[str, str]) -> None:
    """Nobody would hear of it, and a platform takes each line on standard error for an error."""

    def small_files_only() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    given = b"".join(map(record, range(50_000))) + state(1)
    done = subprocess.run(
        write_command(files),
        input=given,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},  # it would be cut off, too
        preexec_fn=small_files_only,
    )
    assert (done.returncode, done.stderr) == (1, b"")
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    assert "File too large" in messages[-1]["trace"]["error"]["message"]
    assert not [
        text for text in log_lines(messages) if "Traceback" in text or "File " in text.replace("File too", "")
    ]
    assert not [message for message in messages if message["type"] == "STATE"]
    status, messages, _ = run(write_command(files), given)
    assert status == 0
    assert ids(files) == list(range(50_000))


def test_the_version_can_be_asked_for() -> None:
    done = subprocess.run([*RUN, "--version"], capture_output=True, timeout=PATIENCE, check=True)
    assert done.stdout.decode() == f"destination-deeplake {__version__}\n"


def test_classes_that_a_sync_adds_are_not_told_among_the_messages(files: dict[str, str]) -> None:
    """Standard output is the protocol's; the names are in the dataset."""
    config = json.loads(Path(files["config"]).read_text())
    config["streams"] = [{"name": "users", "columns": [{"column": "kind", "htype": "class_label"}]}]
    Path(files["config"]).write_text(json.dumps(config))
    catalog = json.loads(Path(files["catalog"]).read_text())
    catalog["streams"][0]["stream"]["json_schema"] = {"properties": {"kind": {"type": "string"}}}
    Path(files["catalog"]).write_text(json.dumps(catalog))
    rows = [{"stream": "users", "data": {"kind": kind}, "emitted_at": 1} for kind in ("a", "b", "a")]
    lines = b"".join(json.dumps({"type": "RECORD", "record": row}).encode() + b"\n" for row in rows)
    code, found, stderr = run(write_command(files), lines + state(1))
    assert (code, stderr) == (0, "")
    assert found
    dataset = lakebed.load(Path(files["config"]).parent / "lake" / "users", read_only=True)
    assert dataset["kind"].info.class_names == ["a", "b"]


def test_the_connector_imports_and_exports_too(tmp_path: Path) -> None:
    """The commands of lakebed are there under the connector's name, which is what the image runs."""
    (tmp_path / "people.csv").write_text("name,age\nada,36\n")
    program = "from destination_deeplake.run import run; run()"
    for arguments in (["import", "csv", "people.csv", "lake"], ["import", "--help"], ["export", "--help"]):
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "lake").is_dir()


def test_the_specification_needs_no_library() -> None:
    """A platform asks for it often; a sync of plain columns goes without PyArrow's functions, a third of its start."""
    assert _loaded(["spec"]) == {"lakebed": False, "numpy": False, "pyarrow.compute": False}


def test_a_sync_of_plain_columns_starts_without_functions_of_arrow(files: dict[str, str]) -> None:
    record = {"type": "RECORD", "record": {"stream": "users", "data": {"id": 1}, "emitted_at": 1}}

    found = _loaded(
        ["write", "--config", files["config"], "--catalog", files["catalog"]], json.dumps(record) + "\n"
    )

    assert found == {"lakebed": True, "numpy": True, "pyarrow.compute": False}


def _loaded(arguments: list[str], given: str = "") -> dict[str, bool]:
    """Which of some packages a process of the connector has loaded."""
    code = f"""
import json, sys
sys.argv[1:] = {arguments!r}
from destination_deeplake.run import run
try:
    run()
except SystemExit:
    wanted = ("lakebed", "numpy", "pyarrow.compute")
    print(json.dumps({{name: name in sys.modules for name in wanted}}), file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=given,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    found: dict[str, bool] = json.loads(done.stderr.splitlines()[-1])
    return found


@pytest.mark.parametrize(
    "line",
    [
        "spec",
        "spec --debug",
        "check --config c",
        "check --debug --config c",
        "write --config c --catalog d",
        "write --catalog d --config c --debug",
        "write --config c --config e --catalog d",
        "check --config=c",
        "check --conf c",
        "write --config ./-c --catalog d",
    ],
)
def test_command_lines_mean_the_same_without_argparse(line: str) -> None:
    args = line.split()

    full = vars(command_line.parse(args))
    assert full.pop("docs") is None

    short = command_line_of_run(args)
    assert short is None or vars(short) == full
    assert (short is None) == ("=" in line or "--conf " in line)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "--version",
        "check",
        "check --config",
        "check --config --debug",
        "check c",
        "spec --config c",
        "write --config c",
        "write --config c --catalog",
        "check --config c --catalog d",
        "check --config c d",
        "check -h",
        "--debug spec",
        "check --config -c",
    ],
)
def test_other_command_lines_are_left_to_argparse(line: str) -> None:
    assert command_line_of_run(line.split()) is None


@pytest.mark.parametrize(
    "raised",
    ["BrokenPipeError(32, 'of a connection')", "Panic('in Rust')", "Mute()"],
    ids=lambda text: text[:5],
)
def test_every_failure_has_its_trace(files: dict[str, str], raised: str) -> None:
    """Also one that looks as if nobody read the output, one that is no Exception, one that has no text."""
    code = f"""
import sys
from destination_deeplake import run
class Panic(BaseException): pass
class Mute(OSError):
    def __str__(self): raise ValueError
def write(*args): raise {raised}
run.write = write
run.run()
"""
    status, messages, stderr = run([sys.executable, "-c", code, *write_command(files)[3:]])

    assert (status, stderr) == (1, "")
    assert [message["type"] for message in messages] == ["LOG", "TRACE"]
    assert messages[1]["trace"]["error"]["failure_type"] == "system_error"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no device that is full")
def test_an_output_that_takes_nothing_is_told_on_standard_error(files: dict[str, str]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            write_command(files),
            input=record(1) + state(7),
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=PATIENCE,
            check=False,
        )

    assert done.returncode == 1
    assert "Standard output cannot be written any more (No space left on device)" in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()


def test_an_output_that_does_not_block_is_waited_for(files: dict[str, str]) -> None:
    """Another program at the other end may have made the pipe so."""
    read, written = os.pipe()
    os.set_blocking(written, False)
    fcntl.fcntl(written, fcntl.F_SETPIPE_SZ, 4096)
    with subprocess.Popen(write_command(files), stdin=subprocess.PIPE, stdout=written) as process:
        os.close(written)
        assert process.stdin is not None
        process.stdin.write(record(1) + b"".join(state(number) for number in range(500)))
        process.stdin.close()
        while not unread(read) and process.poll() is None:
            time.sleep(0.01)
        time.sleep(0.5)  # the pipe is full long before all states are in it
        with os.fdopen(read, "rb") as output:
            messages = [json.loads(line) for line in output]
        assert process.wait(PATIENCE) == 0

    assert [message["state"]["id"] for message in messages if message["type"] == "STATE"] == [*range(500)]
