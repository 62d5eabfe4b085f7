"""The command `langlauf`: its commands in groups, each imported when it is used."""

from importlib import import_module
from typing import cast

import click
from click.shell_completion import get_completion_class

#: Group of commands, command, module and name of its function. A program imports the command that it runs, and nothing
#: of the others.
_GROUPS = {
    "Jobs": {
        "run": "submit:run",
        "submit": "submit:submit",
        "jobs": "jobs:jobs",
        "status": "jobs:status",
        "watch": "jobs:watch",
        "open": "jobs:open_page",
        "cancel": "jobs:cancel",
        "retry": "jobs:retry",
        "errors": "events:errors",
        "events": "events:events",
        "inbox": "events:inbox",
        "notifications": "events:notifications",
        "schedules": "schedules:schedules",
    },
    "Results": {
        "result": "jobs:result",
        "provenance": "jobs:provenance",
        "hold": "jobs:hold",
        "release": "jobs:release",
    },
    "Server": {
        "demo": "trial:demo",
        "serve": "serve:serve",
        "worker": "serve:worker",
        "doctor": "doctor:doctor",
        "pause": "schedules:pause_analysis",
        "resume": "schedules:resume_analysis",
        "keys": "access:keys",
        "webhooks": "webhooks:webhooks",
        "mail": "access:mail",
        "mail-test": "access:mail_test",
        "mcp": "mcp:mcp",
        "openapi": "serve:openapi",
        "bench": "trial:bench",
        "completion": "main:completion",
    },
    "Store": {
        "verify": "maintenance:verify",
        "backup": "transfer:backup",
        "restore": "transfer:restore",
        "cleanup": "removal:cleanup",
        "sweep": "maintenance:sweep",
        "migrate": "maintenance:migrate_store",
        "copy-store": "transfer:copy_store_command",
        "import-store": "transfer:import_store",
        "export-store": "transfer:export_store",
        "erase": "removal:erase_org",
        "blobs": "maintenance:blobs",
        "adopt": "maintenance:adopt",
    },
}
_COMMANDS = {name: function for group in _GROUPS.values() for name, function in group.items()}
#: How to install the completion script, by shell.
_COMPLETION_INSTALL = {
    "bash": 'add to ~/.bashrc:  eval "$(langlauf completion bash)"',
    "zsh": 'add to ~/.zshrc after compinit:  eval "$(langlauf completion zsh)"',
    "fish": "run once:  langlauf completion fish > ~/.config/fish/completions/langlauf.fish",
}


class CommandGroups(click.Group):
    """All commands by name, each imported when it is used; the help lists them in groups."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - as every group
        """Return the names of all commands."""
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command by its name, or None."""
        if cmd_name in _COMMANDS and cmd_name not in self.commands:
            module, _, name = _COMMANDS[cmd_name].partition(":")
            self.add_command(cast("click.Command", getattr(import_module(f"langlauf.cli.{module}"), name)), cmd_name)
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a section of the help per group of commands."""
        room = formatter.width - 6 - max(map(len, _COMMANDS))
        for title, names in _GROUPS.items():
            commands = [(name, command) for name in names if (command := self.get_command(ctx, name)) is not None]
            with formatter.section(title):
                formatter.write_dl([(name, command.get_short_help_str(room)) for name, command in commands])


@click.group(cls=CommandGroups, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(package_name="langlauf")
def main() -> None:
    """Durable, observable jobs for long-running Python functions."""


@click.command()
@click.argument("shell", type=click.Choice(list(_COMPLETION_INSTALL)))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a completion script for a shell. Its last line says how to install it."""
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"There is no completion for {shell}.")
    script = kind(context.find_root().command, {}, "langlauf", "_LANGLAUF_COMPLETE")
    click.echo(f"{script.source().strip()}\n# {_COMPLETION_INSTALL[shell]}")
