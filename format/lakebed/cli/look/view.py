"""``lakebed view``: look at datasets in the browser."""

from __future__ import annotations

import contextlib
import webbrowser

import click

from lakebed.cli.commands import with_errors
from lakebed.cli.output import say
from lakebed.dataset.display.viewing import Viewer


@click.command()
@click.argument("path", default=".")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Listen on this port; 0 takes a free one."
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Listen on this address of the machine; on others than 127.0.0.1 the network sees what is shown.",
)
@click.option("--no-browser", is_flag=True, help="Print the address, and open no browser.")
@with_errors
def view(path: str, port: int, host: str, no_browser: bool) -> None:
    """Look at PATH, a dataset or a folder of some, in the browser.

    Nothing but saved views is written, and nothing leaves this machine. The address holds a token: whoever has it can
    look, too, while the viewer runs. Ctrl-C ends it.

    For example: lakebed view photos
    """
    viewer = Viewer(path, "--port", str(port), "--host", host)
    say(viewer.url)
    say("Ctrl-C ends the viewer", err=True)
    if not no_browser:
        webbrowser.open(viewer.address_once({}))
    with contextlib.suppress(KeyboardInterrupt):
        viewer.wait()
