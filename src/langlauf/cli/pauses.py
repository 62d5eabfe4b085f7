"""Pause and resume analyses."""

from collections.abc import Callable
from datetime import datetime

import click

from langlauf.cli.client_command import with_client
from langlauf.cli.options import time_option
from langlauf.cli.output import command_line, format_time, plain, print_json, print_note
from langlauf.client import Client

_analysis = click.argument("analysis", metavar="ANALYSIS")


def _org_command(function: Callable[..., None]) -> click.Command:
    """Make a command whose --org has another default than that of all others."""
    made = click.command()(function)
    [org] = [one for one in made.params if isinstance(one, click.Option) and one.name == "org"]
    org.help = "One org. [LANGLAUF_ORG] Default: all orgs, for operators only."
    return made


@_org_command
@_analysis
@click.option("--because", metavar="TEXT", required=True, help="Why; shown on the pages of its jobs.")
@time_option("--until", "When it ends by itself: tomorrow 6:00, 18:30, 2h, 2027-01-31 18:00, or RFC 3339.")
@with_client
def pause(client: Client, analysis: str, *, because: str, until: datetime | None, as_json: bool) -> None:
    """Pause an analysis: none of its jobs start.

    For all orgs, or for one with --org. Running jobs go on, new ones wait.
    """
    held = client.pause(analysis, because=because, until=until, all_orgs=not client.names_org())
    if as_json:
        print_json(held)
        return
    whom = f"for {held.org_id}" if held.org_id else "for all orgs"
    end = f", until {format_time(held.paused_until)}" if held.paused_until else ""
    print_note(f"{plain(held.analysis)} is paused {whom}{end}: {plain(held.because)}")
    print_note(f"  let it run again: {command_line('resume', analysis)}")


@_org_command
@_analysis
@with_client
def resume(client: Client, analysis: str, *, as_json: bool) -> None:
    """End the pause of an analysis. For all orgs, or for one with --org. A repeat changes nothing."""
    ended = client.resume(analysis, all_orgs=not client.names_org())
    if as_json:
        print_json({"resumed": ended})
    else:
        print_note(f"{plain(analysis)} may start jobs again." if ended else f"{plain(analysis)} was not paused.")
