"""`langlauf webhooks`: whom an org wants to be called, in the store, also beside a running server."""

from typing import Any, cast

import click

from langlauf.api.wire import endpoint_out, tried_fields
from langlauf.cli.client_errors import Exit
from langlauf.cli.client_options import duration_option
from langlauf.cli.deliveries import deliveries, replay
from langlauf.cli.options import Stopped
from langlauf.cli.printing import count, note, plain, print_json, print_table, span
from langlauf.cli.webhook_desk import again, at_desk, common, found, shown, there, with_time
from langlauf.domain.delivery import FINAL_SUBJECTS, SUBJECTS, Endpoint, Subject
from langlauf.domain.instant import Instant
from langlauf.service.webhooks import USUAL_OVERLAP, Endpoints, MadeEndpoint, Tried

_endpoint = click.argument("endpoint", metavar="ENDPOINT")


def _events(_: click.Context, __: click.Parameter, value: str | None) -> tuple[Subject, ...] | None:
    """Words with commas between."""
    if value is None:
        return None
    words = [word.strip() for word in value.split(",") if word.strip()]
    strange = [word for word in words if word not in SUBJECTS]
    if not words or strange:
        raise click.BadParameter(f"{(strange or [value])[0]!r}: give some of {', '.join(SUBJECTS)}")
    return cast("tuple[Subject, ...]", tuple(words))


@click.group("webhooks")
def webhooks() -> None:
    """Addresses that are called, signed, when something happens to an org's jobs. ENDPOINT is an id or its address."""


webhooks.add_command(deliveries)
webhooks.add_command(replay)


@webhooks.command("add")
@click.argument("url", metavar="URL")
@click.option("--name", default="", metavar="TEXT", help="What it is; people see it in lists.")
@click.option(
    "--events", callback=_events, metavar="LIST", help="What it hears of. Default: completed,failed,canceled."
)
@common
def add(url: str, name: str, events: tuple[Subject, ...] | None, **flags: Any) -> None:
    """Add an endpoint. Its secret is printed now and never again: with it, receivers check what comes."""
    made = at_desk(lambda desk, org: desk.add(org, url, name=name, subjects=events or FINAL_SUBJECTS), flags)
    _print_secret(made, flags)
    note(f"Try it: langlauf webhooks test {made.endpoint.endpoint_id}{again(flags)}")


@webhooks.command("list")
@common
def list_(**flags: Any) -> None:
    """List an org's endpoints, oldest first, and how each is doing. Secrets are never printed."""
    listed, now = at_desk(with_time(lambda desk, org: desk.endpoints(org)), flags)
    if flags["as_json"]:
        print_json([endpoint_out(one, now) for one in listed])
        return
    if not listed:
        note(f"No endpoints. Add one: langlauf webhooks add URL{again(flags)}")
        return
    rows = [
        (one.endpoint_id, one.url, plain(one.name), ",".join(one.subjects), plain(_health(one, now))) for one in listed
    ]
    print_table(("ENDPOINT", "ADDRESS", "NAME", "EVENTS", "STATE"), rows)


@webhooks.command("remove")
@_endpoint
@common
def remove(endpoint: str, **flags: Any) -> None:
    """Forget an endpoint; what waits for it is given up."""

    async def use(desk: Endpoints, org: str) -> str:
        wanted = await found(desk, org, endpoint)
        await desk.remove(org, wanted.endpoint_id)
        return wanted.endpoint_id

    removed = at_desk(use, flags)
    if flags["as_json"]:
        print_json({"endpoint_id": removed})
    else:
        note(f"{removed} is removed; nothing more is sent there.")


@webhooks.command("enable")
@_endpoint
@common
def enable(endpoint: str, **flags: Any) -> None:
    """Send to an endpoint again, and forget what went wrong. What failed meanwhile waits for a replay."""
    changed, _ = _switch(endpoint, flags, enabled=True)
    if not flags["as_json"]:
        note(f"{changed.endpoint_id} is called again.")
        note(f"  send what failed: langlauf webhooks replay --endpoint {changed.endpoint_id}{again(flags)}")


@webhooks.command("disable")
@_endpoint
@common
def disable(endpoint: str, **flags: Any) -> None:
    """Send nothing to an endpoint until it is enabled; what waits for it is given up."""
    changed, _ = _switch(endpoint, flags, enabled=False)
    if not flags["as_json"]:
        note(f"{changed.endpoint_id} is not called any more.")
        note(f"  call it again: langlauf webhooks enable {changed.endpoint_id}{again(flags)}")


@webhooks.command("rotate")
@_endpoint
@duration_option("--overlap", "How long the secret before stays good beside the new one. Default: 24h.")
@common
def rotate(endpoint: str, overlap: float | None, **flags: Any) -> None:
    """Make a new secret, printed now and never again. Until the overlap is over, both sign."""

    async def use(desk: Endpoints, org: str) -> MadeEndpoint | None:
        seconds = USUAL_OVERLAP if overlap is None else overlap
        return await desk.rotate(org, (await found(desk, org, endpoint)).endpoint_id, overlap_seconds=seconds)

    _print_secret(there(at_desk(use, flags)), flags)


@webhooks.command("test")
@_endpoint
@common
def test(endpoint: str, **flags: Any) -> None:
    """Send a signed test event at once, and tell what came back. Exit code 1 where it was not taken."""

    async def use(desk: Endpoints, org: str) -> Tried | None:
        return await desk.test(org, (await found(desk, org, endpoint)).endpoint_id)

    tried = there(at_desk(use, flags))
    if flags["as_json"]:
        print_json(tried_fields(tried))
    elif tried.taken:
        note(f"Taken: {tried.status_code} after {span(tried.seconds)}.")
    else:
        note(f"Not taken after {span(tried.seconds)}: {plain(tried.error)}.")
        if tried.reply:
            note(f"  it said: {plain(tried.reply)}")
    if not tried.taken:
        raise click.exceptions.Exit(Exit.FAILED)


@webhooks.command("secret")
@common
def secret(**flags: Any) -> None:
    """Print an org's own secret, which signs for the addresses that its jobs name; it does not change."""

    async def use(desk: Endpoints, org: str) -> list[str]:
        return desk.org_secrets(org)

    secrets = at_desk(use, flags)
    if not secrets:
        raise Stopped("no secret is set that it could be made from: set LANGLAUF_WEBHOOK_SECRET")
    if flags["as_json"]:
        print_json({"secret": secrets[0], "former_secret": secrets[1] if len(secrets) > 1 else None})
        return
    click.echo(secrets[0])
    if len(secrets) > 1:
        note(f"While receivers change over, the one before signs too: {secrets[1]}")


def _switch(endpoint: str, flags: dict[str, Any], *, enabled: bool) -> tuple[Endpoint, Instant]:
    async def use(desk: Endpoints, org: str) -> tuple[Endpoint, Instant]:
        wanted = await found(desk, org, endpoint)
        return there(await desk.change(org, wanted.endpoint_id, enabled=enabled)), desk.clock.now()

    changed, now = at_desk(use, flags)
    if flags["as_json"]:
        print_json(endpoint_out(changed, now))
    return changed, now


def _print_secret(made: MadeEndpoint, flags: dict[str, Any]) -> None:
    endpoint = made.endpoint
    if flags["as_json"]:
        print_json({"secret": made.secret, "webhook": endpoint_out(endpoint, endpoint.created_at)})
        return
    click.echo(made.secret)
    former = "" if endpoint.former_until is None else f" The one before is good until {shown(endpoint.former_until)}."
    note(f"The secret of {endpoint.endpoint_id} of {endpoint.org_id}. Keep it now: it is not shown again.{former}")


def _health(endpoint: Endpoint, now: Instant) -> str:
    """How it is doing, and since or until when."""
    if endpoint.disabled_at is not None:
        return f"disabled since {shown(endpoint.disabled_at)}: {endpoint.disabled_reason}"
    if endpoint.paused_until is not None and endpoint.paused_until > now:
        return f"paused until {shown(endpoint.paused_until)}, {count(endpoint.failures, 'failure')} in a row"
    if endpoint.failures:
        return f"failing since {shown(endpoint.failing_since)}, {count(endpoint.failures, 'failure')} in a row"
    return "working"
