"""`langlauf cleanup` and `erase`: remove expired data, or all data of an org, also beside a running server."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import click
import msgspec

from langlauf.background import DutyRecorder
from langlauf.bootstrap import blobs_of, open_store_at, with_blobs
from langlauf.cli.options import (
    CommandError,
    duration_option,
    errors_end_command,
    json_option,
    print_json,
    print_note,
    print_table,
    progress_bar,
    store_option,
)
from langlauf.cli.stores import check_org, place_for, run_on_store, settings_for
from langlauf.compat.v1_import import import_v1
from langlauf.domain.health import RETENTION_DUTY
from langlauf.domain.result import RetentionCount, RetentionPolicy, RetentionReport
from langlauf.hints import Hints
from langlauf.maintenance.duties import apply_retention, report_json
from langlauf.maintenance.erasure import STOP_SECONDS, ErasureReport, OrgContents, count_org, erase
from langlauf.settings import Settings
from langlauf.settings_values import parse_duration
from langlauf.store.tools.location import PostgresLocation, SqliteLocation, StoreLocation
from langlauf.telemetry.log import set_up_logging


@click.command()
@click.option("--dry-run", is_flag=True, help="Count what would be removed, and change nothing.")
@click.option("--results-ttl-seconds", metavar="DURATION", help="How long results are kept after a job's end.")
@click.option("--events-ttl-seconds", metavar="DURATION", help="How long events are kept after a job's end.")
@click.option("--disable-results-retention", is_flag=True, help="Keep results forever, and so the jobs' records.")
@click.option("--disable-events-retention", is_flag=True, help="Keep events forever, and so the jobs' records.")
@click.option("--store-file", "--store", "store", metavar="PATH", help="The store; X.json means its X.db.")
@click.option("--output-json", metavar="FILE", help="Also write the report to this file; its folder is created.")
@json_option
def cleanup(store: str | None, output_json: str | None, as_json: bool, dry_run: bool, **flags: Any) -> None:
    """Remove results, events and jobs past their retention."""
    settings = settings_for(store)
    set_up_logging(settings.log_format, settings.log_level)
    policy = _policy(settings.retention, **flags)
    place = place_for(settings)
    named = settings.store is not None or settings.store_file is not None
    with errors_end_command():
        report = _clean_place(place, policy, settings, dry_run=dry_run, must_exist=named)
    text = msgspec.json.format(msgspec.json.encode(report_json(report)), indent=2).decode()
    if output_json is not None:
        _write(Path(output_json), text)
    if as_json:
        click.echo(text)
    else:
        _print_cleanup(report)


def _policy(
    given: RetentionPolicy,
    *,
    results_ttl_seconds: str | None,
    events_ttl_seconds: str | None,
    disable_results_retention: bool,
    disable_events_retention: bool,
) -> RetentionPolicy:
    """Return the policy of the settings, changed by the flags."""
    results = _ttl("results", results_ttl_seconds, disabled=disable_results_retention)
    events = _ttl("events", events_ttl_seconds, disabled=disable_events_retention)
    changes: dict[str, float | None] = {}
    if results is not msgspec.UNSET:
        changes |= {"final_results": results, "partial_results": results}
    if events is not msgspec.UNSET:
        changes |= {"events": events}
    return msgspec.structs.replace(given, **changes)


def _ttl(kind: str, text: str | None, *, disabled: bool) -> float | msgspec.UnsetType | None:
    if disabled and text is not None:
        raise CommandError(
            f"--{kind}-ttl-seconds and --disable-{kind}-retention contradict each other: give one of them"
        )
    if disabled:
        return None
    if text is None:
        return msgspec.UNSET
    try:
        return parse_duration(text)
    except ValueError as error:
        raise CommandError(f"--{kind}-ttl-seconds {text!r}: {error}") from None


def _clean_place(
    place: StoreLocation, policy: RetentionPolicy, settings: Settings, *, dry_run: bool, must_exist: bool
) -> RetentionReport:
    if isinstance(place, PostgresLocation):
        return asyncio.run(_clean(place, policy, settings, dry_run=dry_run))
    path, earlier = place
    exists = Path(path).exists()
    if not exists and earlier is None and must_exist:
        raise CommandError(f"there is no store at {path}: name another one with --store")
    with tempfile.TemporaryDirectory(prefix="langlauf-") as folder:
        if not exists and (dry_run or earlier is None):
            # A dry run and a cleanup without a store must not create one: they use a temporary one.
            path = str(Path(folder) / "store.db")
        if earlier is not None and not (exists and dry_run):
            import_v1(path, earlier)
        return asyncio.run(_clean(SqliteLocation(path), policy, settings, dry_run=dry_run))


async def _clean(
    place: StoreLocation, policy: RetentionPolicy, settings: Settings, *, dry_run: bool
) -> RetentionReport:
    blobs = blobs_of(settings)
    store = with_blobs(await open_store_at(place, Hints()), blobs, settings)
    try:
        report = await apply_retention(store, policy, dry_run=dry_run)
        if not dry_run:
            await DutyRecorder(store.duties.record_success).record(RETENTION_DUTY)
        return report
    finally:
        await store.close()


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n", "utf-8")
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}") from None


def _print_cleanup(report: RetentionReport) -> None:
    verb = "would be removed" if report.dry_run else "removed"

    def line(kind: str, count: RetentionCount) -> str:
        return f"{kind:8} {count.delete_count} {verb}, {count.kept_count} kept"

    click.echo(line("results", report.results))
    click.echo(line("events", report.events))
    click.echo(f"{'jobs':8} {report.jobs_deleted} {verb}, of {report.terminal_job_count} that have ended")


_KEPT_NOTES = (
    "Kept: the ids, scopes, times and hashes of its keys, all revoked, so that the store still requires a key.",
    "Not changed: backups, logs, traces, metrics, and webhooks and mails that were sent.",
)


@click.command("erase")
@click.option(
    "--org", "org_id", required=True, callback=check_org, metavar="ORG", help="The org whose data is removed."
)
@click.option("--dry-run", is_flag=True, help="Count what would be removed, and change nothing.")
@click.option("--yes", is_flag=True, help="Confirm. It cannot be undone.")
@click.option("--include-held", is_flag=True, help="Also remove held results.")
@duration_option("--wait", "How long workers have to stop running jobs. Default: 30s.")
@store_option
@json_option
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
    """Remove all data of an org.

    Removes jobs, inputs, results, events, messages, endpoints and everything else that names it. Running jobs are asked
    to stop, and removed even if they do not. Its keys are revoked and lose their names.
    """
    settings = settings_for(store)
    set_up_logging(settings.log_format, settings.log_level)
    found = run_on_store(settings, lambda opened: count_org(opened, org_id))
    if dry_run or not yes:
        _print_found(found, as_json=as_json)
    if dry_run:
        return
    if not yes:
        raise CommandError(f"nothing was changed; to erase {org_id} for good, give --yes")
    if found.held and not include_held:
        raise CommandError(f"{found.held} results are held: release them, or give --include-held; nothing was changed")
    patience = STOP_SECONDS if wait is None else wait
    with progress_bar("erasing") as on_progress:
        done = run_on_store(
            settings,
            lambda opened: erase(
                opened, org_id, with_held=include_held, stop_seconds=patience, on_progress=on_progress
            ),
        )
    _print_erased(done, as_json=as_json)


def _print_found(found: OrgContents, *, as_json: bool) -> None:
    if as_json:
        print_json({**msgspec.to_builtins(found), "total": found.total})
    elif not found.rows:
        print_note(f"There is no data of {found.org_id}.")
    else:
        print_table(("TABLE", "ROWS"), [(table, f"{count:,}") for table, count in found.rows.items()])
        if found.held:
            print_note(f"{found.held} results are held.")


def _print_erased(done: ErasureReport, *, as_json: bool) -> None:
    if as_json:
        print_json(msgspec.to_builtins(done))
        return
    rows = sum(done.removed.values())
    click.echo(f"{done.org_id}: {rows:,} rows and {done.blobs:,} blobs removed, {done.keys_kept} keys revoked")
    for line in _KEPT_NOTES:
        print_note(line)
