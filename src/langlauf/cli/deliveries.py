"""`langlauf webhooks deliveries` and `replay`: the deliveries of webhooks and mails, and sending them again."""

import re
from typing import Any, get_args

import click

from langlauf.api.wire import attempt_out, delivery_out, shown_target
from langlauf.cli.output import format_time, plain, print_json, print_note, print_table
from langlauf.cli.stores import find_endpoint, org_store_options, require_found, run_on_endpoints
from langlauf.domain.delivery import DeliveryFilter, DeliveryStatus, Notification, WebhookEndpoint, subject_of
from langlauf.domain.instant import Instant, after, from_text
from langlauf.domain.text import counted, format_duration
from langlauf.service.webhooks import MOST_REPLAYED, DeliveryWithAttempts, WebhookService
from langlauf.settings_values import parse_duration

_MAX_LISTED = 200
_COLUMNS = ("DELIVERY", "JOB", "ABOUT", "TO", "STATE", "TRIES", "WHEN", "LAST ERROR")


def _parse_since(_: click.Context, __: click.Parameter, value: str | None) -> float | Instant | None:
    """Return an age in seconds as a float, or a time as an instant."""
    if value is None:
        return None
    try:
        return float(parse_duration(value)) if re.match(r"^[0-9.]+\s*[smhd]?$", value.strip()) else from_text(value)
    except (ValueError, OverflowError):
        raise click.BadParameter(f"{value!r}: give an age like 2h, or a time like 2026-03-02T08:00:00Z") from None


@click.command("deliveries")
@click.argument("delivery", required=False, metavar="[DELIVERY]")
@click.option("--endpoint", metavar="ENDPOINT", help="Only those to this endpoint.")
@click.option("--job", metavar="JOB_ID", help="Only those about this job.")
@click.option("--status", type=click.Choice(get_args(DeliveryStatus)), help="Only those in this state.")
@click.option(
    "--limit", type=click.IntRange(1, _MAX_LISTED), default=50, metavar="NUMBER", help="How many at most. Default: 50."
)
@org_store_options
def deliveries(
    delivery: str | None, endpoint: str | None, job: str | None, status: DeliveryStatus | None, limit: int, **flags: Any
) -> None:
    """List webhooks and mails, newest first. With DELIVERY, that one and every attempt to send it."""
    if delivery is not None:
        _print_delivery(delivery, flags)
        return

    async def use(endpoints: WebhookService, org: str) -> tuple[list[Notification], list[WebhookEndpoint]]:
        wanted = None if endpoint is None else (await find_endpoint(endpoints, org, endpoint)).endpoint_id
        which = DeliveryFilter(endpoint_id=wanted, job_id=job, status=status, limit=limit)
        return await endpoints.deliveries(org, which), await endpoints.endpoints(org)

    listed, endpoints = run_on_endpoints(use, flags)
    if flags["as_json"]:
        print_json([delivery_out(one, endpoints) for one in listed])
        return
    if not listed:
        print_note("No deliveries.")
        return
    print_table(_COLUMNS, [_row(one, endpoints) for one in listed])


@click.command("replay")
@click.argument("delivery", required=False, metavar="[DELIVERY]")
@click.option("--endpoint", metavar="ENDPOINT", help="All that this endpoint did not accept.")
@click.option("--since", callback=_parse_since, metavar="TIME", help="Of those, only newer ones: 2h, or a time.")
@org_store_options
def replay(delivery: str | None, endpoint: str | None, since: float | Instant | None, **flags: Any) -> None:
    """Send deliveries again, with the same ids. One DELIVERY, or all that an endpoint did not accept."""
    if (delivery is None) == (endpoint is None):
        raise click.UsageError("Give a DELIVERY, or --endpoint.")
    if since is not None and endpoint is None:
        raise click.UsageError("--since needs --endpoint.")

    async def use(endpoints: WebhookService, org: str) -> int:
        if delivery is not None:
            require_found(await endpoints.replay(org, delivery))
            return 1
        wanted = await find_endpoint(endpoints, org, endpoint or "")
        start = after(endpoints.clock.now(), -since) if isinstance(since, float) else since
        return await endpoints.replay_failed(org, wanted.endpoint_id, since=start) or 0

    replayed = run_on_endpoints(use, flags)
    if flags["as_json"]:
        print_json({"replayed": replayed, "more": replayed >= MOST_REPLAYED})
        return
    print_note(f"{counted(replayed, 'message')} queued again.")
    if replayed >= MOST_REPLAYED:
        print_note("There are more: run it again.")


def _print_delivery(delivery: str, flags: dict[str, Any]) -> None:
    async def use(endpoints: WebhookService, org: str) -> tuple[DeliveryWithAttempts, list[WebhookEndpoint]]:
        return require_found(await endpoints.delivery(org, delivery)), await endpoints.endpoints(org)

    (message, attempts), endpoints = run_on_endpoints(use, flags)
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
        (
            str(one.attempt),
            format_time(one.at),
            format_duration(one.seconds),
            str(one.status_code or ""),
            plain(one.error or "accepted"),
        )
        for one in attempts
    ]
    if rows:
        click.echo()
        print_table(("TRY", "AT", "TOOK", "STATUS", "OUTCOME"), rows)


def _row(message: Notification, endpoints: list[WebhookEndpoint]) -> tuple[str, ...]:
    when = message.sent_at if message.delivery_status == "sent" else message.scheduled_at
    return (
        message.notification_id,
        message.job_id,
        subject_of(message.template_key),
        plain(shown_target(message, endpoints) or "(removed)"),
        message.delivery_status,
        str(message.attempt_count),
        format_time(when),
        plain(message.last_error),
    )
