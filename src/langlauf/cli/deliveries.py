"""`langlauf webhooks deliveries` and `replay`: what became of each webhook and mail, and sending it again."""

import re
from typing import Any, get_args

import click

from langlauf.api.wire import attempt_out, delivery_out, shown_target
from langlauf.cli.printing import count, note, plain, print_json, print_table, span
from langlauf.cli.webhook_desk import at_desk, common, found, shown, there
from langlauf.domain.delivery import DeliveryFilter, Endpoint, subject_of
from langlauf.domain.instant import Instant, after, from_text
from langlauf.domain.notification import DeliveryStatus, Notification
from langlauf.service.webhooks import MOST_REPLAYED, Endpoints, Followed
from langlauf.settings import duration

_MOST_LISTED = 200
_COLUMNS = ("DELIVERY", "JOB", "ABOUT", "TO", "STATE", "TRIES", "WHEN", "LAST ERROR")


def _since(_: click.Context, __: click.Parameter, value: str | None) -> float | Instant | None:
    """A moment, or how long ago: seconds are floats, moments are instants."""
    if value is None:
        return None
    try:
        return float(duration(value)) if re.match(r"^[0-9.]+\s*[smhd]?$", value.strip()) else from_text(value)
    except (ValueError, OverflowError):
        raise click.BadParameter(f"{value!r}: give a time like 2h, or a moment like 2026-03-02T08:00:00Z") from None


@click.command("deliveries")
@click.argument("delivery", required=False, metavar="[DELIVERY]")
@click.option("--endpoint", metavar="ENDPOINT", help="Only those to this endpoint.")
@click.option("--job", metavar="JOB_ID", help="Only those about this job.")
@click.option("--status", type=click.Choice(get_args(DeliveryStatus)), help="Only those that have come so far.")
@click.option(
    "--limit", type=click.IntRange(1, _MOST_LISTED), default=50, metavar="NUMBER", help="How many. Default: 50."
)
@common
def deliveries(
    delivery: str | None, endpoint: str | None, job: str | None, status: DeliveryStatus | None, limit: int, **flags: Any
) -> None:
    """List webhooks and mails, newest first; or one of them, with every attempt to send it."""
    if delivery is not None:
        _print_followed(delivery, flags)
        return

    async def use(desk: Endpoints, org: str) -> tuple[list[Notification], list[Endpoint]]:
        wanted = None if endpoint is None else (await found(desk, org, endpoint)).endpoint_id
        which = DeliveryFilter(endpoint_id=wanted, job_id=job, status=status, limit=limit)
        return await desk.deliveries(org, which), await desk.endpoints(org)

    listed, endpoints = at_desk(use, flags)
    if flags["as_json"]:
        print_json([delivery_out(one, endpoints) for one in listed])
        return
    if not listed:
        note("No deliveries.")
        return
    print_table(_COLUMNS, [_row(one, endpoints) for one in listed])


@click.command("replay")
@click.argument("delivery", required=False, metavar="[DELIVERY]")
@click.option("--endpoint", metavar="ENDPOINT", help="All that this endpoint did not take.")
@click.option("--since", callback=_since, metavar="TIME", help="Of those, only what came since: 2h, or a moment.")
@common
def replay(delivery: str | None, endpoint: str | None, since: float | Instant | None, **flags: Any) -> None:
    """Send again, under the old ids: one delivery, or all that an endpoint did not take."""
    if (delivery is None) == (endpoint is None):
        raise click.UsageError("Give a DELIVERY, or --endpoint.")
    if since is not None and endpoint is None:
        raise click.UsageError("--since needs --endpoint.")

    async def use(desk: Endpoints, org: str) -> int:
        if delivery is not None:
            there(await desk.replay(org, delivery))
            return 1
        wanted = await found(desk, org, endpoint or "")
        start = after(desk.clock.now(), -since) if isinstance(since, float) else since
        return await desk.replay_failed(org, wanted.endpoint_id, since=start) or 0

    replayed = at_desk(use, flags)
    if flags["as_json"]:
        print_json({"replayed": replayed, "more": replayed >= MOST_REPLAYED})
        return
    note(f"{count(replayed, 'message')} on the way again.")
    if replayed >= MOST_REPLAYED:
        note("There are more: run it again.")


def _print_followed(delivery: str, flags: dict[str, Any]) -> None:
    async def use(desk: Endpoints, org: str) -> tuple[Followed, list[Endpoint]]:
        return there(await desk.delivery(org, delivery)), await desk.endpoints(org)

    (message, attempts), endpoints = at_desk(use, flags)
    if flags["as_json"]:
        tries = [attempt_out(one) for one in attempts]
        print_json({"delivery": delivery_out(message, endpoints), "attempts": tries})
        return
    for label, value in zip(
        ("Delivery", "Job", "About", "To", "State", "Tries", "When", "Last error"),
        _row(message, endpoints),
        strict=True,
    ):
        if value:
            click.echo(f"{label.capitalize():<11} {value}")
    rows = [
        (str(one.attempt), shown(one.at), span(one.seconds), str(one.status_code or ""), plain(one.error or "taken"))
        for one in attempts
    ]
    if rows:
        click.echo()
        print_table(("TRY", "AT", "TOOK", "STATUS", "WHAT CAME OF IT"), rows)


def _row(message: Notification, endpoints: list[Endpoint]) -> tuple[str, ...]:
    when = message.sent_at if message.delivery_status == "sent" else message.scheduled_at
    return (
        message.notification_id,
        message.job_id,
        subject_of(message.template_key),
        plain(shown_target(message, endpoints) or "(removed)"),
        message.delivery_status,
        str(message.attempt_count),
        shown(when),
        plain(message.last_error),
    )
