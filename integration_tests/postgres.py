"""A PostgreSQL server of our own for the time of a test: on loopback, in a folder that goes away."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path


class UnavailableError(Exception):
    """There is no PostgreSQL here, and none can be installed."""


def binaries() -> Path:
    """Folder of initdb and pg_ctl; installs Debian's package when there is none and we may.

    Raises
    ------
    UnavailableError
        With the reason.
    """
    found = _installed()
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        for command in (["update", "-q"], ["install", "-y", "-q", "--no-install-recommends", "postgresql"]):
            environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
            done = subprocess.run(["apt-get", *command], env=environment, capture_output=True, check=False)
            if done.returncode:
                raise UnavailableError(f"apt-get {command[0]} failed: {done.stderr.decode()[-300:]}")
        found = _installed()
    if found is None:
        raise UnavailableError("no initdb on PATH or under /usr/lib/postgresql; install PostgreSQL's server")
    return found


def _installed() -> Path | None:
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: path.parts[-3])
    if versions:
        return versions[-1].parent
    on_path = shutil.which("initdb")
    return Path(on_path).resolve().parent if on_path else None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def server() -> Iterator[str]:
    """Start a server and yield its libpq connection string; stop and forget it afterwards.

    Raises
    ------
    UnavailableError
        If there is no PostgreSQL.
    """
    programs = binaries()
    # PostgreSQL refuses to run as root, and pytest's own folders are closed to others.
    user = "postgres" if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="lake-pg-"))
    try:
        if user:
            shutil.chown(folder, user)
        port = _free_port()
        options = (
            f"-p {port} -h 127.0.0.1 -k {folder} -c fsync=off -c shared_buffers=128MB -c max_wal_size=2GB"
        )
        data = str(folder / "data")

        def call(program: str, *arguments: str) -> None:
            command = [str(programs / program), "-D", data, *arguments]
            subprocess.run(command, user=user, cwd="/", check=True, stdout=subprocess.DEVNULL)

        call("initdb", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-sync")
        call("pg_ctl", "-w", "-s", "-l", str(folder / "log"), "-o", options, "start")
        try:
            yield f"host=127.0.0.1 port={port} user=postgres dbname=postgres"
        finally:
            call("pg_ctl", "-w", "-s", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
