"""``lakebed serve``: datasets over Arrow Flight."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import secrets
from pathlib import Path

import click

from lakebed.cli.commands import command
from lakebed.cli.output import say, say_json

_TOKEN = "LAKEBED_SERVE_TOKEN"  # noqa: S105  # the name of a variable


@command
@click.argument("path", default=".")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Listen on this port; 0 takes a free one."
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Listen on this address of the machine; others than 127.0.0.1 need --certificate and --key.",
)
@click.option(
    "--certificate",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Certificate of this server in PEM, for TLS.",
)
@click.option(
    "--key",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Private key of the certificate in PEM.",
)
def serve(path: str, port: int, host: str, certificate: Path | None, key: Path | None, as_json: bool) -> None:
    """Serve PATH, a dataset or a folder of some, to clients of Arrow Flight.

    Nothing is written. Each call needs the token that is printed, or that of the variable LAKEBED_SERVE_TOKEN. Ctrl-C
    ends the server.

    For example: lakebed serve s3://my-lake
    """
    if (certificate is None) != (key is None):
        raise click.UsageError("--certificate and --key go together")
    if certificate is None and not _is_loopback(host):
        raise click.UsageError(
            f"without TLS the token and the data would cross the network as plain text: --host {host} needs "
            "--certificate and --key"
        )
    import pyarrow as pa

    from lakebed.flight import LakeServer

    token = os.environ.get(_TOKEN) or secrets.token_urlsafe(32)
    scheme = "grpc" if certificate is None else "grpc+tls"
    pairs = [] if certificate is None or key is None else [(certificate.read_bytes(), key.read_bytes())]
    at = f"[{host}]" if ":" in host else host
    try:
        server = LakeServer(path, f"{scheme}://{at}:{port}", token, certificates=pairs)
    except pa.ArrowException as error:
        raise click.ClickException(f"no server can listen at {at}:{port}: {error}") from error
    address = f"{scheme}://{at}:{server.port}"
    if as_json:
        say_json({"address": address, "token": token}, indent=None)
    else:
        say(address)
        say(f"token: {token}" if _TOKEN not in os.environ else f"token: as in {_TOKEN}")
        say("Ctrl-C ends the server", err=True)
    with contextlib.suppress(KeyboardInterrupt):
        server.serve()


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
