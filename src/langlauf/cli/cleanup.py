"""`langlauf cleanup`: removes what is older than its retention, also beside a running server."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import click
import msgspec

from langlauf.bootstrap import blobs_of, open_at, with_blobs
from langlauf.cli.options import Stopped
from langlauf.cli.stores import place_for, settings_for
from langlauf.compat.sqlite_import import import_v1
from langlauf.domain.duties import RETENTION
from langlauf.domain.errors import SettingsError, StoreError
from langlauf.domain.retention import RetentionCount, RetentionPolicy, RetentionReport
from langlauf.hints import Hints
from langlauf.maintenance.duties import DutyNotes
from langlauf.maintenance.retention import clean_up, report_json
from langlauf.settings import Settings, duration
from langlauf.store.tools.location import Place, PostgresPlace, SqlitePlace
from langlauf.telemetry.log import set_up_logging


@click.command()
@click.option("--dry-run", is_flag=True, help="Count what would go, and change nothing.")
@click.option("--results-ttl-seconds", metavar="DURATION", help="How long results are kept after a job's end.")
@click.option("--events-ttl-seconds", metavar="DURATION", help="How long events are kept after a job's end.")
@click.option("--disable-results-retention", is_flag=True, help="Keep results for ever, and so the jobs' records.")
@click.option("--disable-events-retention", is_flag=True, help="Keep events for ever, and so the jobs' records.")
@click.option("--store-file", "--store", "store", metavar="PATH", help="The store; X.json means its X.db.")
@click.option("--output-json", metavar="FILE", help="Also write the report to this file; its folder is made.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def cleanup(store: str | None, output_json: str | None, as_json: bool, dry_run: bool, **flags: Any) -> None:
    """Remove results, events and records that are older than their retention."""
    settings = settings_for(store)
    set_up_logging(settings.log_format, settings.log_level)
    policy = _policy(settings.retention, **flags)
    place = place_for(settings)
    named = settings.store is not None or settings.store_file is not None
    try:
        report = _run(place, policy, settings, dry_run=dry_run, must_exist=named)
    except (StoreError, SettingsError) as error:
        raise Stopped(str(error)) from None
    text = msgspec.json.format(msgspec.json.encode(report_json(report)), indent=2).decode()
    if output_json is not None:
        _write(Path(output_json), text)
    if as_json:
        click.echo(text)
    else:
        _print(report)


def _policy(
    given: RetentionPolicy,
    *,
    results_ttl_seconds: str | None,
    events_ttl_seconds: str | None,
    disable_results_retention: bool,
    disable_events_retention: bool,
) -> RetentionPolicy:
    """The policy of the settings, with what the flags say about results as a whole and about events."""
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
        raise Stopped(f"--{kind}-ttl-seconds and --disable-{kind}-retention say different things: give one of them")
    if disabled:
        return None
    if text is None:
        return msgspec.UNSET
    try:
        return duration(text)
    except ValueError as error:
        raise Stopped(f"--{kind}-ttl-seconds {text!r}: {error}") from None


def _run(
    place: Place, policy: RetentionPolicy, settings: Settings, *, dry_run: bool, must_exist: bool
) -> RetentionReport:
    if isinstance(place, PostgresPlace):
        return asyncio.run(_clean(place, policy, settings, dry_run=dry_run))
    path, earlier = place
    exists = Path(path).exists()
    if not exists and earlier is None and must_exist:
        raise Stopped(f"there is no store at {path}")
    with tempfile.TemporaryDirectory(prefix="langlauf-") as folder:
        if not exists and (dry_run or earlier is None):
            # Counting, and cleaning where nothing is, must not make a store: it is done in one that goes away.
            path = str(Path(folder) / "store.db")
        if earlier is not None and not (exists and dry_run):
            import_v1(path, earlier)
        return asyncio.run(_clean(SqlitePlace(path), policy, settings, dry_run=dry_run))


async def _clean(place: Place, policy: RetentionPolicy, settings: Settings, *, dry_run: bool) -> RetentionReport:
    blobs = blobs_of(settings)
    store = with_blobs(await open_at(place, Hints()), blobs, settings)
    try:
        report = await clean_up(store, policy, dry_run=dry_run)
        if not dry_run:
            await DutyNotes(store.duties).note(RETENTION)
        return report
    finally:
        await store.close()


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n", "utf-8")
    except OSError as error:
        raise Stopped(f"{path} cannot be written: {error.strerror}") from None


def _print(report: RetentionReport) -> None:
    verb = "would go" if report.dry_run else "gone"

    def line(kind: str, count: RetentionCount) -> str:
        return f"{kind:8} {count.delete_count} {verb}, {count.kept_count} kept"

    click.echo(line("results", report.results))
    click.echo(line("events", report.events))
    click.echo(f"{'jobs':8} {report.jobs_deleted} {verb}, of {report.terminal_job_count} that have ended")
