"""`langlauf events`: what happens to the jobs of an org."""

import click

from langlauf.cli.client_errors import Exit, Refused
from langlauf.cli.client_options import with_client
from langlauf.cli.printing import command_line, json_line, moment, note, plain, print_json
from langlauf.client import Client, Feed, OrgEvent
from langlauf.domain.outbound import OutboundType

_WORDS = tuple(kind.rpartition(".")[2] for kind in OutboundType)
_WIDTH = max(map(len, _WORDS))
_SOME = 50


@click.command()
@click.option("--follow", "-f", is_flag=True, help="Go on with what happens; Ctrl-C ends it.")
@click.option("--after", metavar="PLACE", help="Where to go on; `latest`: with what comes. Else with the oldest.")
@click.option("--type", "types", multiple=True, type=click.Choice(_WORDS), help="Only this kind; may be repeated.")
@click.option("--limit", type=click.IntRange(min=1), help=f"At most so many; without --follow {_SOME} where not given.")
@with_client
def events(
    client: Client, *, follow: bool, after: str | None, types: tuple[str, ...], limit: int | None, as_json: bool
) -> None:
    """Show what happens to the jobs of an org, over all of them.

    The place to go on from is told at the end. With --json one document with `events` and `next_after`; with --follow
    each event is a line of JSON.
    """
    if limit is None and not follow:
        limit = _SOME
    feed = client.events(after, types=types, follow=follow, limit=limit)
    if as_json and not follow:
        found = list(feed)
        print_json({"events": found, "next_after": feed.place})
        return
    try:
        for event in feed:
            click.echo(json_line(event) if as_json else _line(event))
    except KeyboardInterrupt:
        raise Refused(Exit.DETACHED, "detached", _hint(feed, types)) from None
    note(_hint(feed, types))


def _line(event: OrgEvent) -> str:
    kind = event.type.rpartition(".")[2].ljust(_WIDTH)
    return f"{moment(event.time)}  {kind}  {plain(event.subject)}  {plain(event.data.result_id)}".rstrip()


def _hint(feed: Feed, types: tuple[str, ...]) -> str:
    kinds = [word for name in types for word in ("--type", name)]
    return f"Go on from here: {command_line('events', '--follow', *kinds, '--after', feed.place)}"
