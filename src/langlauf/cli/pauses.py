"""Pause and resume analyses."""

from datetime import datetime, timedelta

import click

from langlauf.cli.client_command import with_client
from langlauf.cli.output import command_line, format_time, plain, print_json, print_note
from langlauf.client import Client
from langlauf.settings_values import parse_duration

_analysis = click.argument("analysis", metavar="ANALYSIS")


@click.command()
@_analysis
@click.option("--because", metavar="TEXT", required=True, help="Why; shown on the pages of its jobs.")
@click.option("--until", metavar="TIME", help="When it ends by itself: 18:00, 2h, or a date and time.")
@with_client
def pause(client: Client, analysis: str, *, because: str, until: str | None, as_json: bool) -> None:
    """Pause an analysis: no job of it starts. Of one org with --org, else of all. Running jobs go on, new ones wait."""
    ends = None if until is None else _time_of(until)
    held = client.pause(analysis, because=because, until=ends, all_orgs=not client.names_org())
    if as_json:
        print_json(held)
        return
    whom = f"for {held.org_id}" if held.org_id else "for all orgs"
    end = f", until {format_time(held.paused_until)}" if held.paused_until else ""
    print_note(f"{plain(held.analysis)} is paused {whom}{end}: {plain(held.because)}")
    print_note(f"  let it run again: {command_line('resume', analysis)}")


@click.command()
@_analysis
@with_client
def resume(client: Client, analysis: str, *, as_json: bool) -> None:
    """End the pause of an analysis. Of one org with --org, else of all. A repeat changes nothing."""
    ended = client.resume(analysis, all_orgs=not client.names_org())
    if as_json:
        print_json({"resumed": ended})
    else:
        print_note(f"{plain(analysis)} may start jobs again." if ended else f"{plain(analysis)} was not paused.")


def _time_of(text: str) -> datetime:
    """Return a time of day, today or tomorrow, a duration from now, or a date and time; local unless it has a zone."""
    now = datetime.now().astimezone()
    for form in ("%H:%M", "%H:%M:%S"):
        try:
            clock = datetime.strptime(text.strip(), form).time()  # noqa: DTZ007 - a time of day has no zone
        except ValueError:
            continue
        then = datetime.combine(now.date(), clock).astimezone()
        return then if then > now else datetime.combine(now.date() + timedelta(days=1), clock).astimezone()
    try:
        return now + timedelta(seconds=parse_duration(text))
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text.strip()).astimezone()
    except ValueError:
        message = f"{text!r} is no time: write 18:00, 2h or 2026-12-24T18:00."
        raise click.BadParameter(message, param_hint="--until") from None
