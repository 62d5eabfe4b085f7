"""`langlauf completion`: a script that lets a shell complete commands, flags and choices."""

import click
from click.shell_completion import get_completion_class

#: What a person does to install the script, by shell.
_INSTALL = {
    "bash": 'add to ~/.bashrc:  eval "$(langlauf completion bash)"',
    "zsh": 'add to ~/.zshrc after compinit:  eval "$(langlauf completion zsh)"',
    "fish": "run once:  langlauf completion fish > ~/.config/fish/completions/langlauf.fish",
}


@click.command()
@click.argument("shell", type=click.Choice(list(_INSTALL)))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a completion script for a shell; its last line says how to install it."""
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"There is no completion for {shell}.")
    script = kind(context.find_root().command, {}, "langlauf", "_LANGLAUF_COMPLETE")
    click.echo(f"{script.source().strip()}\n# {_INSTALL[shell]}")
