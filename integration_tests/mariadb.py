"""A MariaDB server of our own for the time of a test: on a socket, in a folder that goes away."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from integration_tests.postgres import UnavailableError
from unit_tests.effort import PATIENCE

PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin"])


def program(name: str) -> str:
    """Path of one of MariaDB's programs.

    Raises
    ------
    UnavailableError
        If it is not installed. It is not installed by the tests: that takes a minute.
    """
    found = shutil.which(name, path=PATH)
    if found is None:
        raise UnavailableError(f"no {name} on PATH; install Debian's mariadb-server, for example")
    return found


def client(socket: str) -> list[str]:
    """Command line of the client: reads SQL, writes a line for each row, columns apart by tabs, nothing escaped."""
    options = ["--no-defaults", "--batch", "--raw", "--skip-column-names", "--quick"]
    return [program("mariadb"), *options, "--default-character-set=utf8mb4", f"--socket={socket}"]


def query(socket: str, sql: str) -> list[list[str]]:
    """Run statements; rows of what they answer."""
    done = subprocess.run(client(socket), input=sql.encode(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return [line.split("\t") for line in done.stdout.decode().splitlines()]


@contextlib.contextmanager
def server() -> Iterator[str]:
    """Start a server and yield its socket; stop and forget it afterwards.

    Raises
    ------
    UnavailableError
        If there is no MariaDB.
    """
    install, daemon = program("mariadb-install-db"), program("mariadbd")
    # The path of a socket may have no more than about a hundred bytes, and the server's user must get there.
    folder = Path(tempfile.mkdtemp(prefix="lake-my-"))
    folder.chmod(0o755)
    user = ["--user=root"] if os.geteuid() == 0 else []
    socket = str(folder / "socket")
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        common = ["--no-defaults", *user, f"--datadir={folder / 'data'}"]
        made = subprocess.run(
            [install, *common, "--auth-root-authentication-method=normal", "--skip-test-db"],
            capture_output=True,
            check=False,
        )
        if made.returncode:
            raise UnavailableError(f"mariadb-install-db failed: {made.stderr.decode()[-300:]}")
        options = ["--skip-networking", f"--socket={socket}", f"--pid-file={folder / 'pid'}"]
        options += ["--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=256M", "--tmpdir=/tmp"]
        log = stack.enter_context((folder / "log").open("wb"))
        process = subprocess.Popen([daemon, *common, *options], stdout=log, stderr=log, cwd="/")
        stack.callback(process.wait)
        stack.callback(process.terminate)
        end = time.monotonic() + PATIENCE
        while subprocess.run(
            [*client(socket), "--execute=select 1"], capture_output=True, check=False
        ).returncode:
            if process.poll() is not None or time.monotonic() > end:
                raise UnavailableError(f"mariadbd does not start: {(folder / 'log').read_text()[-300:]}")
            time.sleep(0.1)
        yield socket
