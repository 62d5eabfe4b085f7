"""The command `langlauf`."""

import click

from langlauf.cli.serve import serve


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(package_name="langlauf")
def main() -> None:
    """Durable, observable jobs for functions that take their time."""


main.add_command(serve)
