"""`langlauf schedules`, `pause` and `resume`: when analyses run, and when they do not."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import click

from langlauf.cli.client_command import with_client
from langlauf.cli.job_output import print_new_job
from langlauf.cli.options import (
    command_line,
    duration_option,
    format_time,
    plain,
    print_json,
    print_note,
    print_table,
    time_option,
)
from langlauf.cli.submit import parse_words
from langlauf.client import Client, RemoteSchedule
from langlauf.domain.text import format_duration

_schedule = click.argument("schedule", metavar="SCHEDULE")


@click.group("schedules")
def schedules() -> None:
    """Run analyses at times of a zone, or at an interval. SCHEDULE is a name."""


@schedules.command("add")
@click.argument("words", nargs=-1, metavar="[ANALYSIS] [NAME=VALUE]...")
@click.option("--name", metavar="NAME", help="The name; else that of the analysis.")
@click.option("--cron", metavar="EXPRESSION", help='Times of the clock, such as "0 6 * * 1-5".')
@duration_option("--every", "An interval instead.")
@click.option("--zone", default="UTC", metavar="ZONE", help="The time zone, such as Europe/Zurich.")
@click.option(
    "--overlap",
    type=click.Choice(["skip", "queue"]),
    default="skip",
    help="Where the last run has not ended: leave the next one out, or queue it.",
)
@click.option(
    "--missed",
    type=click.Choice(["once", "none", "all"]),
    default="once",
    help="Of the times that passed without a server: run once, none or all.",
)
@click.option("--paused", is_flag=True, help="Add it without starting it.")
@click.option("--notify-email", metavar="ADDRESS", help="E-mail address that gets a mail at each end.")
@click.option("--notify-webhook", metavar="URL", help="URL that gets a signed request at each end.")
@with_client
def add(
    client: Client,
    *,
    words: tuple[str, ...],
    name: str | None,
    every: float | None,
    notify_email: str | None,
    notify_webhook: str | None,
    as_json: bool,
    **fields: Any,
) -> None:
    """Add a schedule. The first word may name the analysis; parameters are NAME=VALUE words as in submit."""
    analysis = None
    if words and "=" not in words[0]:
        analysis, words = words[0], words[1:]
    if name is None and analysis is None:
        raise click.UsageError("Name the analysis, or the schedule with --name.")
    notify = {"email": notify_email, "webhook": notify_webhook}
    given = {way: target for way, target in notify.items() if target is not None}
    made = client.add_schedule(
        name or str(analysis),
        analysis,
        parse_words(words),
        every_seconds=every,
        notify=given or None,
        **fields,
    )
    _print_schedule(made, as_json=as_json)


@schedules.command("list")
@with_client
def list_(client: Client, *, as_json: bool) -> None:
    """List the org's schedules, with their next and last runs."""
    found = client.schedules()
    if as_json:
        print_json(found)
        return
    if not found:
        print_note('No schedules. Add one: langlauf schedules add ANALYSIS --cron "0 6 * * 1-5" --zone Europe/Zurich')
        return
    rows = [
        (
            one.name,
            one.analysis,
            plain(_times(one)),
            "paused" if one.paused else format_time(one.next_runs[0] if one.next_runs else None),
            format_time(one.last_run_at),
            plain(one.last_outcome),
        )
        for one in found
    ]
    print_table(("SCHEDULE", "ANALYSIS", "TIMES", "NEXT", "LAST", "OUTCOME"), rows)


@schedules.command("pause")
@_schedule
@with_client
def pause(client: Client, *, schedule: str, as_json: bool) -> None:
    """Pause a schedule: nothing is planned until it is resumed."""
    _print_schedule(client.change_schedule(schedule, paused=True), as_json=as_json)


@schedules.command("resume")
@_schedule
@with_client
def resume(client: Client, *, schedule: str, as_json: bool) -> None:
    """Resume a paused schedule, from its next time on."""
    _print_schedule(client.change_schedule(schedule, paused=False), as_json=as_json)


@schedules.command("run")
@_schedule
@with_client
def run(client: Client, *, schedule: str, as_json: bool) -> None:
    """Submit one run now, whatever is planned; print its id."""
    print_new_job(client.run_schedule(schedule), as_json=as_json)


@schedules.command("remove")
@_schedule
@with_client
def remove(client: Client, *, schedule: str, as_json: bool) -> None:
    """Remove a schedule; its jobs stay."""
    client.remove_schedule(schedule)
    if as_json:
        print_json({"removed": schedule})
    else:
        print_note(f"Removed {schedule}.")


def _times(one: RemoteSchedule) -> str:
    if one.every_seconds is not None:
        return f"every {format_duration(one.every_seconds)}"
    return f"{one.cron} {one.zone}"


def _print_schedule(one: RemoteSchedule, *, as_json: bool) -> None:
    if as_json:
        print_json(one)
        return
    print_note(f"{one.name}: {one.analysis}, {_times(one)}" + (", paused" if one.paused else ""))
    for at in one.next_runs:
        click.echo(format_time(at))


# -- pauses ------------------------------------------------------------------------------------------------------------

_analysis = click.argument("analysis", metavar="ANALYSIS")


def _org_command(function: Callable[..., None]) -> click.Command:
    """Make a command whose --org has another default than that of all others."""
    made = click.command(function.__name__.removesuffix("_analysis"))(function)
    [org] = [one for one in made.params if isinstance(one, click.Option) and one.name == "org"]
    org.help = "One org. [LANGLAUF_ORG] Default: all orgs, for operators only."
    return made


@_org_command
@_analysis
@click.option("--because", metavar="TEXT", required=True, help="Why; shown on the pages of its jobs.")
@time_option("--until", "When it ends by itself: tomorrow 6:00, 18:30, 2h, 2027-01-31 18:00, or RFC 3339.")
@with_client
def pause_analysis(client: Client, analysis: str, *, because: str, until: datetime | None, as_json: bool) -> None:
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
def resume_analysis(client: Client, analysis: str, *, as_json: bool) -> None:
    """End the pause of an analysis. For all orgs, or for one with --org. A repeat changes nothing."""
    ended = client.resume(analysis, all_orgs=not client.names_org())
    if as_json:
        print_json({"resumed": ended})
    else:
        print_note(f"{plain(analysis)} may start jobs again." if ended else f"{plain(analysis)} was not paused.")
