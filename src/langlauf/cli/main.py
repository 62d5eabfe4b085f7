"""The command `langlauf`."""

from importlib import import_module
from typing import cast

import click

#: Where each command is. A program imports what the command it runs needs, and nothing of the others.
_PLACES = {
    "adopt": "adopt:adopt",
    "backup": "backup:backup",
    "bench": "bench:bench",
    "blobs": "blobs:blobs",
    "cancel": "control:cancel",
    "cleanup": "cleanup:cleanup",
    "completion": "completion:completion",
    "copy-store": "copying:copy",
    "doctor": "doctor:doctor",
    "erase": "erase:erase_org",
    "events": "events:events",
    "export-store": "transfer:export_store",
    "hold": "holding:hold",
    "import-store": "transfer:import_store",
    "inbox": "listing:inbox",
    "jobs": "listing:jobs",
    "keys": "keys:keys",
    "mail": "mail_receivers:mail",
    "mail-test": "mail:mail_test",
    "migrate": "upkeep:migrate_store",
    "notifications": "listing:notifications",
    "openapi": "openapi:openapi",
    "release": "holding:release",
    "restore": "backup:restore",
    "result": "follow:result",
    "retry": "control:retry",
    "serve": "serve:serve",
    "status": "follow:status",
    "submit": "submit:submit",
    "sweep": "upkeep:sweep",
    "verify": "verify:verify",
    "watch": "follow:watch",
    "webhooks": "webhooks:webhooks",
    "worker": "worker:worker",
}


class Program(click.Group):
    """All commands by name, each imported when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - as every group
        """The names of all commands."""
        return sorted(_PLACES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A command by its name; None where there is none of that name."""
        if cmd_name in _PLACES and cmd_name not in self.commands:
            module, _, name = _PLACES[cmd_name].partition(":")
            self.add_command(cast("click.Command", getattr(import_module(f"langlauf.cli.{module}"), name)), cmd_name)
        return super().get_command(ctx, cmd_name)


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(package_name="langlauf")
def main() -> None:
    """Durable, observable jobs for functions that take their time."""
