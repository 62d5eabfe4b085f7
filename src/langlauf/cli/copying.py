"""`langlauf copy-store`: all of one store into another, of whichever kind."""

import sys
from typing import Any

import click
import msgspec

from langlauf.cli.client_errors import Exit
from langlauf.cli.options import Stopped
from langlauf.cli.printing import plain
from langlauf.cli.progress import progress
from langlauf.cli.stores import payloads_for, place_for, settings_for
from langlauf.domain.errors import LanglaufError
from langlauf.store.tools.drivers import check_store, copy_store
from langlauf.store.tools.store_copy import CopyRefused, CopyReport
from langlauf.store.tools.verify import Violation


class Refused(Stopped):
    """The stores are not as they have to be for a copy."""

    exit_code = int(Exit.CONFLICT)


@click.command("copy-store")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@click.option("--running", is_flag=True, help="Attempts that run count as lost: they are made again in TO.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def copy(source: str, target: str, running: bool, as_json: bool) -> None:
    """Copy all of the store FROM into the empty store TO, compare the two, and check TO.

    Called again after an interruption, it goes on where it was. FROM must not change meanwhile.
    """
    settings = settings_for(target)
    places = place_for(settings_for(source)), place_for(settings)
    found: list[Violation] = []
    try:
        with progress("copying") as watch, payloads_for(settings) as payloads:
            report = copy_store(*places, running=running, watch=watch)
            if report.complete:
                found = list(check_store(places[1], watch=watch, payloads=payloads))
    except CopyRefused as error:
        raise Refused(str(error)) from None
    except LanglaufError as error:
        raise Stopped(str(error)) from None
    except KeyboardInterrupt:
        click.echo("langlauf: interrupted; the same command goes on where it was", err=True)
        sys.exit(Exit.DETACHED)
    broken = [one for one in found if not one.warning]
    if as_json:
        click.echo(msgspec.json.encode(_report(report, found)))
    else:
        _print(report, broken)
    sys.exit(Exit.FINE if report.complete and not broken else Exit.FAILED)


def _report(report: CopyReport, found: list[Violation]) -> dict[str, Any]:
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


def _print(report: CopyReport, broken: list[Violation]) -> None:
    for name, table in report.tables.items():
        click.echo(f"{name:18} {table.rows:>10} {'the same' if table.same else 'NOT the same'}")
    for one in broken:
        where = f" [{one.org_id}/{one.job_id or '-'}]" if one.org_id else ""
        click.echo(f"broken: {one.rule}{where}: {plain(one.evidence)}")
    if not report.complete:
        click.echo(
            f"{report.target} may not be used: {report.source} was written to while it was copied. Stop its servers "
            "and workers, and copy into an empty store again",
            err=True,
        )
    else:
        click.echo(f"{report.target} is a copy of {report.source}; {len(broken)} rules broken", err=True)
