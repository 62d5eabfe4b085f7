"""`langlauf erase`: takes an org out of the store, also beside a running server."""

import asyncio

import click
import msgspec

from langlauf.bootstrap import open_store
from langlauf.cli.client_options import duration_option
from langlauf.cli.options import Stopped
from langlauf.cli.printing import note, print_json, print_table
from langlauf.cli.progress import progress
from langlauf.cli.stores import org_named, place_for, settings_for
from langlauf.domain.errors import LanglaufError
from langlauf.hints import Hints
from langlauf.maintenance.erasure import PATIENCE, Erased, OrgFound, Watch, erase, look
from langlauf.settings import Settings
from langlauf.telemetry.log import set_up_logging

_STAYS = (
    "What stays: the ids, scopes, times and hashes of its keys, all revoked, so that the store stays closed.",
    "What is not touched: backups, logs, traces, metrics, and what its webhooks and mails have told others.",
)


@click.command("erase")
@click.option("--org", "org_id", required=True, callback=org_named, metavar="ORG", help="The org whose data goes.")
@click.option("--dry-run", is_flag=True, help="Count what would go, and change nothing.")
@click.option("--yes", is_flag=True, help="Really do it. It cannot be undone.")
@click.option("--include-held", is_flag=True, help="Take results away that are held, too.")
@duration_option("--wait", "How long workers have to stop what runs; 30s unless said.")
@click.option("--store", metavar="URL", help="The store; else as the environment says. [LANGLAUF_STORE]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def erase_org(
    org_id: str,
    *,
    dry_run: bool,
    yes: bool,
    include_held: bool,
    wait: float | None,
    store: str | None,
    as_json: bool,
) -> None:
    """Remove all data of an org: jobs, inputs, results, events, messages, endpoints, everything that names it.

    What runs is asked to stop, and taken away where it does not. Its keys are revoked and lose their names.
    """
    settings = settings_for(store)
    place_for(settings)
    set_up_logging(settings.log_format, settings.log_level)
    try:
        found = asyncio.run(_look(settings, org_id))
        if dry_run or not yes:
            _show(found, as_json=as_json)
        if dry_run:
            return
        if not yes:
            raise Stopped(f"nothing was changed; to erase {org_id} for ever, say --yes")
        if found.held and not include_held:
            raise Stopped(f"{found.held} results are held: release them, or say --include-held; nothing was changed")
        with progress("erasing") as watch:
            done = asyncio.run(_erase(settings, org_id, include_held, PATIENCE if wait is None else wait, watch))
    except LanglaufError as error:
        raise Stopped(str(error)) from None
    _tell(done, as_json=as_json)


async def _look(settings: Settings, org_id: str) -> OrgFound:
    store = await open_store(settings, Hints())
    try:
        return await look(store, org_id)
    finally:
        await store.close()


async def _erase(settings: Settings, org_id: str, held: bool, patience: float, watch: Watch) -> Erased:
    store = await open_store(settings, Hints())
    try:
        return await erase(store, org_id, with_held=held, patience=patience, watch=watch)
    finally:
        await store.close()


def _show(found: OrgFound, *, as_json: bool) -> None:
    if as_json:
        print_json({**msgspec.to_builtins(found), "total": found.total})
    elif not found.rows:
        note(f"There is nothing of {found.org_id}.")
    else:
        print_table(("TABLE", "ROWS"), [(table, f"{count:,}") for table, count in found.rows.items()])
        if found.held:
            note(f"{found.held} results are held.")


def _tell(done: Erased, *, as_json: bool) -> None:
    if as_json:
        print_json(msgspec.to_builtins(done))
        return
    rows = sum(done.removed.values())
    click.echo(f"{done.org_id}: {rows:,} rows and {done.blobs:,} blobs are gone, {done.keys_kept} keys are revoked")
    for line in _STAYS:
        note(line)
