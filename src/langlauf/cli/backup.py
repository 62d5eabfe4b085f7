"""`langlauf backup` and `langlauf restore`: a copy of a store's file while it is served, and the way back."""

from pathlib import Path

import click
import msgspec

from langlauf.cli.client_errors import Exit
from langlauf.cli.options import Stopped
from langlauf.cli.printing import note
from langlauf.cli.progress import progress
from langlauf.cli.stores import place_for, settings_for
from langlauf.domain.errors import LanglaufError
from langlauf.settings import Settings
from langlauf.store.tools.backup import BackupRefused, BackupReport, back_up, put_back
from langlauf.store.tools.location import SqlitePlace

_DUMP = (
    "a store on PostgreSQL is backed up with PostgreSQL's own tools: "
    'pg_dump --format=custom --file={file} "$LANGLAUF_STORE", by a login that row-level security does not bind'
)
_LOAD = (
    "a store on PostgreSQL is put back with PostgreSQL's own tools: make the roles with "
    '`langlauf migrate --print-roles`, then pg_restore --exit-on-error --dbname="$LANGLAUF_STORE" {file}'
)


class Refused(Stopped):
    """Something is there that is not overwritten, or what was given will not do."""

    exit_code = int(Exit.CONFLICT)


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--store", default=None, metavar="URL", help="The store, as a URL or a path. [LANGLAUF_STORE]")
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def backup(file: Path, store: str | None, force: bool, as_json: bool) -> None:
    """Copy a store's file into FILE, beside a running server; the copy is checked before it gets its name."""
    settings = settings_for(store)
    place = _file_of(settings, _DUMP.format(file=file))
    try:
        with progress("copying") as watch:
            report = back_up(place.path, file, force=force, watch=watch)
    except BackupRefused as error:
        raise Refused(str(error)) from None
    except LanglaufError as error:
        raise Stopped(str(error)) from None
    _print(report, as_json=as_json)
    if settings.blobs is not None:
        note(f"large results are not in it: now copy {settings.blobs} as well, after this file and not before it")


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--store", default=None, metavar="URL", help="Where to put it, as a URL or a path. [LANGLAUF_STORE]")
@click.option("--force", is_flag=True, help="Replace the store that is there; it is kept aside.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def restore(file: Path, store: str | None, force: bool, as_json: bool) -> None:
    """Make the backup FILE the store. No server may have that store open."""
    settings = settings_for(store)
    place = _file_of(settings, _LOAD.format(file=file))
    try:
        with progress("copying") as watch:
            report = put_back(file, place.path, force=force, watch=watch)
    except BackupRefused as error:
        raise Refused(str(error)) from None
    except LanglaufError as error:
        raise Stopped(str(error)) from None
    _print(report, as_json=as_json)
    if settings.blobs is not None:
        note(f"a store that does not replace the one of {settings.blobs} takes it over with: langlauf blobs take-over")
    note("attempts that ran when it was made count as lost and are made again; messages that waited are sent again")


def _file_of(settings: Settings, otherwise: str) -> SqlitePlace:
    place = place_for(settings)
    if not isinstance(place, SqlitePlace):
        raise Stopped(otherwise)
    return place


def _print(report: BackupReport, *, as_json: bool) -> None:
    if as_json:
        click.echo(msgspec.json.encode(report))
        return
    jobs, results = report.tables["jobs"], report.tables["job_results"]
    held = f"schema {report.schema}, {jobs} jobs, {results} results"
    click.echo(f"{report.target}: {report.bytes} bytes, {held}, checked")
    if report.unseen is not None:
        note(report.unseen)
    if report.kept is not None:
        click.echo(f"what was there is now {report.kept}", err=True)
