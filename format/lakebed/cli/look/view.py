"""``lakebed view``: look at datasets in the browser."""

from __future__ import annotations

import contextlib
import webbrowser
from pathlib import Path

import click

from lakebed.cli.commands import with_errors
from lakebed.cli.output import say, say_lines
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
@click.option(
    "--static",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="OUT",
    help="Write the page into the folder OUT instead: any web server or bucket shows it, without a process.",
)
@click.option(
    "--address", metavar="URL", help="With --static: where browsers find PATH, if the page cannot tell."
)
@with_errors
def view(path: str, port: int, host: str, no_browser: bool, static: Path | None, address: str | None) -> None:
    """Look at PATH, a dataset or a folder of some, in the browser.

    Nothing but saved views is written, and nothing leaves this machine. The address holds a token: whoever has it can
    look, too, while the viewer runs. Ctrl-C ends it.

    For example: lakebed view photos
    """
    if static is not None:
        from lakebed.dataset.display.static_page import CORS, write_page

        say(f"{static / 'index.html'} reads {write_page(path, static, address)}")
        say_lines(CORS)
        return
    if address is not None:
        raise click.UsageError("--address needs --static")
    viewer = Viewer(path, "--port", str(port), "--host", host)
    say(viewer.url)
    say("Ctrl-C ends the viewer", err=True)
    if not no_browser:
        webbrowser.open(viewer.address_once({}))
    with contextlib.suppress(KeyboardInterrupt):
        viewer.wait()
