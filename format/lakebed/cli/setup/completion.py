"""``lakebed completion``: scripts by which shells complete commands, options, and names of tensors."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from lakebed.cli.commands import with_errors
from lakebed.cli.output import say_lines

_HOW = {
    "bash": 'eval "$(lakebed completion bash)" in ~/.bashrc',
    "zsh": 'eval "$(lakebed completion zsh)" in ~/.zshrc',
    "fish": "lakebed completion fish > ~/.config/fish/completions/lakebed.fish",
}


@click.command(epilog="\b\n" + "\n".join(_HOW.values()))
@click.argument("shell", type=click.Choice(list(_HOW)))
@with_errors
def completion(shell: str) -> None:
    """Print what makes SHELL complete the commands and options of lakebed, and the names of tensors after -t.

    For example: eval "$(lakebed completion bash)"
    """
    kind = get_completion_class(shell)
    root = click.get_current_context().find_root()
    if kind is None:
        raise click.ClickException(f"there is no completion for {shell}")
    # `source()` would start the shell to check its version.
    made = kind(root.command, {}, "lakebed", "_LAKEBED_COMPLETE")
    say_lines(made.source_template % made.source_vars())
