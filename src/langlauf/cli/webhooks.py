"""`langlauf webhooks`: an org's webhook endpoints and their deliveries, in the store, also beside a server."""

import re
from typing import Any, cast, get_args

import click

from langlauf.api.wire import attempt_out, delivery_out, endpoint_out, shown_target, tried_fields
from langlauf.cli.options import (
    CommandError,
    ExitCode,
    duration_option,
    format_time,
    plain,
    print_json,
    print_note,
    print_table,
)
from langlauf.cli.stores import find_endpoint, org_store_options, repeated_flags, require_found, run_on_endpoints
from langlauf.domain.delivery import (
    FINAL_SUBJECTS,
    SUBJECTS,
    DeliveryFilter,
    DeliveryStatus,
    Notification,
    Subject,
    WebhookEndpoint,
    subject_of,
)
from langlauf.domain.instant import Instant, after, from_text
from langlauf.domain.text import counted, format_duration
from langlauf.service.webhooks import (
    MOST_REPLAYED,
    USUAL_OVERLAP,
    CreatedEndpoint,
    DeliveryWithAttempts,
    SendResult,
    WebhookService,
)
from langlauf.settings_values import parse_duration

# -- deliveries --------------------------------------------------------------------------------------------------------

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


# -- endpoints ---------------------------------------------------------------------------------------------------------

_endpoint = click.argument("endpoint", metavar="ENDPOINT")


def _parse_events(_: click.Context, __: click.Parameter, value: str | None) -> tuple[Subject, ...] | None:
    """Return the event names of a comma-separated list."""
    if value is None:
        return None
    words = [word.strip() for word in value.split(",") if word.strip()]
    unknown = [word for word in words if word not in SUBJECTS]
    if not words or unknown:
        raise click.BadParameter(f"{(unknown or [value])[0]!r}: give some of {', '.join(SUBJECTS)}")
    return cast("tuple[Subject, ...]", tuple(words))


@click.group("webhooks")
def webhooks() -> None:
    """Endpoints that get signed requests about an org's jobs. ENDPOINT is an id or a URL."""


webhooks.add_command(deliveries)
webhooks.add_command(replay)


@webhooks.command("add")
@click.argument("url", metavar="URL")
@click.option("--name", default="", metavar="TEXT", help="A name, shown in lists.")
@click.option(
    "--events", callback=_parse_events, metavar="LIST", help="Events it gets. Default: completed,failed,canceled."
)
@org_store_options
def add(url: str, name: str, events: tuple[Subject, ...] | None, **flags: Any) -> None:
    """Add an endpoint. Its secret, with which the receiver checks signatures, is printed only now."""
    subjects = events or FINAL_SUBJECTS
    made = run_on_endpoints(lambda endpoints, org: endpoints.add(org, url, name=name, subjects=subjects), flags)
    _print_secret(made, flags)
    print_note(f"Try it: langlauf webhooks test {made.endpoint.endpoint_id}{repeated_flags(flags)}")


@webhooks.command("list")
@org_store_options
def list_(**flags: Any) -> None:
    """List an org's endpoints, oldest first, with their state. Secrets are never printed."""

    async def use(endpoints: WebhookService, org: str) -> tuple[list[WebhookEndpoint], Instant]:
        return await endpoints.endpoints(org), endpoints.clock.now()

    listed, now = run_on_endpoints(use, flags)
    if flags["as_json"]:
        print_json([endpoint_out(one, now) for one in listed])
        return
    if not listed:
        print_note(f"No endpoints. Add one: langlauf webhooks add URL{repeated_flags(flags)}")
        return
    rows = [
        (one.endpoint_id, one.url, plain(one.name), ",".join(one.subjects), plain(_endpoint_state(one, now)))
        for one in listed
    ]
    print_table(("ENDPOINT", "ADDRESS", "NAME", "EVENTS", "STATE"), rows)


@webhooks.command("remove")
@_endpoint
@org_store_options
def remove(endpoint: str, **flags: Any) -> None:
    """Remove an endpoint; its pending deliveries are dropped."""

    async def use(endpoints: WebhookService, org: str) -> str:
        wanted = await find_endpoint(endpoints, org, endpoint)
        await endpoints.remove(org, wanted.endpoint_id)
        return wanted.endpoint_id

    removed = run_on_endpoints(use, flags)
    if flags["as_json"]:
        print_json({"endpoint_id": removed})
    else:
        print_note(f"{removed} is removed; nothing is sent there any more.")


@webhooks.command("enable")
@_endpoint
@org_store_options
def enable(endpoint: str, **flags: Any) -> None:
    """Send to an endpoint again, and reset its failures. What failed meanwhile waits for a replay."""
    changed, _ = _set_enabled(endpoint, flags, enabled=True)
    if not flags["as_json"]:
        print_note(f"{changed.endpoint_id} is enabled.")
        command = f"langlauf webhooks replay --endpoint {changed.endpoint_id}{repeated_flags(flags)}"
        print_note(f"  send what failed: {command}")


@webhooks.command("disable")
@_endpoint
@org_store_options
def disable(endpoint: str, **flags: Any) -> None:
    """Send nothing to an endpoint until enabled. Its pending deliveries are dropped."""
    changed, _ = _set_enabled(endpoint, flags, enabled=False)
    if not flags["as_json"]:
        print_note(f"{changed.endpoint_id} is disabled.")
        print_note(f"  enable it again: langlauf webhooks enable {changed.endpoint_id}{repeated_flags(flags)}")


@webhooks.command("rotate")
@_endpoint
@duration_option("--overlap", "How long the previous secret stays valid. Default: 24h.")
@org_store_options
def rotate(endpoint: str, overlap: float | None, **flags: Any) -> None:
    """Make a new secret, printed only now. During the overlap, both secrets sign."""

    async def use(endpoints: WebhookService, org: str) -> CreatedEndpoint | None:
        seconds = USUAL_OVERLAP if overlap is None else overlap
        wanted = await find_endpoint(endpoints, org, endpoint)
        return await endpoints.rotate(org, wanted.endpoint_id, overlap_seconds=seconds)

    _print_secret(require_found(run_on_endpoints(use, flags)), flags)


@webhooks.command("test")
@_endpoint
@org_store_options
def test(endpoint: str, **flags: Any) -> None:
    """Send a signed test event at once, and print the response. Exit code 1 if it was not accepted."""

    async def use(endpoints: WebhookService, org: str) -> SendResult | None:
        return await endpoints.test(org, (await find_endpoint(endpoints, org, endpoint)).endpoint_id)

    tried = require_found(run_on_endpoints(use, flags))
    if flags["as_json"]:
        print_json(tried_fields(tried))
    elif tried.taken:
        print_note(f"Accepted: {tried.status_code} after {format_duration(tried.seconds)}.")
    else:
        print_note(f"Not accepted after {format_duration(tried.seconds)}: {plain(tried.error)}.")
        if tried.reply:
            print_note(f"  response: {plain(tried.reply)}")
    if not tried.taken:
        raise click.exceptions.Exit(ExitCode.FAILED)


@webhooks.command("secret")
@org_store_options
def secret(**flags: Any) -> None:
    """Print an org's own secret. It signs requests to URLs that jobs name, and does not change."""

    async def use(endpoints: WebhookService, org: str) -> list[str]:
        return endpoints.org_secrets(org)

    secrets = run_on_endpoints(use, flags)
    if not secrets:
        raise CommandError("no webhook secret is set: set LANGLAUF_WEBHOOK_SECRET")
    if flags["as_json"]:
        print_json({"secret": secrets[0], "former_secret": secrets[1] if len(secrets) > 1 else None})
        return
    click.echo(secrets[0])
    if len(secrets) > 1:
        print_note(f"During the change, the previous secret signs too: {secrets[1]}")


def _set_enabled(endpoint: str, flags: dict[str, Any], *, enabled: bool) -> tuple[WebhookEndpoint, Instant]:
    async def use(endpoints: WebhookService, org: str) -> tuple[WebhookEndpoint, Instant]:
        wanted = await find_endpoint(endpoints, org, endpoint)
        return require_found(await endpoints.change(org, wanted.endpoint_id, enabled=enabled)), endpoints.clock.now()

    changed, now = run_on_endpoints(use, flags)
    if flags["as_json"]:
        print_json(endpoint_out(changed, now))
    return changed, now


def _print_secret(made: CreatedEndpoint, flags: dict[str, Any]) -> None:
    endpoint = made.endpoint
    if flags["as_json"]:
        print_json({"secret": made.secret, "webhook": endpoint_out(endpoint, endpoint.created_at)})
        return
    click.echo(made.secret)
    until = format_time(endpoint.former_until)
    previous = f" The previous one is valid until {until}." if until else ""
    print_note(
        f"The secret of {endpoint.endpoint_id} of {endpoint.org_id}. Save it now: it is not shown again.{previous}"
    )


def _endpoint_state(endpoint: WebhookEndpoint, now: Instant) -> str:
    """Return the state of an endpoint, and since or until when."""
    if endpoint.disabled_at is not None:
        return f"disabled since {format_time(endpoint.disabled_at)}: {endpoint.disabled_reason}"
    if endpoint.paused_until is not None and endpoint.paused_until > now:
        return f"paused until {format_time(endpoint.paused_until)}, {counted(endpoint.failures, 'failure')} in a row"
    if endpoint.failures:
        return f"failing since {format_time(endpoint.failing_since)}, {counted(endpoint.failures, 'failure')} in a row"
    return "working"
