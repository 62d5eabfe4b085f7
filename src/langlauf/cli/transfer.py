"""`langlauf import-store` and `export-store`: the JSON store of the earlier system, in and out."""

import os
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click
import msgspec

from langlauf.cli.options import Stopped
from langlauf.cli.stores import org_named, payloads_for, place_for, settings_for
from langlauf.compat.transfer import export_from, import_into
from langlauf.compat.v1_export import ExportReport
from langlauf.domain.errors import LanglaufError

_store_option = click.option(
    "--store", default=None, metavar="URL", help="The store, as a URL or a path. [LANGLAUF_STORE]"
)
_json_option = click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")


@click.command("import-store")
@click.argument("file", type=click.Path(path_type=Path))
@_store_option
@click.option("--analysis", default="address", show_default=True, help="The analysis of jobs that name none.")
@_json_option
def import_store(file: Path, store: str | None, analysis: str, as_json: bool) -> None:
    """Import FILE, a JSON store of the earlier system: completely or not at all. FILE is not changed."""
    place = place_for(settings_for(store))
    try:
        report = import_into(place, file, default_analysis=analysis, once=False)
    except LanglaufError as error:
        raise Stopped(str(error)) from None
    if as_json:
        click.echo(msgspec.json.encode(report))
    elif not report.imported:
        click.echo(f"{file} is in {place.shown} already; nothing was changed")
    else:
        parts = f"{report.jobs} jobs, {report.events} events, {report.results} results"
        click.echo(
            f"{place.shown}: {parts}, {report.notifications} notifications; {report.lost} were running and go on"
        )


@click.command("export-store")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@_store_option
@click.option("--org", callback=org_named, metavar="ORG", help="All there is of this org, and nothing of others.")
@click.option("--force", is_flag=True, help="Replace FILE where it exists.")
@_json_option
def export_store(file: Path, store: str | None, org: str | None, force: bool, as_json: bool) -> None:
    """Export the store to FILE in the format of the earlier system; - is standard output.

    Of one org the file also has, under `also`, what that format has no place for: the names of its keys, its endpoints,
    what it marked as read. Hashes and secrets are left out.
    """
    settings = settings_for(store)
    place = place_for(settings)
    to_stdout = str(file) == "-"
    if file.exists() and not to_stdout and not force:
        raise Stopped(f"{file} exists: say --force to replace it")
    try:
        with payloads_for(settings) as payloads:
            write = partial(export_from, place, payloads=payloads, org_id=org)
            report = write(sys.stdout.buffer.write) if to_stdout else _export_to(file, write)
    except LanglaufError as error:
        raise Stopped(str(error)) from None
    except OSError as error:
        raise Stopped(f"{file} cannot be written: {error.strerror}") from None
    if to_stdout:
        sys.stdout.buffer.flush()
    if as_json:
        click.echo(msgspec.json.encode(report), err=to_stdout)
    else:
        counts = f"{report.jobs} jobs, {report.events} events, {report.results} results"
        more = "".join(f", {count} of {table}" for table, count in report.also.items() if count)
        click.echo(f"{file}: {counts}, {report.notifications} notifications{more}", err=True)


def _export_to(file: Path, write: Callable[[Callable[[bytes], object]], ExportReport]) -> ExportReport:
    """Writes beside the place and moves it there when it is whole: a reader sees the old file or the new one."""
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    making = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as out:
            report = write(out.write)
            out.flush()
            os.fsync(out.fileno())
        making.replace(file)
    except BaseException:
        making.unlink(missing_ok=True)
        raise
    return report
