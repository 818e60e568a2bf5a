"""Object stores for tests: each a real server on a free port of loopback, for as long as the block lasts.

::

    with moto() as store, faults(store) as network:
        network.set(latency=0.05)
        creds = {**store.creds, "endpoint_url": network.endpoint}
        ds = lakebed.empty(store.url("ds"), creds=creds)
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import shutil
import subprocess
import sys
import tempfile
import textwrap
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email.utils import formatdate
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from integration_tests.stores.processes import ROOT, Proxy, free_port, port_of, program, running

_AZURITE_ACCOUNT = "devstoreaccount1"
# The key that every Azurite has; it opens nothing else.
_AZURITE_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6"  # gitleaks:allow
    "IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)


_VARIABLES = {
    "s3": {
        "aws_access_key_id": "AWS_ACCESS_KEY_ID",
        "aws_secret_access_key": "AWS_SECRET_ACCESS_KEY",
        "aws_region": "AWS_REGION",
        "endpoint_url": "AWS_ENDPOINT_URL",
    },
    "az": {
        "account_name": "AZURE_STORAGE_ACCOUNT_NAME",
        "account_key": "AZURE_STORAGE_ACCOUNT_KEY",
        "endpoint_url": "AZURE_STORAGE_ENDPOINT",
    },
    "gs": {"endpoint_url": "STORAGE_EMULATOR_HOST"},
}


@dataclass(frozen=True)
class Server:
    """A store that runs.

    Parameters
    ----------
    name, scheme
        What it is, and how its addresses begin.
    endpoint
        Where it listens.
    creds
        What `lakebed` takes as ``creds`` to get in.
    make_bucket
        Makes a bucket or container of this name.
    """

    name: str
    scheme: str
    endpoint: str
    creds: dict[str, str]
    make_bucket: Callable[[str], None]
    _bucket: list[str] = field(default_factory=list)

    def new_bucket(self) -> str:
        """Make a bucket and return its name."""
        name = f"bucket-{uuid.uuid4().hex[:12]}"
        self.make_bucket(name)
        return name

    @property
    def bucket(self) -> str:
        """A bucket that stays the same."""
        if not self._bucket:
            self._bucket.append(self.new_bucket())
        return self._bucket[0]

    def url(self, name: str = "ds") -> str:
        """Return the address of a place that nobody has used."""
        return f"{self.scheme}://{self.bucket}/{name}-{uuid.uuid4().hex[:8]}"

    @property
    def environment(self) -> dict[str, str]:
        """The same credentials as environment variables."""
        names = _VARIABLES[self.scheme]
        return {names[key]: value for key, value in self.creds.items() if key in names}

    def through(self, proxy: Proxy) -> dict[str, str]:
        """Return credentials that lead to the server through a proxy."""
        return {
            **self.creds,
            "endpoint_url": self.creds["endpoint_url"].replace(self.endpoint, proxy.endpoint),
        }


class Faults(Proxy):
    """A bad network before a server."""

    def set(self, **settings: Any) -> None:
        """Replace what is wrong; without arguments nothing is.

        Parameters
        ----------
        latency
            Seconds from a request to its answer, and for a new connection; once, however long the answer is.
        rate
            Bytes per second over all connections, each way.
        reset_after, stall_after
            Bytes of an answer after which the connection is reset, or nothing more comes.
        lose_answer
            The request reaches the server; instead of the answer the connection is reset.
        blackhole
            Nothing arrives anywhere, until this is off again.
        refuse
            New connections are reset.
        only
            Requests that the faults of one connection are restricted to: a regular expression that is searched in the
            request line, ``"PUT .*/key"``.
        times
            So often, then no more.
        """
        self.order("set", **settings)

    @property
    def hits(self) -> int:
        """How often a fault struck since the last `set`."""
        return int(self.order("hits"))


@dataclass(frozen=True)
class Request:
    """One request as the counting proxy saw it; `bytes` are those of the answer's body, times are monotonic."""

    method: str
    path: str
    range: str
    status: int
    bytes: int
    sent: int
    began: float
    ended: float
    headers: dict[str, str]


class Counting(Proxy):
    """Notes every request that goes through."""

    @property
    def requests(self) -> list[Request]:
        """All requests since the start or the last `clear`, in the order in which they came."""
        return [Request(**entry) for entry in self.order("requests")]

    @property
    def most_at_once(self) -> int:
        """The largest number of requests that were under way at the same time."""
        return int(self.order("most"))

    def clear(self) -> None:
        """Forget what was noted, and what was to be answered."""
        self.order("clear")

    def answer(
        self,
        status: int,
        body: str = "",
        *,
        headers: tuple[str, ...] = (),
        only: str = "",
        times: int = 1,
        reaches: bool = False,
    ) -> None:
        """Answer the next requests whose line holds `only` in the server's place; with `reaches` it gets them too."""
        self.order(
            "answer", status=status, body=body, headers=headers, only=only, times=times, reaches=reaches
        )


@contextlib.contextmanager
def faults(server: object) -> Iterator[Faults]:
    """Put a bad network before a server: a port, an address, a `Server` or another proxy."""
    proxy = Faults("fault_proxy.py", port_of(server))
    try:
        yield proxy
    finally:
        proxy.close()


@contextlib.contextmanager
def counting(server: object) -> Iterator[Counting]:
    """Note the requests to a server: a port, an address, a `Server` or another proxy."""
    proxy = Counting("count_proxy.py", port_of(server))
    try:
        yield proxy
    finally:
        proxy.close()


def _s3(name: str, endpoint: str, key: str, secret: str) -> Server:
    def make_bucket(bucket: str) -> None:
        import boto3
        from botocore.config import Config

        client = boto3.client(
            "s3",
            endpoint_url=endpoint,
            aws_access_key_id=key,
            aws_secret_access_key=secret,
            region_name="us-east-1",
            config=Config(s3={"addressing_style": "path"}),
        )
        client.create_bucket(Bucket=bucket)
        client.close()

    creds = {
        "aws_access_key_id": key,
        "aws_secret_access_key": secret,
        "aws_region": "us-east-1",
        "endpoint_url": endpoint,
    }
    return Server(name, "s3", endpoint, creds, make_bucket)


def copy_folder(server: Server, folder: Path, url: str) -> None:
    """Copy the files of a folder to S3 as `aws s3 cp --recursive` does: lakebed has no part in it."""
    import boto3
    from botocore.config import Config

    bucket, _, prefix = url.partition("://")[2].partition("/")
    client = boto3.client(
        "s3",
        endpoint_url=server.creds["endpoint_url"],
        aws_access_key_id=server.creds["aws_access_key_id"],
        aws_secret_access_key=server.creds["aws_secret_access_key"],
        region_name="us-east-1",
        config=Config(s3={"addressing_style": "path"}),
    )
    for path in folder.rglob("*"):
        if path.is_file():
            key = f"{prefix}/{path.relative_to(folder).as_posix()}"
            client.put_object(Bucket=bucket, Key=key, Body=path.read_bytes())
    client.close()


# It looks into its folder for the names of its services, at each request: as long as all the rest takes.
_MOTO = """
from moto import backends
names = list(backends.list_of_moto_modules())
backends.list_of_moto_modules = lambda: names
from moto.server import main
main()
"""


@contextlib.contextmanager
def moto(*, checks_keys: bool = False) -> Iterator[Server]:
    """S3 as a Python program; conditional writes are enforced, signatures are not.

    Parameters
    ----------
    checks_keys
        Requests with keys that it did not give out are refused, as ``InvalidAccessKeyId``.
    """
    port = free_port()
    if find_spec("moto") is None:
        pytest.skip("moto is not installed")
    command = [sys.executable, "-c", _MOTO, "-H", "127.0.0.1", "-p", str(port)]
    environment = {"INITIAL_NO_AUTH_ACTION_COUNT": "0"} if checks_keys else {}
    with running(command, port, environment=environment):
        yield _s3("moto", f"http://127.0.0.1:{port}", "motoaccess", "motosecret")


@contextlib.contextmanager
def ceph() -> Iterator[Server]:
    """A Ceph RADOS gateway 16: checks signatures, enforces conditional creates, wants etags without quotes."""
    for name in ("ceph-mon", "ceph-osd", "radosgw"):
        program(name, name.upper().replace("-", "_"))
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="lakebed-ceph-") as folder:
        script = [str(ROOT / "scripts/ceph.sh"), folder, str(port), str(free_port())]
        try:
            done = subprocess.run(script, capture_output=True, text=True, timeout=120, check=False)
            if done.returncode:
                raise RuntimeError(f"Ceph does not start: {done.stderr[-2000:]}")
            yield _s3("ceph", f"http://127.0.0.1:{port}", "lakebedaccess", "lakebedsecret")
        finally:
            subprocess.run([script[0], "--stop", folder], check=True)


@contextlib.contextmanager
def rclone() -> Iterator[Server]:
    """``rclone serve s3`` over a folder: S3 that takes conditional writes and does not enforce them."""
    port = free_port()
    path = program("rclone", "RCLONE", "venv/bin/rclone")
    with tempfile.TemporaryDirectory(prefix="lakebed-rclone-") as folder:
        keys = "rcloneaccess,rclonesecret"
        command = [
            path,
            "serve",
            "s3",
            "--addr",
            f"127.0.0.1:{port}",
            "--auth-key",
            keys,
            "--config",
            "",
            folder,
        ]
        with running(command, port):
            yield _s3("rclone", f"http://127.0.0.1:{port}", *keys.split(","))


@contextlib.contextmanager
def azurite() -> Iterator[Server]:
    """Azurite: Azure blob storage as a Node.js program."""
    path = program("azurite-blob", "AZURITE_BLOB", "npm/node_modules/.bin/azurite-blob")
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="lakebed-azurite-") as folder:
        command = [path, "--silent", "--location", folder, "--blobHost", "127.0.0.1", "--blobPort", str(port)]
        with running([*command, "--skipApiVersionCheck", "--disableTelemetry"], port):
            endpoint = f"http://127.0.0.1:{port}"

            def make_container(name: str) -> None:
                _azure_put(f"{endpoint}/{_AZURITE_ACCOUNT}", name)

            creds = {
                "account_name": _AZURITE_ACCOUNT,
                "account_key": _AZURITE_KEY,
                "endpoint_url": f"{endpoint}/{_AZURITE_ACCOUNT}",
            }
            yield Server("azurite", "az", endpoint, creds, make_container)


def _azure_put(account: str, container: str) -> None:
    """Make a container: the Shared Key scheme by hand, as the clients here do not make any."""
    date, version = formatdate(usegmt=True), "2021-12-02"
    resource = f"/{_AZURITE_ACCOUNT}/{_AZURITE_ACCOUNT}/{container}\nrestype:container"
    text = (
        "PUT" + "\n" * 5 + "text/plain" + "\n" * 7 + f"x-ms-date:{date}\nx-ms-version:{version}\n{resource}"
    )
    digest = hmac.new(base64.b64decode(_AZURITE_KEY), text.encode(), hashlib.sha256).digest()
    headers = {
        "x-ms-date": date,
        "x-ms-version": version,
        "Content-Length": "0",
        "Content-Type": "text/plain",
        "Authorization": f"SharedKey {_AZURITE_ACCOUNT}:{base64.b64encode(digest).decode()}",
    }
    request = urllib.request.Request(f"{account}/{container}?restype=container", b"", headers, method="PUT")
    with urllib.request.urlopen(request, timeout=10):
        pass


@contextlib.contextmanager
def gcs() -> Iterator[Server]:
    """Our own small server that speaks as much of Google's XML interface as the client does; see `gcs_server`."""
    port = free_port()
    command = [sys.executable, "-E", str(Path(__file__).with_name("gcs_server.py")), str(port)]
    with running(command, port):
        endpoint = f"http://127.0.0.1:{port}"

        def make_bucket(name: str) -> None:
            with urllib.request.urlopen(urllib.request.Request(f"{endpoint}/{name}", b"", method="PUT")):
                pass

        yield Server("gcs", "gs", endpoint, {"endpoint_url": endpoint, "bearer_token": "any"}, make_bucket)


@dataclass(frozen=True)
class Web:
    """A web server that shows a folder, with ranges."""

    endpoint: str
    folder: Path
    creds: dict[str, str] = field(default_factory=dict)

    def url(self, name: str = "") -> str:
        """Return the address of a file or dataset in the folder."""
        return f"{self.endpoint}/{name}"

    def new_bucket(self) -> str:
        """Make a folder below the one that is shown, and return its name."""
        name = f"folder-{uuid.uuid4().hex[:12]}"
        (self.folder / name).mkdir()
        return name


@contextlib.contextmanager
def web(folder: str | Path, *, own: bool = False) -> Iterator[Web]:
    """Show a folder by nginx, or by our own little server where there is none, or with `own`."""
    port = free_port()
    path = None if own else shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    with tempfile.TemporaryDirectory(prefix="lakebed-web-") as place:
        if path is None:
            ours = str(Path(__file__).with_name("web_server.py"))
            command = [sys.executable, "-E", ours, str(port), str(folder)]
        else:
            config = Path(place) / "nginx.conf"
            config.write_text(_nginx(port, Path(folder).resolve(), place))
            command = [path, "-p", place, "-c", str(config), "-e", f"{place}/error.log"]
        with running(command, port):
            yield Web(f"http://127.0.0.1:{port}", Path(folder))


def _nginx(port: int, folder: Path, place: str) -> str:
    import getpass

    user = "user root;" if getpass.getuser() == "root" else ""  # the folders of tests are closed to others
    return textwrap.dedent(
        f"""\
        {user}
        daemon off;
        master_process off;
        pid {place}/pid;
        events {{ worker_connections 1024; }}
        http {{
            access_log off;
            client_body_temp_path {place}/body;
            proxy_temp_path {place}/proxy;
            fastcgi_temp_path {place}/fastcgi;
            uwsgi_temp_path {place}/uwsgi;
            scgi_temp_path {place}/scgi;
            sendfile on;
            tcp_nopush on;
            keepalive_requests 100000;
            server {{
                listen 127.0.0.1:{port};
                root {folder};
            }}
        }}
        """
    )


BY_NAME: dict[str, Callable[[], contextlib.AbstractContextManager[Server]]] = {
    "moto": moto,
    "ceph": ceph,
    "azurite": azurite,
    "gcs": gcs,
    "rclone": rclone,
}
"""The stores that can be written to."""


def parameters() -> list[Any]:
    """Return the names of all stores as parameters of a test; all but moto wait for the marker `stores`."""
    return [pytest.param(name, marks=[] if name == "moto" else [pytest.mark.stores]) for name in BY_NAME]
