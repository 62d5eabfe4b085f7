"""`langlauf backup`, `restore`, `copy-store`, `import-store` and `export-store`: whole stores, in and out."""

import os
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec

from langlauf.cli.options import (
    CommandError,
    ExitCode,
    errors_end_command,
    json_option,
    plain,
    print_note,
    progress_bar,
    store_option,
)
from langlauf.cli.stores import check_org, payloads_for, place_for, settings_for
from langlauf.compat.v1_export import ExportReport, export_from
from langlauf.compat.v1_import import import_into
from langlauf.settings import Settings
from langlauf.store.tools.backup import BackupRefused, BackupReport, back_up, restore_backup
from langlauf.store.tools.drivers import check_store, copy_store
from langlauf.store.tools.location import SqliteLocation
from langlauf.store.tools.store_copy import CopyRefused, CopyReport
from langlauf.store.tools.verify import Violation


@click.command("import-store")
@click.argument("file", type=click.Path(path_type=Path))
@store_option
@click.option("--analysis", default="address", show_default=True, help="The analysis of jobs that name none.")
@json_option
def import_store(file: Path, store: str | None, analysis: str, as_json: bool) -> None:
    """Import a JSON store of the earlier system. All of FILE is imported or nothing; FILE is not changed."""
    place = place_for(settings_for(store))
    with errors_end_command():
        report = import_into(place, file, default_analysis=analysis, once=False)
    if as_json:
        click.echo(msgspec.json.encode(report))
    elif not report.imported:
        click.echo(f"{file} is in {place.shown} already; nothing was changed")
    else:
        parts = f"{report.jobs} jobs, {report.events} events, {report.results} results"
        click.echo(
            f"{place.shown}: {parts}, {report.notifications} notifications; {report.lost} were running and are repeated"
        )


@click.command("export-store")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@store_option
@click.option("--org", callback=check_org, metavar="ORG", help="Only the data of this org.")
@click.option("--force", is_flag=True, help="Replace FILE where it exists.")
@json_option
def export_store(file: Path, store: str | None, org: str | None, force: bool, as_json: bool) -> None:
    """Export the store as JSON of the earlier system.

    FILE may be - for standard output. With --org the file also has, under `also`, what that format lacks: the names of
    the org's keys, its endpoints, the messages it marked as read. Hashes and secrets are left out.
    """
    settings = settings_for(store)
    place = place_for(settings)
    to_stdout = str(file) == "-"
    if file.exists() and not to_stdout and not force:
        raise CommandError(f"{file} exists: give --force to replace it")
    try:
        with errors_end_command(), payloads_for(settings) as payloads:
            write = partial(export_from, place, payloads=payloads, org_id=org)
            report = write(sys.stdout.buffer.write) if to_stdout else _export_to(file, write)
    except OSError as error:
        raise CommandError(f"{file} cannot be written: {error.strerror}") from None
    if to_stdout:
        sys.stdout.buffer.flush()
    if as_json:
        click.echo(msgspec.json.encode(report), err=to_stdout)
    else:
        counts = f"{report.jobs} jobs, {report.events} events, {report.results} results"
        more = "".join(f", {count} of {table}" for table, count in report.also.items() if count)
        click.echo(f"{file}: {counts}, {report.notifications} notifications{more}", err=True)


def _export_to(file: Path, write: Callable[[Callable[[bytes], object]], ExportReport]) -> ExportReport:
    """Write a temporary file and rename it when it is complete: a reader sees the old file or the new one."""
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as out:
            report = write(out.write)
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(file)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return report


_PG_DUMP = (
    "a store on PostgreSQL is backed up with PostgreSQL's own tools: "
    'pg_dump --format=custom --file={file} "$LANGLAUF_STORE", by a login that row-level security does not bind'
)
_PG_RESTORE = (
    "a store on PostgreSQL is put back with PostgreSQL's own tools: make the roles with "
    '`langlauf migrate --print-roles`, then pg_restore --exit-on-error --dbname="$LANGLAUF_STORE" {file}'
)


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@store_option
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@json_option
def backup(file: Path, store: str | None, force: bool, as_json: bool) -> None:
    """Copy a store to FILE. Safe beside a running server; the copy is checked before it is renamed to FILE."""
    settings = settings_for(store)
    place = _sqlite_place(settings, _PG_DUMP.format(file=file))
    with errors_end_command(conflict=BackupRefused), progress_bar("copying") as watch:
        report = back_up(place.path, file, force=force, watch=watch)
    _print_backup(report, as_json=as_json)
    if settings.blobs is not None:
        print_note(f"large results are not included: now copy {settings.blobs}, after this file and not before it")


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--store", default=None, metavar="URL", help="The store to replace, as a URL or a path. [LANGLAUF_STORE]")
@click.option("--force", is_flag=True, help="Replace an existing store; its file is kept under another name.")
@json_option
def restore(file: Path, store: str | None, force: bool, as_json: bool) -> None:
    """Replace the store by the backup FILE. No server may have that store open."""
    settings = settings_for(store)
    place = _sqlite_place(settings, _PG_RESTORE.format(file=file))
    with errors_end_command(conflict=BackupRefused), progress_bar("copying") as watch:
        report = restore_backup(file, place.path, force=force, watch=watch)
    _print_backup(report, as_json=as_json)
    if settings.blobs is not None:
        print_note(f"if this store is not the owner of {settings.blobs}, make it so with: langlauf blobs take-over")
    print_note("attempts that ran at the time of the backup are repeated; messages that were pending are sent again")


def _sqlite_place(settings: Settings, postgres_message: str) -> SqliteLocation:
    place = place_for(settings)
    if not isinstance(place, SqliteLocation):
        raise CommandError(postgres_message)
    return place


def _print_backup(report: BackupReport, *, as_json: bool) -> None:
    if as_json:
        click.echo(msgspec.json.encode(report))
        return
    jobs, results = report.tables["jobs"], report.tables["job_results"]
    held = f"schema {report.schema}, {jobs} jobs, {results} results"
    click.echo(f"{report.target}: {report.bytes} bytes, {held}, checked")
    if report.unseen is not None:
        print_note(report.unseen)
    if report.kept is not None:
        click.echo(f"the previous store is now {report.kept}", err=True)


@click.command("copy-store")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@click.option("--running", is_flag=True, help="Copy despite running attempts; they are repeated in TO.")
@json_option
def copy_store_command(source: str, target: str, running: bool, as_json: bool) -> None:
    """Copy the store FROM into the empty store TO.

    Compares the two and checks TO. A repeat after an interruption continues. FROM must not change meanwhile.
    """
    settings = settings_for(target)
    places = place_for(settings_for(source)), place_for(settings)
    found: list[Violation] = []
    try:
        with (
            errors_end_command(conflict=CopyRefused),
            progress_bar("copying") as watch,
            payloads_for(settings) as payloads,
        ):
            report = copy_store(*places, running=running, watch=watch)
            if report.complete:
                found = list(check_store(places[1], watch=watch, payloads=payloads))
    except KeyboardInterrupt:
        click.echo("langlauf: interrupted; repeat the command to continue", err=True)
        sys.exit(ExitCode.DETACHED)
    broken = [one for one in found if not one.warning]
    if as_json:
        click.echo(msgspec.json.encode(_copy_fields(report, found)))
    else:
        _print_copy(report, broken)
    sys.exit(ExitCode.OK if report.complete and not broken else ExitCode.FAILED)


def _copy_fields(report: CopyReport, found: list[Violation]) -> dict[str, Any]:
    broken = [one for one in found if not one.warning]
    return {
        "ok": report.complete and not broken,
        "from": report.source,
        "to": report.target,
        "resumed": report.resumed,
        "complete": report.complete,
        "tables": report.tables,
        "violations": broken,
        "warnings": [one for one in found if one.warning],
    }


def _print_copy(report: CopyReport, broken: list[Violation]) -> None:
    for name, table in report.tables.items():
        click.echo(f"{name:18} {table.rows:>10} {'the same' if table.same else 'NOT the same'}")
    for one in broken:
        where = f" [{one.org_id}/{one.job_id or '-'}]" if one.org_id else ""
        click.echo(f"broken: {one.rule}{where}: {plain(one.evidence)}")
    if not report.complete:
        click.echo(
            f"{report.target} must not be used: {report.source} changed while it was copied. Stop its servers "
            "and workers, and copy into an empty store again",
            err=True,
        )
    else:
        click.echo(f"{report.target} is a copy of {report.source}; {len(broken)} rules broken", err=True)
