"""``lakebed completion``: what a shell runs to complete commands, options, and names of tensors."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem, get_completion_class

from lakebed.cli.output import say_lines, with_errors

_SHELLS = ("bash", "zsh", "fish")
_HOW = {
    "bash": 'eval "$(lakebed completion bash)" in ~/.bashrc',
    "zsh": 'eval "$(lakebed completion zsh)" in ~/.zshrc',
    "fish": "lakebed completion fish > ~/.config/fish/completions/lakebed.fish",
}


@click.command(epilog="\b\n" + "\n".join(_HOW.values()))
@click.argument("shell", type=click.Choice(_SHELLS))
@with_errors
def completion(shell: str) -> None:
    """Print what makes SHELL complete the commands and options of lakebed, and the names of tensors after -t.

    For example: eval "$(lakebed completion bash)"
    """
    kind = get_completion_class(shell)
    root = click.get_current_context().find_root()
    if kind is None:
        raise click.ClickException(f"there is no completion for {shell}")
    # Not through the shell's own check of its version, which starts it.
    made = kind(root.command, {}, "lakebed", "_LAKEBED_COMPLETE")
    say_lines(made.source_template % made.source_vars())


def tensor_names(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the names of the tensors of the dataset that was named already, if it lies on this machine."""
    import lakebed
    from lakebed.cli.parts import parsed

    given = [ctx.params.get(name) for name in ("url", "src", "dataset")]
    # Where the option that is being completed is the last word, click leaves the arguments alone.
    url = next((one for one in [*given, *ctx.args] if one), None)
    if not isinstance(url, str) or "://" in url:  # a bucket may take its time
        return []
    try:
        names = lakebed.load(parsed(url).address, read_only=True).tensors
    except (lakebed.LakebedError, click.UsageError):
        return []
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]
